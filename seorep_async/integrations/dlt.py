"""The tables of the feeds as a source of dlt (extra `dlt`), merged by their keys; see `seorep guide engines`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from seorep_async.errors import ConfigurationError
from seorep_async.integrations.engines import pull_table, table_schema
from seorep_async.models import Feed
from seorep_async.resources.arguments import Date, check_feeds, check_id, check_ids
from seorep_async.resources.rankings import FeedOptions, FeedValue, feed_params
from seorep_async.settings import Settings
from seorep_async.tables.columns import ColumnType, as_json
from seorep_async.tables.optional import require
from seorep_async.tables.output_tables import table_of

if TYPE_CHECKING:
    import pyarrow as pa
    from dlt.sources import DltSource

_REPORT = ("account", "snapshot_date", "campaign_id", "keyword_id", "start_date", "end_date")
_WHY = ("error", "message", "status", "attempts")
_MERGE = {"disposition": "merge", "strategy": "upsert"}


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
    """Return a source with a resource for each feed; its rows are merged by the table's key.

    A failed report is a row of the table `failures`, and the rows that it has already stay.

    Args:
        ids: campaign ids.
        start_date: first day; see `pull_table` for this and all that is not named here.
        end_date: last day.
        feeds: the feeds, or their values; the keywords of the campaigns are pulled for `Feed.KEYWORD_BY_DATE`.
        size: campaigns that are held in memory at once, at least 1.

    Raises:
        ConfigurationError: an argument is wrong; nothing was sent. In a run, as its cause: the destination is a
            filesystem, and `table_format` was not given.
        ImportError: the extra is missing.
    """
    dlt, chosen, wanted = require("dlt"), list(check_ids("campaign", ids)), check_feeds(feeds)
    named: dict[str, Any] = {
        "snapshot_date": snapshot_date,
        "account": account,
        "base_url": base_url,
    }
    named |= {"api_key_env": api_key_env, "settings": settings, "on_error": "rows", **options}
    pull: Callable[..., pa.Table] = partial(
        pull_table, start_date=start_date, end_date=end_date, **named
    )
    for feed in wanted:
        feed_params(feed, options)
        pull((), feed=feed)  # it checks the other arguments, and has nothing to send
    size = check_id("size", size)
    parts = [chosen[start : start + size] for start in range(0, len(chosen), size)]
    made = [
        dlt.resource(_rows(feed, parts, pull), name=table_of(feed).name, **_hints(feed))
        for feed in wanted
    ]
    return dlt.source(lambda: made, name="seorep")()


def _hints(feed: Feed) -> dict[str, Any]:
    table = table_of(feed)
    nested = {ColumnType.TAGS: {"data_type": "json"}}
    columns = {
        one.name: {"description": one.description} | nested.get(one.type, {})
        for one in table.columns
    }
    return {"primary_key": list(table.key), "write_disposition": _MERGE, "columns": columns}


def _rows(feed: Feed, parts: list[list[int]], pull: Callable[..., pa.Table]) -> Iterator[Any]:
    dlt, pc, schema = require("dlt"), require("pyarrow.compute"), table_schema(feed)
    kind = getattr(
        dlt.current.pipeline().destination, "destination_type", ""
    )  # none, outside a run
    if kind.endswith(".filesystem") and dlt.current.resource().table_format not in (
        "delta",
        "iceberg",
    ):
        problem = "a filesystem needs a table format, as dlt appends without one: pipeline.run(…, table_format='delta')"
        raise ConfigurationError(problem, argument="table_format")
    hints = dlt.mark.make_hints(
        table_name="failures", primary_key="row_id", write_disposition=_MERGE, columns={}
    )
    for part in parts:
        found = pull(part, feed=feed)
        failed = pc.is_valid(found["error"])
        yield _with_json(found.filter(pc.invert(failed)).select(schema.names).cast(schema))
        yield dlt.mark.with_hints(
            _failures(feed, found.filter(failed)), hints, create_table_variant=True
        )


def _failures(feed: Feed, failed: pa.Table) -> pa.Table:
    """Return failures with the name of their table, and a key of text, as the keyword of most is null."""
    pa, name = require("pyarrow"), table_of(feed).name
    rows = [row | {"table_name": name} for row in failed.to_pylist()]
    for row in rows:
        row["row_id"] = as_json([name, *(str(row.get(part)) for part in _REPORT)])
    kinds = {"row_id": pa.string(), "table_name": pa.string(), "keyword_id": pa.int64()}
    kinds |= {one.name: one.type for one in failed.schema if one.name in (*_REPORT, *_WHY)}
    return pa.Table.from_pylist(rows, pa.schema(list(kinds.items())))


def _with_json(rows: pa.Table) -> pa.Table:
    """Return rows with nested values as JSON: Postgres, among others, loads no nested Arrow column."""
    pa = require("pyarrow")
    for index, field in enumerate(rows.schema):
        if pa.types.is_nested(field.type):
            column = pa.array(map(as_json, rows[field.name].to_pylist()), pa.string())
            rows = rows.set_column(index, pa.field(field.name, pa.string(), False), column)
    return rows
