"""Ctrl-C, SIGTERM and SIGHUP: they cancel the running work, or end a process that has nothing left to do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from seorep_async.cli.stop_signals import STOP_SIGNALS

T = TypeVar("T")


def run_until_interrupted(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; Ctrl-C, SIGTERM and SIGHUP cancel it, and it cleans up first.

    Without a result of its own it then raises KeyboardInterrupt.
    """
    cancelled_by_signals = _cancelled_by_signals(work)
    try:
        return asyncio.run(cancelled_by_signals)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:  # matters only if a signal came before they began
        cancelled_by_signals.close()
        work.close()


def exit_on_signal(code: int) -> None:
    """Let Ctrl-C, SIGTERM and SIGHUP end the process at once, and with this code: all is done and reported."""

    def end(*_: object) -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, RuntimeError, ValueError):  # closed, or in use
                stream.flush()
        os._exit(code)

    for number in STOP_SIGNALS:
        _set(number, signal.getsignal(number), end)


async def run_in_daemon_thread(step: Callable[[], T]) -> T:
    """Run a step that may wait for a reader for ever, in a thread that is abandoned when this is cancelled.

    Requests must not time out meanwhile, and a thread of `asyncio.to_thread` would keep the process alive.
    """
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()  # from now on a cancelled caller leaves it alone

    def work() -> None:
        try:
            done.set_result(step())
        except BaseException as error:  # whatever it is, the caller waits for it
            done.set_exception(error)

    threading.Thread(target=work, name="seorep-stdout", daemon=True).start()
    return await asyncio.wrap_future(done)


async def _cancelled_by_signals(work: Coroutine[Any, Any, T]) -> T:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def cancel(number: int) -> None:
        if task is not None and signal.getsignal(number) is stop:  # otherwise all is done and reported
            task.cancel()

    # Not `asyncio.run`'s handler, which raises wherever the loop is when it is called again and may break a clean-up;
    # nor `loop.add_signal_handler`, whose removal at the end would take `exit_on_signal`'s handler away.
    def stop(number: int, _: object) -> None:
        loop.call_soon_threadsafe(cancel, number)

    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    for number, handler in before.items():
        _set(number, handler, stop)
    try:
        return await work
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is stop:
                signal.signal(number, handler)


def _set(number: signal.Signals, before: object, handler: Callable[[int, Any], None]) -> None:
    if before is not signal.SIG_IGN:
        with contextlib.suppress(ValueError):  # only the main thread may
            signal.signal(number, handler)
