"""A sandbox in its own thread, which responds even while a test blocks the test's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seorep_async.sandbox import Sandbox

_Stop = Callable[[], object]


@contextmanager
def running_in_thread(sandbox: Sandbox) -> Generator[None]:
    """Run a sandbox on an event loop in a new thread.

    Raises:
        OSError: the sandbox can't listen on its port.
    """
    started: Future[_Stop] = Future()
    with ThreadPoolExecutor(1, "seorep_sandbox") as executor:
        ended = executor.submit(lambda: asyncio.run(_serve(sandbox, started)))
        first: list[Future[Any]] = [started, ended]
        wait(first, return_when=FIRST_COMPLETED)
        if not started.done():
            ended.result()  # raises the error that kept it from starting
        stop = started.result()
        try:
            yield
        finally:
            stop()
            ended.result()


async def _serve(sandbox: Sandbox, started: Future[_Stop]) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    async with sandbox:
        started.set_result(lambda: loop.call_soon_threadsafe(stopping.set))
        await stopping.wait()
