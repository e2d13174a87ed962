"""What changed between two days: keywords that entered or left the top, rose or fell, are new, lost or found."""

from __future__ import annotations

import datetime as dt
import logging
import os
from collections.abc import Mapping
from typing import Any, final

import attrs

from seorep_async.errors import ConfigurationError, shown
from seorep_async.export.schema import AS_OF, COUNTED_REPORTS
from seorep_async.history.source import History, asked, listed
from seorep_async.models.gc_untracked import gc_untracked_struct
from seorep_async.resources.arguments import check_date, check_id
from seorep_async.tables.tabular import ModelList

_log = logging.getLogger("seorep_async")
_BATCH = 10_000
_URLS = {
    "engine_a": "engine_a_ranking_url",
    "engine_a_mobile": "engine_a_mobile_ranking_url",
    "engine_a_places": "NULL",
    "engine_b": "engine_b_ranking_url",
}
"""The engines, and the column of the address that is ranked; places have none."""
_TOPS = (3, 10, 20)
_KINDS_OF_BOTH = {
    "found": "before IS NULL",
    "lost": "after IS NULL",
    **{f"entered_top_{top}": f"after <= {top} AND (before IS NULL OR before > {top})" for top in _TOPS},
    **{f"left_top_{top}": f"before <= {top} AND (after IS NULL OR after > {top})" for top in _TOPS},
    "rose": "before - after >= $moved",
    "fell": "after - before >= $moved",
}
"""The kinds of change of a keyword that both reports have, in their order, and the condition for different ranks."""
KINDS = ("new", "removed", *_KINDS_OF_BOTH)
ORDER = "abs(coalesce(before, 101) - coalesce(after, 101)) DESC, campaign_id, keyword_id, engine NULLS FIRST"
"""The largest changes first; no rank counts as 101."""


@final
@gc_untracked_struct
@attrs.frozen(weakref_slot=False)
class Change:
    """The change of a keyword's rank in one engine between two days; a rank of 0 or null is "not ranked", here None.

    Attributes:
        engine: `engine_a`, `engine_a_mobile`, `engine_a_places` or `engine_b`; None if the keyword has no rank in any.
        kind: the first of `kinds`.
        kinds: all that apply, in this order; in a table, a list as JSON:
            `new` or `removed`, and no other: only the later or only the earlier report has the keyword.
            `found` or `lost`: it is ranked in the later or in the earlier report alone, and in both reports.
            `entered_top_3`, `entered_top_10`, `entered_top_20`: its rank is at most this, and was greater, or none.
            `left_top_3`, `left_top_10`, `left_top_20`: the other way round.
            `rose` or `fell`: by `moved` places or more; it is ranked in both.
        url: the ranked address, of the later report if it is ranked there; None for places, for which there is none.
        company: of the campaign, as it was last pulled; None if the campaigns could not be listed.
        keyword_phrase: as in the later report that has it; likewise `location`, its canonical name.
    """

    account: str
    campaign_id: int
    company: str | None
    keyword_id: int
    keyword_phrase: str
    location: str | None
    engine: str | None
    kind: str
    kinds: tuple[str, ...]
    before: int | None
    after: int | None
    url: str | None
    before_date: dt.date
    after_date: dt.date


class Changes(ModelList[Change]):
    """The changes between two days, the largest first; also a table.

    Attributes:
        account, before, after: whose they are, the earlier and the later day.
        total: their number, also of those beyond `limit`.
        left_out: campaigns that were not compared, and why: the report of one of the days failed, or has no rows.
    """

    __slots__ = ("account", "after", "before", "left_out", "total")

    account: str
    before: dt.date
    after: dt.date
    left_out: Mapping[int, str]
    total: int

    def __getitem__(self, index: Any, /) -> Any:
        found = super().__getitem__(index)
        for name in self.__slots__ if isinstance(found, Changes) else ():
            setattr(found, name, getattr(self, name))
        return found

    def __add__(self, other: list[Any], /) -> Any:
        both = [*self, *other]
        return ModelList(both, Change) if isinstance(other, Changes) else both


