"""Which older rows a pull replaces: random nights, held against a model in plain Python row by row, and months."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pytest

from seorep_async import Feed
from seorep_async.export import pull_to
from tests.export.both_targets import pull_to_both
from tests.export.databases import ask
from tests.export.door import LATEST
from tests.export.random_nights import COLUMNS, Pull, Row, Tables, columns, expected, no_rows, pulls
from tests.scripted_api import Asked, serving

pytestmark = pytest.mark.usefixtures("cheap_digests")
Rows: TypeAlias = dict[str, Counter[tuple[Any, ...]]]


def in_database(file: Path) -> Rows:
    with duckdb.connect(str(file), read_only=True) as database:
        return {name: rows_of(database, name, name) for name in COLUMNS}


def in_dataset(folder: Path) -> Rows:
    with duckdb.connect() as database:
        return {name: rows_of(database, name, f"'{folder}/{name}/**/*.parquet'") for name in COLUMNS}


def rows_of(database: duckdb.DuckDBPyConnection, table: str, place: str) -> Counter[tuple[Any, ...]]:
    return Counter(database.execute(f"SELECT {', '.join(columns(table))} FROM {place}").fetchall())


def latest(rows: list[Row]) -> list[Row]:
    """Return the rows of each campaign's newest night that has any, and of its newest dates."""

    def place(row: Row) -> tuple[Any, ...]:
        return row["snapshot_date"], row["end_date"], -row["start_date"].toordinal()

    newest: dict[tuple[str, int], tuple[Any, ...]] = {}
    for row in sorted(rows, key=place):
        newest[row["account"], row["campaign_id"]] = place(row)
    return [row for row in rows if place(row) == newest[row["account"], row["campaign_id"]]]


@pytest.mark.heavy
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
                newest = expected([no_rows() | {"keyword_rankings": latest(held["keyword_rankings"])}])
                with duckdb.connect(str(database), read_only=True) as opened:
                    assert rows_of(opened, "keyword_rankings", LATEST) == newest["keyword_rankings"]


MARCH, APRIL = "2023-03", "2023-04"
Request: TypeAlias = tuple[str, str, list[str]]


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        # a month that is asked for in part is replaced by a row of it, and stays without one
        (("2023-03-01", "2023-03-31", [MARCH]), ("2023-03-15", "2023-04-14", [MARCH, APRIL]), {MARCH: 2, APRIL: 2}),
        (("2023-03-01", "2023-03-31", [MARCH]), ("2023-03-15", "2023-04-14", [APRIL]), {MARCH: 1, APRIL: 2}),
        # a row of a month stands for the days that its own pull asked for
        (("2023-03-01", "2023-03-20", [MARCH]), ("2023-03-01", "2023-03-25", ["2023-03-24"]), {"2023-03-24": 2}),
        (("2023-03-01", "2023-03-31", [MARCH]), ("2023-03-01", "2023-03-31", []), {}),
        (("2023-03-01", "9999-12-31", [MARCH]), ("2023-03-01", "9999-12-31", [APRIL]), {APRIL: 2}),
        (
            ("2023-03-01", "2023-03-20", ["2023-03-02"]),
            ("2023-03-03", "2023-03-25", [MARCH]),
            {"2023-03-02": 1, MARCH: 2},
        ),
    ],
)
async def test_a_row_of_a_month_stands_for_the_days_asked_for(
    tmp_path: Path, first: Request, second: Request, found: dict[str, int]
) -> None:
    out, dates, number = tmp_path / "a.duckdb", [""], 0

    def answer(asked: Asked) -> object:
        if asked.path == "/v3/campaigns":
            return 404
        rows = [{"date": date, "competitors": number} for date in dates]
        return {"metadata": {"total_pages": 1, "total_records": len(rows)}, "data": {"rows": rows, "totals": False}}

    async with serving(answer) as (client, _):
        for number, (start, end, dates) in enumerate((first, second), 1):  # noqa: B007
            night: dict[str, Any] = {"feeds": Feed.CAMPAIGN_BY_DATE, "snapshot_date": f"2023-05-0{number}"}
            await pull_to(client, [7], start, end, out=out, **night)
    shown = "left(date::VARCHAR, CASE date_precision WHEN 'month' THEN 7 ELSE 10 END)"
    assert sorted(ask(out, f"SELECT {shown}, competitors FROM campaign_periods")) == sorted(found.items())
    assert ask(out, "SELECT DISTINCT table_name, error FROM failures") == [("campaigns", "NotFoundError")]
