"""A database that version 0.1.0 wrote, with DuckDB 2.0, is read and written by this version.

Until 0.1.0 is released, `python -m tests.history.test_versions` writes it again.
"""

import asyncio
import gzip
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.export.reports import account

from seorep_async import Feed
from seorep_async.export import pull_to
from seorep_async.history import changes, forget, open_history

STORED = Path(__file__).with_name("data") / "0.1.0.duckdb.gz"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    file = tmp_path / "old.duckdb"
    file.write_bytes(gzip.decompress(STORED.read_bytes()))
    return file


def test_it_is_read(old: Path) -> None:
    with open_history(old) as history:
        assert history.accounts() == ["acme", "o'ther"]
        ask = history.connection.execute
        assert ask("SELECT count(*), count(DISTINCT snapshot_date) FROM keyword_rankings").fetchall() == [(96, 2)]
        assert ask("SELECT DISTINCT version FROM pulls").fetchall() == [("0.1.0",)]
    assert (list(changes(old, account="acme")), changes(old, account="acme").left_out) == ([], {})


async def test_it_takes_further_nights_and_loses_an_account(old: Path) -> None:
    async with account(campaigns=1, keywords=2) as (_, client):
        assert (await pull_to(client, None, "2023-01-01", "2023-01-31", out=old, feeds=Feed, account="new")).ok
    forget(old, account="acme")
    with open_history(old) as history:
        assert history.accounts() == ["new", "o'ther"]


async def write(file: Path) -> None:
    async with account(keywords=6) as (_, client):
        for night in ("2023-03-01", "2023-03-02"):
            for name in ("acme", "o'ther"):
                labels: Any = {"account": name, "snapshot_date": night, "feeds": Feed}
                await pull_to(client, None, "2023-01-01", "2023-01-31", out=file, **labels)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(write(Path(folder, "a.duckdb")))
        STORED.write_bytes(gzip.compress(Path(folder, "a.duckdb").read_bytes(), mtime=0))
