"""From the command's synchronous world to asyncio, and out again in good order when it is interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_until_interrupted(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; Ctrl-C and SIGTERM cancel it, and it puts everything away first.

    Raises:
        KeyboardInterrupt: it was interrupted, and did not tell that by what it returned.
    """
    try:
        return asyncio.run(_stopped_by_sigterm(work))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _stopped_by_sigterm(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.current_task()
    # not every system has signals for event loops, and no thread but the main one does
    if task is not None:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work
