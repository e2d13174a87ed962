"""The requests of a listing, page by page."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import msgspec

from seorep_async.models import Page
from seorep_async.paging.page_size import ATTEMPTS, PageSize
from seorep_async.session import Deadline, Decode, Lane, Request

T = TypeVar("T")


class Schedule(msgspec.Struct, eq=False):
    """The common part of all requests of a pull, or of a single listing.

    Attributes:
        deadline: of all requests together, or of each.
        lane: of the pull, or None for a single listing.
    """

    deadline: Deadline
    lane: Lane | None = None


class Query(msgspec.Struct, Generic[T], eq=False):
    """The query of a listing.

    Attributes:
        path: from `/v3` on.
        query: encoded, without `page`.
        decode: makes the decoder of a page's body, a `FeedPage` or `ModelPage`, from the page's
            number.
        key: identifies an item, to detect repeated ones.
        subject: its name in errors, such as `campaign 42`, or None.
        page_size: finds the page size of the endpoint, or None if a limit is given or not wanted.
        secrets: strings of the query that must not appear in an error.
    """

    path: str
    query: str
    decode: Callable[[int], Decode[Page[T]]]
    key: Callable[[T], Hashable]
    subject: str | None = None
    page_size: PageSize | None = None
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        # Tracebacks show locals, and the query may be private.
        return f"Query({self.path})"

    def page(
        self, number: int, schedule: Schedule, priority: int = 0, limit: int | None = None
    ) -> Request[Page[T]]:
        """Return the request of one page, with the found size as its `limit`.

        In a lane, the lowest priority goes first.
        """
        query = f"page={number}"
        if limit is not None:
            query = f"limit={limit}&{query}"
        if self.query:
            query = f"{self.query}&{query}"
        return Request(
            method="GET",
            path=self.path,
            query=query,
            secrets=self.secrets,
            decode=self.decode(number),
            subject=self.subject,
            deadline=schedule.deadline,
            priority=priority,
            lane=schedule.lane,
            max_attempts=math.inf if limit is None else ATTEMPTS,
        )
