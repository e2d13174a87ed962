"""A shard and its receipt: plain data, and its JSON."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

import attrs
from cattrs import ForbiddenExtraKeysError, transform_error
from cattrs.preconf.json import JsonConverter, make_converter

from seorep_async import errors
from seorep_async.errors import ConfigurationError, ExportError, SeoRepError
from seorep_async.export.night import Part, Partition, escape
from seorep_async.export.progress import CampaignOutcome, PullFailure
from seorep_async.export.receipts import LARGEST_JSON
from seorep_async.export.spec import PullSpec, shared
from seorep_async.export.storage import Storage, check_options
from seorep_async.export.targets.target import shard_tables
from seorep_async.models import Feed
from seorep_async.resources.arguments import check_key_mark
from seorep_async.resources.rankings import FeedOptions
from seorep_async.settings import Settings
from seorep_async.tables.declared import table_of

T = TypeVar("T", bound=attrs.AttrsInstance)

MOST_SHARDS = 100_000
"""The most shards of a pull, and the most workers."""
# not the names of keys, such as `kms_key_id`, nor switches, such as `bucket_key_enabled`
_SECRET = re.compile(
    r"secret|password|token|credential|access_key|key(?!_id|_enabled|_prefix)|sas|signature|header"
    "|authority|msi_|identity|cli$",  # receivers of the environment's secrets, and programs that are run for them
    re.IGNORECASE,
)
_KEY_FROM = re.compile("env:[A-Za-z_][A-Za-z0-9_]*")


@attrs.frozen(kw_only=True)
class Shard:
    """Some campaigns of a pull, as plain data: it pickles, and `to_json` and `from_json` carry it anywhere.

    Attributes:
        number: its number, from 0.
        count: how many shards the pull has.
        base_url: the service's address.
        key_from: the environment variable in which a worker finds the API key.
        key_digest: a salted digest that recognises the account's key.
        snapshot_date: the night.
        started_at: when the pull was planned, in UTC.
        ids: its campaigns.
        options: further arguments of the feeds.
        settings: of the client of each worker.
        out: the dataset.
        storage_options: of the dataset's object store; no secrets.
        work_dir: a local folder for the checkpoint, or None for one in the system's folder for temporary files.
        key_renewed: the mark of the account's new key or address, or None.
        seal: a digest of everything else, which takes the API key to make: a changed shard is refused.
    """

    number: int
    count: int
    pull: str
    base_url: str
    account: str
    key_from: str
    key_digest: str
    snapshot_date: dt.date
    started_at: dt.datetime
    ids: tuple[int, ...]
    start_date: dt.date
    end_date: dt.date
    feeds: tuple[Feed, ...]
    options: Mapping[str, Any]
    settings: Settings
    out: str
    storage_options: Mapping[str, str]
    work_dir: str | None
    key_renewed: str | None = None
    seal: str = ""

    def sealed(self, fingerprint: Callable[[bytes], str]) -> Shard:
        """Return it with its seal; `fingerprint` returns for a salt a digest of the API key."""
        secret = fingerprint(hashlib.sha256(f"seal\n{self.base_url}\n{self.account}".encode()).digest()[:16])
        content = attrs.evolve(self, seal="").to_json()
        return attrs.evolve(self, seal=hmac.new(secret.encode(), content.encode(), "sha256").hexdigest())

    @classmethod
    def of(cls, spec: PullSpec, **more: Any) -> Shard:
        """Return a shard of a spec, with what a spec does not say."""
        ids, digest = spec.campaigns or (), spec.key_digest()
        return cls(base_url=spec.service, ids=ids, key_digest=digest, **shared(spec, cls), **more)

    def spec(self) -> PullSpec:
        """Return its spec."""
        return PullSpec(
            service=self.base_url,
            campaigns=self.ids,
            fingerprint=lambda _: self.key_digest,
            snapshot_is_default=False,
            is_shard=True,
            **shared(self, PullSpec),
        )

    def to_json(self) -> str:
        """Return it as JSON."""
        return _converter().dumps(self)

    @classmethod
    def from_json(cls, data: str | bytes) -> Shard:
        """Return it from its JSON.

        Raises:
            ConfigurationError: it is none.
        """
        return _from_json(data, cls)

    @property
    def night(self) -> Partition:
        """Its night of the dataset."""
        return Partition(self.account, self.snapshot_date)

    @property
    def receipt_name(self) -> str:
        """The name of its receipt in the dataset."""
        return self.night.shard_receipt(self.pull, self.number)


@attrs.frozen(kw_only=True)
class ShardReceipt:
    """The result of one shard.

    Attributes:
        number: the shard's number.
        key_digest: a salted digest that recognises the account's key.
        parts: its parts of the dataset.
        outcomes: one for each of its campaigns.
        requests: requests that its last run sent, retries included.
        seconds: how long that took.
        finished_at: when it ended, in UTC.
    """

    number: int
    pull: str
    key_digest: str
    start_date: dt.date
    end_date: dt.date
    feeds: tuple[Feed, ...]
    parts: tuple[Part, ...]
    outcomes: tuple[CampaignOutcome, ...]
    requests: int
    seconds: float
    finished_at: dt.datetime

    @property
    def ok(self) -> bool:
        """Whether no report is missing."""
        return all(outcome.ok for outcome in self.outcomes)

    @property
    def rows(self) -> int:
        """Rows of all feeds."""
        return sum(sum(outcome.rows.values()) for outcome in self.outcomes)

    def is_of(self, shard: Shard) -> bool:
        """Return whether it was written for a shard: its pull, key, dates, feeds, ids and rows."""
        same = all(getattr(self, name) == value for name, value in shared(shard, ShardReceipt).items())
        own = {(table.name, shard.number) for table in shard_tables(shard.feeds)}
        own &= {(part.table, part.number) for part in self.parts}
        rows = {part.table: part.rows for part in self.parts}
        counted = {table_of(feed).name: sum(one.rows.get(feed, 0) for one in self.outcomes) for feed in shard.feeds}
        same &= all(rows.get(table, 0) == count for table, count in counted.items())
        return same and shard.ids == tuple(one.campaign_id for one in self.outcomes) and len(own) == len(self.parts)

    def to_json(self) -> str:
        """Return it as JSON."""
        return _converter().dumps(self)

    @classmethod
    def from_json(cls, data: str | bytes) -> ShardReceipt:
        """Return it from its JSON.

        Raises:
            ConfigurationError: it is none.
        """
        return _from_json(data, cls)


def read_receipt_of(storage: Storage, shard: Shard) -> ShardReceipt | None:
    """Return a shard's receipt; one that was written for another is none."""
    data = storage.read(shard.receipt_name, LARGEST_JSON + 1)
    try:
        receipt = None if data is None else ShardReceipt.from_json(data[:LARGEST_JSON])
    except ConfigurationError as error:
        problem = f"can't read {storage.address(shard.receipt_name)}: {error.message}"
        raise ExportError(f"{problem}; move it away to run the shard again") from error
    return receipt if receipt is not None and receipt.is_of(shard) else None


