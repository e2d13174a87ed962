"""aioresponses, patched for the aiohttp version that this package needs.

The patch relies on internals of both libraries. aioresponses 0.7.9 creates a `ClientResponse`
without the `stream_writer` that aiohttp 3.14 needs, so every call ends in a TypeError. It also
feeds the body into a reader that pauses its connection after 128 KiB. A mock has no connection, so
a larger body ends in an AssertionError. One of our tests fails as soon as aioresponses is fixed.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn
from unittest.mock import Mock, patch

import aiohttp
import aioresponses.core
import pytest
from aiohttp.client_proto import ResponseHandler

_LARGEST_BODY = 2**30
"""More than any response body in a test."""


@contextmanager
def patched_aioresponses() -> Generator[aioresponses.aioresponses]:
    """Answer the requests of every session with mocked responses, or fail the test."""
    replacements: dict[str, Any] = {
        "ClientResponse": partial(aiohttp.ClientResponse, stream_writer=Mock(output_size=0)),
        "stream_reader_factory": _reader,
    }
    responses = _Responses()
    with patch.multiple(aioresponses.core, create=True, **replacements), responses:
        yield responses
    if responses.unmocked_elsewhere:
        pytest.fail("\n".join(responses.unmocked_elsewhere), pytrace=False)


def _reader(loop: Any) -> aiohttp.StreamReader:
    return aiohttp.StreamReader(ResponseHandler(loop=loop), limit=_LARGEST_BODY, loop=loop)


class _Responses(aioresponses.aioresponses):
    """Mocked responses. A request that is not mocked fails the test."""

    def __init__(self) -> None:
        super().__init__()
        self.unmocked_elsewhere: list[str] = []
        self._test_thread = threading.get_ident()

    async def match(
        self, method: str, url: Any, *args: Any, **kwargs: Any
    ) -> aiohttp.ClientResponse:
        """Return the mocked response of a request. Without one, fail the test."""
        response = await super().match(method, url, *args, **kwargs)
        # Without a match, aioresponses raises the same error as a lost connection, and the client
        # would retry.
        if response is None:
            self._fail(
                f"{method} {url} is not mocked, or its response was used up: pass repeat=True for "
                "several requests, and a pattern (re.compile) for a query that varies"
            )
        return response

    def _build_request_call(self, method: str = "GET", *args: Any, **kwargs: Any) -> Any:
        """Return the recorded call, with the middlewares that were passed."""
        # aioresponses deep-copies all arguments. The middleware of a borrowed session refers to
        # its client, so the copy would contain the client, its session and its event loop.
        # Middlewares are therefore left out of the copy, and added to the recorded call unchanged.
        middlewares = kwargs.pop("middlewares", None)
        call = super()._build_request_call(method, *args, **kwargs)
        if middlewares is not None:
            call.kwargs["middlewares"] = middlewares
        return call

    def _fail(self, message: str) -> NoReturn:
        """Fail the test, whichever thread sent the request."""
        if threading.get_ident() == self._test_thread:
            pytest.fail(message, pytrace=False)
        # Another thread, such as that of FastAPI's TestClient, runs its own event loop. pytest's
        # own exception would end that loop, and its message would be lost. If the application
        # catches this error, the test still fails when it ends.
        self.unmocked_elsewhere.append(message)
        raise AssertionError(message)
