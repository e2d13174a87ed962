"""The commit of a night: one step, which replaces its receipt if that has not changed.

While a night is being replaced, its receipt names no parts but the coming ones, which are staged. From then on any pull
can complete it, from any machine: it deletes the parts that the night no longer has, moves the new ones to their
places, and replaces the receipt, unless that has changed meanwhile. Moving a staged part removes it, so a delayed
writer finds nothing to put into a night that others have replaced since.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from collections.abc import Iterable
from itertools import chain

import attrs

from seorep_async.errors import ExportError, shown
from seorep_async.old_export.night import Part, Partition, Receipt, digest_of, escape, from_json, is_name_of_part
from seorep_async.old_export.storage import RECEIPTS, Storage, each
from seorep_async.tables.declared import all_tables

LARGEST_JSON = 128 << 20
"""Bytes of the largest JSON that is read; the receipt of a night of 100,000 shards has about 80 MB."""
_MOST_ROUNDS = 8
_DEPTH = 2
"""Slashes in the name of a night's receipt."""


def read_receipt(storage: Storage, night: Partition) -> Receipt | None:
    """Return a night's receipt, or None; an interrupted replacement is completed first.

    If parts of it were lost, the receipt names none; the next pull of the night repairs it.

    ExportError: the receipt can't be read, or is damaged; or other pulls keep replacing the night.
    """
    for _ in range(_MOST_ROUNDS):
        data = _read(storage, night)
        receipt = _decoded(storage, night, data)
        if data is None or receipt is None or receipt.coming is None:
            return receipt
        if not _finish(storage, receipt, data, is_own=False) and _read(storage, night) == data:
            return receipt
    raise busy(storage, night)


def last_receipt(storage: Storage, account: str) -> Receipt | None:
    """Return the receipt of an account's last night; raises as `read_receipt`.

    It is None if there is none, or everything failed on every night: their key may not be the account's.
    """
    last = None
    for name in reversed(storage.names(f"{RECEIPTS}/account={escape(account)}")):
        if name.count("/") != _DEPTH:  # of a shard
            continue
        try:
            night = Partition(account, dt.date.fromisoformat(name.rpartition("=")[2].removesuffix(".json")))
        except ValueError:
            raise _damaged(storage, name) from None
        if name != night.receipt:
            raise _damaged(storage, name)
        receipt = read_receipt(storage, night)
        last = last or receipt
        if receipt is not None and receipt.has_rows:
            return last
    return None


def committed_receipts(storage: Storage) -> list[Receipt]:
    """Return the receipts of every night of every account, without changing any.

    ExportError: one can't be read, or is damaged, or its night is being replaced.
    """

    def read(name: str) -> Receipt:
        try:
            receipt = from_json(storage.read(name, LARGEST_JSON + 1) or b"", Receipt)
        except ValueError:
            raise _damaged(storage, name) from None
        if receipt.night.receipt != name:
            raise _damaged(storage, name)
        if receipt.coming is not None:
            again = "run this again when it has ended; if none is running, pull this night again, which completes it"
            raise ExportError(f"can't read {storage.address(name)}: a pull is replacing this night; {again}")
        return receipt

    of_nights = [name for name in storage.names(RECEIPTS) if name.count("/") == _DEPTH]  # others are of shards
    return each(read, ((name,) for name in of_nights))


def commit(storage: Storage, receipt: Receipt, staged: Iterable[Part], earlier: Receipt | None = None) -> None:
    """Replace a night by a receipt's parts: the `staged` ones, and others in their places.

    `earlier` is the receipt to replace, as `read_receipt` returned it. ExportError: another pull replaces the night, or
    has done so since; or it could not be written.
    """
    night, older = receipt.night, None if earlier is None else earlier.pull
    coming = attrs.evolve(receipt, parts=(), coming=receipt.parts, older=older, attempt=uuid.uuid4().hex)
    data, found = coming.to_json(), _read(storage, night)
    is_staged = {part.staged(night, receipt.pull) for part in staged} <= set(storage.names(night.staging(receipt.pull)))
    if _decoded(storage, night, found) != earlier or not is_staged or not storage.exchange(night.receipt, found, data):
        raise busy(storage, night)
    if not _finish(storage, coming, data, is_own=True) and _decoded(storage, night, _read(storage, night)) != receipt:
        raise busy(storage, night)


def busy(storage: Storage, night: Partition) -> ExportError:
    return ExportError(f"another pull is committing {storage.address(night.receipt)}; run this again when it has ended")


