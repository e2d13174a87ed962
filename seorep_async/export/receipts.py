"""What a dataset vouches for: one receipt for each night of an account, written last.

A night is replaced by a redo log. Everything that it needs is staged first; the log then says which staged file goes to
which place. From then on whoever comes next can finish the job, from any machine: the old receipt is removed, the parts
are copied to their places, parts that the night no longer has are removed, and the new receipt appears. So a receipt
never vouches for a mixture of two pulls, nor for more or less than what is there.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
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
        raise ConfigurationError(f"account {value[:40]!r} can't be the name of a folder; name it shorter or otherwise")
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
        """The name of its redo log, which is there only while it is replaced."""
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
    """What is there of a night.

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
        return {"receipt": VERSION, **_plain(self)}

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


def commit(storage: Storage, receipt: Receipt, staged: Iterable[Part]) -> None:
    """Replace a night by what a receipt names.

    Args:
        storage: the dataset.
        receipt: what will be there.
        staged: those of its parts that are staged; the others are in their places.
    """
    places = [[part.staged(receipt.pull), part.name(receipt.night)] for part in staged]
    write_json(storage, receipt.night.log, {"receipt": receipt.to_json(), "places": places})
    redo(storage, receipt.night)


def redo(storage: Storage, night: Partition) -> None:
    """Finish the replacement of a night that was cut off, if there is one."""
    log = read_json(storage, night.log)
    if log is None:
        return
    try:
        receipt = Receipt.from_json(log["receipt"])
        places: Sequence[tuple[str, str]] = [(source, place) for source, place in log["places"]]
    except (KeyError, TypeError, ValueError):
        raise _damaged(storage, night.log) from None
    storage.delete([night.receipt])
    each(storage.copy, places)
    wanted = {part.name(night) for part in receipt.parts}
    found = {name for table in all_tables() for name in storage.names(f"{table.name}/{night.folder}")}
    storage.delete(sorted(found - wanted))
    write_json(storage, night.receipt, log["receipt"])
    storage.delete([night.log])
    others = storage.names(f"{RECEIPTS}/{night.folder}")
    storage.delete([name for name in others if not name.rpartition("/")[2].startswith(f"{receipt.pull}-")])
    storage.delete(storage.names(f"{STAGING}/{receipt.pull}"))


def digest_of(data: bytes) -> str:
    """Return the digest of a part's bytes."""
    return hashlib.sha256(data).hexdigest()


def read_json(storage: Storage, name: str) -> Any:
    """Return a small JSON file of a dataset, or None if it is not there.

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
    storage.write(name, json.dumps(value, ensure_ascii=False, indent=1).encode())


def _translated(storage: Storage, name: str, found: Any) -> Receipt:
    try:
        return Receipt.from_json(found)
    except (KeyError, TypeError, ValueError):
        raise _damaged(storage, name) from None


def _damaged(storage: Storage, name: str) -> ExportError:
    return ExportError(
        f"can't read {storage.address(name)}: it is no receipt of this version; move it away to write the night anew"
    )


def _plain(receipt: Receipt) -> dict[str, Any]:
    def as_plain(_: object, __: object, value: object) -> object:
        return value.isoformat() if isinstance(value, dt.date) else value

    return attrs.asdict(receipt, value_serializer=as_plain)