def checked_shard(shard: object) -> Shard:
    """Return a shard, or refuse another object."""
    if not isinstance(shard, Shard):
        raise ConfigurationError(f"expected a Shard, as plan returns them, got {type(shard).__name__}")
    return shard


def check_key_from(key_from: object) -> None:
    """Check that a string names an environment variable; it is not shown, as it may be the key itself."""
    if not isinstance(key_from, str) or not _KEY_FROM.fullmatch(key_from):
        problem = "key_from must be env:NAME, the environment variable that holds the key"
        raise ConfigurationError(problem, argument="key_from")


def options_without_secrets(storage_options: object) -> dict[str, str]:
    """Return options of an object store for shards; secrets are refused."""
    options = check_options(storage_options)
    for name, value in options.items():
        if _SECRET.search(name) or "@" in urlsplit(str(value)).netloc:
            problem = f"engines log shards, so these hold no secrets; put {name} into the environment"
            raise ConfigurationError(f"storage_options: {problem}", argument="storage_options")
    return {name: value if isinstance(value, str) else str(value).lower() for name, value in options.items()}


def _check_shard(shard: Shard) -> None:
    for name, is_right, wanted in (
        ("count", 1 <= shard.count <= MOST_SHARDS, f"from 1 to {MOST_SHARDS:,}"),
        ("number", 0 <= shard.number < shard.count, "from 0, and less than count"),
        ("pull", re.fullmatch(r"[0-9a-f]{12}", shard.pull), "a name that plan gave, 12 hexadecimal digits"),
        ("feeds", shard.feeds and len({*shard.feeds}) == len(shard.feeds), "one feed at least, each once"),
        ("end_date", shard.start_date <= shard.end_date, "start_date or later"),
        ("options", shard.options.keys() <= FeedOptions.__annotations__.keys(), "arguments of feeds"),
        ("out", shard.out.endswith("/") and "\0" not in shard.out, "the path or address of a dataset, which ends in /"),
        ("work_dir", "\0" not in (shard.work_dir or ""), "the path of a folder"),
    ):
        if not is_right:
            raise ConfigurationError(f"{name} must be {wanted}", argument=name)
    escape(shard.account)
    check_key_from(shard.key_from)
    check_key_mark(shard.key_renewed)
    options_without_secrets(shard.storage_options)


