"""What every operation works on: the account, the chosen shapes, the limits, and what was answered lately."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from attrs import field, frozen

from seorep_async.sandbox.data.account import Account
from seorep_async.sandbox.data.campaigns import Campaign
from seorep_async.sandbox.data.recent import Recent
from seorep_async.sandbox.refusals import Refusal

from .call import Call
from .paging import LIMIT, PAGE, Page
from .shapes import Shapes

Record = dict[str, Any]

_KEPT_ROWS = 30_000
_KEPT_SELECTIONS = 16


@frozen
class Answer:
    """A successful answer: JSON or nothing, and its status."""

    body: bytes
    status: int = 200


@frozen
class Written:
    """A feed's rows in their final wording, order and encoding, ready to be cut into pages."""

    rows: tuple[msgspec.Raw, ...]
    totals: msgspec.Raw


@frozen
class Service:
    """The service behind the operations.

    Args:
        account: the data.
        shapes: the choice of envelopes and row variants.
        clock: the date and time that created and changed things are given.
        default_limit: records a page when no limit is asked for.
        max_limit: the most records a page.
        failing: campaign ids, each with the status that its feeds and the campaign itself are answered with.
    """

    account: Account
    shapes: Shapes
    clock: Callable[[], datetime]
    default_limit: int
    max_limit: int
    failing: Mapping[int, int]
    written: Recent[Hashable, Written] = field(factory=lambda: Recent(_KEPT_ROWS))
    selections: Recent[Hashable, Sequence[int]] = field(factory=lambda: Recent(_KEPT_SELECTIONS))

    def campaign(self, id_: int) -> Campaign:
        """Return a campaign; an unknown or a failing one is refused."""
        if id_ in self.failing:
            status = self.failing[id_]
            problem = "is not one that this API key has access to" if status == 403 else "was asked to fail"
            raise Refusal(status, f"campaign {id_} {problem}")
        campaign = self.account.campaigns.get(id_)
        if campaign is None:
            raise Refusal(404, f"there is no campaign {id_}")
        return campaign

    def now(self) -> datetime:
        """Return the date and time, to the second."""
        return self.clock().replace(microsecond=0, tzinfo=None)

    def page(self, call: Call) -> Page:
        """Return which page is wanted."""
        return Page(call[PAGE] or 1, min(call[LIMIT] or self.default_limit, self.max_limit))


def single(record: Record) -> Answer:
    """Answer one record."""
    return as_json({"metadata": {"total_pages": 1, "total_records": 1}, "data": record})


def nothing() -> Answer:
    """Answer that it is done."""
    return Answer(b"", 204)


def as_json(body: object) -> Answer:
    """Answer anything that JSON can hold."""
    return Answer(msgspec.json.encode(body))


def moment(when: datetime | None) -> str | None:
    """Write a moment as the service does."""
    return None if when is None else when.isoformat(" ", "seconds")
