"""Rate limits, as real services and their proxies have them, and the refusal of excess requests."""

import math
import re
import time
from collections import deque
from collections.abc import Callable
from typing import Literal, Self, get_args

from attrs import define, field, frozen
from attrs.validators import optional

from seorep_async.sandbox.checks import check_choice, check_integer, check_number
from seorep_async.sandbox.request import Refusal

LimitKind = Literal["bucket", "fixed-window", "sliding-window"]
LIMIT_KINDS: tuple[str, ...] = get_args(LimitKind)

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600}
_RATE = r"(?P<requests>[0-9]+(?:\.[0-9]*)?)(?:/(?P<time>[1-9][0-9]*)?(?P<unit>[smh]))?"
# Each outer group is named after the argument of RateLimit that it sets.
_PART = re.compile(
    rf"(?P<per_second>{_RATE})|(?P<kind>{'|'.join(LIMIT_KINDS)})|(?P<counts_refused>counts-refused)"
    "|burst=(?P<burst>[0-9]+)|at-once=(?P<at_once>[0-9]+)|status=(?P<status>[0-9]+)"
    "|retry-after=(?P<retry_after>seconds)"
)
_READERS = {"burst": int, "at_once": int, "status": int, "counts_refused": bool}
"""Convert the parts of a limit's string. The other parts stay strings."""
_CHECK_COUNT = optional(check_integer(1))


@frozen
class RateLimit:
    """A limit on requests, and the way in which further requests are refused.

    Attributes:
        per_second: requests a second in the long run. None limits no rate, only `at_once`.
        kind: the way in which requests are counted: "bucket", "fixed-window" or "sliding-window".
        window: a window's length in seconds; it lets `per_second * window` requests through.
        counts_refused: whether refused requests count in a sliding window.
        burst: the requests that a bucket lets through at once after a pause; by default the
            requests of a fifth of a second, but at least 1. A burst of 1 is nginx's `limit_req`
            without `burst`.
        at_once: the maximum number of requests answered at the same time.
        status: the status of a refusal, 429 or 503.
        retry_after: "seconds" if a refusal says in Retry-After when to come back, or None.

    Raises:
        ValueError: a value is out of its range, or has no meaning beside the others.
    """

    per_second: float | None = field(default=None, validator=optional(check_number()))
    kind: LimitKind = field(default="bucket", validator=check_choice(*LIMIT_KINDS))
    window: float = field(default=1.0, validator=check_number())
    counts_refused: bool = field(default=False)
    burst: int | None = field(default=None, validator=_CHECK_COUNT)
    at_once: int | None = field(default=None, validator=_CHECK_COUNT)
    status: int = field(default=429, validator=check_choice(429, 503))
    retry_after: Literal["seconds"] | None = field(
        default=None, validator=optional(check_choice("seconds"))
    )

    def __attrs_post_init__(self) -> None:
        if self.per_second is None and self.at_once is None:
            raise ValueError("per_second or at_once must be given")
        if self.counts_refused and self.kind != "sliding-window":
            raise ValueError("counts_refused must be given with a sliding-window only")
        has_bucket = self.kind == "bucket" and self.per_second is not None
        if self.burst is not None and not has_bucket:
            raise ValueError("burst must be given with a bucket only")

    @classmethod
    def parse(cls, string: str) -> Self:
        """Read a limit from a string such as `100/10s,fixed-window,status=503`.

        Raises:
            ValueError: the string is not of this form.
        """
        values = {}
        window = 1.0
        for part in string.split(","):
            match = _PART.fullmatch(part.replace(" ", ""))
            if match is None or match.lastgroup is None:
                raise ValueError(
                    f"rate_limit: {part.strip()!r} is none of: a rate such as 200, 100/10s or "
                    f"1000/m; {', '.join(LIMIT_KINDS)}; counts-refused; burst=N; at-once=N; "
                    "status=429 or 503; retry-after=seconds"
                )
            name = match.lastgroup  # an outer group closes last
            if name in values:
                raise ValueError(f"rate_limit: {_with_part_names(name)} is given twice")
            read = _READERS.get(name, str)
            values[name] = read(match[name])
            if name == "per_second":
                window = float(match["time"] or 1) * _UNIT_SECONDS[match["unit"] or "s"]
                values[name] = float(match["requests"]) / window
        # A time such as the 10 s of 100/10s is a window's length. A bucket has no window.
        if "kind" in values:
            values["window"] = window
        try:
            return cls(**values)
        except ValueError as error:
            raise ValueError(f"rate_limit: {_with_part_names(str(error))}") from None


