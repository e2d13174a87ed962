"""From the command's synchronous world to asyncio, and out again in good order when it is interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

T = TypeVar("T")


def run_until_interrupted(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; Ctrl-C and SIGTERM cancel it, and it puts everything away first.

    Raises:
        KeyboardInterrupt: it was interrupted, and did not tell that by what it returned.
    """
    try:
        return asyncio.run(_cancelled_by_signals(work))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def end_with(code: int) -> None:
    """Let Ctrl-C and SIGTERM from now on end the process at once, and with this code: all is done, and told."""

    def end(*_: object) -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, RuntimeError, ValueError):  # closed, or in use just now
                stream.flush()
        os._exit(code)

    for number in _SIGNALS:
        _set(number, signal.getsignal(number), end)


async def _cancelled_by_signals(work: Coroutine[Any, Any, T]) -> T:
    with _signals_cancel(asyncio.current_task()):
        return await work


@contextlib.contextmanager
def _signals_cancel(task: asyncio.Task[Any] | None) -> Iterator[None]:
    loop = asyncio.get_running_loop()

    def cancel(number: int) -> None:
        if task is not None and signal.getsignal(number) is stop:  # or else all is done, and told
            task.cancel()

    # not the loop's own handlers: one that is called again raises wherever the loop is just then, and may break what
    # puts things away; the other would take `end_with`'s away as the loop is closed
    def stop(number: int, _: object) -> None:
        loop.call_soon_threadsafe(cancel, number)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in before.items():
        _set(number, handler, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is stop:
                signal.signal(number, handler)


def _set(number: signal.Signals, before: object, handler: Callable[[int, Any], None]) -> None:
    if before is not signal.SIG_IGN:  # as SIGINT is in a shell's background
        with contextlib.suppress(ValueError):  # no thread but the main one may
            signal.signal(number, handler)
