"""The tables as a source of dlt, for every destination that dlt can merge into (extra `dlt`).

```python
import asyncio

import dlt

from seorep_async.integrations.dlt import dlt_source

source = dlt_source(SeoRepClient(), None, "2023-01-01", "2023-03-31", feeds=["campaign", "keyword-by-date"])
pipeline = dlt.pipeline("seo", destination=dlt.destinations.duckdb("seo.duckdb"), dataset_name="rankings")
print(await asyncio.to_thread(pipeline.run, source))  # in a script without an event loop: pipeline.run(source)
```

- **Nights merge as in a database of `pull_to`.** Rows of a feed by date replace those of the dates that were asked for,
  also those that the service no longer has; rows of the campaign feed and totals replace those of the same night. The
  rows of failed reports are unchanged, and the reports are listed in the table `failures`. If everything failed, so
  does the run.
- **The arguments set the window.** `dlt.sources.incremental` would store one date for all campaigns, and leave a
  permanent gap in one that failed. Ask for a few days more than are new.
- **A folder or a bucket gets Delta tables**: dlt can't merge into plain Parquet, and would silently append.
- **Tags are JSON**, not a child table. `totals` and `failures` have an extra column `row_id`, as their keys have nulls.
- **dlt opens the client** and closes it, so each run needs a new one. The key stays in it: dlt's state holds a salted
  digest, by which another account's rows under the same name are refused. The state belongs to the pipeline's
  name: a pipeline of another name into the same dataset is not checked, so give each account a name of its own. A new
  key is confirmed by `key_renewed=`; keep it until a run has succeeded, as dlt stores no state of one that failed.
- **`pipeline.run` blocks** the event loop that runs in its thread; `asyncio.to_thread` avoids that.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import shutil
import tempfile
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError
from seorep_async.export.database_file import quoted
from seorep_async.export.formats import GROUP_ROWS
from seorep_async.export.progress import ProgressTracker
from seorep_async.export.pull_to import run_export
from seorep_async.export.replacement import LATEST_TABLES, Replacement
from seorep_async.export.spec import PullSpec, SpecOptions
from seorep_async.export.targets import target_of
from seorep_async.export.targets.files import FilesTarget
from seorep_async.export.targets.target import tables_of
from seorep_async.models import Feed
from seorep_async.resources.rankings import FeedOptions, FeedValue
from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.columns import Table, as_json
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import pyarrow as pa
    from dlt.sources import DltSource

_ROW_ID = "row_id"


def dlt_source(
    client: SeoRepClient,
    ids: Iterable[int] | None,
    start_date: dt.date | str,
    end_date: dt.date | str,
    *,
    feeds: Iterable[Feed | FeedValue] | Feed | FeedValue = (Feed.CAMPAIGN,),
    account: str | None = None,
    snapshot_date: dt.date | str | None = None,
    key_renewed: str | None = None,
    work_dir: str | os.PathLike[str] | None = None,
    **options: Unpack[FeedOptions],
) -> DltSource:
    """Return a source with a resource for each table of a pull; see `pull_to` for arguments that are not named here.

    Args:
        client: a client that is not open yet.
        work_dir: a folder for staged reports, from which the next run resumes an interrupted one; None starts over.

    Raises:
        ConfigurationError: an argument is wrong. In a run, as its cause, also: the pipeline has loaded another
            account's rows under the same name, the client was open, or there is no pipeline.
        ImportError: the extra is missing.
    """
    dlt = require("dlt")
    labels: SpecOptions = {"account": account, "snapshot_date": snapshot_date, "key_renewed": key_renewed}
    spec = PullSpec.of(client, ids, start_date, end_date, feeds, options, **labels)
    spec.check_whole("a dlt destination")
    if "\\" in spec.account:  # some destinations read an escape in a string then
        problem = f"account {spec.account!r} can't go to dlt: SQL dialects differ on backslashes"
        raise ConfigurationError(problem, argument="account")

    def tables() -> Iterator[Any]:
        pulled = dlt.resource(_pull(client, spec, work_dir), name="pull", selected=False)
        for table in tables_of(spec.feeds):
            columns = {column.name: {"description": column.description} for column in table.columns}
            key = [_ROW_ID] if _has_nulls_in_key(table) else table.key
            yield dlt.transformer(
                _batches_of(table), data_from=pulled, name=table.name, primary_key=key, columns=columns
            )

    return dlt.source(tables, name="seorep")()


@attrs.define(eq=False)
class _Pulled:
    """A finished pull; `is_older` if the destination may hold a later night."""

    target: FilesTarget
    in_files: bool
    replacement: Replacement = attrs.field(init=False)
    is_older: bool = False


async def _pull(
    client: SeoRepClient, spec: PullSpec, work_dir: str | os.PathLike[str] | None
) -> AsyncIterator[_Pulled]:
    dlt = require("dlt")
    destination = dlt.current.pipeline().destination
    if destination is None:
        raise ConfigurationError("this source needs a pipeline: pipeline.run(source); rows alone come from pull_to")
    accounts = dlt.current.source_state().setdefault("accounts", {})
    service, digest, last = accounts.get(spec.account, (None, None, ""))
    if service is not None:
        spec.check_account("the destination", service, digest)
    folder = Path(work_dir or tempfile.mkdtemp(prefix="seorep-"))
    target = target_of(folder / "pull.parquet", spec.feeds)
    assert isinstance(target, FilesTarget)  # noqa: S101  # for the type checker
    pulled = _Pulled(target, destination.destination_type.endswith(".filesystem"))
    if work_dir is None:
        weakref.finalize(pulled, shutil.rmtree, folder)  # the tables are read after this has ended
    async with client:
        summary = await run_export(client, spec, target, ProgressTracker())
    if not summary.paths:
        raise summary.failures[0].error
    night = summary.snapshot_date  # of a resumed pull, that of its first run
    pulled.replacement = Replacement(attrs.evolve(spec, snapshot_date=night), summary.outcomes)
    pulled.is_older = night.isoformat() < last
    accounts[spec.account] = [spec.service, spec.key_digest(), max(night.isoformat(), last)]
    yield pulled


def _batches_of(table: Table) -> Callable[[_Pulled], Iterator[Any]]:
    def batches(pulled: _Pulled) -> Iterator[Any]:
        dlt, pa, file = require("dlt"), require("pyarrow"), pulled.target.file(table)
        merge = {"disposition": "merge", "strategy": "upsert"}
        if scope := _scope(pulled.replacement, table):
            merge = {"disposition": "merge", "strategy": "cdc", "destination_scope": scope}
        hints = dlt.mark.make_hints(write_disposition=merge, table_format="delta" if pulled.in_files else None)
        # even without rows, to delete those of an earlier run
        yield dlt.mark.with_hints(_with_row_id(table, arrow_schema(table).empty_table()), hints)
        if file.exists():  # there is none without failures
            later = _later_keys(pulled, table) if pulled.is_older and table in LATEST_TABLES else frozenset()
            with require("pyarrow.parquet").ParquetFile(file) as rows:
                for batch in rows.iter_batches(GROUP_ROWS):
                    chunk = pa.Table.from_batches([batch])
                    if later:
                        keys = zip(*(chunk[name].to_pylist() for name in table.key), strict=True)
                        chunk = chunk.filter(pa.array([key not in later for key in keys], pa.bool_()))
                    yield _with_row_id(table, chunk)

    return batches


def _later_keys(pulled: _Pulled, table: Table) -> Set[tuple[Any, ...]]:
    """Return the keys of the destination's rows of a later night."""
    dlt, spec = require("dlt"), pulled.replacement.spec
    pipeline, schema = dlt.current.pipeline(), dlt.current.source_schema().name
    if pulled.in_files:
        found = require("dlt.common.libs.deltalake").get_delta_tables(pipeline, schema_name=schema).get(table.name)
        filters = [("account", "=", spec.account), ("snapshot_date", ">", spec.snapshot_date)]
        rows = [] if found is None else found.to_pyarrow_table(columns=[*table.key], filters=filters).to_pylist()
        return {tuple(row.values()) for row in rows}
    missing = require("dlt.destinations.exceptions").DatabaseUndefinedRelation
    with contextlib.suppress(missing), pipeline.sql_client(schema) as client:  # no run had this table yet
        whose = f"account = {quoted(spec.account)} AND snapshot_date > DATE '{spec.snapshot_date}'"
        name = client.make_qualified_table_name(table.name)
        query = f"SELECT {', '.join(table.key)} FROM {name} WHERE {whose}"  # noqa: S608  # names of ours
        return {tuple(row) for row in client.execute_sql(query) or ()}
    return set()


def _has_nulls_in_key(table: Table) -> bool:
    return any(column.nullable for column in table.columns if column.name in table.key)


def _with_row_id(table: Table, rows: pa.Table) -> pa.Table:
    if not _has_nulls_in_key(table):
        return rows
    pa = require("pyarrow")
    named = rows.select([name for name in (*table.key, "message") if name in rows.column_names])
    ids = [as_json([str(value) for value in row.values()]) for row in named.to_pylist()]
    return rows.append_column(pa.field(_ROW_ID, pa.string(), False), pa.array(ids, pa.string()))


def _scope(replacement: Replacement, table: Table) -> str | None:
    """Return the SQL condition for rows of earlier runs that this one replaces, or None if only keys replace rows.

    It has no functions or subqueries, for every destination, Delta tables included.
    """
    covered = replacement.covered(table, "{table}", ids_in_text=True)
    account = quoted(replacement.spec.account).replace("{", "{{").replace("}", "}}")
    return covered and f"{covered} AND {{table}}.account = {account}"
