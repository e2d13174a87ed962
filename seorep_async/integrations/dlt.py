"""The tables of the feeds as a source of dlt (extra `dlt`), merged by their keys.

See `seorep guide engines`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from seorep_async.errors import ConfigurationError, SeoRepError, counted
from seorep_async.integrations.engines import pull_table, table_schema
from seorep_async.models import Feed
from seorep_async.resources.arguments import (
    Date,
    check_count,
    check_feeds,
    check_ids,
    names_unknown_arguments,
)
from seorep_async.resources.rankings import FeedOptions, FeedValue, feed_params
from seorep_async.settings import Settings
from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.columns import Column, ColumnType, Table, as_json
from seorep_async.tables.optional import require
from seorep_async.tables.output_tables import failures_table, table_of

if TYPE_CHECKING:
    import pyarrow as pa
    from dlt.sources import DltSource

_MERGE = {"disposition": "merge", "strategy": "upsert"}
_JSON_TYPES = (ColumnType.TAGS, ColumnType.FIELDS, ColumnType.ANY)
_KEY_OF_FAILURES = (
    "account",
    "snapshot_date",
    "campaign_id",
    "keyword_id",
    "start_date",
    "end_date",
)
"""The columns that identify a failed report of a table."""

_ROW_ID = Column(
    "row_id",
    ColumnType.STRING,
    "Table and key of the failed report, as JSON. It is the key, because keyword_id may be null.",
    nullable=False,
)


def dlt_source(
    ids: Iterable[int],
    start_date: Date,
    end_date: Date,
    *,
    feeds: Iterable[Feed | FeedValue] = (Feed.CAMPAIGN,),
    size: int = 50,
    snapshot_date: Date | None = None,
    account: str | None = None,
    base_url: str | None = None,
    api_key_env: str = "SEOREP_API_KEY",
    settings: Settings = Settings(),  # noqa: B008  # immutable
    **options: Unpack[FeedOptions],
) -> DltSource:
    """Return a source with a resource for each feed. Rows are merged by the table's key.

    A failed report becomes a row of the table `failures`, and its earlier rows stay. Warnings
    give the number of failures. The run fails if a feed gives no rows because of failures.

    Args:
        ids: campaign ids.
        start_date: first day; see `pull_table` for this and all other arguments.
        end_date: last day.
        feeds: the feeds, or their values. For `Feed.KEYWORD_BY_DATE`, every keyword of the
            campaigns is pulled.
        size: the number of campaigns in memory at once, at least 1.

    Raises:
        ConfigurationError: an argument is wrong; nothing was sent. As the cause of a failed run:
            the destination is a filesystem, and `table_format` was not given.
        SeoRepError: as the cause of a failed run: a feed gave no rows because of failures, or the
            key was refused.
        ImportError: the extra `dlt` is missing.
    """
    dlt = require("dlt")
    campaign_ids = list(check_ids("campaign", ids))
    size = check_count("size", size)
    parts = [campaign_ids[start : start + size] for start in range(0, len(campaign_ids), size)]
    arguments: dict[str, Any] = {
        **options,
        "start_date": start_date,
        "end_date": end_date,
        "snapshot_date": snapshot_date,
        "account": account,
        "base_url": base_url,
        "api_key_env": api_key_env,
        "settings": settings,
    }
    resources = []
    for feed in check_feeds(feeds):
        feed_params(feed, options)
        # without ids, `pull_table` only checks the other arguments
        pull_table((), feed=feed, on_error="rows", **arguments)
        pull = partial(pull_table, feed=feed, on_error="rows", **arguments)
        # no columns here, because the table of failures would inherit them; each item has its hints
        resource = dlt.resource(
            _items(feed, pull, parts), name=table_of(feed).name, write_disposition=_MERGE
        )
        resources.append(resource)
    return dlt.source(lambda: resources, name="seorep")()


# type checkers must see the undecorated signature
if not TYPE_CHECKING:
    dlt_source = names_unknown_arguments(dlt_source, FeedOptions.__annotations__)


def _table_hints(table: Table, key: Sequence[str], columns: Iterable[Column]) -> Any:
    """Return hints with the description of each column, and the type of JSON columns."""
    hints = {}
    for column in columns:
        hints[column.name] = {"description": column.description}
        if column.type in _JSON_TYPES:
            hints[column.name]["data_type"] = "json"
    return require("dlt").mark.make_hints(
        table_name=table.name,
        primary_key=list(key),
        write_disposition=_MERGE,
        columns=hints,
        additional_table_hints={"description": table.description},
    )


def _items(
    feed: Feed, pull: Callable[[Sequence[int]], pa.Table], parts: Sequence[Sequence[int]]
) -> Iterator[Any]:
    """Yield a table of rows and a table of failures for each part of the campaigns."""
    dlt = require("dlt")
    _require_table_format()
    table = table_of(feed)
    hints = _table_hints(table, table.key, table.columns)
    failures = failures_table()
    columns_of_failures = (_ROW_ID, *failures.columns)
    hints_of_failures = _table_hints(failures, [_ROW_ID.name], columns_of_failures)
    row_count = 0
    failure_count = 0
    first_failure: dict[str, Any] = {}
    with _without_warning_of_json():
        for campaign_ids in parts:
            rows, failed = _rows_and_failures(feed, pull(campaign_ids))
            row_count += rows.num_rows
            failure_count += failed.num_rows
            # the first failure of the part, if there is any
            for failure in failed.slice(length=1).to_pylist():
                first_failure = first_failure or failure
            # yielded even without rows, because this creates the tables
            yield dlt.mark.with_hints(rows, hints, create_table_variant=True)
            yield dlt.mark.with_hints(failed, hints_of_failures, create_table_variant=True)
    # a run that loads only failures would look like a success
    if failure_count and not row_count:
        reports = counted(failure_count, "report")
        example = f"{first_failure['error']}: {first_failure['message']}"
        problem = f"{reports} failed, such as {example}"
        raise SeoRepError(f"{table.name} has no rows, because {problem}; nothing was loaded")


def _require_table_format() -> None:
    """Refuse a filesystem without a table format, because dlt would silently append."""
    dlt = require("dlt")
    destination = dlt.current.pipeline().destination
    # outside a run, there is no destination
    kind = getattr(destination, "destination_type", "")
    has_format = dlt.current.resource().table_format in ("delta", "iceberg")
    if kind.endswith(".filesystem") and not has_format:
        raise ConfigurationError(
            "a filesystem needs a table format, because dlt only appends without it: "
            "pipeline.run(…, table_format='delta')",
            argument="table_format",
        )


def _rows_and_failures(feed: Feed, part: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Split a table of `pull_table`, in which a row with an error stands for a failed report."""
    pc = require("pyarrow.compute")
    schema = table_schema(feed)
    is_failure = pc.is_valid(part["error"])
    rows = part.filter(pc.invert(is_failure)).select(schema.names)
    return _with_json(rows.cast(schema)), _failures(feed, part.filter(is_failure))


