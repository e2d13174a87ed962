"""A night of an account in a dataset: its receipt and its parts, checked field by field, and the names of files."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Literal, TypeVar

import attrs
import msgspec

from seorep_async.errors import ConfigurationError
from seorep_async.models import Feed
from seorep_async.old_export.local_folder import STAGING
from seorep_async.old_export.storage import RECEIPTS
from seorep_async.tables.declared import all_tables, failures_table, pulls_table

T = TypeVar("T")

# the characters that Hive and Spark escape in the names of partitions, and every reader decodes
_ESCAPED = {chr(code) for code in (*range(32), 127)} | set("\"#%'*/:=?\\{}[]^")
PLAN = "-plan.json"
"""The ending of the name of a plan of shards."""
# names of devices, letters that Hive does not escape, and endings that Windows drops
_NOT_ON_WINDOWS = re.compile(r"(?is:(con|prn|aux|nul|(com|lpt)[\d¹²³])( *\..*)?|.*[<>|].*|.*[. ])")
_LONGEST_NAME = 200  # bytes of one part of a path; file systems allow 255
_NUMBER = (attrs.validators.ge(0), attrs.validators.lt(1 << 50))
_NAME = attrs.validators.matches_re(r"[0-9a-f]{12}")


def escape(value: str) -> str:
    """Return a value in the form of a Hive partition's name: `a/b` is `a%2Fb`.

    ConfigurationError: no partition, or no folder on Windows, can have its name.
    """
    name = "".join(f"%{ord(letter):02X}" if letter in _ESCAPED else letter for letter in value)
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        length = 0
    on_windows = _NOT_ON_WINDOWS.fullmatch(value) is None
    if not 0 < length <= _LONGEST_NAME or value == "__HIVE_DEFAULT_PARTITION__" or not on_windows:
        where = "" if on_windows else " on Windows"
        problem = f"account {value[:40]!r} can't be the name of a folder{where}; choose another"
        raise ConfigurationError(problem, argument="account")
    return name


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _checked(is_right: Callable[[Any], object]) -> Callable[[Any, attrs.Attribute[Any], Any], None]:

    def check(_: object, field: attrs.Attribute[Any], value: Any) -> None:
        if not is_right(value):
            raise ValueError(f"{field.name} is wrong")

    return check


@cache
def _tables() -> frozenset[str]:
    return frozenset(table.name for table in all_tables())


@attrs.frozen
class Partition:
    """A night of an account in a dataset; `snapshot_date` is a UTC day."""

    account: str
    snapshot_date: dt.date

    @property
    def folder(self) -> str:
        """The folder of its parts in the folder of each table."""
        return f"account={escape(self.account)}/snapshot_date={self.snapshot_date.isoformat()}"

    @property
    def receipt(self) -> str:
        return f"{RECEIPTS}/{self.folder}.json"

    def pull_name(self, started_at: dt.datetime) -> str:
        """Return a name for a pull of it; a resumed pull has the same."""
        return digest_of(f"{self.account}\n{self.snapshot_date}\n{started_at.isoformat()}".encode())[:12]

    def staging(self, pull: str) -> str:
        """Return the folder of the parts that a pull of it has staged; pulls of other nights have other folders."""
        return f"{STAGING}/{self.folder}/{pull}"

    def shard_receipt(self, pull: str, number: int) -> str:
        """Return the name of the receipt of one shard of a pull."""
        return f"{RECEIPTS}/{self.folder}/{pull}-{number:05}.json"

    def plan(self, pull: str) -> str:
        return f"{RECEIPTS}/{self.folder}/{pull}{PLAN}"


@attrs.frozen
class Part:
    """One file of a table, by its number among the night's parts of it; the digest is SHA-256."""

    table: str = attrs.field(validator=_checked(lambda value: value in _tables()))
    number: int = attrs.field(validator=_NUMBER)
    rows: int = attrs.field(validator=_NUMBER)
    bytes: int = attrs.field(validator=_NUMBER)
    digest: str = attrs.field(validator=attrs.validators.matches_re(r"[0-9a-f]{64}"))

    def name(self, night: Partition) -> str:
        return f"{self.table}/{night.folder}/part-{self.number:05}.parquet"

    def staged(self, night: Partition, pull: str) -> str:
        """Return its name until its night is committed; each attempt at one part has its own."""
        return f"{night.staging(pull)}/{self.table}-{self.number:05}-{self.digest[:16]}.parquet"


def is_name_of_part(name: str) -> bool:
    """Return whether a file of a dataset is named like a part of some night."""
    pattern = r"(\w+)/account=[^/]+/snapshot_date=\d{4}-\d\d-\d\d/part-\d{5,16}\.parquet"
    return (found := re.fullmatch(pattern, name, re.ASCII)) is not None and found[1] in _tables()


def _each_once(parts: Iterable[Part] | None) -> bool:
    places = [(part.table, part.number) for part in parts or ()]
    return len({*places}) == len(places)


@attrs.frozen(kw_only=True)
class Receipt:
    """The commit record of a night: its files, none while it is being replaced.

    Attributes:
        key_digest: a salted digest that recognises the API key.
        pull: the pull that wrote it last; feeds, dates and the number of failures are of that pull.
        version: version of this package.
        coming: while it is being replaced: the parts that it will have.
        older: while it is being replaced: the pull that wrote it before, if one did.
        attempt: while it is being replaced: a name for this attempt.
        receipt: version of the receipts; those of other versions are refused.
    """

    account: str = attrs.field(validator=_checked(escape))
    snapshot_date: dt.date
    service: str
    key_digest: str
    pull: str = attrs.field(validator=_NAME)
    feeds: tuple[str, ...] = attrs.field(validator=_checked({feed.value for feed in Feed}.issuperset))
    start_date: dt.date
    end_date: dt.date
    failures: int = attrs.field(validator=_NUMBER)
    version: str
    parts: tuple[Part, ...] = attrs.field(validator=_checked(_each_once))
    coming: tuple[Part, ...] | None = attrs.field(default=None, validator=_checked(_each_once))
    older: str | None = attrs.field(default=None, validator=attrs.validators.optional(_NAME))
    attempt: str | None = None
    receipt: Literal[1] = 1

    @property
    def night(self) -> Partition:
        return Partition(self.account, self.snapshot_date)

    @property
    def named(self) -> tuple[Part, ...]:
        """Its parts, or those that it will have."""
        return self.parts if self.coming is None else self.coming

    @property
    def has_rows(self) -> bool:
        """Whether the service returned anything, if only an empty report."""
        about_itself = (failures_table().name, pulls_table().name)
        return not self.failures or any(part.rows for part in self.named if part.table not in about_itself)

    def to_json(self) -> bytes:
        found = msgspec.to_builtins(self)
        known = {name: found[name] for name in attrs.fields_dict(Receipt) if found[name] is not None}
        return msgspec.json.format(msgspec.json.encode(known), indent=1)


def from_json(data: bytes, kind: type[T]) -> T:
    """Return an object from its JSON, or raise ValueError; nothing of another type is built."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
