"""One feed to a pipe, as text, in the order of the campaigns: nothing is staged, and nothing can be resumed."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, Unpack

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, ExportError, SeoRepError
from seorep_async.export.fetch import check_key, listed
from seorep_async.export.formats import MARK, Text, format_of
from seorep_async.export.pieces import Failure
from seorep_async.export.progress import OnProgress, PullFailure, PullSummary, Stage, Tracker, outcomes_of
from seorep_async.export.request import PullOptions, Request, of_feeds
from seorep_async.export.staging import UNSTORABLE, prepared
from seorep_async.models import Feed
from seorep_async.reports import RankingReport
from seorep_async.tables.output_tables import table_of


async def stream(
    client: SeoRepClient,
    ids: Iterable[int] | None,
    start_date: dt.date | str,
    end_date: dt.date | str,
    *,
    write: Callable[[bytes], Awaitable[object]],
    format: Literal["csv", "jsonl"] = "csv",
    on_progress: OnProgress | None = None,
    **options: Unpack[PullOptions],
) -> PullSummary:
    """Pull one feed, and write it as CSV or JSON lines as it arrives, in the order of the campaigns.

    Totals and failures are not written; the summary has the failures. Nothing is staged, so it can't be resumed.

    Args:
        write: awaited with each part of the text; if it is slow, so is the pull.
        format: `csv` or `jsonl`.
        ids, start_date, end_date, on_progress, options: as `pull_to` takes them; `feeds` names one.

    Raises:
        ConfigurationError: an argument is wrong.
        SeoRepError: the key was refused, or the campaigns could not be listed.
    """
    request = Request.of(client, ids, (start_date, end_date), options)
    found = format_of(f".{format}", excel=request.excel)
    if len(request.feeds) != 1 or not isinstance(found, Text):
        raise ConfigurationError("a stream holds one feed, as csv or jsonl; name a file for more", argument="feeds")
    (feed,), table, tracker = request.feeds, table_of(request.feeds[0]), Tracker(client, on_progress)
    source, campaigns = _Source(client, request, of_feeds(options), tracker), request.campaigns
    if campaigns is None:
        tracker.start(Stage.LISTING, feed)
        campaigns = tuple(one.id for one in request.among(await listed(client, request.filter)))
    owners = {id_: [id_] for id_ in campaigns}
    if feed is Feed.KEYWORD_BY_DATE:
        owners = await source.keywords(owners)
    lead, written = found.lead(table, request.labels), list[tuple[Feed, int, int]]()
    await write(found.header(table))
    tracker.start(Stage.ROWS, feed, len(owners))
    async for report in source.reports(feed, owners):
        try:
            columns = prepared(found, request, feed, [report])
            text, _ = found.encode(table, columns, [len(report.rows)])
        except UNSTORABLE as error:
            source.fail(feed, report.id, owners, ExportError(f"a value can't be written: {error}"))
            continue
        for owner in owners[report.id]:
            written.append((feed, owner, len(report.rows)))
            if text:
                place = (owner, report.id) if feed is Feed.KEYWORD_BY_DATE else (owner,)
                await write(text.replace(MARK, lead % place))
        tracker.advance(1, len(report.rows), 0)
    return tracker.summary(request, outcomes_of(campaigns, written, source.failures))


@attrs.frozen
class _Source:
    """Fetches the reports of a request, in the order of their `owners`: the campaigns of each."""

    client: SeoRepClient
    request: Request
    options: Any
    tracker: Tracker
    failures: list[PullFailure] = attrs.field(factory=list, init=False)

    async def keywords(self, owners: Mapping[int, list[int]]) -> dict[int, list[int]]:
        """Return the campaigns of each of their keywords."""
        found: dict[int, list[int]] = {}
        self.tracker.start(Stage.KEYWORDS, Feed.KEYWORD_BY_DATE, len(owners))
        async for report in self.reports(Feed.CAMPAIGN, owners):
            for row in report.rows:
                found.setdefault(row.keyword_id, []).append(report.id)
            self.tracker.advance(1, 0, 0)
        return found

    async def reports(self, feed: Feed, owners: Mapping[int, list[int]]) -> AsyncIterator[RankingReport[Any]]:
        dates = self.request.start_date, self.request.end_date
        async with self.client.rankings.pull(owners, *dates, feed=feed, ordered=True, **self.options) as outcomes:
            async for outcome in outcomes:
                check_key(outcomes, outcome)
                if outcome.report is not None:
                    yield outcome.report
                elif outcome.error is not None:
                    self.fail(feed, outcome.id, owners, outcome.error)

    def fail(self, feed: Feed, id_: int, owners: Mapping[int, list[int]], error: SeoRepError) -> None:
        facts = Failure.of(id_, error).facts
        keyword = id_ if feed is Feed.KEYWORD_BY_DATE else None
        self.failures.extend(PullFailure(self.request.feeds[0], owner, keyword, *facts) for owner in owners[id_])
        self.tracker.advance(0, 0, 1)