def _failures(feed: Feed, failed: pa.Table) -> pa.Table:
    """Return failures with the name of their table and a string as key."""
    pa = require("pyarrow")
    name = table_of(feed).name
    rows = []
    for row in failed.to_pylist():
        # destinations merge by a key without nulls, but a keyword may be null
        key = [str(row.get(column)) for column in _KEY_OF_FAILURES]
        rows.append({**row, "row_id": as_json([name, *key]), "table_name": name})
    row_id = pa.field("row_id", pa.string(), nullable=False)
    fields = [
        field.with_nullable(field.name != "table_name") for field in arrow_schema(failures_table())
    ]
    return pa.Table.from_pylist(rows, pa.schema([row_id, *fields]))


def _with_json(rows: pa.Table) -> pa.Table:
    """Return rows with nested values as JSON. Postgres, for example, can't load nested columns."""
    pa = require("pyarrow")
    for index, field in enumerate(rows.schema):
        if pa.types.is_nested(field.type):
            values = map(as_json, rows[field.name].to_pylist())
            json_field = pa.field(field.name, pa.string(), nullable=False)
            rows = rows.set_column(index, json_field, pa.array(values, pa.string()))
    return rows


@contextlib.contextmanager
def _without_warning_of_json() -> Iterator[None]:
    """Suppress dlt's warning that a column of strings is declared as JSON.

    The declaration is intended: some destinations can't load nested Arrow columns.
    """
    logger = logging.getLogger("dlt")
    logger.addFilter(_is_another_message)
    try:
        yield
    finally:
        logger.removeFilter(_is_another_message)


def _is_another_message(record: logging.LogRecord) -> bool:
    """Return whether a message is not the warning about JSON."""
    return "when merging arrow schema with dlt schema" not in record.getMessage()
