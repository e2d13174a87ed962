"""A server in its own thread, for callers that block theirs or run their own event loops."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

Server = TypeVar("Server")


@contextmanager
def in_a_thread(server: AbstractAsyncContextManager[Server]) -> Iterator[Server]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(step: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(step, loop).result()

    entered = run(server.__aenter__())
    try:
        yield entered
    finally:
        run(server.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
