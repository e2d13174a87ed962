"""An event loop whose time passes at once: it jumps to the next thing that is due."""

import asyncio
import heapq
import itertools
import signal
import sys
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.BaseEventLoop):
    """A loop in which sleeps, alarms and time limits take no time, but happen in their order; it has no sockets.

    Attributes:
        now: what `time()` shows; moving it on by hand is a stall, in which nothing could run.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._due: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = itertools.count()

    def run_forever(self) -> None:
        """Run, and let what a handler of SIGALRM raises through, which asyncio takes for an error of a callback."""
        before = signal.getsignal(signal.SIGALRM)
        if callable(before):
            signal.signal(signal.SIGALRM, lambda *_: sys.exit())  # which asyncio lets through
        try:
            super().run_forever()
        except SystemExit:
            before(signal.SIGALRM, None)  # type: ignore[operator, misc]  # it is callable
        finally:
            signal.signal(signal.SIGALRM, before)

    def time(self) -> float:
        return self.now

    @property
    def is_busy(self) -> bool:
        """Whether something besides the caller can happen before time passes."""
        return bool(self._ready)  # type: ignore[attr-defined]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._due, (when, next(self._numbers), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass  # it is dropped when it is due

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]
        due = self._due
        while not ready:
            assert due, "everybody waits, and nothing will ever happen"
            when, _, first = heapq.heappop(due)
            if not first.cancelled():
                self.now = max(self.now, when)
                ready.append(first)
        while due and due[0][0] <= self.now + 1e-9:  # the resolution of a clock, as in asyncio
            when, _, handle = heapq.heappop(due)
            self.now = max(self.now, when)  # or one that comes back for the rest of its wait would never see it pass
            ready.append(handle)
        for _ in range(len(ready)):
            taken = ready.popleft()
            if not taken.cancelled():
                taken._run()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run something on a virtual loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


async def at_rest() -> None:
    """Let everything happen that can before time passes."""
    while here().is_busy:  # noqa: ASYNC110  # whatever makes it so
        await asyncio.sleep(0)


def here() -> VirtualLoop:
    """Return the virtual loop that is running."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop
