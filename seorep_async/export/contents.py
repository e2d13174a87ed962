"""What a finished pull holds: the rows of each table, in the order of the campaigns, read from the staging."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import attrs

from seorep_async.errors import ExportError
from seorep_async.export.formats import Columns, Part, Source
from seorep_async.export.pieces import Failure
from seorep_async.export.request import Request
from seorep_async.export.staging import Staging
from seorep_async.models import Feed
from seorep_async.tables.columns import FeedTable, Table, fits
from seorep_async.tables.declared import (
    campaigns_table,
    failures_table,
    keywords_table,
    pulls_table,
    table_of,
    totals_table,
)

_AT_ONCE = 1 << 12


def tables_of(request: Request) -> tuple[Table, ...]:
    """Return the tables of a pull, those of its feeds first."""
    about_keywords = () if request.feeds == (Feed.CAMPAIGN_BY_DATE,) else (keywords_table(),)
    others = (totals_table(), campaigns_table(), *about_keywords, failures_table(), pulls_table())
    return (*map(table_of, request.feeds), *others)


@attrs.frozen
class Contents:
    """The tables of a pull.

    Attributes:
        pull: its row in the table of pulls.
        received: whether anything came: if not, only failures and pulls have rows.
        stop: set to end the reading.
    """

    staging: Staging
    pull: Sequence[Any]
    received: bool
    stop: threading.Event

    @property
    def request(self) -> Request:
        return self.staging.request

    def table(self, table: Table) -> Source:
        """Return one table, as formats take it."""
        parts: Iterable[Part] | None = None
        if isinstance(table, FeedTable) or table in (campaigns_table(), keywords_table()):
            in_rows = table is keywords_table() and not self.staging.has_keywords
            parts = self.staging.parts(table_of(Feed.CAMPAIGN) if in_rows else table) if self.received else ()
        return Source(table, self.request.labels, self._read, parts, self._columns(table))

    def _read(self, piece: tuple[int, int]) -> bytes:
        if self.stop.is_set():
            raise ExportError("the pull was cancelled; run it again to write what is staged")
        return self.staging.read(piece)

    def _columns(self, table: Table) -> Iterator[Columns]:
        """Yield the values of the table's columns, some thousand rows at once."""
        if table is pulls_table():
            yield [[value] for value in self.pull]
            return
        rows = self._failures() if table is failures_table() else self._totals()
        while some := list(islice(rows, _AT_ONCE)):
            yield list(zip(*some, strict=True))

    def _lead(self, table: Table, campaign: int | None, keyword: int | None) -> tuple[Any, ...]:
        request = self.request
        ids = (one if one is not None and fits(one) else None for one in (campaign, keyword))
        return (request.account, request.snapshot_date, table.name, *ids, request.start_date, request.end_date)

    def _totals(self) -> Iterator[tuple[Any, ...]]:
        for feed in self.request.feeds if self.received else ():
            table = table_of(feed)
            for (campaign, *keyword), _, record in self.staging.records(table):
                if record.totals is not None:
                    yield (*self._lead(table, campaign, keyword[0] if keyword else None), *record.totals)

    def _failures(self) -> Iterator[tuple[Any, ...]]:
        for table, campaign, keyword, one in failures_of(self.staging):
            yield (*self._lead(table, campaign, keyword), *one.facts)


def failures_of(staging: Staging) -> Iterator[tuple[Table, int | None, int | None, Failure]]:
    """Yield the reports that are missing: table, campaign, keyword, why; without keyword if none could be found."""
    ids = staging.plan.ids
    for feed in staging.request.feeds:
        table = table_of(feed)
        failed = staging.failures(table)
        if feed is not Feed.KEYWORD_BY_DATE:
            yield from ((table, id_, None, failed[id_]) for id_ in ids if id_ in failed)
        else:
            yield from _missing_keywords(staging, ids, failed)
    for failure in staging.failures(campaigns_table()).values():
        yield campaigns_table(), None, None, failure


def _missing_keywords(
    staging: Staging, ids: Sequence[int], failed: dict[int, Failure]
) -> Iterator[tuple[Table, int | None, int | None, Failure]]:
    table, of_campaigns = table_of(Feed.KEYWORD_BY_DATE), staging.failures(table_of(Feed.CAMPAIGN))
    if not failed and not of_campaigns:
        return
    keywords: dict[int, list[int]] = {}
    for campaign, keyword in staging.keywords():
        if keyword in failed:
            keywords.setdefault(campaign, []).append(keyword)
    for id_ in ids:
        if id_ in of_campaigns:
            yield table, id_, None, of_campaigns[id_]
        yield from ((table, id_, one, failed[one]) for one in sorted(keywords.get(id_, ())))
