"""Mends aioresponses for an aiohttp that it does not know yet; nothing is changed where it fits.

aioresponses up to 0.7.9 builds a `ClientResponse` without the `stream_writer` that aiohttp 3.14 asks for, and feeds the
whole body into a reader that takes 128 KiB. The first is looked for in the signature: an older aiohttp is left alone.
"""

import asyncio
import inspect
from typing import Any
from unittest.mock import Mock

import aiohttp
import aioresponses.core
from aiohttp.client_proto import ResponseHandler

_READER_LIMIT = 2**30


def mend_aioresponses() -> None:
    """Let aioresponses build responses of the installed aiohttp, of any size; a second call does nothing."""
    wanted = inspect.signature(aiohttp.ClientResponse).parameters.get("stream_writer")
    if wanted is not None and wanted.default is inspect.Parameter.empty:
        vars(aioresponses.core)["ClientResponse"] = _MendedResponse
    vars(aioresponses.core)["stream_reader_factory"] = _large_reader


class _MendedResponse(aiohttp.ClientResponse):
    def __init__(self, method: str, url: Any, **kwargs: Any) -> None:
        kwargs.setdefault("stream_writer", Mock(output_size=0))
        super().__init__(method, url, **kwargs)


def _large_reader(loop: asyncio.AbstractEventLoop) -> aiohttp.StreamReader:
    return aiohttp.StreamReader(ResponseHandler(loop=loop), limit=_READER_LIMIT, loop=loop)
