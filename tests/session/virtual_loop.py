"""An event loop in virtual time: it jumps to the next alarm."""

import asyncio
import math
import selectors
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop in which sleeps and time limits take no real time, but keep their order.

    It has no sockets.

    Attributes:
        now: what `time()` shows; moving it on by hand is a stall, in which nothing could run.
    """

    def __init__(self) -> None:
        super().__init__(_Jumps(self))
        self.now = 0.0

    def time(self) -> float:
        # With a resolution of a nanosecond, an alarm due in less would run, and time stand still.
        self._clock_resolution = math.ulp(self.now)
        return self.now

    @property
    def alarms(self) -> list[asyncio.TimerHandle]:
        """The alarms to come, in their order, and cancelled ones."""
        return self._scheduled  # type: ignore[attr-defined, no-any-return]

    @property
    def is_busy(self) -> bool:
        """Whether anything except the caller can run before time passes."""
        return bool(self._ready)  # type: ignore[attr-defined]

    def run_forever(self) -> None:
        """Run until stopped, and let an exception of a handler of SIGALRM through.

        asyncio would take it for an error of a callback.
        """
        before = signal.getsignal(signal.SIGALRM)
        if callable(before):
            signal.signal(signal.SIGALRM, lambda *_: sys.exit())  # which asyncio lets through
        try:
            super().run_forever()
        except SystemExit:
            before(signal.SIGALRM, None)  # type: ignore[operator, misc]  # it is callable
        finally:
            signal.signal(signal.SIGALRM, before)


class _Jumps(selectors.DefaultSelector):
    """Waits for nothing, but moves the loop's time on to the next alarm."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everybody waits, and nothing will ever happen"
        if timeout > 0:
            # Exactly the time of the alarm: otherwise its wait might never end.
            next_alarm = self._loop.alarms[0].when()
            self._loop.now = max(self._loop.now, next_alarm)
        return []


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run something on a virtual loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


async def at_rest() -> None:
    """Run everything that can run before time passes."""
    while here().is_busy:  # noqa: ASYNC110  # whatever makes it so
        await asyncio.sleep(0)


def here() -> VirtualLoop:
    """Return the running virtual loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop
