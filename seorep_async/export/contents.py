"""The contents of a finished target: its tables, and the rows of each in chunks that suit the target's format."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import attrs

from seorep_async.errors import SeoRepError
from seorep_async.export.checkpoint import CAMPAIGNS, fits
from seorep_async.export.formats import GROUP_ROWS, arrow_tables, encode, prepare
from seorep_async.export.progress import CampaignOutcome, any_received
from seorep_async.export.spec import PullSpec
from seorep_async.export.staging_area import StagingArea
from seorep_async.models import Feed
from seorep_async.session import Stats
from seorep_async.tables.arrow import record_batch
from seorep_async.tables.columns import Table, Values
from seorep_async.tables.declared import failures_table, keywords_table, pulls_table, table_of, totals_table
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


@attrs.frozen
class Contents:
    """The fetched reports of a pull, for writers of every format; `names_error` is why campaign names are missing."""

    area: StagingArea
    outcomes: Sequence[CampaignOutcome]
    stats: Stats
    names_error: SeoRepError | None

    def chunks(self, table: Table) -> Iterator[Any]:
        """Yield the rows of a table, in the order of the campaigns: bytes for a text format, else Arrow tables."""
        kind = self.area.format
        computed = {totals_table(): self._totals, failures_table(): self._failures, pulls_table(): self._pulls}
        if table in computed:
            rows = iter(computed[table]())
            while some := list(itertools.islice(rows, GROUP_ROWS)):
                if kind.is_text:
                    csv = self.area.spec.csv
                    (prepared,) = prepare(kind, table, [list(zip(*some, strict=True))], csv)
                    yield encode(kind, table, prepared, csv)
                else:
                    yield arrow_table(table, some)
            return
        if not any_received(self.outcomes):
            return
        if kind.is_text:
            yield from (report.data for report in self.area.checkpoint.reports(table.name) if report.data)
            return
        in_rows = table is keywords_table() and Feed.CAMPAIGN in self.area.spec.feeds
        staged = table_of(Feed.CAMPAIGN) if in_rows else table
        yield from arrow_tables(table, self.area.checkpoint.reports(staged.name), staged)

    def _totals(self) -> Iterator[Values]:
        spec = self.area.spec
        for feed in spec.feeds:
            name = table_of(feed).name
            for report in self.area.checkpoint.reports(name, with_totals=True):
                keyword_id = report.id if feed is Feed.KEYWORD_BY_DATE else None
                totals = json.loads(report.totals or "[]")
                yield (*self._lead(name, report.campaign_id, keyword_id), *totals)

    def _failures(self) -> Iterator[Values]:
        failures = [failure for outcome in self.outcomes for failure in outcome.failures]
        order = {feed: number for number, feed in enumerate(Feed)}
        for one in sorted(failures, key=lambda failure: order[failure.feed]):
            yield (*self._lead(table_of(one.feed).name, one.campaign_id, one.keyword_id), *_about_error(one.error))
        if self.names_error is not None:
            yield (*self._lead(CAMPAIGNS, None, None), *_about_error(self.names_error))

    def _lead(self, table: str, campaign_id: int | None, keyword_id: int | None) -> Values:
        spec = self.area.spec
        ids = (one if one is not None and fits(one) else None for one in (campaign_id, keyword_id))
        return (spec.account, spec.snapshot_date, table, *ids, spec.start_date, spec.end_date)

    def _pulls(self) -> Iterable[Values]:
        yield pull_row(self.area.spec, self.outcomes, self.stats.attempts, self.stats)


def arrow_table(table: Table, rows: Sequence[Values]) -> pa.Table:
    """Return rows of a table as an Arrow table."""
    return require("pyarrow").Table.from_batches([record_batch(table, list(zip(*rows, strict=True)))])


def pull_row(spec: PullSpec, outcomes: Sequence[CampaignOutcome], requests: int, stats: Stats | None = None) -> Values:
    """Return a pull's row in the table of pulls; `stats` are what its client did for it, if known."""
    return (
        spec.account,
        spec.snapshot_date,
        spec.started_at,
        spec.service,
        ",".join(feed.value for feed in spec.feeds),
        spec.start_date,
        spec.end_date,
        len(outcomes),
        spec.selection,
        sum(sum(outcome.rows.values()) for outcome in outcomes),
        requests,
        *(({}, None, {}) if stats is None else (stats.retries, stats.throttled, _rounded(stats.waited))),
        sum(len(outcome.failures) for outcome in outcomes),
        spec.compares,
        version("seorep-async"),
        spec.key_digest(),
    )


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {reason: round(one, 3) for reason, one in seconds.items()}


def _about_error(error: SeoRepError) -> Values:
    return (type(error).__name__, error.message, error.status, error.attempts)
