"""Work on an event loop that a signal cancels, and steps in threads that hold up neither."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from seorep_async.cli import signals

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; a signal cancels it, and it cleans up first.

    Raises:
        KeyboardInterrupt: it was cancelled, and returned nothing of its own.
    """
    try:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            task = loop.create_task(work)
            # a signal handler runs in this thread, at any point; the loop must be woken as well
            signals.handle(lambda *_: loop.call_soon_threadsafe(task.cancel))
            try:
                return loop.run_until_complete(task)
            finally:
                signals.handle(signals.interrupt)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        # matters only if a signal came before it began
        work.close()


async def in_daemon_thread(step: Callable[..., T], *arguments: Any) -> T:
    """Run a step that may wait for a reader for ever; a cancel abandons its thread.

    Requests must not time out meanwhile, and a thread of `asyncio.to_thread` would keep the process
    alive.
    """
    done: Future[T] = Future()
    # a cancelled caller must leave it alone from now on
    done.set_running_or_notify_cancel()

    def work() -> None:
        try:
            done.set_result(step(*arguments))
        except BaseException as error:
            # whatever it is, the caller waits for it
            done.set_exception(error)

    threading.Thread(target=work, name="seorep-stdout", daemon=True).start()
    return await asyncio.wrap_future(done)
