"""The requests of a listing, page by page."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

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

    def request(
        self,
        number: int,
        deadline: Deadline,
        lane: Lane | None = None,
        position: int = 0,
        limit: int | None = None,
    ) -> Request[Page[T]]:
        """Return the request of a page.

        Args:
            number: the number of the page.
            deadline: one deadline for all requests of the listing (`Deadline.of_call`), or a time
                limit for each (`Deadline.of_stream`).
            lane: the lane of a pull, or None for a single listing.
            position: the listing's position among others. Listings are read in this order.
            limit: the page size that the client found. With None, the limit in `query` applies,
                or the service's default.
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
            deadline=deadline,
            priority=position,
            lane=lane,
            max_attempts=math.inf if limit is None else ATTEMPTS,
        )

    @property
    def name(self) -> str:
        """The listing's name in messages. Without a subject, it is the path."""
        return self.subject or self.path

    def __repr__(self) -> str:
        # Tracebacks show locals, and the query may be private.
        return f"Query({self.path})"
