"""What a dataset vouches for: one receipt for each night of an account, written last.

A night is replaced by a redo log. All files are staged first; then the log lists each staged file with its final name.
Only one writer at a time can create the log. From then on the next pull can finish the job, from any machine: it
removes the old receipt and the parts that the night no longer has, copies the new parts to their final names, and
writes the new receipt. So a receipt never vouches for a mixture of two pulls, nor for more or fewer files than exist.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export.storage import RECEIPTS, STAGING, Storage, each
from seorep_async.tables.declared import all_tables, failures_table, pulls_table

VERSION = 1
"""Version of the receipts; those of other versions are refused."""
# what Hive and Spark escape in the names of partitions, and every reader decodes
_ESCAPED = {chr(code) for code in (*range(32), 127)} | set("\"#%'*/:=?\\{}[]^")
PLAN = "-plan.json"
"""How the name of a plan of shards ends."""
_LONGEST_NAME = 200  # bytes of one part of a path; file systems allow 255


def escape(value: str) -> str:
    """Return a value as the name of a Hive partition holds it: `a/b` is `a%2Fb`.

    Raises:
        ConfigurationError: no partition can have such a name.
    """
    name = "".join(f"%{ord(letter):02X}" if letter in _ESCAPED else letter for letter in value)
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        length = 0
    if not 0 < length <= _LONGEST_NAME or value == "__HIVE_DEFAULT_PARTITION__":
        raise ConfigurationError(f"account {value[:40]!r} can't be the name of a folder; choose another")
    return name


@attrs.frozen
class Partition:
    """A night of an account in a dataset.

    Attributes:
        account: the account's name.
        snapshot_date: the UTC day.
    """

    account: str
    snapshot_date: dt.date

    @property
    def folder(self) -> str:
        """The folder of its parts in the folder of each table."""
        return f"account={escape(self.account)}/snapshot_date={self.snapshot_date.isoformat()}"

    @property
    def receipt(self) -> str:
        """The name of its receipt."""
        return f"{RECEIPTS}/{self.folder}.json"

    @property
    def log(self) -> str:
        """The name of its redo log, which exists only while it is replaced."""
        return f"{RECEIPTS}/{self.folder}.replacing.json"

    def shard_receipt(self, pull: str, number: int) -> str:
        """Return the name of the receipt of one shard of a pull."""
        return f"{RECEIPTS}/{self.folder}/{pull}-{number:05}.json"

    def plan(self, pull: str) -> str:
        """Return the name of the plan of a pull in shards."""
        return f"{RECEIPTS}/{self.folder}/{pull}{PLAN}"


@attrs.frozen
class Part:
    """One file of a table.

    Attributes:
        table: the table's name.
        number: its number among the night's parts of the table.
        rows: its rows.
        bytes: its size.
        digest: SHA-256 of its bytes.
    """

    table: str
    number: int
    rows: int
    bytes: int
    digest: str

    def name(self, night: Partition) -> str:
        """Return its name in the dataset."""
        return f"{self.table}/{night.folder}/part-{self.number:05}.parquet"

    def staged(self, pull: str) -> str:
        """Return its name until its night is committed; two attempts at one part don't meet there."""
        return f"{STAGING}/{pull}/{self.table}-{self.number:05}-{self.digest[:16]}.parquet"


