import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seorep_async.export import database
from seorep_async.export.schema import make_tables

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
