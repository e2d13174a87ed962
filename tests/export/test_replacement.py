"""Random nights into a database and a dataset: both hold what a model in plain Python says, row by row."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import duckdb
import pytest

from seorep_async.export.contents import Contents
from seorep_async.export.formats import Format
from seorep_async.export.progress import ProgressTracker
from seorep_async.export.pull_to import run_export
from seorep_async.export.spec import PullSpec, SpecOptions
from seorep_async.export.targets import Target, target_of
from seorep_async.export.targets.database import DatabaseTarget
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


@attrs.frozen
class Both(DatabaseTarget):
    """A database, beside which another target gets the same pull."""

    other: Target = attrs.field(kw_only=True)

    def write(self, contents: Contents, check: Callable[[], None]) -> Sequence[Path | str]:
        self.other.write(contents, check)
        return super().write(contents, check)


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

    async with serving(answer) as (client, _):
        for pull in pulls(count, seed):
            labels: SpecOptions = {"account": pull.account, "snapshot_date": pull.night}
            spec = PullSpec.of(client, pull.ids, pull.start, pull.end, pull.feeds, {}, **labels)
            both = Both(database, database, Format.DUCKDB, spec.feeds, other=target_of(f"{dataset}/", spec.feeds))
            await run_export(client, spec, both, ProgressTracker(), restart=True)
            pull.apply_to(held)
            pull.apply_to(nights[pull.account, pull.night])
            if pull.number % 20 == 0:
                assert in_database(database) == expected([held])
                assert in_dataset(dataset) == expected(nights.values())
