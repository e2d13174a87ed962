"""Run coroutines that a signal can cancel, and blocking steps in threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from seorep_async.cli import signals

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. A signal cancels it, and it can still clean up.

    Raises:
        KeyboardInterrupt: a signal cancelled it, and it returned no value.
    """
    try:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            task = loop.create_task(work)
            # a signal handler runs in this thread at any point, so it must also wake the loop
            signals.handle(lambda *_: loop.call_soon_threadsafe(task.cancel))
            try:
                return loop.run_until_complete(task)
            finally:
                signals.handle(signals.interrupt)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        # this matters only if a signal came before the task began
        work.close()


async def in_daemon_thread(step: Callable[..., T], *arguments: Any) -> T:
    """Run a step that may wait for a reader forever. A cancellation abandons its thread.

    The step must not block the event loop, and a thread of `asyncio.to_thread` would keep the
    process alive.
    """
    done: Future[T] = Future()
    # from now on, only the thread ends this future, even if the caller is cancelled
    done.set_running_or_notify_cancel()

    def run_step() -> None:
        """Run the step, and end `done` with its result or its error."""
        try:
            done.set_result(step(*arguments))
        except BaseException as error:
            # any error is passed to the waiting caller
            done.set_exception(error)

    threading.Thread(target=run_step, name="seorep-stdout", daemon=True).start()
    return await asyncio.wrap_future(done)