def _from_json(data: str | bytes, kind: type[T]) -> T:
    problem = "it is not a JSON object"
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        found = json.loads(data)
        if isinstance(found, dict):
            result = _structured(found, kind)
            if not isinstance(result, str):
                return result
            problem = result
    # no chained error: it would hold the values, which may be secrets
    raise ConfigurationError(f"this is not the JSON of a {kind.__name__}: {problem}")


def _structured(found: dict[str, Any], kind: type[T]) -> T | str:
    """Return an object, or the problem."""
    if kind is Shard and "outcomes" in found:
        return "it is the receipt of a shard; give the shards themselves, as plan made them"
    if newer := found.keys() - {field.name for field in attrs.fields(kind)}:
        return f"a newer version of seorep made it, with fields such as {min(newer)[:40]}"
    try:
        result = _converter().structure(found, kind)
        if isinstance(result, Shard):
            _check_shard(result)
    except ConfigurationError as error:
        return error.message
    except Exception as error:  # cattrs has no base of what its hooks raise
        problem, _, path = transform_error(error, format_exception=_in_words)[0].rpartition(" @ $")
        return f"{path.removeprefix('.') or 'it'} {problem}"
    return result


def _in_words(error: BaseException, _: type | None) -> str:
    if isinstance(error, KeyError):
        return "is missing"
    if isinstance(error, ForbiddenExtraKeysError):
        return "is from a newer version of seorep"
    return f"is wrong: {error}" if isinstance(error, ConfigurationError | _WrongTypeError) else "is wrong"


class _WrongTypeError(TypeError):
    pass


def _exact(wanted: Any, *kinds: type) -> Callable[[Any, Any], Any]:
    def check(value: Any, _: Any) -> Any:
        if type(value) not in kinds:
            raise _WrongTypeError(f"it must be {wanted}")
        return value

    return check


@cache
def _converter() -> JsonConverter:
    converter = make_converter(forbid_extra_keys=True)
    for kind, check in (
        (int, _exact("an integer", int)),
        (float, _exact("a number", float, int)),
        (str, _exact("a string", str)),
        (bool, _exact("true or false", bool)),
    ):
        converter.register_structure_hook(kind, check)
    converter.register_unstructure_hook(CampaignOutcome, _plain_outcome)
    converter.register_structure_hook(CampaignOutcome, lambda found, _: _outcome(found))
    return converter


def _plain_outcome(outcome: CampaignOutcome) -> dict[str, Any]:
    failures = [
        {"feed": one.feed.value, "keyword_id": one.keyword_id, "error": type(one.error).__name__}
        | {name: getattr(one.error, name) for name in ("message", "status", "attempts")}
        for one in outcome.failures
    ]
    rows = {feed.value: count for feed, count in outcome.rows.items()}
    return {"campaign_id": outcome.campaign_id, "rows": rows, "failures": failures}


def _outcome(found: Mapping[str, Any]) -> CampaignOutcome:
    id_ = int(found["campaign_id"])
    failures = []
    for one in found["failures"]:
        kind = getattr(errors, one["error"], None)
        kind = kind if isinstance(kind, type) and issubclass(kind, SeoRepError) else SeoRepError
        error = kind(one["message"], status=one["status"], attempts=one["attempts"])
        failures.append(PullFailure(Feed(one["feed"]), id_, one["keyword_id"], error))
    return CampaignOutcome(id_, {Feed(feed): int(count) for feed, count in found["rows"].items()}, tuple(failures))
