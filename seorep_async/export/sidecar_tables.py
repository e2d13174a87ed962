"""The rows of the two tables beside the feeds': totals, and failures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from seorep_async.export.formats import fits
from seorep_async.export.job import ExportJob
from seorep_async.export.journal import Journal
from seorep_async.export.progress import PullFailure
from seorep_async.models import Feed
from seorep_async.tables.columns import Values, table_of


def totals_rows(job: ExportJob, journal: Journal, feed: Feed) -> Iterator[Values]:
    """Give a row for each of a feed's reports that has totals, in the order of the campaigns and their keywords."""
    name = table_of(feed).name
    for unit in journal.done(feed):
        if unit.totals is not None:
            keyword_id = unit.id if feed is Feed.KEYWORD_BY_DATE else None
            yield (
                name,
                unit.campaign_id,
                keyword_id,
                job.start_date,
                job.end_date,
                *json.loads(unit.totals),
            )


def failure_rows(job: ExportJob, failures: Iterable[PullFailure]) -> Iterator[Values]:
    """Give a row for each failure; an id of more than 64 bits is told in the message only."""
    for failure in failures:
        error = failure.error
        yield (
            table_of(failure.feed).name,
            failure.campaign_id if fits(failure.campaign_id) else None,
            failure.keyword_id if failure.keyword_id is not None and fits(failure.keyword_id) else None,
            job.start_date,
            job.end_date,
            type(error).__name__,
            error.message,
            error.status,
            error.attempts,
        )
