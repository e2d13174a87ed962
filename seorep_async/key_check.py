"""The question whether a 403 is about one campaign or about the API key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from seorep_async.errors import (
    AuthenticationError,
    ConfigurationError,
    SeoRepError,
    TransportError,
)
from seorep_async.paging import Query

QUESTION_SECONDS = 10.0
"""The longest time that a question may take, waits and retries included."""


class AcceptedQuery(msgspec.Struct, eq=False):
    """The query of the report that a pull of one client read last; its pulls share it."""

    query: Query[Any] | None = None


class KeyCheck:
    """Tells a refused API key from forbidden objects, for one pull or one series of lookups.

    A 401 means that the key is refused. A 403 may be about its object alone. So after several 403s
    in a row, each of a page and with no report read in between, the service is asked one question:
    a request that it accepted before. If it refuses that one too, the key is refused. Judging each
    403 would empty the pipe: with half of the campaigns forbidden, a pull took twice as long.
    """

    FIRST_QUESTION = 8
    """Number of 403s in a row that make the first question due."""
    GROWTH = 4
    """How many times as many 403s make the next question due, after one that refused no key."""
    LONGEST_ROW = 128
    """Number of 403s in a row that make a question due in any case."""

    def __init__(self, send_question: Callable[[], Awaitable[object]]) -> None:
        self.refusal: AuthenticationError | None = None
        """The error with which the service refused the key, without a subject."""
        self.answered: asyncio.Event = asyncio.Event()
        """Set unless a question is in progress."""
        self.answered.set()
        self._send_question = send_question
        self._forbidden_in_a_row = 0
        self._question_due = self.FIRST_QUESTION
        # Successes that must follow the last 403 until it is no longer in doubt. Requests that
        # were on their way at that moment may have been accepted before the key was revoked.
        self._successes_missing = 0

    def accept(self) -> None:
        """Record that the service accepted a request."""
        self._forbidden_in_a_row = 0
        self._successes_missing = max(0, self._successes_missing - 1)

    async def refuse(self, error: AuthenticationError, in_progress: int) -> None:
        """Record a 401 or 403, and ask the question if it is due.

        Args:
            in_progress: number of other requests that may be on their way.
        """
        if error.status == 401:
            self.refusal = error.evolve(subject=None)
            return
        self._successes_missing = in_progress + 1
        self._forbidden_in_a_row += 1
        if self._forbidden_in_a_row >= self._question_due and self.answered.is_set():
            await self._ask()

    async def require_good_key(self) -> None:
        """Wait while a question is in progress; raise if the key is refused."""
        await self.answered.wait()
        if self.refusal is not None:
            raise self.refusal.evolve()

    async def find_refusal(self) -> AuthenticationError | None:
        """Return the refusal of the key, or None. If the last 403 is still in doubt, ask first."""
        await self.answered.wait()  # another consumer of the same pull may be asking
        if self._successes_missing and self.refusal is None:
            await self._ask()
            # Whatever the answer was, the end of a pull asks once.
            self._successes_missing = 0
        return None if self.refusal is None else self.refusal.evolve()

    async def _ask(self) -> None:
        self.answered.clear()
        try:
            await self._send_question()
        except AuthenticationError as error:
            self.refusal = error.evolve(subject=None)
        except SeoRepError as error:
            # A 404 or a strange body comes from a service that let the key in. A timeout or an
            # outage says nothing: the pull goes on, and asks again after more 403s or at its end.
            never_arrived = isinstance(error, TransportError | ConfigurationError)
            if not error.retryable and not never_arrived:
                self._successes_missing = 0
        else:
            self._successes_missing = 0
        finally:
            self.answered.set()
        # A question that was cancelled comes to none of this, so it is asked again.
        self._forbidden_in_a_row = 0
        self._question_due = min(self._question_due * self.GROWTH, self.LONGEST_ROW)
