"""What changed between two nights: keywords that entered or left the top, rose or fell, are new, lost or found."""

from __future__ import annotations

import datetime as dt
import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any, final

import attrs

from seorep_async.errors import ConfigurationError
from seorep_async.history.source import History, listed, open_rankings
from seorep_async.models.gc_untracked import gc_untracked_struct
from seorep_async.resources.arguments import check_date, check_id
from seorep_async.tables.tabular import ModelList

_log = logging.getLogger("seorep_async")
_BATCH = 10_000
_URLS = {
    "engine_a": "engine_a_ranking_url",
    "engine_a_mobile": "engine_a_mobile_ranking_url",
    "engine_a_places": "",
    "engine_b": "engine_b_ranking_url",
}
"""The engines, and the column of the address that is ranked; places have none."""
_TOPS = (3, 10, 20)
_KINDS = {
    "found": "before IS NULL",
    "lost": "after IS NULL",
    "rose": "before - after >= $moved",
    "fell": "after - before >= $moved",
    **{f"entered_top_{top}": f"after <= {top} AND (before IS NULL OR before > {top})" for top in _TOPS},
    **{f"left_top_{top}": f"before <= {top} AND (after IS NULL OR after > {top})" for top in _TOPS},
}
"""The kinds of change of a keyword that both reports have, in their order, and the condition for different ranks."""
_REPORT = ("campaign_id", "snapshot_date", "start_date", "end_date")


@final
@gc_untracked_struct
@attrs.frozen(weakref_slot=False)
class Change:
    """One change of a keyword's rank in one engine between two nights.

    A rank of 0 or null is "not ranked"; both are None here. The rank of a night is that of the campaign's report of
    that night: of several windows, the one that ends last; of several of these, the longest.

    Attributes:
        kind: `new` or `removed`: only the later or only the earlier report has the keyword, as after it was created or
            deleted, or moved to another campaign. A row for each engine in which it is ranked; if there is none, a
            single row without an engine.
            `found` or `lost`: it is ranked in the later or in the earlier report alone, and in both reports.
            `rose` or `fell`: by `moved` places or more; it is ranked in both.
            `entered_top_3`, `entered_top_10`, `entered_top_20`: its rank is at most this, and was greater, or none.
            `left_top_3`, `left_top_10`, `left_top_20`: the other way round.
            A keyword that was found, lost, rose or fell can have further rows, of the tops that it entered or left.
        engine: `engine_a`, `engine_a_mobile`, `engine_a_places` or `engine_b`; None if the keyword has no rank.
        before: the earlier rank, from 1, or None.
        after: the later rank, from 1, or None.
        url: the ranked address, of the later report if it is ranked there; None for places, for which there is none.
        company: of the campaign, as it was last pulled; None if the campaigns could not be listed.
        keyword_phrase: as in the later report that has it; likewise `location`, its canonical name.
        before_date: the earlier night.
        after_date: the later night.
    """

    account: str
    campaign_id: int
    company: str | None
    keyword_id: int
    keyword_phrase: str
    location: str | None
    engine: str | None
    kind: str
    before: int | None
    after: int | None
    url: str | None
    before_date: dt.date
    after_date: dt.date


class Changes(ModelList[Change]):
    """The changes between two nights, by campaign, keyword, engine and kind; also a table.

    Attributes:
        account: whose they are.
        before: the earlier night.
        after: the later night.
        left_out: campaigns that were not compared, and why: the report failed on one of the nights, or has no rows.
    """

    __slots__ = ("account", "after", "before", "left_out")

    def __init__(self, account: str, before: dt.date, after: dt.date, left_out: Mapping[int, str]) -> None:
        super().__init__((), Change)
        self.account, self.before, self.after, self.left_out = account, before, after, left_out