def _with_part_names(text: str) -> str:
    """Replace the names of arguments with the names of the parts of a string."""
    return text.replace("per_second", "the rate").replace("_", "-")


@define
class Limiter:
    """Applies a `RateLimit`. It never waits: time comes only from its clock."""

    limit: RateLimit
    _clock: Callable[[], float] = time.monotonic
    _in_progress: int = field(init=False, default=0)
    _rate: "_Bucket | _Window | None" = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        per_second = self.limit.per_second
        if per_second is None:
            return
        algorithm = _Bucket if self.limit.kind == "bucket" else _Window
        self._rate = algorithm(self.limit, per_second, self._clock())

    def acquire(self) -> Refusal | None:
        """Return the refusal of a request, or None if it is accepted.

        An accepted request ends with `release`.
        """
        at_once = self.limit.at_once
        # Concurrent requests are limited first, so that a refused one takes no token.
        if at_once is not None and self._in_progress >= at_once:
            return self._refusal("too many requests at once", 1.0)
        if self._rate is not None:
            wait = self._rate.wait(self._clock())
            if wait > 0:
                return self._refusal("too many requests", wait)
        self._in_progress += 1
        return None

    def release(self) -> None:
        """End an accepted request."""
        self._in_progress -= 1

    def _refusal(self, message: str, wait: float) -> Refusal:
        refusal = Refusal(self.limit.status, message)
        # Rounded up, so that a retry at the named moment is accepted.
        if self.limit.retry_after is not None:
            refusal.headers["Retry-After"] = str(math.ceil(wait))
        return refusal


class _Bucket:
    """Tokens, one a request, refilled at the limit's rate."""

    def __init__(self, limit: RateLimit, per_second: float, now: float) -> None:
        self._per_second = per_second
        # by default a fifth of a second's requests; without a whole token, none would pass
        self._size = float(limit.burst or max(1.0, per_second / 5))
        self._tokens = self._size
        self._filled_at = now

    def wait(self, now: float) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        # The bucket is refilled for the time that has passed, up to its size.
        refilled = self._tokens + (now - self._filled_at) * self._per_second
        self._tokens = min(self._size, refilled)
        self._filled_at = now
        if self._tokens < 1:
            return (1 - self._tokens) / self._per_second
        self._tokens -= 1
        return 0.0


class _Window:
    """The slots of a window, one for each request that it lets through.

    A slot is stored as the time when it is free again. In a sliding window, that is one window
    after its request. In a fixed window, all slots are free when the next window begins.
    """

    def __init__(self, limit: RateLimit, per_second: float, now: float) -> None:
        self._limit = limit
        # without a slot, no request would pass
        slots = max(1, round(per_second * limit.window))
        self._free_at = deque([now] * slots, maxlen=slots)
        self._started_at = now

    def wait(self, now: float) -> float:
        """Record a request and return 0, or return the seconds until one is accepted.

        Another request may take that slot in the meantime.
        """
        in_window = 0.0
        if self._limit.kind == "fixed-window":
            in_window = (now - self._started_at) % self._limit.window
        # The oldest slot is free first.
        is_refused = self._free_at[0] > now
        # A request that counts takes this slot. The deque drops it, because it is full.
        if not is_refused or self._limit.counts_refused:
            self._free_at.append(now - in_window + self._limit.window)
        if is_refused:
            return self._free_at[0] - now
        return 0.0
