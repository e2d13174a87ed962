"""The alternatives that users have, in a few lines each. All send the same requests."""

import functools
import importlib
from collections.abc import Callable, Sequence

import attrs

from benchmarks.load import Load

Pull = Callable[[str, Load], int]
"""Pulls a load from an address, and returns the number of rows that arrived."""

OURS = "seorep_async"
BARE = "aiohttp + orjson"
PYDANTIC = "aiohttp + pydantic"
REQUESTS = "requests, 32 threads"

GIVES_MODELS = frozenset({OURS, PYDANTIC})
"""The peers that give typed rows; the others give dicts."""

_MODULES = {
    OURS: "ours",
    BARE: "bare",
    PYDANTIC: "pydantic_models",
    REQUESTS: "threads",
}


@attrs.frozen
class Peers:
    """The peers that are installed, and why the others are missing."""

    pulls: dict[str, Pull]
    missing: dict[str, str]


def find(names: Sequence[str]) -> Peers:
    """Import peers by name."""
    pulls, missing = {}, {}
    for name in names:
        try:
            pulls[name] = importlib.import_module(f"benchmarks.peers.{_MODULES[name]}").pull
        except ImportError as error:
            missing[name] = f"{error.name} is not installed"
    return Peers(pulls, missing)


def runs(peers: Peers, address: str, load: Load) -> dict[str, Callable[[], object]]:
    """Return a run for each peer, which fails unless every row arrives."""

    def run(name: str, pull: Pull) -> None:
        received = pull(address, load)
        assert received == load.all_rows, f"{name}: {received} of {load.all_rows} rows arrived"

    return {name: functools.partial(run, name, pull) for name, pull in peers.pulls.items()}
