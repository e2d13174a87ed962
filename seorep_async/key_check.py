"""Find out whether a 403 is about one campaign or about the API key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from seorep_async.errors import (
    AuthenticationError,
    ConfigurationError,
    SeoRepError,
    TransportError,
)

QUESTION_SECONDS = 10.0
"""The time limit for the question, including waits and retries."""


class KeyCheck:
    """Distinguishes a refused API key from forbidden objects, in one pull or series of lookups.

    A 401 means that the key is refused, but a 403 may be about a single object. After several 403s
    in a row with no report in between, the check therefore asks the service a question. A pull
    requests the first row of what the service accepted last or, if nothing was accepted yet, one
    campaign; lookups always request one campaign. If the service refuses this request as well, the
    key is refused. Asking after every 403 would stall the pull: with half of the campaigns
    forbidden, it took twice as long.
    """

    FIRST_QUESTION = 8
    """The number of 403s in a row after which the first question is due."""
    GROWTH = 4
    """The factor by which that number grows after each question."""
    MOST_FORBIDDEN = 128
    """The largest number of 403s in a row without a question."""

    def __init__(self, send_question: Callable[[], Awaitable[object]]) -> None:
        self.refusal: AuthenticationError | None = None
        """The error with which the service refused the key, or None. It does not name the campaign
        of the refused request."""
        self.answered: asyncio.Event = asyncio.Event()
        """Set unless a question is in progress."""
        self.answered.set()
        self._send_question = send_question
        self._forbidden_in_a_row = 0
        self._forbidden_until_question = self.FIRST_QUESTION  # the number of 403s in a row
        # The number of successes that must still follow the last 403 before the key counts as good.
        self._successes_until_key_is_good = 0

    def accept(self) -> None:
        """Record that the service accepted a request."""
        self._forbidden_in_a_row = 0
        # It stays 0 while the key counts as good.
        self._successes_until_key_is_good = max(0, self._successes_until_key_is_good - 1)

    async def refuse(self, error: AuthenticationError, other_requests: int) -> None:
        """Record a 401 or 403, and ask the question if it is due.

        Args:
            other_requests: the number of other requests that may be in flight.
        """
        if error.status == 401:
            self.refusal = error.evolve(subject=None)
            return
        # The service may have accepted these other requests before the key was revoked, so their
        # successes prove nothing: the key counts as good only after one success more.
        self._successes_until_key_is_good = other_requests + 1
        self._forbidden_in_a_row += 1
        # During a question, a 403 ends its own listing and asks no second question.
        if self._forbidden_in_a_row >= self._forbidden_until_question and self.answered.is_set():
            await self._ask()

    async def require_good_key(self) -> None:
        """Wait until no question is in progress, and raise the refusal if the key is refused."""
        await self.answered.wait()
        if self.refusal is not None:
            raise self.refusal.evolve()

    async def find_refusal(self) -> AuthenticationError | None:
        """Return the refusal of the key, or None, at the end of a pull.

        If too few requests succeeded since the last 403 to show that the key is good, ask the
        service once before returning.
        """
        while not self.answered.is_set():
            # Another consumer of this pull is asking. If it is cancelled, the first of those that
            # wake up here asks in its place, and this loop makes the others wait for that answer.
            await self.answered.wait()
        if self._successes_until_key_is_good and self.refusal is None:
            await self._ask()
            # The end of a pull asks only once, whatever the answer.
            self._successes_until_key_is_good = 0
        return self.copy_of_refusal()

    def copy_of_refusal(self) -> AuthenticationError | None:
        """Return a copy of the refusal, or None. Raising an exception adds to its traceback."""
        return None if self.refusal is None else self.refusal.evolve()

    async def _ask(self) -> None:
        """Ask the question, and record what its answer says about the key."""
        self.answered.clear()
        try:
            await self._send_question()
        except AuthenticationError as error:
            # The key is refused for every campaign, so the error names none.
            self.refusal = error.evolve(subject=None)
        except SeoRepError as error:
            # A service that returns a 404 or an unexpected body has accepted the key. A timeout,
            # an outage or a closed client proves nothing: the pull continues and asks again later.
            proves_nothing = error.retryable or isinstance(
                error, TransportError | ConfigurationError
            )
            if not proves_nothing:
                self._successes_until_key_is_good = 0
        else:
            self._successes_until_key_is_good = 0
        finally:
            self.answered.set()
        # A cancelled question doesn't get here. The counts stay, so the next 403 asks again.
        self._forbidden_in_a_row = 0
        self._forbidden_until_question = min(
            self._forbidden_until_question * self.GROWTH, self.MOST_FORBIDDEN
        )
