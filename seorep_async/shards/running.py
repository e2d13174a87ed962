"""Running shards, and gathering their parts of a dataset."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export.contents import arrow_table, pull_row
from seorep_async.export.formats import GROUP_ROWS
from seorep_async.export.lock import AtWorkError
from seorep_async.export.progress import CampaignOutcome, ProgressTracker, PullSummary, any_received, summary_of
from seorep_async.export.pull_to import run_export
from seorep_async.export.receipts import LARGEST_JSON, read_receipt
from seorep_async.export.replacement import Replacement
from seorep_async.export.staged_report import DamagedError
from seorep_async.export.storage import Storage, storage_of
from seorep_async.export.targets import dataset_of
from seorep_async.export.targets.dataset import (
    check_staged,
    commit_night,
    read_part,
    receipt_of,
    stage,
    write_part,
)
from seorep_async.export.targets.target import shard_tables
from seorep_async.resources.arguments import Secret
from seorep_async.session import Limits
from seorep_async.settings import Settings
from seorep_async.shards.planning import read_plan
from seorep_async.shards.shard import Shard, ShardReceipt, check_key_from
from seorep_async.shards.target import ShardTarget
from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.declared import pulls_table, table_named
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

_log = logging.getLogger("seorep_async")
_PARALLEL = 8
_POLL_SECONDS = 0.2
_NAMED = 10
_limits: dict[tuple[str, Settings], list[Limits]] = {}
"""Of a pull's shards that have run in this process: one shard is too short to find the limits again."""


def run_shard(shard: Shard, *, key: Callable[[], str] | None = None) -> ShardReceipt:
    """Pull a shard into its part of the dataset; one that has its receipt, without failures, returns that.

    It is a plain function, so that any engine can map it, and may be called again at any time. In a thread with a
    running event loop it works, and blocks that loop. Ctrl-C ends it at once; the next run resumes from its checkpoint.

    Args:
        shard: the shard.
        key: a function that returns the API key, or None for the environment variable that the shard names.

    Raises:
        ConfigurationError: there is no key, it is another account's, the shard was changed since it was planned, or the
            work folder can't be used.
        ImportError: an extra is missing.
        AuthenticationError: the key was refused; reports fetched until then are stored.
        ExportError: the dataset or the work folder could not be written; reports fetched until then are stored.
    """
    loop = None
    with contextlib.suppress(RuntimeError):
        loop = asyncio.get_running_loop()
    if loop is None:
        return _run(shard, key, [])
    started: list[asyncio.Task[Any]] = []
    with ThreadPoolExecutor(1, "seorep-shard") as thread:
        running = thread.submit(_run, shard, key, started)
        try:
            return running.result()
        except KeyboardInterrupt:  # of the engine, whose thread this is; leaving waits for the clean-up
            for task in started:
                with contextlib.suppress(RuntimeError):  # it has just ended
                    task.get_loop().call_soon_threadsafe(task.cancel)
            raise


