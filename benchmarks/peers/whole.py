"""aiohttp and orjson: untyped dicts, kept until their campaign is whole, as a report of it needs them."""

from typing import Any

import orjson

from benchmarks.load import Load
from benchmarks.peers import web
from benchmarks.peers.crawl import crawl_whole


def pull(address: str, load: Load) -> int:
    """Pull a load."""
    return web.pull(address, load, _decode, crawl_whole)


def _decode(body: bytes) -> tuple[list[dict[str, Any]], int]:
    answer = orjson.loads(body)
    return answer["data"]["rows"], answer["metadata"]["total_pages"]