def changes(
    source: str | os.PathLike[str],
    *,
    account: str | None = None,
    before: dt.date | str | None = None,
    after: dt.date | str | None = None,
    moved: int = 3,
    storage_options: Mapping[str, Any] | None = None,
) -> Changes:
    """Return what changed between two nights of a database or a dataset.

    Ranks are compared, never the sign of a `..._change`. A campaign is compared only if both nights have its report:
    those that failed, or have no rows, as they were not requested, are new or were deleted, are in `left_out`.

    Args:
        source: a file, such as `rankings.duckdb`, or a dataset: a folder, or an address such as `s3://bucket/rankings/`.
        account: the name of the account; None if there is one only.
        before: the earlier night; None is the last one before `after`.
        after: the later night; None is the last one.
        moved: the least number of places by which a keyword rose or fell.
        storage_options: of an object store, by obstore's names.

    Raises:
        ConfigurationError: no pull wrote the source, or it has no such account or night, or one night only.
        ExportError: the source is being written, or is damaged.
        ImportError: the extra `duckdb` is missing.
    """
    first, last = (
        None if one is None else check_date(name, one) for name, one in (("before", before), ("after", after))
    )
    moved = check_id("moved", moved)
    with open_rankings(source, storage_options=storage_options) as history:
        account = history.account(account)
        first, last = _nights(history, account, first, last)
        history.choose(account, (first, last))
        values = {"account": account, "before": first, "after": last}
        reports = history.connection.execute(REPORTS, values).fetchall()
        found = Changes(account, first, last, _left_out(reports, first, last))
        rows = history.connection.execute(CHANGES, {**values, "moved": moved})
        texts: dict[Any, Any] = {}
        while some := rows.fetchmany(_BATCH):
            found += [change for row in some for change in _one_each(account, row, (first, last), texts)]
    found.sort(key=lambda one: (one.campaign_id, one.keyword_id, one.engine or ""))
    for reason in sorted({*found.left_out.values()}):
        left_out = [str(one) for one, other in found.left_out.items() if other == reason]
        _log.warning("not compared, as %s: campaigns %s", reason, listed(left_out))
    return found


def _nights(history: History, account: str, before: dt.date | None, after: dt.date | None) -> tuple[dt.date, dt.date]:
    """Return the nights to compare, or refuse those that are not there."""
    nights = history.nights(account)
    known = history.known_nights(account, nights)
    for night in (before, after):
        if night is not None and night not in nights:
            raise ConfigurationError(f"there is no night {night}: {known}")
    after = after or max(nights, default=dt.date.min)
    before = before or max((night for night in nights if night < after), default=None)
    if before is None:
        which = f"before {after} " if after in nights else ""
        raise ConfigurationError(f"there is no night {which}to compare: {known}")
    if before >= after:
        raise ConfigurationError(f"before must be a night before {after}, got {before}", argument="before")
    return before, after


def _one_each(
    account: str, row: tuple[Any, ...], nights: tuple[dt.date, dt.date], texts: dict[Any, Any]
) -> Iterator[Change]:
    """Yield each change of a row of the comparison; texts that recur are stored once."""
    campaign, company, keyword, phrase, location, engine, kinds, before, after, url = row
    company, location, engine = (texts.setdefault(one, one) for one in (company, location, engine))
    for kind in kinds.split(","):
        kind = texts.setdefault(kind, kind)
        yield Change(account, campaign, company, keyword, phrase, location, engine, kind, before, after, url, *nights)


def _left_out(reports: list[tuple[int, dt.date, bool]], before: dt.date, after: dt.date) -> dict[int, str]:
    """Return the campaigns that can't be compared, and the reason, from the reports of both nights."""
    found: dict[int, dict[dt.date, bool]] = {}
    for campaign, night, has_rows in reports:
        found.setdefault(campaign, {})[night] = has_rows
    left_out = {}
    for campaign, nights in found.items():
        failed = [night for night, has_rows in nights.items() if not has_rows]
        absent = [night for night in (before, after) if night not in nights]
        if failed or absent:
            reasons = [f"the report of {night} failed" for night in failed]
            left_out[campaign] = " and ".join([*reasons, *(f"there are no rows of {night}" for night in absent)])
    return left_out


def _reports() -> str:
    """Return the relation of each campaign's report of each night: of the window that ends last, or its failure."""
    columns, whose = ", ".join(_REPORT), "WHERE account = $account AND snapshot_date"
    ranked = f"SELECT {columns}, TRUE AS has_rows FROM keyword_rankings {whose}"
    failed = f"SELECT {columns}, FALSE FROM failures {whose} IN ($before, $after) AND table_name = 'keyword_rankings'"
    found = f"{ranked} = $before UNION {ranked} = $after UNION {failed}"
    order = "ORDER BY end_date DESC, start_date, has_rows DESC"
    last = f"row_number() OVER (PARTITION BY campaign_id, snapshot_date {order}) = 1"
    return f"reports AS (SELECT * FROM ({found}) WHERE campaign_id IS NOT NULL QUALIFY {last})"


