"""The two ends of a pull in shards: `plan` divides it, or resumes a stored plan; `gather` commits what was pulled."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Unpack

import attrs
import msgspec

from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, ExportError, shown
from seorep_async.export.atomic_replace import resolve
from seorep_async.export.fetch import name_campaigns, store_campaigns
from seorep_async.export.formats import Format, arrow_tables
from seorep_async.export.lock import in_thread
from seorep_async.export.night import PLAN, Part, Partition, escape, from_json
from seorep_async.export.progress import CampaignOutcome, PullSummary, any_received, summary_of
from seorep_async.export.receipts import LARGEST_JSON, delete_pull, read_receipt
from seorep_async.export.replacement import Replacement
from seorep_async.export.sinks import encoded_campaigns
from seorep_async.export.spec import PullSpec, SpecOptions
from seorep_async.export.storage import RECEIPTS, Storage, each
from seorep_async.export.targets import dataset_of
from seorep_async.export.targets.dataset import check_staged, commit_night, receipt_of, stage, write_part
from seorep_async.export.targets.target import arrow_table, pull_row
from seorep_async.models import Campaign, Feed
from seorep_async.resources.rankings import FeedOptions, FeedValue
from seorep_async.settings import Settings
from seorep_async.shards.shard import (
    MOST_SHARDS,
    Shard,
    ShardReceipt,
    check_key_from,
    checked_shard,
    options_without_secrets,
    read_receipt_of,
)
from seorep_async.tables.declared import campaigns_table, pulls_table

_LARGEST_ID = 2**31 - 1
_NAMED = 10


async def plan(
    client: SeoRepClient,
    ids: Iterable[int] | None,
    start_date: dt.date | str,
    end_date: dt.date | str,
    *,
    out: str | os.PathLike[str],
    feeds: Iterable[Feed | FeedValue] | Feed | FeedValue = (Feed.CAMPAIGN,),
    shards: int = 32,
    workers: int = 1,
    key_from: str = "env:SEOREP_API_KEY",
    account: str | None = None,
    snapshot_date: dt.date | str | None = None,
    key_renewed: str | None = None,
    restart: bool = False,
    retry_failed: bool = False,
    storage_options: Mapping[str, str] | None = None,
    work_dir: str | os.PathLike[str] | None = None,
    **options: Unpack[FeedOptions],
) -> list[Shard]:
    """Cut a pull into shards, each with some of the campaigns; arguments not named here are those of `pull_to`.

    Args:
        client: an open client; its settings are those of the workers.
        out: a dataset: a folder that every worker can write, or `s3://…/`, `gs://…/`, `az://…/`.
        shards: how many; not more than there are campaigns.
        workers: how many of them run at once.
        key_from: the environment variable in which a worker finds the API key, `env:NAME`; see also `run_shard`.
        restart: make a new plan, and delete unfinished ones of the same arguments with their shards' results.
        retry_failed: return also a gathered plan, to fetch its failed reports.
        storage_options: options of the object store; secrets are refused, as engines log shards.
        work_dir: a local folder for the checkpoints of the workers.

    Raises:
        ConfigurationError: an argument is wrong, or the dataset knows the account with another service or key.
        SeoRepError: the key was refused, or the campaigns could not be listed.
        ExportError: the dataset can't be read or written.
    """
    labels: SpecOptions = {"account": account, "snapshot_date": snapshot_date, "key_renewed": key_renewed}
    spec = PullSpec.of(client, ids, start_date, end_date, feeds, options, **labels)
    stored, folder = _check_plan(shards, workers, key_from, storage_options, options), _folder(work_dir)
    target = await asyncio.to_thread(dataset_of, out, spec.feeds, stored)
    await in_thread(partial(target.check, spec))
    found = await _stored_plan(client, spec, target.storage, shards, restart=restart, retry_failed=retry_failed)
    address = f"{target.storage.address().rstrip('/')}/"
    common: dict[str, Any] = {"out": address, "storage_options": stored, "work_dir": folder, "key_from": key_from}
    common["settings"] = _share(client.settings, workers)
    cut = _cut(spec, found, min(shards, len(found.ids)) or 1, common)
    return await asyncio.to_thread(lambda: [shard.sealed(client.key_digest) for shard in cut])


def gather(shards: Iterable[Shard]) -> PullSummary:
    """Commit the night of a pull whose shards have all been run, and return its summary.

    Readers of the dataset see the night change here, and only here. Called again, it changes nothing; after failed
    reports were fetched by a further run of their shards, it replaces those parts.

    Raises:
        ConfigurationError: these are not the shards of one pull, or the dataset knows the account by now with another
            service or key.
        ExportError: a shard has no receipt, or the dataset could not be written.
    """
    ordered = [checked_shard(shard) for shard in shards]
    ordered.sort(key=lambda shard: shard.number)
    if not ordered or [shard.number for shard in ordered] != list(range(ordered[0].count)):
        raise ConfigurationError("gather needs every shard of one pull, each once")
    first = ordered[0]
    if len({(shard.pull, shard.night, shard.out) for shard in ordered}) > 1:
        raise ConfigurationError("gather needs the shards of one pull; these are of several")
    target = dataset_of(first.out, first.feeds, first.storage_options)
    storage, night = target.storage, first.night
    earlier = read_receipt(storage, night)
    found = each(read_receipt_of, ((storage, shard) for shard in ordered))
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


async def _stored_plan(
    client: SeoRepClient, spec: PullSpec, storage: Storage, shards: int, *, restart: bool, retry_failed: bool
) -> StoredPlan:
    """Return the plan to resume, or a new one."""
    parameters = spec.wanted(Format.PARQUET) | {"shards": shards, "key": await asyncio.to_thread(spec.key_digest)}
    found = None
    if not restart:
        found = await asyncio.to_thread(_earlier_plan, storage, spec.account, parameters, retry_failed)
    if found is None:
        campaigns: list[Campaign] = []

        async def store(some: Sequence[Campaign], _: int) -> None:
            campaigns.extend(some)

        if spec.campaigns is None:
            ids = await store_campaigns(lambda: spec.choice.campaigns(client), store)
        else:
            ids = list(spec.campaigns)
            await name_campaigns(client, ids, store)
        if restart:
            await asyncio.to_thread(_delete_earlier, storage, spec.account, parameters)
        found = await asyncio.to_thread(_store_plan, storage, spec, ids, campaigns, parameters)
    return found


def _share(settings: Settings, workers: int) -> Settings:
    """Return one worker's settings: its share of the limits."""
    rate = settings.requests_per_second
    return attrs.evolve(
        settings,
        max_concurrency=max(1, settings.max_concurrency // workers),
        requests_per_second=None if rate is None else rate / workers,
    )


def _cut(spec: PullSpec, found: StoredPlan, count: int, common: Mapping[str, Any]) -> list[Shard]:
    whole = attrs.evolve(spec, snapshot_date=found.snapshot_date, started_at=found.started_at)
    bounds = pairwise(number * len(found.ids) // count for number in range(count + 1))
    parts = (attrs.evolve(whole, campaigns=found.ids[first:last]) for first, last in bounds)
    return [Shard.of(part, number=number, count=count, pull=found.pull, **common) for number, part in enumerate(parts)]


def _check_plan(
    shards: object,
    workers: object,
    key_from: object,
    storage_options: Mapping[str, str] | None,
    options: FeedOptions,
) -> dict[str, str]:
    for name, value in (("shards", shards), ("workers", workers)):
        if type(value) is not int or not 1 <= value <= MOST_SHARDS:
            raise ConfigurationError(f"{name} must be an integer from 1 to {MOST_SHARDS:,}", argument=name)
    check_key_from(key_from)
    try:
        json.dumps(options)
    except TypeError:
        problem = "extra_params holds a value that can't be written as JSON, as shards are"
        raise ConfigurationError(problem, argument="extra_params") from None
    return options_without_secrets({} if storage_options is None else storage_options)


def _folder(work_dir: str | os.PathLike[str] | None) -> str | None:
    try:
        return None if work_dir is None else str(resolve(Path(work_dir)))
    except (TypeError, ValueError):
        problem = f"work_dir must be the path of a folder, got {shown(work_dir)}"
        raise ConfigurationError(problem, argument="work_dir") from None


def _earlier_plan(
    storage: Storage, account: str, parameters: Mapping[str, Any], retry_failed: bool
) -> StoredPlan | None:
    """Return the newest plan of the same arguments that was not gathered, or that has failed reports to retry."""
    for night, pull in reversed(plans_of(storage, account)):
        found = read_plan(storage, night, pull)
        if found is not None and found.parameters == parameters:
            committed = read_receipt(storage, night)
            if committed is None or committed.pull != pull or (retry_failed and committed.failures):
                return found
    return None


def _delete_earlier(storage: Storage, account: str, parameters: Mapping[str, Any]) -> None:
    """Delete the plans of the same arguments that were not gathered, with their shards' results."""
    for night, pull in plans_of(storage, account):
        try:
            found = read_plan(storage, night, pull)
        except ExportError:  # a damaged plan stays, as it may be another pull's
            continue
        if found is not None and found.parameters == parameters:
            committed = read_receipt(storage, night)
            if committed is None or committed.pull != pull:
                delete_pull(storage, night, pull)


def _store_plan(
    storage: Storage, spec: PullSpec, ids: Sequence[int], campaigns: Sequence[Campaign], parameters: dict[str, Any]
) -> StoredPlan:
    night = Partition(spec.account, spec.snapshot_date)
    pull, table = night.pull_name(spec.started_at), campaigns_table()
    with tempfile.TemporaryDirectory(prefix="seorep-") as folder:
        rows = arrow_tables(table, [encoded_campaigns(Format.PARQUET, spec, campaigns, 0)])
        file, part = write_part(Path(folder), table, 0, rows)
        stage(storage, night, pull, [(file, part)])
    plan = StoredPlan(
        parameters=parameters,
        pull=pull,
        snapshot_date=spec.snapshot_date,
        started_at=spec.started_at,
        ids=tuple(ids),
        campaigns=part,
    )
    storage.write(night.plan(pull), msgspec.json.format(msgspec.json.encode(plan), indent=1))
    return plan


@attrs.frozen(kw_only=True)
class StoredPlan:
    """A plan.

    Attributes:
        parameters: a resuming call must have the same.
        started_at: when it was planned, in UTC.
        ids: the campaigns of all shards.
        campaigns: the staged part with these campaigns.
    """

    parameters: dict[str, Any]
    pull: str
    snapshot_date: dt.date
    started_at: dt.datetime
    ids: tuple[int, ...]
    campaigns: Part

    def is_of(self, night: Partition) -> bool:
        """Return whether a pull of a night wrote it like this."""
        return (
            (self.started_at.tzinfo, self.snapshot_date) == (None, night.snapshot_date)
            and self.pull == night.pull_name(self.started_at)
            and (self.campaigns.table, self.campaigns.number) == (campaigns_table().name, 0)
            and len({*self.ids}) == len(self.ids)
            and all(0 < id_ <= _LARGEST_ID for id_ in self.ids)
        )


def read_plan(storage: Storage, night: Partition, pull: str) -> StoredPlan | None:
    """Return the plan of a pull, or None if there is none; ExportError if it can't be read, or no pull wrote it."""
    name = night.plan(pull)
    with contextlib.suppress(ValueError):
        data = storage.read(name, LARGEST_JSON + 1)
        found = None if data is None else from_json(data, StoredPlan)
        if found is None or (found.pull == pull and found.is_of(night)):
            return found
    problem = "is not a plan of this version; move it away, or pass restart=True"
    raise ExportError(f"{storage.address(name)} {problem}")


def plans_of(storage: Storage, account: str) -> list[tuple[Partition, str]]:
    """Return the night and the pull of every plan of an account, the oldest night first."""
    found = []
    for name in storage.names(f"{RECEIPTS}/account={escape(account)}"):
        *_, day, file = name.split("/")
        pull = file.removesuffix(PLAN)
        with contextlib.suppress(ValueError):  # no plan is there
            night = Partition(account, dt.date.fromisoformat(day.removeprefix("snapshot_date=")))
            if name == night.plan(pull):
                found.append((night, pull))
    return found
