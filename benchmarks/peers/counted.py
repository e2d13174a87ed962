"""seorep_async, with rows that are only counted, as the peers count theirs: checked, but no models yet."""

from __future__ import annotations

import asyncio

from benchmarks.load import Load
from benchmarks.peers.ours import pull_rows


def pull(address: str, load: Load) -> int:
    """Pull a load."""
    return asyncio.run(pull_rows(address, load, range(1, load.campaigns + 1), look=False))