def changes(
    database: str | os.PathLike[str],
    *,
    account: str | None = None,
    before: dt.date | str | None = None,
    after: dt.date | str | None = None,
    campaign: int | None = None,
    kind: str | None = None,
    limit: int | None = None,
    moved: int = 3,
) -> Changes:
    """Return what changed between two days of a database, the largest changes first.

    Ranks are compared, never the sign of a `..._change`. A campaign is compared only if both days have its report:
    those that failed, or have no rows, as they were not requested, are new or were deleted, are in `left_out`.

    Args:
        database: a file that pulls wrote, such as `rankings.duckdb`.
        account: the name of the account, where there are several.
        before: the earlier day, one that ranks speak of; by default the last one before the later.
        after: the later day; by default the last.
        campaign: the id of the only campaign to compare; by default every campaign.
        kind: only changes of this kind: rose, fell; entered_top_3, left_top_3, likewise 10 and 20; found, lost (its
            rank); new, removed (the keyword).
        limit: only so many of the largest; by default all.
        moved: the least number of places by which a keyword rose or fell; by default 3.

    Raises:
        ConfigurationError: an argument is wrong, or the database has no such account, day or campaign, or one day only.
        ExportError: the database is being written, or is damaged.
        ImportError: the extra `duckdb` is missing.
    """
    if kind is not None and kind not in KINDS:
        raise ConfigurationError(f"kind must be one of {', '.join(KINDS)}, got {shown(kind)}", argument="kind")
    first = None if before is None else check_date("before", before)
    last = None if after is None else check_date("after", after)
    chosen = None if campaign is None else check_id("campaign", campaign)
    most = None if limit is None else check_id("limit", limit)
    moved = check_id("moved", moved)
    with asked(database) as history:
        account = history.account(account)
        warnings = [history.repeated_nights(account)] if last is None else []
        days = first, last = _days(history, account, first, last)
        compared, left_out = compared_campaigns(history, account, days, chosen)
        values = {"account": account, "before": first, "after": last, "campaigns": compared, "moved": moved}
        found = Changes((), Change)
        found.account, found.before, found.after, found.left_out, found.total = account, first, last, left_out, 0
        _fill(found, history.connection.execute(ranked(kind, most), values))
        warnings.append(history.differing_windows(account, first, last))
    for reason in dict.fromkeys(left_out.values()):
        ids = [id_ for id_, other in left_out.items() if other == reason]
        warnings.append(f"not compared, as {reason}: campaigns {listed(ids)}")
    for warning in filter(None, warnings):
        _log.warning("%s", warning)
    return found


def ranked(kind: str | None, limit: int | None) -> str:
    """Return the query for changes of a kind, the largest first, at most `limit`, each with the number of all."""
    of_kind = "" if kind is None else f"WHERE list_contains(string_split(kinds, ','), '{kind}')"
    most = "" if limit is None else f"LIMIT {limit}"
    return f"SELECT count(*) OVER () AS total, * FROM ({CHANGES}) {of_kind} ORDER BY {ORDER} {most}"


def _days(history: History, account: str, before: dt.date | None, after: dt.date | None) -> tuple[dt.date, dt.date]:
    """Return the days to compare, or refuse those that are not there."""
    days = history.known_days(account)
    known = f"{history.label} has rankings of {account} of {listed(days)}"
    for day in (before, after):
        if day is not None and day not in days:
            raise ConfigurationError(f"no rankings speak of {day}: {known}")
    after = after or days[-1]
    before = before or max((day for day in days if day < after), default=None)
    if before is None:
        if len(days) > 1:
            raise ConfigurationError(f"there is no day before {after} to compare: {known}")
        repeated = history.repeated_nights(account) or "`seorep pull --last 30d`, each night, adds a day."
        raise ConfigurationError(f"there is one day only, {after}, and nothing to compare it with. {repeated}")
    if before >= after:
        raise ConfigurationError(f"before must be a day before {after}, got {before}", argument="before")
    return before, after


def compared_campaigns(
    history: History, account: str, days: tuple[dt.date, dt.date], chosen: int | None = None
) -> tuple[list[int], dict[int, str]]:
    """Return the campaigns that both days have, and the others, with the reason."""
    query = f"""SELECT campaign_id, as_of, NULL AS error FROM ({COUNTED_REPORTS})
        WHERE account = $account AND as_of IN ($before, $after)
        UNION ALL SELECT campaign_id, {AS_OF}, arg_max(error, snapshot_date) FROM failures
        WHERE account = $account AND table_name = 'keyword_rankings' AND campaign_id IS NOT NULL
            AND {AS_OF} IN ($before, $after) GROUP BY ALL ORDER BY ALL"""
    values = {"account": account, "before": days[0], "after": days[1]}
    found: dict[int, dict[dt.date, str | None]] = {}
    for id_, day, error in history.connection.execute(query, values).fetchall():
        if found.setdefault(id_, {}).get(day, "") is not None:  # a failure counts only where there are no rows
            found[id_][day] = error
    if chosen is not None and chosen not in found:
        problem = f"{history.label} has no rankings of campaign {chosen} of {days[0]} or {days[1]}"
        raise ConfigurationError(f"{problem}; it has campaigns {listed(found)}", argument="campaign")
    left_out = {}
    for id_, held in found.items() if chosen is None else [(chosen, found[chosen])]:
        failed = [f"the report of {day} failed ({held[day]})" for day in days if held.get(day) is not None]
        reasons = [*failed, *(f"there are no rows of {day}" for day in days if day not in held)]
        left_out[id_] = " and ".join(reasons)
    return [id_ for id_, one in left_out.items() if not one], {id_: one for id_, one in left_out.items() if one}


