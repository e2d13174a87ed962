"""What changed between two days: keywords that entered or left the top, rose or fell, are new, lost or found."""

from __future__ import annotations

import datetime as dt
import logging
import os
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, final, get_args

import attrs

from seorep_async.errors import ConfigurationError, shown
from seorep_async.export.schema import AS_OF, COUNTED_REPORTS
from seorep_async.history.source import CHOSEN, Chosen, History, asked, listed
from seorep_async.models.gc_untracked import gc_untracked_struct
from seorep_async.resources.arguments import check_date, check_id
from seorep_async.tables.tabular import ModelList

Days: TypeAlias = tuple[dt.date, dt.date]
_log = logging.getLogger("seorep_async")
ENGINES = ("engine_a", "engine_a_mobile", "engine_a_places", "engine_b")
_TOPS = (3, 10, 20)
_KINDS_OF_BOTH = {
    "found": "before IS NULL",
    "lost": "after IS NULL",
    **{
        f"entered_top_{top}": f"after <= {top} AND (before IS NULL OR before > {top})"
        for top in _TOPS
    },
    **{f"left_top_{top}": f"before <= {top} AND (after IS NULL OR after > {top})" for top in _TOPS},
    "rose": "before - after >= $moved",
    "fell": "after - before >= $moved",
}
"""The kinds of change of a keyword that both reports have, in their order, and the condition for different ranks."""
ChangeKind: TypeAlias = Literal[
    "new",
    "removed",
    "found",
    "lost",
    "entered_top_3",
    "entered_top_10",
    "entered_top_20",
    "left_top_3",
    "left_top_10",
    "left_top_20",
    "rose",
    "fell",
]
KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)
_ORDER = "abs(coalesce(before, 101) - coalesce(after, 101)) DESC, campaign_id, keyword_id, engine NULLS FIRST"
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
    kind: ChangeKind
    kinds: tuple[ChangeKind, ...]
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

    account: str
    before: dt.date
    after: dt.date
    left_out: Mapping[int, str]
    total: int

    def __getitem__(self, index: Any, /) -> Any:
        found = super().__getitem__(index)
        if isinstance(found, Changes):
            vars(found).update(vars(self))
        return found

    def __add__(self, other: list[Any], /) -> Any:
        return ModelList(self, Change) + list(other)


