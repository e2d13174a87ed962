"""aiohttp and orjson: untyped dicts, which are dropped once their rows are counted."""

import orjson

from benchmarks.load import Load
from benchmarks.peers import web


def pull(address: str, load: Load) -> int:
    """Pull a load."""
    return web.pull(address, load, _decode)


def _decode(body: bytes) -> tuple[int, int]:
    answer = orjson.loads(body)
    return len(answer["data"]["rows"]), answer["metadata"]["total_pages"]