def _fill(found: Changes, rows: Any) -> None:
    """Add rows of `ranked` to the changes; values that recur are stored once."""
    stored: dict[Any, Any] = {}
    while some := rows.fetchmany(_BATCH):
        for total, campaign, company, keyword, phrase, location, engine, kinds, before, after, url in some:
            found.total = total
            company, location, engine = (stored.setdefault(one, one) for one in (company, location, engine))
            names = stored.get(kinds) or stored.setdefault(kinds, tuple(kinds.split(",")))
            labels = found.account, campaign, company, keyword, phrase, location, engine, names[0], names
            found.append(Change(*labels, before, after, url, found.before, found.after))


def _rows(day: str) -> str:
    """Return a query for the rows of a day, of the campaigns that are compared."""
    ranks = ", ".join(f"CASE WHEN {one}_ranking > 0 THEN {one}_ranking END AS {one}" for one in _URLS)
    urls = ", ".join(f"{url} AS {engine}_url" for engine, url in _URLS.items())
    texts = "keyword_phrase, search_location_canonical_name AS location"
    return f"""SELECT campaign_id, keyword_id, {texts}, {ranks}, {urls} FROM keyword_rankings_by_day
        WHERE account = $account AND as_of = {day} AND campaign_id IN (SELECT unnest($campaigns::BIGINT[]))"""


def _moves() -> str:
    """Return a query for ranks that differ, a row for each engine, and one for keywords that come or go unranked."""
    head = "SELECT campaign_id, keyword_id, phrase, location, is_new, is_removed"
    moves = [
        f"""{head}, '{one}' AS engine, e.{one} AS before, l.{one} AS after,
            CASE WHEN l.{one} IS NULL THEN e.{one}_url ELSE l.{one}_url END AS url
            FROM pairs WHERE e.{one} IS DISTINCT FROM l.{one}"""
        for one in _URLS
    ]
    no_rank = " AND ".join(f"e.{one} IS NULL AND l.{one} IS NULL" for one in _URLS)
    return " UNION ALL ".join(
        [*moves, f"{head}, NULL, NULL, NULL, NULL FROM pairs WHERE (is_new OR is_removed) AND {no_rank}"]
    )


_KINDS = ", ".join(f"CASE WHEN {condition} THEN '{kind}' END" for kind, condition in _KINDS_OF_BOTH.items())
_DIFFERENT = " OR ".join(f"e.{one} IS DISTINCT FROM l.{one}" for one in (*_URLS, "keyword_id"))
CHANGES = f"""WITH pairs AS MATERIALIZED (
        SELECT campaign_id, keyword_id, e.keyword_id IS NULL AS is_new, l.keyword_id IS NULL AS is_removed,
            CASE WHEN is_removed THEN e.keyword_phrase ELSE l.keyword_phrase END AS phrase,
            CASE WHEN is_removed THEN e.location ELSE l.location END AS location, e, l
        FROM ({_rows("$before")}) AS e FULL JOIN ({_rows("$after")}) AS l USING (campaign_id, keyword_id)
        WHERE {_DIFFERENT}),
    moves AS ({_moves()}),
    kinds AS (SELECT *,
            CASE WHEN is_new THEN 'new' WHEN is_removed THEN 'removed' ELSE concat_ws(',', {_KINDS}) END AS kinds
        FROM moves)
    SELECT campaign_id, company, keyword_id, phrase, location, engine, kinds, before, after, url FROM kinds
    LEFT JOIN (SELECT campaign_id, max(company) AS company FROM campaigns WHERE account = $account GROUP BY 1)
        USING (campaign_id)
    WHERE kinds != ''"""
"""The changes of the campaigns that are compared, in no order; the kinds of each are separated by commas."""