def changes(
    database: str | os.PathLike[str],
    *,
    account: str | None = None,
    before: dt.date | str | None = None,
    after: dt.date | str | None = None,
    campaign: int | None = None,
    group: str | None = None,
    kind: ChangeKind | None = None,
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
        campaign: the id of the only campaign to compare, on its own days; by default every campaign.
        group: the title of a group, in any case, whose campaigns are compared, on their own days.
        kind: only changes of this kind: rose, fell (ranked on both days); found, lost (its rank);
            entered_top_3, left_top_3, likewise 10 and 20; new, removed (the keyword).
        limit: at most this number, the largest; by default all.
        moved: the least number of places by which a keyword rose or fell; by default 3.

    Raises:
        ConfigurationError: an argument is wrong, or the database has no such account, day or campaign, or one day only.
        ExportError: the database is being written, or is damaged.
        ImportError: the extra `duckdb` is missing.
    """
    request = ComparisonRequest.of(
        account=account,
        before=before,
        after=after,
        campaign=campaign,
        group=group,
        kind=kind,
        limit=limit,
        moved=moved,
    )
    with asked(database) as history:
        return compare(history, request)


@attrs.frozen(kw_only=True)
class ComparisonRequest:
    """The checked arguments of `changes`."""

    account: str | None
    before: dt.date | None
    after: dt.date | None
    campaign: int | None
    group: str | None
    kind: ChangeKind | None
    limit: int | None
    moved: int

    @classmethod
    def of(
        cls,
        *,
        account: str | None = None,
        before: dt.date | str | None = None,
        after: dt.date | str | None = None,
        campaign: int | None = None,
        group: str | None = None,
        kind: ChangeKind | None = None,
        limit: int | None = None,
        moved: int = 3,
    ) -> ComparisonRequest:
        """Check the arguments; a wrong one is a ConfigurationError."""
        if kind is not None and kind not in KINDS:
            problem = f"kind must be one of {', '.join(KINDS)}, got {shown(kind)}"
            raise ConfigurationError(problem, argument="kind")
        if group is not None and not isinstance(group, str):
            problem = f"group must be the title of a group, got {shown(group)}"
            raise ConfigurationError(problem, argument="group")
        if campaign is not None and group is not None:
            problem = "campaign=… and group=… can't be combined; give one"
            raise ConfigurationError(problem, argument="group")
        return cls(
            account=account,
            before=None if before is None else check_date("before", before),
            after=None if after is None else check_date("after", after),
            campaign=None if campaign is None else check_id("campaign", campaign),
            group=group,
            kind=kind,
            limit=None if limit is None else check_id("limit", limit),
            moved=check_id("moved", moved),
        )


def compare(history: History, request: ComparisonRequest) -> Changes:
    """Return what changed between two days of an open history; see `changes`."""
    account = history.account(request.account)
    if request.group is not None:
        chosen = Chosen.of(history, account, None, request.group)
    elif request.campaign is not None:
        name = f"campaign {request.campaign}"
        chosen = Chosen(history, account, [request.campaign], name)
    else:
        chosen = Chosen(history, account, None, account)
    warnings = [chosen.repeated_nights()] if request.after is None else []
    days = _days(chosen, request.before, request.after)
    where = "true"
    if request.kind is not None:
        where = f"list_contains(string_split(kinds, ','), '{request.kind}')"
    found = changes_between(
        chosen,
        days,
        unlike_reports(chosen, days),
        where,
        limit=request.limit,
        moved=request.moved,
    )
    warnings.append(chosen.differing_windows(*days))
    for reason in dict.fromkeys(found.left_out.values()):
        ids = [id_ for id_, other in found.left_out.items() if other == reason]
        warnings.append(f"not compared, as {reason}: campaigns {listed(ids)}")
    for warning in filter(None, warnings):
        _log.warning("%s", warning)
    return found


def _days(chosen: Chosen, before: dt.date | None, after: dt.date | None) -> Days:
    """Return the days to compare, or refuse those that are not there."""
    days = chosen.known_days()
    known = f"{chosen.history.label} has rankings of {chosen.name} of {listed(days)}"
    if unknown := [day for day in (before, after) if day is not None and day not in days]:
        raise ConfigurationError(f"no rankings speak of {unknown[0]}: {known}")
    after = after or days[-1]
    before = before or max((day for day in days if day < after), default=None)
    if before is None:
        more = (
            ""
            if len(days) > 1
            else f". {chosen.repeated_nights() or f'To have more, {chosen.more_days}.'}"
        )
        raise ConfigurationError(
            f"there is no day before {after} to compare it with: {known}{more}"
        )
    if before >= after:
        raise ConfigurationError(
            f"before must be a day before {after}, got {before}", argument="before"
        )
    return before, after


def unlike_reports(chosen: Chosen, days: Days) -> dict[int, str]:
    """Return the campaigns of two days, and why each can't be compared; "" if both days have its report."""
    reasons = [
        f"""CASE WHEN count(*) FILTER (as_of = ${day} AND error IS NULL) = 0 THEN coalesce(
            'the report of ' || ${day} || ' failed (' || arg_max(error, snapshot_date) FILTER (as_of = ${day}) || ')',
            'there are no rows of ' || ${day}) END"""
        for day in ("before", "after")
    ]
    query = f"""SELECT campaign_id, concat_ws(' and ', {", ".join(reasons)}) FROM (
            SELECT campaign_id, as_of, snapshot_date, NULL AS error FROM ({COUNTED_REPORTS}) WHERE {CHOSEN}
            UNION ALL SELECT campaign_id, {AS_OF}, snapshot_date, error FROM failures WHERE {CHOSEN}
                AND table_name = 'keyword_rankings' AND campaign_id IS NOT NULL)
        WHERE as_of IN ($before, $after) GROUP BY campaign_id ORDER BY campaign_id"""
    return dict(chosen.execute(query, before=days[0], after=days[1]).fetchall())


def changes_between(
    chosen: Chosen,
    days: Days,
    reasons: Mapping[int, str],
    where: str,
    *,
    limit: int | None,
    moved: int,
) -> Changes:
    """Return the largest changes between two days that meet a condition, of campaigns without a reason against it."""
    compared = attrs.evolve(
        chosen, campaigns=[id_ for id_, reason in reasons.items() if not reason]
    )
    found = Changes((), Change)
    found.account, (found.before, found.after), found.total = chosen.account, days, 0
    found.left_out = {id_: reason for id_, reason in reasons.items() if reason}
    query = (
        f"SELECT count(*) OVER (), * FROM ({_CHANGES}) WHERE {where} ORDER BY {_ORDER} LIMIT $limit"
    )
    rows = compared.execute(query, before=days[0], after=days[1], moved=moved, limit=limit)
    stored: dict[Any, Any] = {}  # values that recur are stored once
    for total, campaign, company, keyword, phrase, location, engine, old, new, url, kinds in iter(
        rows.fetchone, None
    ):
        company, location, engine = (
            stored.setdefault(one, one) for one in (company, location, engine)
        )
        names = stored.get(kinds) or stored.setdefault(kinds, tuple(kinds.split(",")))
        labels = (
            chosen.account,
            campaign,
            company,
            keyword,
            phrase,
            location,
            engine,
            names[0],
            names,
        )
        found.append(Change(*labels, old, new, url, *days))
        found.total = total
    return found


def _rows(day: str) -> str:
    """Return a query for the rows of a day, of the campaigns compared; "not ranked" is null."""
    ranks = ", ".join(f"nullif(greatest({one}_ranking, 0), 0) AS {one}_ranking" for one in ENGINES)
    return (
        f"SELECT * REPLACE ({ranks}) FROM keyword_rankings_by_day WHERE {CHOSEN} AND as_of = {day}"
    )


def _move(engine: str) -> str:
    """Return the struct of an engine's ranks on both days; places have no address."""
    old, new = f"e.{engine}_ranking", f"l.{engine}_ranking"
    url = (
        "NULL"
        if engine == "engine_a_places"
        else f"CASE WHEN {new} IS NULL THEN {old}_url ELSE {new}_url END"
    )
    return f"{{'engine': '{engine}', 'before': {old}, 'after': {new}, 'url': {url}}}"


_KINDS = ", ".join(
    f"CASE WHEN {condition} THEN '{kind}' END" for kind, condition in _KINDS_OF_BOTH.items()
)
_CHANGES = f"""WITH moves AS (
        SELECT campaign_id, keyword_id, e.keyword_id IS NULL AS is_new, l.keyword_id IS NULL AS is_removed,
            coalesce(l.keyword_phrase, e.keyword_phrase) AS phrase,
            coalesce(l.search_location_canonical_name, e.search_location_canonical_name) AS location,
            coalesce({", ".join(f"{day}.{one}_ranking" for one in ENGINES for day in "el")}) AS any_rank,
            unnest([{", ".join(map(_move, ENGINES))}, {{'engine': NULL, 'before': NULL, 'after': NULL, 'url': NULL}}],
                recursive := true)
        FROM ({_rows("$before")}) AS e FULL JOIN ({_rows("$after")}) AS l USING (campaign_id, keyword_id)),
    kinds AS (SELECT *,
            CASE WHEN is_new THEN 'new' WHEN is_removed THEN 'removed' ELSE concat_ws(',', {_KINDS}) END AS kinds
        FROM moves
        WHERE before IS DISTINCT FROM after OR (engine IS NULL AND any_rank IS NULL AND (is_new OR is_removed)))
    SELECT campaign_id, (SELECT max(company) FROM campaigns AS named
            WHERE named.account = $account AND named.campaign_id = kinds.campaign_id) AS company,
        keyword_id, phrase, location, engine, before, after, url, kinds FROM kinds WHERE kinds != ''"""
"""The changes of the campaigns that are compared, in no order; the kinds of each are separated by commas."""
