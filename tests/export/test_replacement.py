"""Random nights into a database and a dataset: both hold what a model in plain Python says, row by row."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pytest

from seorep_async.export.contents import Contents
from seorep_async.export.database_merge import write_database
from seorep_async.export.dataset import write_dataset
from seorep_async.export.job import Snapshot, export_job
from seorep_async.export.pull_to import run_export
from seorep_async.export.target import DatasetTarget, target_of
from seorep_async.session.authentication import Authentication
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
    ("seed", "count"), [(1, 60), *(pytest.param(seed, 100, marks=pytest.mark.slow) for seed in range(1, 21))]
)
async def test_random_nights_are_the_same_everywhere(tmp_path: Path, seed: int, count: int) -> None:
    database, dataset = tmp_path / "nights.duckdb", tmp_path / "nights"
    held = no_rows()
    nights: dict[tuple[str, Any], Tables] = defaultdict(no_rows)
    pull: Pull

    def answer(asked: Asked) -> object:
        return pull.answer(asked)

    def write(contents: Contents, check: Callable[[], None]) -> Sequence[Path | str]:
        area = contents.area
        target = target_of(f"{dataset}/", area.job.feeds)
        assert isinstance(target, DatasetTarget)
        write_database(contents, check)
        return write_dataset(target, contents, check)

    async with serving(answer) as (client, _):
        for pull in pulls(count, seed):
            snapshot = Snapshot(pull.account, pull.night)
            job = export_job(client, pull.ids, pull.start, pull.end, pull.feeds, {}, snapshot=snapshot)
            await run_export(client, job, target_of(database, pull.feeds), restart=True, write=write)
            pull.apply_to(held)
            pull.apply_to(nights[pull.account, pull.night])
            if pull.number % 20 == 0:
                assert in_database(database) == expected([held])
                assert in_dataset(dataset) == expected(nights.values())
