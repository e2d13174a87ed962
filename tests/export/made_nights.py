"""Nights made by hand, and storages that are cut off, held up or overtaken at a step, or are an object store's."""

import datetime as dt
import itertools
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import attrs
import obstore.store
import pytest

from seorep_async.tables.declared import all_tables
from tests.export.door import Part, Partition, Receipt, Storage, commit, digest_of, from_json, read_receipt, storage_of

CHANGES = ("put", "write", "exchange", "move", "delete")
"""The steps of a storage that change it."""
NIGHT = Partition("acme", dt.date(2026, 11, 21))
TABLES = ("keyword_rankings", "totals", "failures", "campaign_periods")
OLDER, NEWER = (2, 1), (1, 1, 1)
"""How many parts of its first tables a pull has."""
Contents: TypeAlias = dict[tuple[str, int], bytes]


class PowerFailure(BaseException):
    """What no code handles: nothing more is done."""


@attrs.define
class Steps:
    """So many steps are done, and then none, not even those that would clean up."""

    left: int

    def take(self, _: object = None) -> None:
        if not self.left:
            raise PowerFailure
        self.left -= 1

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            self.take()
            return call(*arguments, **options)

        return run


@attrs.define
class Interposed:
    """A storage that calls `before` with the name of each step of some kinds; one step is done at a time."""

    whole: Storage
    before: Callable[[str], object]
    kinds: tuple[str, ...] = CHANGES
    lock: Any = attrs.field(factory=threading.RLock)

    def __getattr__(self, name: str) -> Any:
        step = getattr(self.whole, name)
        if name not in self.kinds:
            return step

        def run(*arguments: Any) -> Any:
            with self.lock:
                self.before(name)
                return step(*arguments)

        def delete(names: list[str]) -> None:
            for one in names:
                run([one])

        return delete if name == "delete" else run


def keep_buckets_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an address of an object store name one in memory."""
    stores: dict[str, Any] = defaultdict(obstore.store.MemoryStore)
    monkeypatch.setattr(obstore.store, "from_url", lambda address, **_: stores[address])


def in_memory() -> Storage:
    with pytest.MonkeyPatch.context() as patched:
        keep_buckets_in_memory(patched)
        return storage_of("s3://memory/rankings/")


def cut(storage: Storage, steps: int) -> Any:
    """Return a storage that changes so often, and then no more."""
    return Interposed(storage, Steps(steps).take)


def cut_at_each_step(storage: Storage, before: Callable[[], None], step: Callable[[Any], object]) -> Iterator[int]:
    """Cut a step off after 0, 1, 2 … changes until it gets through, and yield after each cut."""
    for changes in itertools.count():
        before()
        try:
            step(cut(storage, changes))
        except PowerFailure:
            yield changes
        else:
            return


def named(pull: str) -> str:
    """Return the name of a pull that tests call by a word."""
    return digest_of(pull.encode())[:12]


def contents(pull: str, *parts: int) -> Contents:
    """Return the parts of a pull, each of other bytes, by how many of its tables' are wanted."""
    counts = zip(TABLES, parts, strict=False)
    return {(table, number): f"{pull} {table} {number}".encode() for table, count in counts for number in range(count)}


def receipt(pull: str, held: Contents, **changes: Any) -> Receipt:
    parts = (Part(table, number, 1, len(data), digest_of(data)) for (table, number), data in held.items())
    values: dict[str, Any] = {
        "account": "acme",
        "snapshot_date": NIGHT.snapshot_date,
        "service": "https://api.example.com",
        "key_digest": "digest",
        "pull": named(pull),
        "feeds": ("campaign",),
        "start_date": dt.date(2026, 11, 1),
        "end_date": dt.date(2026, 11, 20),
        "failures": 0,
        "version": "1",
        "parts": tuple(parts),
    }
    return Receipt(**values | changes)


def replace(storage: Any, pull: str, held: Contents) -> None:
    """Commit a night as a pull does, and carry the last table over from the earlier pull."""
    earlier, wanted = read_receipt(storage, NIGHT), receipt(pull, held)
    for part in wanted.parts:
        storage.write(part.staged(NIGHT, wanted.pull), held[part.table, part.number])
    own = {part.table for part in wanted.parts}
    kept = () if earlier is None else [one for one in earlier.named if one.table == TABLES[-1] and one.table not in own]
    commit(storage, attrs.evolve(wanted, parts=(*wanted.parts, *kept)), wanted.parts, earlier)


def replace_by(storage: Any, pull: str, *parts: int) -> None:
    replace(storage, pull, contents(pull, *parts))


def found(storage: Storage) -> dict[str, bytes]:
    """Return every part that readers see."""
    names = itertools.chain.from_iterable(storage.names(table.name) for table in all_tables())
    return {name: storage.read(name) or b"" for name in names}


def vouched_for(storage: Storage, night: Partition = NIGHT, *, may_lack: bool = False) -> str | None:
    """Return the pull whose receipt names parts, and check that these are there, and no others."""
    data = storage.read(night.receipt)
    there = None if data is None else from_json(data, Receipt)
    if there is None or not there.parts:
        return None
    wanted = {part.name(night): part.digest for part in there.parts}
    seen = {name: digest_of(data) for name, data in found(storage).items()}
    assert seen.items() <= wanted.items() if may_lack else seen == wanted
    return there.pull
