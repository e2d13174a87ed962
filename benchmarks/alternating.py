"""Time several functions in turn, so that other programs on the machine slow all of them alike."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import attrs


@attrs.frozen
class Times:
    """The times of one function, for each run.

    Attributes:
        wall: seconds of wall time.
        processor: seconds of this process's processor time.
    """

    wall: list[float] = attrs.Factory(list)
    processor: list[float] = attrs.Factory(list)

    @property
    def seconds(self) -> float:
        """The median of the wall time, in seconds."""
        return statistics.median(self.wall)

    @property
    def computing(self) -> float:
        """The median of the processor time, in seconds."""
        return statistics.median(self.processor)


class Ratio(float):
    """The median of some runs divided by the median of others, which ran in turn with them.

    Attributes:
        control: the ratio of the odd rounds divided by that of the even ones, which shows the share of chance. None
            after a single round.
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
    """Free a large block, so that glibc reuses the memory of reads in this process from now on.

    Some packages do so when they are imported, which would make only their neighbours 20 % faster.
    """
    bytearray(16 * 2**20)


def alternate(functions: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Times]:
    """Call each function once to warm up, then all in turn for some rounds, every other round backwards."""
    warm_memory()
    for function in functions.values():
        function()
    gc.collect()
    gc.freeze()  # the objects of imported packages must not slow later collections
    times = {name: Times() for name in functions}
    for number in range(rounds):
        for name in list(functions) if number % 2 == 0 else reversed(list(functions)):
            gc.collect()
            wall, processor = time.perf_counter(), time.process_time()
            functions[name]()
            times[name].wall.append(time.perf_counter() - wall)
            times[name].processor.append(time.process_time() - processor)
    gc.unfreeze()
    return times
