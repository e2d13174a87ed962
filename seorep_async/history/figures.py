"""The figures of a report, summed by DuckDB: of each day, and of tags, locations and campaigns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import attrs

from seorep_async.history.comparing import CHANGES, ORDER, compared_campaigns
from seorep_async.history.source import History

T = TypeVar("T")

ENGINES = ("engine_a", "engine_a_mobile", "engine_a_places", "engine_b")
BANDS = {
    "1 to 3": "BETWEEN 1 AND 3",
    "4 to 10": "BETWEEN 4 AND 10",
    "11 to 20": "BETWEEN 11 AND 20",
    "21 to 50": "BETWEEN 21 AND 50",
    "51 on": ">= 51",
}
"""Bands of ranks; every other keyword is not ranked: its rank is null, 0 or less."""
GROUPED_BY = {
    "campaign": """(SELECT max(company || ' (' || campaign_id || ')') FROM campaigns AS named
        WHERE named.account = $account AND named.campaign_id = ranked.campaign_id)""",
    "tag": "unnest(list_distinct([tag.label FOR tag IN tags]))",
    "location": "search_location_canonical_name",
}
"""The groups of keywords, and the expression of each."""
MOVES = {"Risen": "kinds LIKE '%rose%'", "Fallen": "kinds LIKE '%fell%'", "Lost": "kinds SIMILAR TO 'removed|lost.*'"}
"""The lists of changed keywords, and the kinds of change in each."""
_MOST_LISTED = 10
_CHOSEN = """FROM keyword_rankings_by_day AS ranked
    WHERE account = $account AND campaign_id IN (SELECT unnest($campaigns::BIGINT[]))"""


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
class Day:
    """One day, and the keywords of each engine."""

    date: dt.date
    standings: Mapping[str, Standing]


@attrs.frozen
class Listed(Generic[T]):
    """The first of many, and their number."""

    first: Sequence[T] = ()
    total: int = 0


@attrs.frozen
class Group:
    """Keywords with one tag, location or campaign, on the last day and on the first."""

    label: str | None
    now: Standing
    before: Standing


@attrs.frozen
class Move:
    """A keyword whose rank on an engine is another on the last day than on the first."""

    phrase: str
    location: str | None
    engine: str
    before: int
    now: int | None
    is_removed: bool


@attrs.frozen
class Chosen:
    """The rows that a report is about: an account's campaigns."""

    history: History
    account: str
    campaigns: Sequence[int]

    def campaigns_by_day(self, first: dt.date | None, last: dt.date | None) -> dict[dt.date, int]:
        """Return the number of campaigns with rows, for each day from the first to the last that has any, in order."""
        query = f"""SELECT as_of, count(DISTINCT campaign_id) {_CHOSEN}
            AND as_of BETWEEN coalesce($first, as_of) AND coalesce($last, as_of) GROUP BY 1 ORDER BY 1"""
        return dict(self._rows(query, first=first, last=last))

    def days(self, dates: Sequence[dt.date]) -> list[Day]:
        """Return the keywords of each of these days."""
        among = ", ".join(f"DATE '{date}'" for date in dates)  # DuckDB skips other days only if these are constants
        query = f"""SELECT as_of, {", ".join(map(_standing, ENGINES))} {_CHOSEN} AND as_of IN ({among})
            GROUP BY 1 ORDER BY 1"""
        return [
            Day(date, dict(zip(ENGINES, map(_as_standing, found), strict=True))) for date, *found in self._rows(query)
        ]

    def groups(self, kind: str, engine: str, first: dt.date, last: dt.date) -> Listed[Group]:
        """Return the largest groups of a kind on the last day."""
        now, before = (_standing(engine, f"as_of = ${day}") for day in ("last", "first"))
        size = "count(*) FILTER (as_of = $last)"
        query = f"""SELECT count(*) OVER (), label, {now}, {before}
            FROM (SELECT *, {GROUPED_BY[kind]} AS label {_CHOSEN} AND as_of IN ($first, $last)) GROUP BY label
            HAVING {size} > 0 ORDER BY {size} DESC, label LIMIT {_MOST_LISTED}"""
        rows = self._rows(query, first=first, last=last)
        groups = [Group(label, _as_standing(now), _as_standing(before)) for _, label, now, before in rows]
        return Listed(groups, rows[0][0] if rows else 0)

    def moves(self, first: dt.date, last: dt.date) -> dict[str, Listed[Move]]:
        """Return the largest moves of each kind; of lost keywords those whose rank was best."""
        whens = " ".join(f"WHEN {condition} THEN '{name}'" for name, condition in MOVES.items())
        query = f"""SELECT list, count(*) OVER of_list, phrase, location, engine, before, after, kinds = 'removed'
            FROM (SELECT *, CASE {whens} END AS list FROM ({CHANGES})) WHERE engine IS NOT NULL AND list IS NOT NULL
            WINDOW of_list AS (PARTITION BY list)
            QUALIFY row_number() OVER (PARTITION BY list ORDER BY {ORDER}) <= {_MOST_LISTED} ORDER BY {ORDER}"""
        compared, _ = compared_campaigns(self.history, self.account, (first, last))
        both = attrs.evolve(self, campaigns=sorted({*compared} & {*self.campaigns}))
        found: dict[str, Listed[Move]] = {name: Listed() for name in MOVES}
        for name, total, *move in both._rows(query, before=first, after=last, moved=1):
            found[name] = Listed([*found[name].first, Move(*move)], total)
        return found

    def _rows(self, query: str, **values: object) -> list[Any]:
        whose = {"account": self.account, "campaigns": list(self.campaigns)}
        return self.history.connection.execute(query, whose | values).fetchall()


def _standing(engine: str, where: str = "true") -> str:
    """Return the expression of a `Standing`."""
    rank = f"{engine}_ranking"
    bands = [*(f"{rank} {band}" for band in BANDS.values()), f"coalesce({rank} <= 0, true)"]
    counts = ", ".join(f"count(*) FILTER ({where} AND {band})" for band in bands)
    return f"struct_pack(bands := [{counts}], average := avg({rank}) FILTER ({where} AND {rank} > 0))"


def _as_standing(found: Mapping[str, Any]) -> Standing:
    return Standing(tuple(found["bands"]), found["average"])
