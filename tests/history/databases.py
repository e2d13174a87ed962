"""Databases like those of pulls, and their expected changes in plain Python."""

import datetime as dt
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import duckdb
import pyarrow as pa

from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.output_tables import all_tables

FIRST = dt.date(2026, 3, 1)
Ranks: TypeAlias = Mapping[int, int | None]
"""The rank of each keyword on engine A. Keyword 11 is the first of campaign 1."""
Row: TypeAlias = dict[str, Any]
Tables: TypeAlias = dict[str, list[Row]]
TOPS = (3, 10, 20)
SCHEMAS = {table.name: arrow_schema(table) for table in all_tables()}
PLACE = ("account", "snapshot_date", "start_date", "end_date")
"""The columns that identify the pull of a row."""


def day(number: int) -> dt.date:
    return FIRST + dt.timedelta(number)


@attrs.frozen
class Pull:
    """A pull of the campaign feed.

    Attributes:
        night: the day on which it ran.
        first: the first day of its window.
        last: the last day of its window.
        ranks: the received ranks.
        failed: campaigns whose reports failed.
    """

    night: dt.date
    first: dt.date
    last: dt.date
    ranks: Ranks
    failed: tuple[int, ...] = ()
    account: str = "acme"

    @property
    def as_of(self) -> dt.date:
        return min(self.last, max(self.first, self.night))

    @property
    def reports(self) -> set[int]:
        return {keyword // 10 for keyword in self.ranks}

    @property
    def place(self) -> Row:
        values = (self.account, self.night, self.first, self.last)
        return dict(zip(PLACE, values, strict=True))


def pull_of_night(number: int, ranks: Ranks, **options: Any) -> Pull:
    """Return the pull of a night, of a window that ends with the night."""
    return Pull(day(number), day(number - 30), day(number), ranks, **options)


def nightly(*nights: Ranks, account: str = "acme") -> list[Pull]:
    """Return the pull of each night from FIRST on."""
    return [pull_of_night(number, ranks, account=account) for number, ranks in enumerate(nights)]


def add_last_rows(database: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Add rows at the end of a database file, after everything that is read when it is opened."""
    database.execute("CREATE TABLE before_the_rows AS SELECT random() FROM range(200000)")
    database.execute("CHECKPOINT")
    database.execute(statement)
    database.execute("CHECKPOINT")
    database.execute("DROP TABLE before_the_rows")
    database.execute("CHECKPOINT")


def database_of(path: Path, pulls: Iterable[Pull], **columns: Any) -> Path:
    """Write pulls into a database, which may have pulls of other nights, and return its path.

    Args:
        path: the database, or a folder, whose database is `a.duckdb`.
        columns: values of further columns of every keyword.
    """
    if path.is_dir():
        path /= "a.duckdb"
    if not path.exists():
        path.write_bytes(_empty())
    tables = _tables_of(pulls, columns)
    with opened(path) as database:
        database.begin()
        for row in tables["campaigns"]:
            key = [row["account"], row["campaign_id"]]
            database.execute("DELETE FROM campaigns WHERE account = $1 AND campaign_id = $2", key)
        for name, rows in tables.items():
            insert(database, name, rows)
        database.commit()
    return path


@cache
def _workshop() -> duckdb.DuckDBPyConnection:
    """Return the DuckDB that opens all files. Starting another one takes 12 ms."""
    return duckdb.connect()


@contextmanager
def opened(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open or create a database for changes."""
    with _workshop().cursor() as database:
        database.execute(f"ATTACH '{path}' AS file")
        database.execute("USE file")
        try:
            yield database
        finally:
            database.execute("USE memory")
            database.execute("DETACH file")


@cache
def _empty() -> bytes:
    """Return a database with the tables of pulls."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "empty.duckdb")
        with opened(path) as database:
            for name, schema in SCHEMAS.items():
                database.register("empty", schema.empty_table())
                database.execute(f"CREATE TABLE {name} AS FROM empty")
        return path.read_bytes()


def _tables_of(pulls: Iterable[Pull], columns: Row) -> Tables:
    """Return the rows that pulls leave. A later report of a place replaces an earlier one."""
    reports: dict[Any, list[Row]] = {}
    failures: dict[Any, Row] = {}
    campaigns: dict[Any, Row] = {}
    pull_rows = []
    for pull in pulls:
        place = tuple(pull.place.values())
        for campaign_id in pull.failed:
            error = {"table_name": "keyword_rankings", "error": "ServerError", "message": "down"}
            failures[place, campaign_id] = pull.place | {"campaign_id": campaign_id} | error
        for campaign_id in pull.reports:
            failures.pop((place, campaign_id), None)
            reports[place, campaign_id] = []
            campaigns[pull.account, campaign_id] = {
                "account": pull.account,
                "snapshot_date": pull.night,
                "campaign_id": campaign_id,
                "company": f"Company {campaign_id}",
                "group_title": "Retail" if campaign_id == 1 else None,
            }
        for keyword, rank in pull.ranks.items():
            about = {
                "campaign_id": keyword // 10,
                "keyword_id": keyword,
                "keyword_phrase": f"shoes {keyword}",
                "engine_a_ranking": rank,
            }
            reports[place, keyword // 10].append(pull.place | about | columns)
        facts = {
            "started_at": dt.datetime.combine(pull.night, dt.time(3)),
            "feeds": "campaign",
            "rows": len(pull.ranks),
            "failures": len(pull.failed),
            "compared": False,
            "version": "0.2.0",
        }
        pull_rows.append(pull.place | facts)
    return {
        "keyword_rankings": [row for rows in reports.values() for row in rows],
        "failures": [*failures.values()],
        "pulls": pull_rows,
        "campaigns": [*campaigns.values()],
    }


def insert(database: duckdb.DuckDBPyConnection, table: str, rows: list[Row]) -> None:
    """Insert rows with one statement. Missing columns are null."""
    database.register("new_rows", pa.Table.from_pylist(rows, schema=SCHEMAS[table]))
    database.execute(f"INSERT INTO {table} BY NAME FROM new_rows")
    database.unregister("new_rows")


def ask(path: Path, query: str) -> list[tuple[Any, ...]]:
    with opened(path) as database:
        return database.execute(query).fetchall()


def change(path: Path, statement: str) -> None:
    with opened(path) as database:
        database.execute(statement)


# --- The days and changes that a history should find


def counted(pulls: Iterable[Pull]) -> dict[tuple[str, int, dt.date], Pull]:
    """Return the pull that counts for each account, campaign and day.

    It is the one of the last night, and in a night the one of the longest window. A later pull of
    the same night and window replaces an earlier one.
    """
    by_place = sorted(pulls, key=lambda pull: (pull.night, -pull.first.toordinal(), pull.last))
    return {
        (pull.account, campaign_id, pull.as_of): pull
        for pull in by_place
        for campaign_id in pull.reports
    }


def days(pulls: Iterable[Pull], account: str = "acme") -> list[dt.date]:
    return sorted({as_of for name, _, as_of in counted(pulls) if name == account})


def expected_changes(
    pulls: list[Pull], before: dt.date, after: dt.date, moved: int, account: str = "acme"
) -> tuple[list[tuple[Any, ...]], dict[int, str]]:
    """Return the changes between two days, and why campaigns are left out.

    A change is a campaign, a keyword, kinds and both ranks.
    """
    reports = counted(pulls)
    failures = {
        (pull.account, campaign_id, pull.as_of) for pull in pulls for campaign_id in pull.failed
    }
    # a campaign that was pulled shortly before both days is missed
    campaign_ids = {
        campaign_id
        for name, campaign_id, as_of in {*reports, *failures}
        if name == account and before - 2 * (after - before) <= as_of <= after
    }
    rows: list[tuple[Any, ...]] = []
    left_out = {}
    for campaign_id in sorted(campaign_ids):
        reasons = []
        ranks = []
        for as_of in (before, after):
            key = (account, campaign_id, as_of)
            if key in reports:
                ranks.append(_ranks_of(reports[key], campaign_id))
            elif key in failures:
                reasons.append(f"the report of {as_of} failed (an error of the service)")
            else:
                reasons.append(f"there are no rows of {as_of}")
        if reasons:
            left_out[campaign_id] = " and ".join(reasons)
        else:
            old, new = ranks
            rows += _changes_of(campaign_id, old, new, moved)
    return sorted(rows, key=_by_size), left_out


def _ranks_of(pull: Pull, campaign_id: int) -> Ranks:
    return {keyword: rank for keyword, rank in pull.ranks.items() if keyword // 10 == campaign_id}


def _changes_of(campaign_id: int, old: Ranks, new: Ranks, moved: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for keyword in sorted({*old, *new}):
        before = old.get(keyword) or None
        after = new.get(keyword) or None
        if keyword not in old:
            kinds: tuple[str, ...] = ("new",)
        elif keyword not in new:
            kinds = ("removed",)
        else:
            kinds = _kinds(before, after, moved)
        if kinds:
            rows.append((campaign_id, keyword, kinds, before, after))
    return rows


def _by_size(row: tuple[Any, ...]) -> tuple[int, int, int]:
    campaign_id, keyword, _, before, after = row
    return -abs((before or 101) - (after or 101)), campaign_id, keyword


def _kinds(before: int | None, after: int | None, moved: int) -> tuple[str, ...]:
    old_place = before or 999
    new_place = after or 999
    holds = {"found": before is None and after is not None}
    holds["lost"] = before is not None and after is None
    for top in TOPS:
        holds[f"entered_top_{top}"] = new_place <= top < old_place
    for top in TOPS:
        holds[f"left_top_{top}"] = old_place <= top < new_place
    is_ranked = before is not None and after is not None
    holds["rose"] = is_ranked and old_place - new_place >= moved
    holds["fell"] = is_ranked and new_place - old_place >= moved
    return tuple(kind for kind, is_so in holds.items() if is_so)