@attrs.frozen(kw_only=True)
class Receipt:
    """The committed files of a night.

    Attributes:
        account: the account's name.
        snapshot_date: the UTC day.
        service: the service's address.
        key_digest: a salted digest that recognises the API key.
        pull: the pull that wrote it last.
        feeds: the feeds of that pull.
        start_date: first day that it asked for.
        end_date: last day that it asked for.
        failures: reports that it could not fetch.
        version: version of this package.
        parts: every part of the night.
    """

    account: str
    snapshot_date: dt.date
    service: str
    key_digest: str
    pull: str
    feeds: tuple[str, ...]
    start_date: dt.date
    end_date: dt.date
    failures: int
    version: str
    parts: tuple[Part, ...]

    @property
    def night(self) -> Partition:
        """The night that it is of."""
        return Partition(self.account, self.snapshot_date)

    @property
    def has_rows(self) -> bool:
        """Whether the service gave anything, if only that there is nothing."""
        about_itself = (failures_table().name, pulls_table().name)
        return not self.failures or any(part.rows for part in self.parts if part.table not in about_itself)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return {"receipt": VERSION, **_as_dict(self)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Receipt:
        """Return it from its JSON.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        values = {field.name: found[field.name] for field in attrs.fields(cls)}
        for name in ("snapshot_date", "start_date", "end_date"):
            values[name] = dt.date.fromisoformat(values[name])
        parts = tuple(Part(**part) for part in values["parts"])
        return cls(**values | {"feeds": tuple(values["feeds"]), "parts": parts})


def read_receipt(storage: Storage, night: Partition) -> Receipt | None:
    """Return a night's receipt, or None; a replacement that was cut off is finished first.

    Raises:
        ExportError: the receipt can't be read, or is damaged.
    """
    redo(storage, night)
    found = read_json(storage, night.receipt)
    return None if found is None else _translated(storage, night.receipt, found)


def last_receipt(storage: Storage, account: str, *, with_rows: bool = False) -> Receipt | None:
    """Return the receipt of an account's last night, or None if it has none; raises as `read_receipt`.

    Args:
        storage: the dataset.
        account: the account's name.
        with_rows: leave out nights on which everything failed: nobody knows whether their key was the account's.
    """
    folder = f"{RECEIPTS}/account={escape(account)}/"
    names = [name for name in storage.names(folder) if name.count("/") == folder.count("/")]
    for name in reversed(names):
        try:
            night = dt.date.fromisoformat(name.rpartition("=")[2].partition(".")[0])
            receipt = read_receipt(storage, Partition(account, night))
        except ValueError:
            raise _damaged(storage, name) from None
        if receipt is not None and (receipt.has_rows or not with_rows):
            return receipt
    return None


def commit(storage: Storage, receipt: Receipt, staged: Iterable[Part], earlier: Receipt | None = None) -> None:
    """Replace a night by what a receipt names.

    Args:
        storage: the dataset.
        receipt: the night's new receipt.
        staged: those of its parts that are staged; the others are in their places.
        earlier: the receipt that it replaces.

    Raises:
        ExportError: another pull replaces the night, or has done so since; or it could not be written.
    """
    places = [[part.staged(receipt.pull), part.name(receipt.night)] for part in staged]
    replaced = None if earlier is None else earlier.to_json()
    log = {"id": uuid.uuid4().hex, "receipt": receipt.to_json(), "replaces": replaced, "places": places}
    data = _encoded(log)
    if not storage.create(receipt.night.log, data) and storage.read(receipt.night.log) != data:
        raise busy(storage, receipt.night)
    if not {source for source, _ in places} <= set(storage.names(f"{STAGING}/{receipt.pull}")):
        storage.delete([receipt.night.log])  # nothing has changed yet
        raise busy(storage, receipt.night)
    if not _finish(storage, receipt.night, data, is_own=True):
        raise busy(storage, receipt.night)


def redo(storage: Storage, night: Partition) -> None:
    """Finish the replacement of a night that was cut off, if there is one."""
    data = storage.read(night.log)
    if data is not None:
        _finish(storage, night, data, is_own=False)


def busy(storage: Storage, night: Partition) -> ExportError:
    """Return the error that says that another pull replaces a night."""
    return ExportError(f"another pull is committing {storage.address(night.receipt)}; run this again when it has ended")


def _finish(storage: Storage, night: Partition, data: bytes, *, is_own: bool) -> bool:
    """Do what a log says, and return False if the night is not the one that it was written for."""
    try:
        log = json.loads(data)
        receipt, replaced = Receipt.from_json(log["receipt"]), log["replaces"]
        places: list[tuple[str, str]] = [(source, place) for source, place in log["places"]]
        older = None if replaced is None else Receipt.from_json(replaced).pull
    except (KeyError, TypeError, ValueError):
        raise _damaged(storage, night.log) from None
    found = read_json(storage, night.receipt)
    if found is not None and found not in (replaced, log["receipt"]):
        storage.delete([night.log])
        return False
    if found is None or found == replaced:
        storage.delete([night.receipt])
        _delete_stale(storage, receipt, {place for _, place in places} if is_own else set())
        try:
            each(storage.copy, places)
        except ExportError as error:
            if {source for source, _ in places} <= set(storage.names(f"{STAGING}/{receipt.pull}")):
                raise
            if storage.read(night.log) == data:
                lost = f"the parts that it names are no longer in {storage.address(STAGING)}"
                name = storage.address(night.log)
                raise ExportError(f"can't finish {name}: {lost}; move {name} away and pull this night again") from error
        current = storage.read(night.log)
        if current != data:  # somebody else has finished it
            if current is None:
                storage.create(night.receipt, _encoded(log["receipt"]))
            return True
        write_json(storage, night.receipt, log["receipt"])
    storage.delete([night.log])
    if older not in (None, receipt.pull):
        delete_pull(storage, night, older)
    storage.delete(storage.names(f"{STAGING}/{receipt.pull}"))
    return True


def delete_pull(storage: Storage, night: Partition, pull: str) -> None:
    """Delete the plan of a pull, the receipts of its shards and what it has staged."""
    others = storage.names(f"{RECEIPTS}/{night.folder}")
    storage.delete([name for name in others if name.rpartition("/")[2].startswith(f"{pull}-")])
    storage.delete(storage.names(f"{STAGING}/{pull}"))


def _delete_stale(storage: Storage, receipt: Receipt, replaced: set[str]) -> None:
    """Delete the parts that a night no longer has, and those to be replaced, so that no reader sees a row twice.

    A single part that is replaced by a single one stays, as that takes one step.
    """
    wanted = {part.name(receipt.night) for part in receipt.parts}
    stale: list[str] = []
    for table in all_tables():
        found = storage.names(f"{table.name}/{receipt.night.folder}")
        own = [name for name in wanted if name.startswith(f"{table.name}/")]
        stale += [name for name in found if name not in wanted or (name in replaced and found != own)]
    storage.delete(stale)


def digest_of(data: bytes) -> str:
    """Return the digest of a part's bytes."""
    return hashlib.sha256(data).hexdigest()


def read_json(storage: Storage, name: str) -> Any:
    """Return a small JSON file of a dataset, or None if it does not exist.

    Raises:
        ExportError: it can't be read, or is damaged.
    """
    data = storage.read(name)
    try:
        return None if data is None else json.loads(data)
    except ValueError:
        raise _damaged(storage, name) from None


def write_json(storage: Storage, name: str, value: object) -> None:
    """Write a small JSON file of a dataset."""
    storage.write(name, _encoded(value))


def _encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode()


def _translated(storage: Storage, name: str, found: Any) -> Receipt:
    try:
        return Receipt.from_json(found)
    except (KeyError, TypeError, ValueError):
        raise _damaged(storage, name) from None


def _damaged(storage: Storage, name: str) -> ExportError:
    return ExportError(
        f"can't read {storage.address(name)}: it is not a receipt of this version; move it away to redo this night"
    )


def _as_dict(receipt: Receipt) -> dict[str, Any]:
    def as_plain(_: object, __: object, value: object) -> object:
        return value.isoformat() if isinstance(value, dt.date) else value

    return attrs.asdict(receipt, value_serializer=as_plain)
