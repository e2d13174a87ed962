"""Reports as Arrow tables, data frames and HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from seorep_async.errors import ConfigurationError, SeoRepError
from seorep_async.models.arrow_tables import arrow_schema, record_batch
from seorep_async.models.columns import Unit, Values, table_of
from seorep_async.models.optional import need
from seorep_async.models.rankings import Feed, RankingReport

if TYPE_CHECKING:
    from typing import TypeAlias

    import pandas as pd  # type: ignore[import-untyped]
    import polars as pl
    import pyarrow as pa  # type: ignore[import-untyped]

    Reports: TypeAlias = RankingReport[Any] | Iterable[RankingReport[Any] | "Outcome"]

_HTML_ROWS = 10


class Outcome(Protocol):
    """What a pull gives for each id: a report, or why there is none."""

    @property
    def id(self) -> int:
        """The id that was asked for."""

    @property
    def report(self) -> RankingReport[Any] | None:
        """The report, or None if it failed."""

    @property
    def error(self) -> SeoRepError | None:
        """Why it failed, or None if it did not."""


def to_arrow(reports: Reports, *, feed: Feed | None = None) -> pa.Table:
    """Return the rows of reports as one Arrow table, with the columns of an exported file (see `schema`).

    Args:
        reports: a report, or several of one feed, or outcomes of a pull.
        feed: which feed, needed only where there may be no report at all.

    Returns:
        A `pyarrow.Table`; in a keyword's report the `campaign_id` is null, as it is not known.

    Raises:
        ImportError: pyarrow is missing; the message says how to get it.
        SeoRepError: an outcome's own error, if it failed: rows are not left out in silence.
        ConfigurationError: the reports are of different feeds, or there is none and `feed` was not given.
        OverflowError: an integer needs more than 64 bits.
    """
    pa = need("pyarrow")
    batches = []
    for report in _reports(reports):
        feed = feed or report.feed
        if report.feed is not feed:
            raise ConfigurationError(f"reports of one feed make one table; these are {feed} and {report.feed}")
        table = table_of(feed)
        batches.append(record_batch(table, table.columns_of(Unit(report.campaign_id, report))))
    if feed is None:
        raise ConfigurationError("there is no report; say which feed's columns an empty table should have: feed=…")
    return pa.Table.from_batches(batches, schema=arrow_schema(table_of(feed)))


def to_pandas(reports: Reports, *, feed: Feed | None = None) -> pd.DataFrame:
    """Return the rows of reports as a pandas data frame, each column of its own Arrow type, integers with gaps too.

    Args: as `to_arrow`.

    Raises:
        ImportError: pandas or pyarrow is missing; the message says how to get it.
    """
    pd = need("pandas")
    # without the metadata: it asks for pandas' own types, which is right for files only
    return to_arrow(reports, feed=feed).replace_schema_metadata().to_pandas(types_mapper=pd.ArrowDtype)


def to_polars(reports: Reports, *, feed: Feed | None = None) -> pl.DataFrame:
    """Return the rows of reports as a polars data frame.

    Args: as `to_arrow`.

    Raises:
        ImportError: polars or pyarrow is missing; the message says how to get it.
    """
    frame: pl.DataFrame = need("polars").from_arrow(to_arrow(reports, feed=feed))
    return frame


def arrow_stream(reports: Reports, requested_schema: object = None) -> object:
    """Return the rows of reports as an Arrow C stream: what `__arrow_c_stream__` gives to whoever takes Arrow.

    Args:
        reports: as `to_arrow`.
        requested_schema: an Arrow C schema to cast to, or None.

    Raises:
        ImportError: pyarrow is missing; the message says how to get it.
    """
    stream: object = to_arrow(reports).__arrow_c_stream__(requested_schema)
    return stream


def schema(feed: Feed) -> pa.Schema:
    """Return the Arrow schema of a feed's table, in memory and in files.

    Raises:
        ImportError: pyarrow is missing; the message says how to get it.
    """
    return arrow_schema(table_of(feed))


def to_html(report: RankingReport[Any]) -> str:
    """Return the first rows of a report as a small HTML table for notebooks, without columns that are empty."""
    table = table_of(report.feed)
    lead = 4 if report.feed is Feed.KEYWORD_BY_DATE else 3
    rows = [values for values, _ in zip(table.rows(Unit(report.campaign_id, report)), range(_HTML_ROWS), strict=False)]
    shown = [
        (place, column.name)
        for place, column in enumerate(table.columns)
        if place >= lead and any(row[place] not in (None, (), {}) for row in rows)
    ]
    noun = "keyword" if report.feed is Feed.KEYWORD_BY_DATE else "campaign"
    caption = f"{report.feed.value} feed, {noun} {report.id}, {report.start_date} to {report.end_date}"
    more = f", the first {len(rows)} shown" if len(rows) < len(report.rows) else ""
    head = "".join(f"<th>{html.escape(name)}</th>" for _, name in shown)
    body = "".join(f"<tr>{_cells(row, [place for place, _ in shown])}</tr>" for row in rows)
    return (
        f"<table><caption>{html.escape(caption)}: {len(report.rows):,} rows{more}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cells(row: Values, places: Sequence[int]) -> str:
    texts = (_text(row[place]) for place in places)
    return "".join(f"<td>{html.escape(text)}</td>" for text in texts)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ", ".join(tag.label for tag in value)
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _reports(reports: Reports) -> Iterator[RankingReport[Any]]:
    for one in [reports] if isinstance(reports, RankingReport) else reports:
        if isinstance(one, RankingReport):
            yield one
        elif one.report is None:
            raise one.error or ConfigurationError(f"the outcome of {one.id} holds neither report nor error")
        else:
            yield one.report