def read_shard(
    shard: Shard, table: str | None = None, *, key: Callable[[], str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Return the rows of a shard as Arrow record batches, with every column; it is run first if it was not.

    Args:
        shard: the shard.
        table: the name of a table, or None for that of the first feed.
        key: see `run_shard`.

    Raises:
        ConfigurationError: there is no such table; and what `run_shard` raises.
    """
    names = [one.name for one in shard_tables(shard.feeds)]
    name = names[0] if table is None else table
    if name not in names:
        raise ConfigurationError(f"there is no table {name}; a shard has {', '.join(names)}", argument="table")
    return _batches(shard, name, key)


def gather(shards: Iterable[Shard]) -> PullSummary:
    """Commit the night of a pull whose shards have all been run, and return its summary.

    Readers of the dataset see the night change here, and only here. Called again, it changes nothing; after failed
    reports were fetched by a further run of their shards, it replaces those parts.

    Raises:
        ConfigurationError: these are not the shards of one pull, or the dataset knows the account by now with another
            service or key.
        ExportError: a shard has no receipt, or the dataset could not be written.
    """
    ordered = [_checked(shard) for shard in shards]
    ordered.sort(key=lambda shard: shard.number)
    if not ordered or [shard.number for shard in ordered] != list(range(ordered[0].count)):
        raise ConfigurationError("gather needs every shard of one pull, each once")
    first = ordered[0]
    if len({(shard.pull, shard.night, shard.out) for shard in ordered}) > 1:
        raise ConfigurationError("gather needs the shards of one pull; these are of several")
    target = dataset_of(first.out, first.feeds, first.storage_options)
    storage, night = target.storage, first.night
    earlier = read_receipt(storage, night)
    with ThreadPoolExecutor(_PARALLEL) as threads:
        found = list(threads.map(partial(_read_receipt, storage), ordered))
    missing = [str(shard.number) for shard, receipt in zip(ordered, found, strict=True) if receipt is None]
    if missing:
        more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
        numbers = f"{', '.join(missing[:_NAMED])}{more}"
        raise ExportError(f"{len(missing)} of {first.count} shards have no receipt: {numbers}; run them first")
    receipts = [receipt for receipt in found if receipt is not None]
    outcomes = tuple(chain.from_iterable(receipt.outcomes for receipt in receipts))
    requests = sum(receipt.requests for receipt in receipts)
    parts = {part for receipt in receipts for part in receipt.parts}
    if earlier is None or earlier.pull != first.pull or not parts <= set(earlier.parts):
        target.check(first.spec(), lambda: None)  # another account may have been added since it was planned
        _commit(storage, first, receipts, outcomes, requests)
    paths = tuple(target.row_files(night.folder)) if any_received(outcomes) else ()
    seconds = (max(receipt.finished_at for receipt in receipts) - first.started_at).total_seconds()
    facts: dict[str, Any] = {"requests": requests, "resumed": 0, "seconds": seconds}
    return summary_of(first.spec(), paths=paths, outcomes=outcomes, **facts)


def _commit(
    storage: Storage, shard: Shard, receipts: Sequence[ShardReceipt], outcomes: Sequence[CampaignOutcome], requests: int
) -> None:
    spec, stored = shard.spec(), read_plan(storage, shard.night, shard.pull)
    if stored is None:
        missing = storage.address(shard.night.plan(shard.pull))
        raise ExportError(
            f"the plan of these shards, {missing}, no longer exists: another pull replaced it; plan again"
        )
    if stored.ids != tuple(outcome.campaign_id for outcome in outcomes):
        raise ConfigurationError("gather needs every shard of one pull; these have other campaigns than its plan")
    check_staged(storage, shard.night, shard.pull, (part for receipt in receipts for part in receipt.parts))
    with tempfile.TemporaryDirectory(prefix="seorep-") as folder:
        whole = attrs.evolve(spec, campaigns=stored.ids)
        rows = arrow_table(pulls_table(), [pull_row(whole, outcomes, requests)])
        file, pulls = write_part(Path(folder), pulls_table(), 0, [rows])
        stage(storage, shard.night, shard.pull, [(file, pulls)])
    parts = (*(part for receipt in receipts for part in receipt.parts), stored.campaigns, pulls)
    commit_night(storage, receipt_of(spec, shard.pull, parts, outcomes), Replacement(spec, outcomes))


def _run(shard: Shard, key: Callable[[], str] | None, started: list[asyncio.Task[Any]]) -> ShardReceipt:
    with found_limits(shard) as limits:
        client = client_of(shard, limits, key)

        async def run() -> ShardReceipt:
            if task := asyncio.current_task():
                started.append(task)
            return await run_in_loop(shard, client)

        # not `asyncio.run`, which takes away the event loop that was set for this thread
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            return runner.run(run())


async def run_in_loop(shard: Shard, client: SeoRepClient) -> ShardReceipt:
    """Run a shard as `run_shard` does, in the running event loop, by a client of `client_of`; it can be cancelled."""
    storage = await asyncio.to_thread(storage_of, shard.out, shard.storage_options)
    earlier = await asyncio.to_thread(_read_receipt, storage, shard)
    if earlier is not None and earlier.ok:
        return earlier
    target = ShardTarget.of(shard, storage)
    async with client:
        restart = False
        while True:
            try:
                await run_export(
                    client, shard.spec(), target, ProgressTracker(), restart=restart, retry_failed=not restart
                )
                return target.written[0]
            except AtWorkError:  # an engine that believed it lost started it twice; the first run still works
                await asyncio.sleep(_POLL_SECONDS)
                found = await asyncio.to_thread(_read_receipt, storage, shard)
                if found is not None and found.ok:
                    return found
            except ExportError as error:
                if restart or not isinstance(error.__cause__, DamagedError):
                    raise
                restart = True
                _log.warning(
                    "the checkpoint of shard %d in %s was damaged; starting over", shard.number, target.work_dir
                )


@contextlib.contextmanager
def found_limits(shard: Shard) -> Generator[Limits, None, None]:
    """Lend the limits that an earlier shard of the pull has found in this process, or new ones."""
    pull, settings = (_checked(shard).pull, shard.settings), shard.settings
    try:
        limits = _limits[pull].pop()
    except (KeyError, IndexError):  # none has ended, or others that run beside this one use them
        limits = Limits(max_concurrency=settings.max_concurrency, requests_per_second=settings.requests_per_second)
    try:
        yield limits
    finally:
        others = _limits.pop(pull, [])
        _limits.clear()  # those of other pulls
        _limits[pull] = [*others, limits]


def client_of(shard: Shard, limits: Limits, key: Callable[[], str] | None = None) -> SeoRepClient:
    """Return a client for a shard, if the shard is as it was planned with the same key; nothing is read or sent before.

    Raises:
        ConfigurationError: it is not, or there is no key.
    """
    secret = find_key(_checked(shard).key_from, key)
    client = SeoRepClient(shard.base_url, secret, settings=shard.settings, limits=limits)
    if shard.sealed(client.key_digest).seal != shard.seal:
        place = shard.key_from if key is None else "key()"
        raise ConfigurationError(
            f"{place} does not hold the key of the plan's account, or the shard was changed since it was planned"
        )
    return client


def find_key(key_from: str, key: Callable[[], str] | None = None) -> Secret:
    """Return the API key that a function returns, or that is in the environment variable that a shard names.

    Raises:
        ConfigurationError: there is none.
    """
    check_key_from(key_from)
    if key is None:
        found, problem = Secret.of(os.environ.get(key_from.removeprefix("env:"))), f"in {key_from}"
    elif not callable(key) or inspect.iscoroutinefunction(key):
        problem = "key must be a function that returns the API key, and not an async one"
        raise ConfigurationError(problem, argument="key")
    else:
        found, problem = Secret(), "by key(), which returned no text"
        try:
            found = Secret.of(key())
        except Exception as error:  # its message may hold the key
            problem = f"by key(), which raised {type(error).__name__}"
    if not found:
        raise ConfigurationError(f"the worker finds no API key {problem}")
    return found


def _read_receipt(storage: Storage, shard: Shard) -> ShardReceipt | None:
    """Return a shard's receipt; one that was written for another is none."""
    data = storage.read(shard.receipt_name, LARGEST_JSON + 1)
    try:
        receipt = None if data is None else ShardReceipt.from_json(data[:LARGEST_JSON])
    except ConfigurationError as error:
        problem = f"can't read {storage.address(shard.receipt_name)}: {error.message}"
        raise ExportError(f"{problem}; move it away to run the shard again") from error
    return receipt if receipt is not None and receipt.is_of(shard) else None


def _checked(shard: object) -> Shard:
    if not isinstance(shard, Shard):
        raise ConfigurationError(f"expected a Shard, as plan returns them, got {type(shard).__name__}")
    return shard


def _batches(shard: Shard, name: str, key: Callable[[], str] | None) -> Iterator[pa.RecordBatch]:
    receipt, pa = run_shard(shard, key=key), require("pyarrow")
    storage = storage_of(shard.out, shard.storage_options)
    table = table_named(name)
    for part in receipt.parts:
        if part.table == name:
            rows = read_part(storage, shard.night, shard.pull, part)
            lead = [pa.repeat(value, rows.num_rows) for value in (shard.account, shard.snapshot_date)]
            whole = pa.Table.from_arrays([*lead, *rows.columns], schema=arrow_schema(table))
            yield from whole.to_batches(max_chunksize=GROUP_ROWS)
