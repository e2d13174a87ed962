"""Random nights into a database and a dataset: both hold what a model in plain Python says, row by row."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pytest

from seorep_async.session.secrets import Authentication
from tests.export.both_targets import pull_to_both
from tests.export.random_nights import COLUMNS, Pull, Tables, columns, expected, no_rows, pulls
from tests.scripted_api import Asked, serving


@pytest.fixture(autouse=True)
def cheap_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare a twentieth of a second each night."""
    monkeypatch.setattr(
        Authentication, "fingerprint", lambda self, salt: str(zlib.crc32(self.header().encode(), salt[0]))
    )


Rows: TypeAlias = dict[str, Counter[tuple[Any, ...]]]


def in_database(file: Path) -> Rows:
    with duckdb.connect(str(file), read_only=True) as database:
        return {name: rows_of(database, name, name) for name in COLUMNS}


def in_dataset(folder: Path) -> Rows:
    with duckdb.connect() as database:
        return {name: rows_of(database, name, f"'{folder}/{name}/**/*.parquet'") for name in COLUMNS}


def rows_of(database: duckdb.DuckDBPyConnection, table: str, place: str) -> Counter[tuple[Any, ...]]:
    return Counter(database.execute(f"SELECT {', '.join(columns(table))} FROM {place}").fetchall())


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("seed", "count"), [(1, 40), *(pytest.param(seed, 100, marks=pytest.mark.slow) for seed in range(1, 21))]
)
async def test_random_nights_are_the_same_everywhere(tmp_path: Path, seed: int, count: int) -> None:
    database, dataset = tmp_path / "nights.duckdb", tmp_path / "nights"
    held = no_rows()
    nights: dict[tuple[str, Any], Tables] = defaultdict(no_rows)
    pull: Pull

    def answer(asked: Asked) -> object:
        return pull.answer(asked)

    async with serving(answer) as (client, _):
        for pull in pulls(count, seed):
            await pull_to_both(client, pull, database, dataset)
            pull.apply_to(held)
            pull.apply_to(nights[pull.account, pull.night])
            if pull.number % 20 == 0:
                assert in_database(database) == expected([held])
                assert in_dataset(dataset) == expected(nights.values())
