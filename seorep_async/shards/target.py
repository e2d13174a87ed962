"""The target of one shard: its parts of a dataset, staged for `gather`, and its receipt."""

from __future__ import annotations

import datetime as dt
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from seorep_async.errors import ConfigurationError
from seorep_async.export.atomic_replace import translate_errors
from seorep_async.export.contents import Contents
from seorep_async.export.formats import Format
from seorep_async.export.spec import PullSpec
from seorep_async.export.storage import Storage
from seorep_async.export.targets.dataset import DatasetTarget, stage, write_parts
from seorep_async.export.targets.target import shard_tables
from seorep_async.shards.shard import Shard, ShardReceipt


@attrs.frozen(kw_only=True)
class ShardTarget(DatasetTarget):
    """The part of a dataset that a shard writes, with a checkpoint of its own."""

    shard: Shard
    started: float = attrs.field(factory=time.monotonic)
    written: list[ShardReceipt] = attrs.field(factory=list)

    @classmethod
    def of(cls, shard: Shard, storage: Storage) -> ShardTarget:
        """Return the target of a shard; its work folder is made."""
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
        """Stage its parts, and write its receipt."""
        shard = self.shard
        files = write_parts(contents, shard.number, shard_tables(shard.feeds), check)
        stage(self.storage, shard.night, shard.pull, files)
        receipt = ShardReceipt(
            number=shard.number,
            pull=shard.pull,
            key_digest=shard.key_digest,
            start_date=shard.start_date,
            end_date=shard.end_date,
            feeds=shard.feeds,
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
