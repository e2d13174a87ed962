"""The requests of a listing, page by page."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import msgspec

from seorep_async.models import Page
from seorep_async.normalisation import FeedPage, ModelPage
from seorep_async.session import Deadline, Lane, Request

T = TypeVar("T")

ATTEMPTS = 5
"""The most attempts for a page of the found size: a service may fail only on large pages."""


class Schedule(msgspec.Struct, eq=False):
    """The common part of all requests of a pull, or of a single listing.

    Attributes:
        deadline: the end of all requests together (`Deadline.of_call`), or a rule for each one
            (`Deadline.of_stream`).
        lane: the pull's, or None for a single listing.
    """

    deadline: Deadline
    lane: Lane | None = None


class Query(msgspec.Struct, Generic[T], eq=False):
    """The query of a listing.

    Attributes:
        path: from `/v3` on.
        query: encoded, without `page`.
        decode: makes the decoder of a page from the page's number.
        key: identifies an item, to detect repeated ones.
        subject: its name in errors, such as `campaign 42`, or None.
        secrets: strings of the query that must not appear in an error.
    """

    path: str
    query: str
    decode: Callable[[int], FeedPage[T] | ModelPage[T]]
    key: Callable[[T], Hashable]
    subject: str | None = None
    secrets: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The listing's name in messages: its subject, or else its path."""
        return self.subject or self.path

    def __repr__(self) -> str:
        # Tracebacks show locals, and the query may be private.
        return f"Query({self.path})"


class SizedQuery(msgspec.Struct, Generic[T], eq=False):
    """The query of a listing with one page size throughout.

    Attributes:
        place: its place among other listings. The lowest is read first.
        limit: the requested number of records per page, or None for the service's default.
    """

    query: Query[T]
    schedule: Schedule
    place: int = 0
    limit: int | None = None

    def request(self, number: int) -> Request[Page[T]]:
        """Return the request of a page, with the limit that this listing has now."""
        query = f"page={number}"
        if self.limit is not None:
            query = f"limit={self.limit}&{query}"
        if self.query.query:
            query = f"{self.query.query}&{query}"
        return Request(
            method="GET",
            path=self.query.path,
            query=query,
            secrets=self.query.secrets,
            decode=self.query.decode(number),
            subject=self.query.subject,
            deadline=self.schedule.deadline,
            priority=self.place,
            lane=self.schedule.lane,
            max_attempts=math.inf if self.limit is None else ATTEMPTS,
        )
