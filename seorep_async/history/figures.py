"""The figures of a report, summed by DuckDB: of each night, and of tags, locations and campaigns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from seorep_async.history.comparing import CHANGES

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")

ENGINES = {
    "engine_a": "Engine A",
    "engine_a_mobile": "Engine A, mobile",
    "engine_a_places": "Engine A, places",
    "engine_b": "Engine B",
}
BANDS = {
    "1 to 3": "BETWEEN 1 AND 3",
    "4 to 10": "BETWEEN 4 AND 10",
    "11 to 20": "BETWEEN 11 AND 20",
    "21 to 50": "BETWEEN 21 AND 50",
    "51 on": ">= 51",
}
"""Bands of ranks; every other keyword is not ranked: its rank is null, 0 or less."""
GROUPED_BY = {
    "Campaign": """(SELECT max(company || ' (' || campaign_id || ')') FROM campaigns AS named
        WHERE named.account = $account AND named.campaign_id = keyword_rankings.campaign_id)""",
    "Tag": "unnest(list_distinct([tag.label FOR tag IN tags]))",
    "Location": "search_location_canonical_name",
}
"""What keywords are grouped by, and its expression."""
MOVES = {"Risen": ("rose",), "Fallen": ("fell",), "Lost": ("lost", "removed")}
"""The lists of changed keywords, and the kinds of change in each."""
_MOST_LISTED = 10
_CHOSEN = """SELECT {columns} FROM keyword_rankings JOIN (
        SELECT campaign_id, snapshot_date, start_date, end_date FROM keyword_rankings
        WHERE account = $account AND campaign_id IN (SELECT unnest($campaigns::BIGINT[]))
            AND snapshot_date IN ({nights})
        GROUP BY campaign_id, snapshot_date, start_date, end_date
        QUALIFY row_number() OVER (PARTITION BY campaign_id, snapshot_date ORDER BY end_date DESC, start_date) = 1
    ) USING (campaign_id, snapshot_date, start_date, end_date) WHERE account = $account"""
"""The rows of a report: of several windows in one night, those of the one that ends last."""


@attrs.frozen
class Standing:
    """Keywords of one engine: how many are in each band and, last, not ranked; the mean rank of those ranked."""

    bands: tuple[int, ...]
    average: float | None

    @property
    def keywords(self) -> int:
        return sum(self.bands)

    @property
    def ranked(self) -> int:
        return sum(self.bands[:-1])

    @property
    def top_3(self) -> int:
        return self.bands[0]

    @property
    def top_10(self) -> int:
        return sum(self.bands[:2])


@attrs.frozen
class Night:
    """One night, and the keywords of each engine."""

    date: dt.date
    standings: Mapping[str, Standing]


@attrs.frozen
class Listed(Generic[T]):
    """The first of many, and their number."""

    first: tuple[T, ...]
    total: int


@attrs.frozen
class Group:
    """Keywords with one tag, location or campaign, on the last night and on the first."""

    label: str | None
    now: Standing
    before: Standing


@attrs.frozen
class Move:
    """A keyword whose rank on an engine is another on the last night than on the first."""

    phrase: str
    location: str | None
    engine: str
    before: int
    now: int | None
    is_removed: bool


@attrs.frozen
class Chosen:
    """The rows that a report is about."""

    connection: duckdb.DuckDBPyConnection
    account: str
    campaigns: Sequence[int]
    opened: Sequence[dt.date]

    def campaigns_by_night(self) -> dict[dt.date, int]:
        """Return the number of campaigns with rows, for each night that has any, in order."""
        query = """SELECT snapshot_date, count(DISTINCT campaign_id) FROM keyword_rankings
            WHERE account = ? AND campaign_id IN (SELECT unnest(?::BIGINT[]))
            AND snapshot_date IN (SELECT unnest(?::DATE[])) GROUP BY 1 ORDER BY 1"""
        values = [self.account, list(self.campaigns), list(self.opened)]
        return dict(self.connection.execute(query, values).fetchall())

    def nights(self, dates: Sequence[dt.date]) -> list[Night]:
        """Return what is known of nights."""
        query = f"""SELECT snapshot_date, {", ".join(map(_standing, ENGINES))}
            FROM ({_CHOSEN}) GROUP BY snapshot_date ORDER BY snapshot_date"""
        columns = ", ".join(["snapshot_date", *map(_rank, ENGINES)])
        return [
            Night(date, dict(zip(ENGINES, map(_as_standing, found), strict=True)))
            for date, *found in self._rows(query, columns, dates)
        ]

    def groups(self, kind: str, engine: str, first: dt.date, last: dt.date) -> Listed[Group]:
        """Return the largest groups of a kind on the last night."""
        now, before = (_standing(engine, f"snapshot_date = ${night}") for night in ("last", "first"))
        size = "count(*) FILTER (snapshot_date = $last)"
        query = f"""SELECT count(*) OVER (), label, {now}, {before} FROM ({_CHOSEN}) GROUP BY label
            HAVING {size} > 0 ORDER BY {size} DESC, label LIMIT {_MOST_LISTED}"""
        columns = f"snapshot_date, {_rank(engine)}, {GROUPED_BY[kind]} AS label"
        rows = self._rows(query, columns, [first, last], first=first, last=last)
        return _listed([(total, Group(label, _as_standing(a), _as_standing(b))) for total, label, a, b in rows])

    def moves(self, kind: str, first: dt.date, last: dt.date) -> Listed[Move]:
        """Return the greatest moves of a kind; of lost keywords those whose rank was best."""
        query = f"""SELECT count(*) OVER (), keyword_phrase, search_location_canonical_name, engine, before, after,
            kinds = 'removed' FROM ({CHANGES}) WHERE list_has_any(string_split(kinds, ','), $kinds)
            AND engine IS NOT NULL AND campaign_id IN (SELECT unnest($campaigns::BIGINT[]))
            ORDER BY abs(before - after) DESC, before, campaign_id, keyword_id, engine LIMIT {_MOST_LISTED}"""
        whose = {"account": self.account, "campaigns": list(self.campaigns), "kinds": list(MOVES[kind])}
        values = {**whose, "before": first, "after": last, "moved": 1}
        rows = self.connection.execute(query, values).fetchall()
        return _listed([(total, Move(*row)) for total, *row in rows])

    def _rows(self, query: str, columns: str, nights: Sequence[dt.date], **more: dt.date) -> list[Any]:
        values = {"account": self.account, "campaigns": list(self.campaigns), **more}
        dates = ", ".join(f"DATE '{night}'" for night in nights)  # as constants, they say which parts are needed
        return self.connection.execute(
            query.replace("{columns}", columns).replace("{nights}", dates), values
        ).fetchall()


def _listed(rows: Sequence[tuple[int, T]]) -> Listed[T]:
    """Return rows, each of which has the number of all."""
    return Listed(tuple(one for _, one in rows), rows[0][0] if rows else 0)


def _rank(engine: str) -> str:
    return f"{engine}_ranking"


def _standing(engine: str, where: str = "true") -> str:
    """Return the expression of a `Standing`."""
    rank = _rank(engine)
    bands = [*(f"{rank} {band}" for band in BANDS.values()), f"coalesce({rank} <= 0, true)"]
    counts = ", ".join(f"count(*) FILTER ({where} AND {band})" for band in bands)
    return f"struct_pack(bands := [{counts}], average := avg({rank}) FILTER ({where} AND {rank} > 0))"


def _as_standing(found: Mapping[str, Any]) -> Standing:
    return Standing(tuple(found["bands"]), found["average"])
