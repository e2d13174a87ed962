"""The figures of a report, summed by DuckDB: of each day, and of tags, locations and campaigns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs

from seorep_async.export.schema import COUNTED_REPORTS
from seorep_async.history.comparing import ENGINES, Changes, changes_between, unlike_reports
from seorep_async.history.source import History

Standing: TypeAlias = dict[str, Any]
"""Of keywords in one engine: how many are in each of `bands`, the last being "not ranked", and sums and mean of it."""
BANDS = {"1 to 3": (1, 3), "4 to 10": (4, 10), "11 to 20": (11, 20), "21 to 50": (21, 50), "51 on": (51, 2**63 - 1)}
"""Bands of ranks; every other keyword is not ranked: its rank is null, 0 or less."""
_GROUPED_BY = {
    "campaign": """(SELECT max(company || ' (' || campaign_id || ')') FROM campaigns AS named
        WHERE named.account = $account AND named.campaign_id = ranked.campaign_id)""",
    "tag": "unnest(list_distinct([tag.label FOR tag IN tags]))",
    "location": "search_location_canonical_name",
}
_MOVES = {
    "Risen": "kinds LIKE '%rose%'",
    "Fallen": "kinds LIKE '%fell%'",
    "Lost": "engine IS NOT NULL AND kinds SIMILAR TO 'removed|lost.*'",
}
"""The lists of changed keywords, and the kinds of change in each."""
_MOST_LISTED = 10
_CHOSEN = "account = $account AND campaign_id IN (SELECT unnest($campaigns::BIGINT[]))"


@attrs.frozen
class Chosen:
    """The rows that a report is about: an account's campaigns."""

    history: History
    account: str
    campaigns: Sequence[int]

    def campaigns_by_day(self, first: dt.date | None, last: dt.date | None) -> dict[dt.date, int]:
        """Return the number of campaigns with rows, for each day from the first to the last that has any, in order."""
        query = f"""SELECT as_of, count(*) FROM ({COUNTED_REPORTS}) WHERE {_CHOSEN}
            AND as_of BETWEEN coalesce($first, as_of) AND coalesce($last, as_of) GROUP BY 1 ORDER BY 1"""
        return dict(self._rows(query, first=first, last=last))

    def days(self, dates: Sequence[dt.date]) -> list[dict[str, Any]]:
        """Return each of these days: `as_of`, its `date` in words, and the `Standing` of each engine."""
        query = f"""SELECT as_of, strftime(as_of, '%-d %b %Y'), {", ".join(map(_standing, ENGINES))} FROM keyword_rankings_by_day
            WHERE {_CHOSEN} AND as_of IN (SELECT unnest($dates::DATE[])) GROUP BY 1 ORDER BY 1"""
        return [dict(zip(("as_of", "date", *ENGINES), found, strict=True)) for found in self._rows(query, dates=dates)]

    def groups(self, engine: str, first: dt.date, last: dt.date) -> dict[str, list[dict[str, Any]]]:
        """Return the largest groups of each kind on the last day; `total` counts all of a kind."""
        now, before = (_standing(engine, f"as_of = ${day}") for day in ("last", "first"))
        # as two queries, each of which DuckDB answers from the rows of its day alone
        days = ("$first", "$last") if first != last else ("$last",)
        found, size = {}, "count(*) FILTER (as_of = $last)"
        for kind, label in _GROUPED_BY.items():
            rows_of = f"SELECT *, {label} AS label FROM keyword_rankings_by_day AS ranked WHERE {_CHOSEN} AND as_of = "
            query = f"""SELECT label, {now} AS now, {before} AS before, count(*) OVER ()
                FROM ({" UNION ALL ".join(rows_of + day for day in days)})
                GROUP BY label HAVING {size} > 0 ORDER BY {size} DESC, label LIMIT {_MOST_LISTED}"""
            rows = self._rows(query, first=first, last=last) if kind != "campaign" or len(self.campaigns) > 1 else []
            if rows:
                found[kind] = [dict(zip(("label", "now", "before", "total"), row, strict=True)) for row in rows]
        return found

    def moves(self, first: dt.date, last: dt.date) -> dict[str, Changes]:
        """Return the largest moves of each kind, of lost keywords those whose rank was best."""
        unlike = unlike_reports(self.history, self.account, (first, last))
        both = [one for one in self.campaigns if unlike.get(one) == ""]
        return {
            name: changes_between(
                self.history, self.account, (first, last), both, where=where, limit=_MOST_LISTED, moved=1
            )
            for name, where in _MOVES.items()
        }

    def _rows(self, query: str, **values: object) -> list[Any]:
        whose = {"account": self.account, "campaigns": list(self.campaigns)}
        return self.history.connection.execute(query, whose | values).fetchall()


def _standing(engine: str, where: str = "true") -> str:
    """Return the expression of a `Standing`."""
    rank = f"{engine}_ranking"

    def count(condition: str) -> str:
        return f"count(*) FILTER ({where} AND {condition})"

    bands = [count(f"{rank} BETWEEN {first} AND {last}") for first, last in BANDS.values()]
    unranked = count(f"coalesce({rank} <= 0, true)")
    sums = {"keywords": count("true"), "ranked": count(f"{rank} > 0"), "top_3": bands[0]}
    sums |= {"top_10": f"{bands[0]} + {bands[1]}", "average": f"avg({rank}) FILTER ({where} AND {rank} > 0)"}
    named = ", ".join(f"{name} := {expression}" for name, expression in sums.items())
    return f"struct_pack(bands := [{', '.join(bands)}, {unranked}], {named})"
