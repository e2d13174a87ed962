"""The page size of an endpoint, found by one request with a large `limit`.

A service's default page is often small, and each request counts against its limit. So the client
asks once for more records per page. It does not trust a larger page blindly, because a service may
apply `limit` to the whole report and silently cut it.
"""

from __future__ import annotations

import asyncio
import enum
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from seorep_async.errors import DeadlineExceededError, SeoRepError
from seorep_async.models import Page
from seorep_async.paging.query import PageRequests, Query
from seorep_async.session import Deadline, Session
from seorep_async.settings import Settings

T = TypeVar("T")

LIMIT = 1000
"""The number of records per page that the client asks for."""
SHORTEST_PATIENCE = 5.0
"""The minimum number of seconds that a listing waits for the answer to a question."""
PATIENCE = 8
"""A listing waits for at least this multiple of the time that its own page 1 took."""
CONFIRMATIONS = 3
"""The number of reports of the greatest length, and of empty ones, to compare with and without a
limit.
"""
MOST_FAILURES = 3
"""The number of failures, perhaps because of the limit, after which default pages are used."""
QUESTION_ATTEMPTS = 3
"""The maximum number of attempts for a question. One could fail by chance, which says nothing about
the page size.
"""
QUESTION_SECONDS = 90
"""The maximum number of seconds by which refusals may prolong a question.

This outlasts a limit per minute. It is not longer, because each pause that the service asks for
stops all requests.
"""


class PageSizeState(enum.Enum):
    """The client's knowledge about an endpoint's page size."""

    UNKNOWN = "unknown"
    FOUND = "found"
    DEFAULT = "default"


