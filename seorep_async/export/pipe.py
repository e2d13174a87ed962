"""One feed to a pipe, as text, in the order of the campaigns: nothing is staged, and nothing can be resumed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.errors import ExportError, SeoRepError
from seorep_async.export.fetch import check_key, listed
from seorep_async.export.formats import MARK, Text
from seorep_async.export.pieces import Failure
from seorep_async.export.progress import CampaignOutcome, PullFailure, Stage, Tracker, combined
from seorep_async.export.request import Request
from seorep_async.export.staging import UNSTORABLE
from seorep_async.models import Feed
from seorep_async.reports import RankingReport
from seorep_async.tables.declared import table_of


@attrs.frozen
class Pipe:
    """Where the rows of a request go; a slow `write` slows the pull."""

    client: SeoRepClient
    request: Request
    options: Any
    format: Text
    write: Callable[[bytes], Awaitable[object]]
    tracker: Tracker
    _failures: list[PullFailure] = attrs.field(factory=list, init=False)
    _rows: dict[int, dict[Feed, int]] = attrs.field(factory=dict, init=False)

    async def run(self) -> tuple[CampaignOutcome, ...]:
        """Write the rows, and return an outcome for each campaign."""
        (feed,), table = self.request.feeds, table_of(self.request.feeds[0])
        ids: Sequence[int] | None = self.request.campaigns
        if ids is None:
            self.tracker.start(Stage.LISTING, feed)
            ids = [one.id for one in self.request.among(await listed(self.client, self.request.filter))]
        owners = {id_: [id_] for id_ in ids}
        if feed is Feed.KEYWORD_BY_DATE:
            owners = await self._keywords(ids)
        lead = self.format.lead(table, self.request.labels)
        await self.write(self.format.header(table))
        self.tracker.start(Stage.ROWS, feed, len(owners))
        async for report in self._reports(feed, list(owners), owners):
            try:
                text = self._text(feed, report)
            except UNSTORABLE as error:
                self._fail(feed, report.id, owners, ExportError(f"a value can't be written: {error}"))
                continue
            for owner in owners[report.id]:
                place = (owner, report.id) if feed is Feed.KEYWORD_BY_DATE else (owner,)
                rows = self._rows.setdefault(owner, {})
                rows[feed] = rows.get(feed, 0) + len(report.rows)
                if text:
                    await self.write(text.replace(MARK, lead % place))
            self.tracker.advance(1, len(report.rows), 0)
        return combined(ids, self._rows, self._failures)

    def _text(self, feed: Feed, report: RankingReport[Any]) -> bytes:
        table = table_of(feed)
        columns = table.column_values(report.rows, (None,) * table.lead, compared=self.request.compared)
        prepared = self.format.prepare(table, columns[table.lead :])
        return self.format.encode(table, prepared, [len(report.rows)])[0]

    async def _keywords(self, ids: Sequence[int]) -> dict[int, list[int]]:
        """Return the keywords of the campaigns, in their order, and the campaigns of each."""
        owners: dict[int, list[int]] = {}
        self.tracker.start(Stage.KEYWORDS, Feed.KEYWORD_BY_DATE, len(ids))
        async for report in self._reports(Feed.CAMPAIGN, ids, {id_: [id_] for id_ in ids}):
            for keyword in dict.fromkeys(row.keyword_id for row in report.rows):
                owners.setdefault(keyword, []).append(report.id)
            self.tracker.advance(1, 0, 0)
        return owners

    async def _reports(
        self, feed: Feed, ids: Sequence[int], owners: dict[int, list[int]]
    ) -> AsyncIterator[RankingReport[Any]]:
        dates = self.request.start_date, self.request.end_date
        async with self.client.rankings.pull(ids, *dates, feed=feed, ordered=True, **self.options) as outcomes:
            async for outcome in outcomes:
                check_key(outcomes, outcome)
                if outcome.report is not None:
                    yield outcome.report
                elif outcome.error is not None:
                    self._fail(feed, outcome.id, owners, outcome.error)

    def _fail(self, feed: Feed, id_: int, owners: dict[int, list[int]], error: SeoRepError) -> None:
        facts = Failure.of(id_, error).facts
        keyword = id_ if feed is Feed.KEYWORD_BY_DATE else None
        self._failures.extend(PullFailure(self.request.feeds[0], owner, keyword, *facts) for owner in owners[id_])
        self.tracker.advance(0, 0, 1)
