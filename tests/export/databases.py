"""Pulls into databases, and what their users do with these."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from seorep_async import ConfigurationError, Feed, SeoRepClient
from seorep_async.export import PullSummary
from tests.export.door import ProgressTracker, PullSpec, run_export, target_of
from tests.export.reports import END, NIGHT, START


def ask(path: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(path), read_only=True) as database:
        return database.execute(query).fetchall()


async def fill(client: SeoRepClient, path: Path, ids: list[int] | None = None, **options: Any) -> PullSummary:
    start, on_progress = options.pop("start", START), options.pop("on_progress", None)
    feeds = options.pop("feeds", Feed)
    # one service, though each sandbox has a port of its own
    labels = {"snapshot_date": NIGHT, **options}
    spec = PullSpec.of(client, ids, start, END, feeds, {}, service="the sandbox", **labels)
    return await run_export(client, spec, target_of(path, spec.feeds), ProgressTracker(on_progress))


def opened_elsewhere(path: Path) -> subprocess.Popen[bytes]:
    """Start another program that has the database open until its stdin is closed."""
    program = "import duckdb, sys; d = duckdb.connect(sys.argv[1]); print(flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    other.stdout.readline()
    return other


def change(path: Path, *statements: str) -> None:
    with duckdb.connect(str(path)) as database:
        for statement in statements:
            database.execute(statement)


async def refused(client: SeoRepClient, path: Path, words: str) -> str:
    """Check that a pull is refused before any request, and return why."""
    sent = client.stats.requests
    with pytest.raises(ConfigurationError, match=words) as caught:
        await fill(client, path)
    assert client.stats.requests == sent
    return str(caught.value)
