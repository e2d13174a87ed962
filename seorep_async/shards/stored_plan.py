"""The stored plan of a pull in shards; the same call of `plan` resumes it."""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import Any

import attrs
import msgspec

from seorep_async.errors import ExportError
from seorep_async.export.night import PLAN, Part, Partition, escape
from seorep_async.export.receipts import read_json
from seorep_async.export.storage import RECEIPTS, Storage
from seorep_async.tables.declared import campaigns_table

_LARGEST_ID = 2**31 - 1


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

    def write(self, storage: Storage, night: Partition) -> None:
        """Store it; raises as the methods of `Storage`."""
        storage.write(night.plan(self.pull), msgspec.json.format(msgspec.json.encode(self), indent=1))


def read_plan(storage: Storage, night: Partition, pull: str) -> StoredPlan | None:
    """Return the plan of a pull, or None if there is none; ExportError if it can't be read, or no pull wrote it."""
    name = night.plan(pull)
    try:
        found = read_json(storage, name, StoredPlan)
    except ValueError:
        found = None
    else:
        if found is None:
            return None
    if found is None or found.pull != pull or not found.is_of(night):
        raise _damaged(storage, name)
    return found


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


def _damaged(storage: Storage, name: str) -> ExportError:
    return ExportError(f"{storage.address(name)} is not a plan of this version; move it away, or pass restart=True")
