"""What every operation works on: the account, the chosen shapes, the limits, and what was answered lately."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from attrs import field, frozen

from .account import Account, Campaign
from .paging import Page, in_order, matches
from .parameters import Parameters
from .recent import Recent
from .refusals import Refusal
from .shapes import Shapes

Record = dict[str, Any]

_KEPT_ROWS = 30_000
_KEPT_SELECTIONS = 16


@frozen
class Answer:
    """A successful answer: JSON, and its status."""

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
        default_limit: records a page when no limit is asked for.
        max_limit: the most records a page.
        failing: campaign ids, each with the status that its feeds and the campaign itself are answered with.
    """

    account: Account
    shapes: Shapes
    default_limit: int
    max_limit: int
    failing: Mapping[int, int]
    written: Recent[Hashable, Written] = field(factory=lambda: Recent(_KEPT_ROWS))
    selections: Recent[Hashable, Sequence[int]] = field(factory=lambda: Recent(_KEPT_SELECTIONS))

    def campaign(self, id_: int) -> Campaign:
        """Return a campaign; an unknown or a failing one is refused."""
        if id_ in self.failing:
            raise Refusal(self.failing[id_], f"campaign {id_} was asked to fail")
        campaign = self.account.campaign(id_)
        if campaign is None:
            raise Refusal(404, f"there is no campaign {id_}")
        return campaign

    def page(self, parameters: Parameters) -> Page:
        """Read which page is wanted."""
        return Page.read(parameters, self.default_limit, self.max_limit)

    def listing(
        self,
        parameters: Parameters,
        name: str,
        ids: Callable[[], Sequence[int]],
        record: Callable[[int], Record],
        fields: Sequence[str],
        searched: Sequence[str],
    ) -> Answer:
        """Answer a list of records: filtered, ordered, one page.

        Args:
            parameters: the request's.
            name: what tells this list from others.
            ids: gives the ids of all records, oldest first.
            record: gives the record of an id.
            fields: the fields that `order_by` may name.
            searched: the fields of which one must contain the `filter`.
        """
        page = self.page(parameters)
        wanted = parameters.text("filter")
        order_by = parameters.choice("order_by", fields, "")
        descending = parameters.direction("order_direction")
        question = (name, wanted, order_by, descending)
        chosen = self.selections.get(question)
        if chosen is None:
            chosen = ids()
            if wanted:
                chosen = [id_ for id_ in chosen if any(matches(record(id_)[name], wanted) for name in searched)]
            if order_by or descending:
                chosen = in_order(chosen, lambda id_: record(id_)[order_by or "id"], descending)
            self.selections.keep(question, chosen)
        metadata = {"total_pages": page.count(len(chosen)), "total_records": len(chosen)}
        return as_json({"metadata": metadata, "data": [record(id_) for id_ in page.cut(chosen)]})


def single(record: Record) -> Answer:
    """Answer one record."""
    return as_json({"metadata": {"total_pages": 1, "total_records": 1}, "data": record})


def as_json(body: object) -> Answer:
    """Answer anything that JSON can hold."""
    return Answer(msgspec.json.encode(body))


def moment(when: datetime | None) -> str | None:
    """Write a moment as the service does."""
    return None if when is None else when.isoformat(" ", "seconds")
