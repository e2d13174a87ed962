"""Timing of several things in turn, so that what else the machine does meets all alike."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import attrs


@attrs.frozen
class Times:
    """What one thing took, run by run.

    Attributes:
        wall: seconds.
        processor: seconds that this process was computing.
    """

    wall: list[float] = attrs.Factory(list)
    processor: list[float] = attrs.Factory(list)

    @property
    def seconds(self) -> float:
        """The median."""
        return statistics.median(self.wall)

    @property
    def computing(self) -> float:
        """The median of the time spent computing, in seconds."""
        return statistics.median(self.processor)


class Ratio(float):
    """The median of some runs over that of others, all in turn.

    Attributes:
        control: the ratio of every other round over that of the rounds between: what chance does. None of one round.
    """

    control: float | None = None

    @classmethod
    def of(cls, over: Sequence[float], under: Sequence[float]) -> Self:
        """Divide the medians."""
        ratio = cls(statistics.median(over) / statistics.median(under))
        if len(over) > 1:
            ratio.control = cls.of(over[::2], under[::2]) / cls.of(over[1::2], under[1::2])
        return ratio


def warm_memory() -> None:
    """Free a large block: from then on glibc reuses the memory of reads, for whoever runs in this process.

    Some packages do that when they are imported, which makes aiohttp by hand 20 % faster in their company.
    """
    bytearray(16 * 2**20)


def alternate(things: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Times]:
    """Run each thing once to warm up, then all in turn for some rounds, every other round backwards."""
    warm_memory()
    for thing in things.values():
        thing()
    gc.collect()
    gc.freeze()  # what the peers' packages left on the heap is no concern of anyone's collections
    times = {name: Times() for name in things}
    for number in range(rounds):
        for name in list(things) if number % 2 == 0 else reversed(list(things)):
            gc.collect()
            wall, processor = time.perf_counter(), time.process_time()
            things[name]()
            times[name].wall.append(time.perf_counter() - wall)
            times[name].processor.append(time.process_time() - processor)
    gc.unfreeze()
    return times
