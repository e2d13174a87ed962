"""What a finished pull holds: the rows of each table, in the order of the campaigns, read from the staging."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import attrs

from seorep_async.errors import ExportError
from seorep_async.export.formats import Report, Source
from seorep_async.export.pieces import Failure
from seorep_async.export.request import Request
from seorep_async.export.staging import Staging
from seorep_async.models import Feed
from seorep_async.tables.columns import Columns, Table, fits
from seorep_async.tables.output_tables import campaigns_table, failures_table, pulls_table, table_of, totals_table

_AT_ONCE = 1 << 12


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
        columns: Iterable[Columns] = ()
        reports: Iterable[Report] = ()
        if table is pulls_table():
            columns = [[[value] for value in self.pull]]
        elif table is failures_table():
            columns = _in_columns(
                (*self._lead(of, campaign, keyword), *one.facts)
                for of, campaign, keyword, one in failures_of(self.staging)
            )
        elif self.received and table is totals_table():
            columns = _in_columns(self._totals())
        elif self.received:
            reports = self.staging.records(table)
        return Source(table, self.request.labels, columns, reports, self._read)

    def _read(self, block: int, piece: int) -> bytes:
        if self.stop.is_set():
            raise ExportError("the pull was cancelled; run it again to write what is staged")
        return self.staging.file.read(block, piece)

    def _totals(self) -> Iterator[tuple[Any, ...]]:
        for table in map(table_of, self.request.feeds):
            for (campaign, *keyword), _, record in self.staging.records(table):
                if record.totals is not None:
                    yield (*self._lead(table, campaign, next(iter(keyword), None)), *record.totals)

    def _lead(self, table: Table, campaign: int | None, keyword: int | None) -> tuple[Any, ...]:
        request = self.request
        ids = (one if one is not None and fits(one) else None for one in (campaign, keyword))
        return (request.account, request.snapshot_date, table.name, *ids, request.start_date, request.end_date)


def _in_columns(rows: Iterator[tuple[Any, ...]]) -> Iterator[Columns]:
    """Yield the values of columns, some thousand rows at once."""
    while some := list(islice(rows, _AT_ONCE)):
        yield list(zip(*some, strict=True))


def failures_of(staging: Staging) -> Iterator[tuple[Table, int | None, int | None, Failure]]:
    """Yield the reports that are missing: table, campaign, keyword, why; without keyword if none could be found."""
    ids, of_campaigns = staging.plan.ids, staging.failures(table_of(Feed.CAMPAIGN))
    for table in map(table_of, staging.request.feeds):
        failed, keywords = staging.failures(table), defaultdict[int, list[int]](list)
        if table.feed is not Feed.KEYWORD_BY_DATE:
            yield from ((table, id_, None, failed[id_]) for id_ in ids if id_ in failed)
        elif failed or of_campaigns:
            for campaign, keyword in staging.keywords():
                if keyword in failed:
                    keywords[campaign].append(keyword)
            for id_ in ids:
                if id_ in of_campaigns:
                    yield table, id_, None, of_campaigns[id_]
                yield from ((table, id_, one, failed[one]) for one in sorted(keywords[id_]))
    for failure in staging.failures(campaigns_table()).values():
        yield campaigns_table(), None, None, failure