class PageSize:
    """Finds the page size of one endpoint, for all listings that one client reads in full.

    If page 1 announces at least twice as many records as it has, it is requested once more with
    `limit=1000`: this is the question. The large page is accepted if it has more rows, begins
    with the same rows, and announces no fewer records. From then on, all listings of the endpoint
    use this limit.

    A service that cuts reports cuts all long reports to the same number of records. So a report is
    confirmed by requesting page 1 without a limit as well. This is done for a report longer than
    all confirmed ones, and until three reports of the greatest length and three empty reports are
    confirmed. If more records are announced without a limit, the endpoint returns to default pages.
    A report of exactly 1,000 records may be whole or cut. So its page 1 is also requested with
    `limit=999`, and must still announce 1,000.
    """

    def __init__(self, session: Session, path: str) -> None:
        self._session = session
        self._path = path
        self._state = PageSizeState.UNKNOWN
        self._turn = asyncio.Lock()  # locked by the listing that asks
        self._longest = 0  # records of the longest confirmed report
        self._confirmations = 0  # the number of confirmed reports of that length
        self._empty_confirmations = 0  # the number of confirmed reports without records
        self._pages_are_limited = False  # known: a limit shortens pages, not whole reports
        self._failures = 0

    async def first_page(self, requests: PageRequests[T]) -> Page[T]:
        """Request page 1 of a listing, and set `requests.limit`, the size of its further pages.

        If this raises an error, the limit says whether the page may have been too large.
        """
        # A variable, because mypy would take the state for unchanged after an `await`.
        was_found = self._state is PageSizeState.FOUND
        if was_found:
            return await self._first_large_page(requests, None)
        now = self._session.clock.monotonic
        started = now()
        page = await self._session.send(requests.page(1, limit=None))
        # A larger page would save little or nothing.
        if not page.items or _announced_records(page) < 2 * len(page.items):
            return page
        # The question was answered, so this listing need not wait for its turn to ask.
        if self._state is PageSizeState.DEFAULT:
            return page
        patience = max(SHORTEST_PATIENCE, PATIENCE * (now() - started))
        # Half of the remaining time is for the question, the other half for pages of the default
        # size.
        ask_until = (now() + requests.deadline.at) / 2
        if await self._wait_for_turn(patience, ask_until):
            try:
                if self._state is PageSizeState.UNKNOWN:
                    return await self._ask(requests, page, patience, ask_until)
                # The turn is kept for one more iteration of the loop, so that listings go on one at
                # a time. If all went on in one iteration, they would block the loop.
                await asyncio.sleep(0)
            finally:
                self._turn.release()
        if self._state is PageSizeState.FOUND:
            return await self._first_large_page(requests, page)
        return page

    async def _wait_for_turn(self, patience: float, ask_until: float) -> bool:
        """Wait until no other listing asks the question, for `patience` seconds.

        If the service is refusing attempts then, wait longer, at most until `ask_until`: the
        further pages could not be fetched earlier anyway. Return whether it is this listing's turn
        to ask. It must then release `_turn`.
        """
        now = self._session.clock.monotonic
        wait_until = min(now() + patience, ask_until)
        while now() < wait_until:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(patience, wait_until - now())):
                    return await self._turn.acquire()  # always True
            # While the service refuses, the further pages would wait as long as the question, so
            # waiting longer for the question loses nothing.
            if self._rate_is_refused():
                wait_until = ask_until
        return False

    def _rate_is_refused(self) -> bool:
        """Return whether a limit of the rate is known, or the service refuses everything."""
        share = self._session.share
        return share.pace is not None or share.only_probes

    async def _ask(
        self, requests: PageRequests[T], page: Page[T], patience: float, ask_until: float
    ) -> Page[T]:
        """Ask the question. Return page 1 at the large size, or `page` if it was not accepted."""
        deadline = Deadline(ask_until, seconds_from_permit=QUESTION_SECONDS)
        question = msgspec.structs.replace(
            requests.page(1, limit=LIMIT),
            deadline=deadline,
            max_attempts=QUESTION_ATTEMPTS,
            attempt_seconds=patience,
        )
        try:
            large_page = await self._session.send(question)
            is_longer = _continues(page, large_page, requests.query)
            if is_longer and await self._is_whole(large_page, requests, deadline):
                self._record_found_size(large_page)
                requests.limit = LIMIT
                return large_page
            self._state = PageSizeState.DEFAULT
        except SeoRepError as error:
            # A question that was never sent decides nothing.
            if error.attempts == 0:
                pass
            # A late question had little time. A refusal, while others are refused as well, is
            # probably about the rate. Either decides only if it recurs.
            elif isinstance(error, DeadlineExceededError) or (
                error.status in (429, 503) and self._rate_is_refused()
            ):
                self.count_failure()
                may_ask_again = self._state is PageSizeState.UNKNOWN
                if may_ask_again and self._session.clock.monotonic() < ask_until:
                    return await self._ask(requests, page, patience, ask_until)
            else:
                self._state = PageSizeState.DEFAULT
        return page

    def _record_found_size(self, page: Page[Any]) -> None:
        """Use the large size for all listings from now on. `page` is the first such page."""
        self._state = PageSizeState.FOUND
        self._failures = 0
        self._confirm(page)
        records = len(page.items)
        # A page with all records does not show how many records a page may have.
        self._session.page_sizes[self._path] = (
            records if records < _announced_records(page) else LIMIT
        )

    async def _first_large_page(
        self, requests: PageRequests[T], default_page: Page[T] | None
    ) -> Page[T]:
        """Request page 1 at the found size.

        If its report may have been cut, return the default page, and use default pages from now on.
        """
        requests.limit = LIMIT
        page = await self._session.send(requests.page(1, limit=LIMIT))
        if self._is_confirmed(page):
            return page
        is_whole = await self._is_whole(page, requests, requests.deadline)
        # Page 1 without a limit announces all records. If it fails, no large page is to blame.
        requests.limit = None
        if default_page is None:
            default_page = await self._session.send(requests.page(1, limit=None))
        records = page.total_records
        if not is_whole or records is None or records < _announced_records(default_page):
            self._fall_back()
            return default_page
        requests.limit = LIMIT
        self._confirm(page)
        return page

    async def _is_whole(self, page: Page[T], requests: PageRequests[T], deadline: Deadline) -> bool:
        """Return whether a report that announces exactly the limit is complete."""
        if _announced_records(page) != LIMIT or self._pages_are_limited:
            return True
        request = msgspec.structs.replace(requests.page(1, limit=LIMIT - 1), deadline=deadline)
        shorter_page = await self._session.send(request)
        self._pages_are_limited = _announced_records(shorter_page) >= LIMIT
        return self._pages_are_limited

    def _is_confirmed(self, page: Page[Any]) -> bool:
        """Return whether a report of this length can't have been cut.

        It is shorter than the longest confirmed report. Or it is as long, and enough reports of
        that length were confirmed.
        """
        records = page.total_records
        if records is None:
            return False
        # A service may answer a limit that is too large for a report with an empty page.
        if records == 0:
            return self._empty_confirmations >= CONFIRMATIONS
        if records == self._longest:
            return self._confirmations >= CONFIRMATIONS
        return records < self._longest

    def _confirm(self, page: Page[Any]) -> None:
        """Count a report that was not cut, if it is empty or one of the longest so far.

        A longer report starts the count again.
        """
        records = _announced_records(page)
        if records == 0:
            self._empty_confirmations += 1
        if records > self._longest:
            self._longest = records
            self._confirmations = 0
        if records == self._longest:
            self._confirmations += 1

    def count_failure(self) -> None:
        """Count a listing that failed only with a large limit, or a question without an answer."""
        self._failures += 1
        if self._failures >= MOST_FAILURES:
            self._fall_back()

    def _fall_back(self) -> None:
        """Use default pages for all further listings."""
        self._state = PageSizeState.DEFAULT
        self._session.page_sizes.pop(self._path, None)


def choose_page_size(
    params: dict[str, Any], settings: Settings, page_size: PageSize
) -> PageSize | None:
    """Return `page_size` if it must find the page size, or None if the caller or a setting decides.

    A size from the settings is added to `params`.
    """
    if "limit" in params:
        return None
    if settings.page_size == "find":
        return page_size
    if settings.page_size is not None:
        params["limit"] = settings.page_size
    return None


def _announced_records(page: Page[Any]) -> int:
    """Return the announced number of records, or 0 if the page announced none."""
    return page.total_records or 0


def _continues(page: Page[T], large_page: Page[T], query: Query[T]) -> bool:
    """Return whether a large page is a longer page 1 of the same listing."""
    keys = list(map(query.key, page.items))
    large_keys = list(map(query.key, large_page.items))
    if len(large_keys) <= len(keys) or large_keys[: len(keys)] != keys:
        return False
    if _announced_records(large_page) < _announced_records(page):
        return False
    # Some services announce the number of pages of the default size, which is wrong here.
    pages = large_page.total_pages
    needed_pages = -(-_announced_records(large_page) // len(large_keys))  # rounded up
    return pages is None or pages == needed_pages
