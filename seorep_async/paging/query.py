"""The requests of a listing, page by page."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import msgspec

from seorep_async.models import Page
from seorep_async.normalisation import FeedPage, ModelPage
from seorep_async.secret import PrivateStruct
from seorep_async.session import Deadline, Lane, Request

T = TypeVar("T")

ATTEMPTS = 5
"""The maximum number of attempts for a page of the large size that the client found
(`page_size.py`). Some services fail only on large pages. After these attempts, the listing is
therefore read again with pages of the default size.
"""
_PAGE = re.compile("(?<![^&])(limit|page)=[^&]*&?")
"""The size and the number of a page in a query."""


class Query(PrivateStruct, Generic[T]):
    """The query of a listing.

    Attributes:
        path: the path, beginning with `/v3`.
        query: encoded, without `page`.
        decode: makes the decoder of a page from the page's number.
        key: identifies a record, to detect repeated records.
        subject: the listing's name in errors, such as `campaign 42`, or None.
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
        """The listing's name in messages. Without a subject, it is the path."""
        return self.subject or self.path

    def __repr__(self) -> str:
        # Tracebacks show locals, and the query may be private.
        return f"Query({self.path})"


class PageRequests(msgspec.Struct, Generic[T], eq=False):
    """The requests of one listing while it is being read.

    Attributes:
        deadline: one deadline for all requests of the listing (`Deadline.of_call`), or a time
            limit for each (`Deadline.of_stream`).
        lane: the lane of a pull, or None for a single listing.
        position: the listing's position among others. Listings are read in this order.
        limit: the page size that `page_size.py` chose for the listing, or None.
    """

    query: Query[T]
    deadline: Deadline
    lane: Lane | None = None
    position: int = 0
    limit: int | None = None

    def page(self, number: int, limit: int | None) -> Request[Page[T]]:
        """Return the request of a page.

        Args:
            number: the number of the page.
            limit: records per page. With None, the limit in the query applies, or the service's
                default.
        """
        query = self.query
        parameters = f"page={number}"
        if limit is not None:
            parameters = f"limit={limit}&{parameters}"
        if query.query:
            parameters = f"{query.query}&{parameters}"
        return Request(
            method="GET",
            path=query.path,
            query=parameters,
            secrets=query.secrets,
            decode=query.decode(number),
            subject=query.subject,
            deadline=self.deadline,
            priority=self.position,
            lane=self.lane,
            max_attempts=math.inf if limit is None else ATTEMPTS,
            first_rows=None if self.lane is None else self.first_rows,
        )

    def first_rows(self, limit: int) -> Request[Page[T]]:
        """Return a request for the listing's first rows, to find out whether it is accepted.

        It is not one of the listing's pull, and its errors do not name the subject, because they
        are not about it.
        """
        query = self.query
        other_parameters = _PAGE.sub("", query.query).rstrip("&")
        parameters = f"limit={limit}&page=1&{other_parameters}"
        return Request("GET", query.path, query.decode(1), parameters, secrets=query.secrets)
