"""Work on an event loop, which a signal cancels, and steps in threads that hold up neither loop nor exit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from seorep_async.cli import signals

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; a signal cancels it, and it cleans up first.

    Raises:
        KeyboardInterrupt: it was cancelled, and returned nothing of its own.
    """
    minded = _cancelled_by_signals(work)
    try:
        return asyncio.run(minded)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:  # matters only if a signal came before they began
        minded.close()
        work.close()


async def _cancelled_by_signals(work: Coroutine[Any, Any, T]) -> T:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    running = True

    def cancel() -> None:
        if running and task is not None:
            task.cancel()

    signals.cancel_with(partial(loop.call_soon_threadsafe, cancel))
    try:
        return await work
    finally:
        running = False
        signals.cancel_with(None)


async def in_daemon_thread(step: Callable[[], T]) -> T:
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
