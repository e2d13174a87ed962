import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seorep_async.export import database
from seorep_async.export.schema import make_tables
from tests.export.accounts import Account, served
from tests.export.golden_nights import pull

_connect: Callable[..., Any] = database._connect


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the empty tables and views of pulls."""
    path = tmp_path_factory.mktemp("empty") / "x.duckdb"
    with _connect(path, is_new=True) as opened:
        make_tables(opened)
    return path


@pytest.fixture
def tables_at_once(empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each new database its tables as a copy, because 300 comments on them take 50 ms."""

    def connect(file: Path | str, *, is_new: bool) -> Any:
        if is_new and isinstance(file, Path):
            shutil.copyfile(empty_database, file)
        return _connect(file, is_new=is_new)

    monkeypatch.setattr(database, "_connect", connect)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="session")
def first_night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the database of a night of the usual account under the name acme.

    No test changes it.
    """
    out = tmp_path_factory.mktemp("night") / "x.duckdb"

    async def run() -> None:
        async with served(Account()) as (client, _):
            await pull(client, out, start="2023-03-01", snapshot_date="2023-03-31")

    asyncio.run(run())
    return out


@pytest.fixture
def pulled(first_night: Path, tmp_path: Path) -> Path:
    """Return a copy of the database of a night."""
    return Path(shutil.copy(first_night, tmp_path / "x.duckdb"))
