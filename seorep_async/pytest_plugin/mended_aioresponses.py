"""aioresponses, mended for the aiohttp that this package needs; it relies on inner workings of both.

aioresponses 0.7.9 builds a `ClientResponse` without the `stream_writer` that aiohttp 3.14 needs, so every call ends in
a TypeError, and feeds the body into a reader of 128 KiB. A test fails once this is mended there.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import Mock, patch

import aiohttp
import aioresponses.core
import pytest
from aiohttp.client_proto import ResponseHandler

_LIMIT = 2**30


@contextmanager
def mended_aioresponses() -> Generator[aioresponses.aioresponses]:
    """Answer the requests of every session; one that is not mocked fails the test."""
    mended: dict[str, Any] = {
        "ClientResponse": partial(aiohttp.ClientResponse, stream_writer=Mock(output_size=0)),
        "stream_reader_factory": lambda loop: aiohttp.StreamReader(
            ResponseHandler(loop=loop), limit=_LIMIT, loop=loop
        ),
    }
    with patch.multiple(aioresponses.core, create=True, **mended), _Responses() as responses:
        yield responses


class _Responses(aioresponses.aioresponses):
    async def match(
        self, method: str, url: Any, *args: Any, **kwargs: Any
    ) -> aiohttp.ClientResponse:
        response = await super().match(method, url, *args, **kwargs)
        if (
            response is None
        ):  # aioresponses raises an error that looks like a lost connection, so clients retry
            pytest.fail(
                f"{method} {url} is not mocked, or its response was used: pass repeat=True for several, and "
                "a pattern (re.compile) for a query that varies",
                pytrace=False,
            )
        return response