def _rankings(columns: str, night: str) -> str:
    """Return a query for the rows of a night, of the reports that are compared."""
    same = " AND ".join(f"k.{name} = c.{name}" for name in _REPORT)
    rows = f"keyword_rankings k SEMI JOIN compared c ON {same}"
    return f"SELECT campaign_id, keyword_id, {columns} FROM {rows} WHERE account = $account AND snapshot_date = {night}"


def _ranks(night: str) -> str:
    ranks = [f"CASE WHEN {one}_ranking > 0 THEN {one}_ranking END AS {night}_{one}" for one in _URLS]
    return ", ".join([f"TRUE AS {night}_in", *ranks])


def _moves() -> str:
    """Return a query for ranks that differ, a row for each engine, and one for keywords that come or go unranked."""
    head = "SELECT campaign_id, keyword_id, before_in IS NULL AS is_new, after_in IS NULL AS is_removed"
    moves = [
        f"{head}, '{one}' AS engine, before_{one} AS before, after_{one} AS after "
        f"FROM pairs WHERE before_{one} IS DISTINCT FROM after_{one}"
        for one in _URLS
    ]
    no_rank = " AND ".join(f"before_{one} IS NULL AND after_{one} IS NULL" for one in _URLS)
    unranked = f"{head}, NULL, NULL, NULL FROM pairs WHERE (before_in IS NULL OR after_in IS NULL) AND {no_rank}"
    return " UNION ALL ".join([*moves, unranked])


REPORTS = f"WITH {_reports()} SELECT campaign_id, snapshot_date, has_rows FROM reports ORDER BY ALL"
"""The reports of both nights: campaign, night, and whether there are rows, or else it failed."""
_DIFFERENT = " OR ".join(f"before_{one} IS DISTINCT FROM after_{one}" for one in (*_URLS, "in"))
_OF_BOTH = ", ".join(f"CASE WHEN {condition} THEN '{kind}' END" for kind, condition in _KINDS.items())
_KINDS_OF = f"CASE WHEN is_new THEN 'new' WHEN is_removed THEN 'removed' ELSE concat_ws(',', {_OF_BOTH}) END"
_URL = " ".join(f"WHEN '{engine}' THEN {url}" for engine, url in _URLS.items() if url)
_DETAILS = f"snapshot_date, keyword_phrase, search_location_canonical_name, {', '.join(filter(None, _URLS.values()))}"
CHANGES = f"""WITH {_reports()},
    compared AS (SELECT * FROM reports WHERE has_rows QUALIFY count(*) OVER (PARTITION BY campaign_id) = 2),
    earlier AS ({_rankings(_ranks("before"), "$before")}),
    later AS ({_rankings(_ranks("after"), "$after")}),
    pairs AS MATERIALIZED (FROM earlier FULL JOIN later USING (campaign_id, keyword_id) WHERE {_DIFFERENT}),
    moves AS ({_moves()}),
    kinds AS (
        SELECT *, {_KINDS_OF} AS kinds, CASE WHEN is_new OR after IS NOT NULL THEN $after ELSE $before END AS night
        FROM moves WHERE kinds != ''),
    details AS ({_rankings(_DETAILS, "$before")} UNION ALL {_rankings(_DETAILS, "$after")})
    SELECT m.campaign_id, company, m.keyword_id, keyword_phrase, search_location_canonical_name, engine, kinds, before,
        after, CASE engine {_URL} END
    FROM details d
    JOIN kinds m ON d.campaign_id = m.campaign_id AND d.keyword_id = m.keyword_id AND d.snapshot_date = m.night
    LEFT JOIN (SELECT campaign_id, max(company) AS company FROM campaigns WHERE account = $account GROUP BY 1) c
        ON c.campaign_id = m.campaign_id
"""
"""The changes between two nights of an account, in no order: the columns of `Change` from `campaign_id` to `url`.

All kinds of a keyword in an engine are in one row, separated by commas.
"""
