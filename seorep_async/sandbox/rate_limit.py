"""The rate limit: a token bucket that answers 429."""

import math
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Literal

from attrs import field, frozen

from .options import above_zero, at_least, one_of, optional
from .refusals import Refusal


@frozen
class RateLimit:
    """How many requests are let through.

    Args:
        per_second: requests a second in the long run.
        burst: requests at once after a pause; a fifth of a second's worth, but at least one, unless given.
        retry_after: how a 429 says when to come back: None if not at all, "seconds" or "date" in a Retry-After.
    """

    per_second: float = field(validator=above_zero)
    burst: int | None = field(default=None, kw_only=True, validator=optional(at_least(1)))
    retry_after: Literal["seconds", "date"] | None = field(
        default=None, kw_only=True, validator=optional(one_of("seconds", "date"))
    )


class TokenBucket:
    """A bucket of tokens, one a request, refilled at the limit's rate.

    Args:
        limit: the rate and the bucket's size.
        clock: seconds on a clock that never goes back.
        wall_clock: seconds since 1970, for dates only.
    """

    def __init__(
        self,
        limit: RateLimit,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._limit = limit
        self._size = limit.burst or max(1.0, limit.per_second / 5)
        self._clock = clock
        self._wall_clock = wall_clock
        self._tokens = float(self._size)
        self._filled_at = clock()

    def take(self) -> None:
        """Take a token; without one the request is refused with status 429."""
        now = self._clock()
        self._tokens = min(self._size, self._tokens + (now - self._filled_at) * self._limit.per_second)
        self._filled_at = now
        if self._tokens < 1:
            raise Refusal(429, "too many requests", self._retry_after((1 - self._tokens) / self._limit.per_second))
        self._tokens -= 1

    def _retry_after(self, wait: float) -> dict[str, str]:
        # Rounded up: who comes back at the moment that was named finds a token.
        if self._limit.retry_after == "seconds":
            return {"Retry-After": str(math.ceil(wait))}
        if self._limit.retry_after == "date":
            return {"Retry-After": formatdate(math.ceil(self._wall_clock() + wait), usegmt=True)}
        return {}
