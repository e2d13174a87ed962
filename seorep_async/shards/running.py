"""The work on one shard: it is pulled into its parts of a dataset, staged for `gather`, and its receipt."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import inspect
import logging
import os
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export.atomic_replace import translate_errors
from seorep_async.export.formats import GROUP_ROWS, DamagedError, Format
from seorep_async.export.lock import AtWorkError
from seorep_async.export.progress import ProgressTracker
from seorep_async.export.pull_to import run_export
from seorep_async.export.spec import PullSpec, shared
from seorep_async.export.storage import Storage, storage_of
from seorep_async.export.targets.dataset import DatasetTarget, read_part, stage, write_parts
from seorep_async.export.targets.target import Contents, shard_tables
from seorep_async.resources.arguments import Secret
from seorep_async.session import Limits
from seorep_async.settings import Settings
from seorep_async.shards.shard import Shard, ShardReceipt, check_key_from, checked_shard, read_receipt_of
from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.declared import table_named
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("seorep_async")
_POLL_SECONDS = 0.2
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
    earlier = await asyncio.to_thread(read_receipt_of, storage, shard)
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
                found = await asyncio.to_thread(read_receipt_of, storage, shard)
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
    pull, settings = (checked_shard(shard).pull, shard.settings), shard.settings
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

    ConfigurationError: it is not, or there is no key.
    """
    secret = find_key(shard.key_from, key)
    client = SeoRepClient(shard.base_url, secret, settings=shard.settings, limits=limits)
    if shard.sealed(client.key_digest).seal != shard.seal:
        place = shard.key_from if key is None else "key()"
        raise ConfigurationError(
            f"{place} does not hold the key of the plan's account, or the shard was changed since it was planned"
        )
    return client


def find_key(key_from: str, key: Callable[[], str] | None = None) -> Secret:
    """Return the API key that a function returns, or that is in the environment variable that a shard names.

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


@attrs.frozen(kw_only=True)
class ShardTarget(DatasetTarget):
    """The part of a dataset that a shard writes, with a checkpoint of its own."""

    shard: Shard
    started: float = attrs.field(factory=time.monotonic)
    written: list[ShardReceipt] = attrs.field(factory=list)

    @classmethod
    def of(cls, shard: Shard, storage: Storage) -> ShardTarget:
        name, folder = Path(f"{shard.pull}-{shard.number:05}"), _work_folder(shard.work_dir)
        return cls(
            path=name,
            named=name,
            format=Format.PARQUET,
            feeds=shard.feeds,
            work_dir=folder,
            storage=storage,
            shard=shard,
        )

    def check(self, spec: PullSpec, check: Callable[[], None]) -> None:
        """Leave the checks to the plan, and to `gather`."""

    def last_pull_was_whole(self, spec: PullSpec, check: Callable[[], None]) -> bool:
        """Return False: its receipt was looked for."""
        return False

    def write(self, contents: Contents, check: Callable[[], None]) -> Sequence[Path | str]:
        shard = self.shard
        files = write_parts(contents, shard.number, shard_tables(shard.feeds), check)
        stage(self.storage, shard.night, shard.pull, files)
        receipt = ShardReceipt(
            **shared(shard, ShardReceipt),
            parts=tuple(part for _, part in files),
            outcomes=tuple(contents.outcomes),
            requests=contents.stats.attempts,
            seconds=time.monotonic() - self.started,
            finished_at=dt.datetime.now(dt.UTC).replace(tzinfo=None),
        )
        self.storage.write(shard.receipt_name, receipt.to_json().encode())
        self.written.append(receipt)
        return ()


def _work_folder(named: str | None) -> Path:
    folder = Path(tempfile.gettempdir(), f"seorep-{os.getuid() if hasattr(os, 'getuid') else 'shards'}")
    folder = folder if named is None else Path(named)
    with translate_errors(folder):
        folder.mkdir(0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid") and folder.lstat().st_uid != os.getuid():
            problem = f"the work folder {folder} is another user's; name one of your own: work_dir=…"
            raise ConfigurationError(problem, argument="work_dir")
    return folder