def _finish(storage: Storage, coming: Receipt, data: bytes, *, is_own: bool) -> bool:
    """Finish a replacement; return False if another writer did, or a part was lost."""
    night, receipt = coming.night, attrs.evolve(coming, parts=coming.named, coming=None, older=None, attempt=None)
    staging = night.staging(coming.pull)
    in_staging = set(storage.names(staging))
    staged = [part for part in receipt.parts if part.staged(night, coming.pull) in in_staging]
    if not is_own:
        if not all(holds(storage, part.name(night), part) for part in receipt.parts if part not in staged):
            return False
        if any(holds(storage, part.staged(night, coming.pull), part) is False for part in staged):
            return False
    if coming.older not in (None, coming.pull):
        delete_pull(storage, night, coming.older)
    wanted = {part.name(night) for part in receipt.parts}
    replaced = {part.name(night) for part in staged} if is_own else set()
    stale = _stale(names_of_parts(storage, night), wanted, replaced)
    for number in range(len(stale) + 1):  # checked before each step, and after the last
        if _read(storage, night) != data:
            _take_back(storage, night, stale[:number])
            return False
        storage.delete(stale[number : number + 1])
    try:
        each(storage.move, [(part.staged(night, coming.pull), part.name(night)) for part in staged])
    except ExportError:
        if in_staging <= set(storage.names(staging)):
            raise
        # another writer moves them, too
        return _read(storage, night) == data and _finish(storage, coming, data, is_own=False)
    if not wanted <= names_of_parts(storage, night):
        return False
    storage.delete(storage.names(staging))
    return storage.exchange(night.receipt, data, receipt.to_json())


def _take_back(storage: Storage, night: Partition, deleted: Iterable[str]) -> None:
    """Let a receipt name no parts if a writer that did not know of it deleted one of them."""
    data = _read(storage, night)
    found = _decoded(storage, night, data)
    if found is not None and found.coming is None:
        lost = {part.name(night) for part in found.parts} & set(deleted)
        if not lost <= names_of_parts(storage, night):
            taken = attrs.evolve(found, parts=(), coming=found.parts, attempt=uuid.uuid4().hex)
            storage.exchange(night.receipt, data, taken.to_json())


def delete_pull(storage: Storage, night: Partition, pull: str) -> None:
    """Delete the plan of a pull, its shards' receipts and its staged files."""
    others = storage.names(f"{RECEIPTS}/{night.folder}")
    storage.delete([name for name in others if name.rpartition("/")[2].startswith(f"{pull}-")])
    storage.delete(storage.names(night.staging(pull)))


def names_of_parts(storage: Storage, night: Partition) -> set[str]:
    """Return the names of the parts in a night's folders of all tables; other files there are foreign."""
    found = (storage.names(f"{table.name}/{night.folder}") for table in all_tables())
    return set(filter(is_name_of_part, chain.from_iterable(found)))


def holds(storage: Storage, name: str, part: Part) -> bool | None:
    """Return whether a file has a part's bytes, or None if it does not exist."""
    data = storage.read(name, part.bytes + 1)
    return None if data is None else digest_of(data) == part.digest


def _stale(there: set[str], wanted: set[str], replaced: set[str]) -> list[str]:
    """Return the parts that a night no longer has or that are replaced, so that no reader sees a row twice.

    A single part that is replaced by a single one stays, as that takes one step.
    """
    tables = Counter(name.partition("/")[0] for name in there | wanted)
    return sorted(
        name for name in there if name not in wanted or (name in replaced and tables[name.partition("/")[0]] > 1)
    )


def _damaged(storage: Storage, name: str) -> ExportError:
    """Return the error for a file that this package did not write."""
    return ExportError(
        f"can't read {storage.address(name)}: it is not a receipt of this version; move it away to redo this night"
    )


def _read(storage: Storage, night: Partition) -> bytes | None:
    return storage.read(night.receipt, LARGEST_JSON + 1)


def _decoded(storage: Storage, night: Partition, data: bytes | None) -> Receipt | None:
    try:
        receipt = None if data is None else from_json(data, Receipt)
    except ValueError:
        raise _damaged(storage, night.receipt) from None
    if receipt is not None and receipt.night != night:
        if night.account != receipt.account and night.account.casefold() == receipt.account.casefold():
            both = f"it is the receipt of account {shown(receipt.account)}, and this disk takes both names for one"
            raise ExportError(f"can't read {storage.address(night.receipt)}: {both}; name another account or folder")
        raise _damaged(storage, night.receipt)
    return receipt
