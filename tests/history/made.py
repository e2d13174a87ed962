"""Databases made by hand like those of pulls, and the changes in them in plain Python."""

import datetime as dt
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import duckdb

from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.output_tables import all_tables

FIRST = dt.date(2026, 3, 1)
Ranks: TypeAlias = Mapping[int, int | None]
"""The rank of each keyword on engine A; ids of keywords, from 11 on, begin with their campaign's."""
TOPS = (3, 10, 20)


def day(number: int) -> dt.date:
    return FIRST + dt.timedelta(number)


@attrs.frozen
class Pull:
    """A pull of the campaign feed: its night, its window, and the ranks that came; campaigns that failed."""

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


def nightly(*nights: Ranks, account: str = "acme") -> list[Pull]:
    """Return a pull for each of some nights from FIRST on, of a window that ends with the night."""
    return [
        Pull(day(n), day(n - 30), day(n), ranks, account=account) for n, ranks in enumerate(nights)
    ]


def made(path: Path, pulls: Iterable[Pull], **columns: Any) -> Path:
    """Write pulls into a database, which may exist; `columns` are values of further columns of every keyword."""
    if not path.exists():
        path.write_bytes(_empty())
    with duckdb.connect(str(path)) as database:
        database.begin()
        for pull in pulls:
            _write(database, pull, columns)
        database.commit()
    return path


@cache
def _empty() -> bytes:
    """Return a database with the tables of pulls."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "empty.duckdb")
        with duckdb.connect(str(path)) as database:
            for table in all_tables():
                database.register("empty", arrow_schema(table).empty_table())
                database.execute(f"CREATE TABLE {table.name} AS FROM empty")
        return path.read_bytes()


def _write(database: duckdb.DuckDBPyConnection, pull: Pull, columns: Mapping[str, Any]) -> None:
    lead = {
        "account": pull.account,
        "snapshot_date": pull.night,
        "start_date": pull.first,
        "end_date": pull.last,
    }
    same = "account = $account AND snapshot_date = $snapshot_date AND start_date = $start_date AND end_date = $end_date"
    asked = pull.reports | {*pull.failed}
    for table, ids in (
        ("keyword_rankings", pull.reports),
        ("failures", asked),
    ):  # what failed keeps that night's rows
        database.execute(f"DELETE FROM {table} WHERE {same} AND campaign_id IN {(0, *ids)}", lead)
    database.execute(
        f"DELETE FROM campaigns WHERE account = ? AND campaign_id IN {(0, *pull.reports)}",
        [pull.account],
    )
    for keyword, rank in pull.ranks.items():
        named = {
            "campaign_id": keyword // 10,
            "keyword_id": keyword,
            "keyword_phrase": f"shoes {keyword}",
        }
        insert(database, "keyword_rankings", {**lead, **named, "engine_a_ranking": rank, **columns})
    for campaign in pull.failed:
        error = {"table_name": "keyword_rankings", "error": "ServerError", "message": "down"}
        insert(database, "failures", lead | {"campaign_id": campaign} | error)
    facts = {
        "started_at": dt.datetime.combine(pull.night, dt.time(3)),
        "feeds": "campaign",
        "rows": len(pull.ranks),
    }
    insert(
        database,
        "pulls",
        lead | facts | {"failures": len(pull.failed), "compared": False, "version": "0.2.0"},
    )
    for campaign in pull.reports:
        whose = {"account": pull.account, "snapshot_date": pull.night, "campaign_id": campaign}
        named = {
            "company": f"Company {campaign}",
            "group_title": "Retail" if campaign == 1 else None,
        }
        insert(database, "campaigns", {**whose, **named})


def insert(database: duckdb.DuckDBPyConnection, table: str, row: Mapping[str, Any]) -> None:
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))


def change(path: Path, statement: str) -> None:
    with duckdb.connect(str(path)) as database:
        database.execute(statement)


# --- What a history should find


def counted(pulls: Iterable[Pull]) -> dict[tuple[str, int, dt.date], Pull]:
    """Return the pull that counts, for each account, campaign and day: of the last night, the longest window."""
    # a later pull of the same night and window replaces an earlier one
    by_place = sorted(pulls, key=lambda pull: (pull.night, -pull.first.toordinal(), pull.last))
    return {
        (pull.account, campaign, pull.as_of): pull for pull in by_place for campaign in pull.reports
    }


def days(pulls: Iterable[Pull], account: str = "acme") -> list[dt.date]:
    return sorted({as_of for whose, _, as_of in counted(pulls) if whose == account})


def expected_changes(
    pulls: list[Pull], before: dt.date, after: dt.date, moved: int, account: str = "acme"
) -> tuple[list[tuple[Any, ...]], dict[int, str]]:
    """Return campaign, keyword, kinds and both ranks of each change, and the campaigns that are left out."""
    reports, failures = (
        counted(pulls),
        {(p.account, one, p.as_of) for p in pulls for one in p.failed},
    )
    asked = {
        one
        for whose, one, as_of in {*reports, *failures}
        if whose == account and as_of in (before, after)
    }
    found, left_out = [], {}
    for campaign in sorted(asked):
        keys = [(account, campaign, as_of) for as_of in (before, after)]
        failed, absent = "the report of {} failed (ServerError)", "there are no rows of {}"
        reasons = [
            (failed if key in failures else absent).format(key[2])
            for key in keys
            if key not in reports
        ]
        if reasons:
            left_out[campaign] = " and ".join(reasons)
            continue
        old, new = (
            {k: r for k, r in reports[key].ranks.items() if k // 10 == campaign} for key in keys
        )
        for keyword in sorted({*old, *new}):
            a, b = old.get(keyword) or None, new.get(keyword) or None
            if kinds := _kinds(keyword in old, keyword in new, a, b, moved):
                found.append((campaign, keyword, kinds, a, b))
    return sorted(
        found, key=lambda one: (-abs((one[3] or 101) - (one[4] or 101)), *one[:2])
    ), left_out


def _kinds(was: bool, is_: bool, a: int | None, b: int | None, moved: int) -> tuple[str, ...]:
    if not (was and is_):
        return ("new",) if is_ else ("removed",)
    kinds = {"found": a is None and b is not None, "lost": a is not None and b is None}
    kinds |= {f"entered_top_{top}": (b or 999) <= top < (a or 999) for top in TOPS}
    kinds |= {f"left_top_{top}": (a or 999) <= top < (b or 999) for top in TOPS}
    kinds |= {"rose": bool(a and b and a - b >= moved), "fell": bool(a and b and b - a >= moved)}
    return tuple(kind for kind, holds in kinds.items() if holds)
