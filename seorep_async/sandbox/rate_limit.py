"""Limits of requests, as in real services and their proxies, and the refusals of the excess."""

import math
import re
import time
from collections import deque
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, Literal, Self

from attrs import define, field, frozen
from attrs.validators import optional

from seorep_async.sandbox.options import integer, number, one_of
from seorep_async.sandbox.request import Refusal

LimitKind = Literal["bucket", "fixed-window", "sliding-window"]
KINDS = ("bucket", "fixed-window", "sliding-window")

_MOST_PER_WINDOW = 1_000_000_000
_RATE = re.compile(r"([0-9]+(?:\.[0-9]*)?)(?:/([0-9]+(?:\.[0-9]*)?)?([smh]))?")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600}


@frozen
class RateLimit:
    """How many requests are let through, and how the others are refused.

    Attributes:
        per_second: requests a second in the long run; None for no limit of the rate, only `at_once`.
        kind: "bucket", "fixed-window" or "sliding-window": how requests are counted.
        window: a window's length in seconds; it lets `per_second * window` requests through.
        counts_refused: whether refused requests count in a sliding window.
        burst: requests at once after a pause, of a bucket; a fifth of a second's worth, but at least one, unless given;
            1 is nginx's `limit_req` without `burst`.
        at_once: the most requests that are answered at the same time.
        status: the status of a refusal, 429 or 503.
        retry_after: how a refusal says when to come back: None if not at all, "seconds" or "date" in a Retry-After.

    Raises:
        ValueError: a value is out of its range, or has no meaning beside the others.
    """

    per_second: float | None = field(default=None, validator=optional(number()))
    kind: LimitKind = field(default="bucket", kw_only=True, validator=one_of(*KINDS))
    window: float = field(default=1.0, kw_only=True, validator=number())
    counts_refused: bool = field(default=False, kw_only=True)
    burst: int | None = field(default=None, kw_only=True, validator=optional(integer(1)))
    at_once: int | None = field(default=None, kw_only=True, validator=optional(integer(1)))
    status: int = field(default=429, kw_only=True, validator=one_of(429, 503))
    retry_after: Literal["seconds", "date"] | None = field(
        default=None, kw_only=True, validator=optional(one_of("seconds", "date"))
    )

    def __attrs_post_init__(self) -> None:
        if self.per_second is None and self.at_once is None:
            raise ValueError("per_second or at_once must be given")
        if self.counts_refused and self.kind != "sliding-window":
            raise ValueError("counts_refused must be given with a sliding-window only")
        if self.burst is not None and (self.kind != "bucket" or self.per_second is None):
            raise ValueError("burst must be given with a bucket only")
        most = (self.per_second or 0) * self.window
        if self.kind != "bucket" and not 0.5 < most <= _MOST_PER_WINDOW:
            raise ValueError(
                f"per_second * window must be from 1 to {_MOST_PER_WINDOW:,}: the requests of a window"
            )

    @classmethod
    def parse(cls, string: str) -> Self:
        """Read a limit from a string such as `100/10s,fixed-window,status=503`.

        Raises:
            ValueError: the string is not of this form.
        """
        values: dict[str, Any] = {}
        for part in (part.strip() for part in string.split(",")):
            name, value = _parse_part(part)
            if name in values:
                raise ValueError(f"rate_limit: {name.replace('_', '-')} is given twice")
            values[name] = value
        count, seconds = values.pop("rate", (None, 1.0))
        if values.get("kind", "bucket") != "bucket":
            values["window"] = seconds
        try:
            return cls(None if count is None else count / seconds, **values)
        except ValueError as error:
            problem = str(error).replace("per_second", "the rate").replace("_", "-")
            raise ValueError(f"rate_limit: {problem}") from None


def _parse_part(part: str) -> tuple[str, Any]:
    name, _, value = (one.strip() for one in part.partition("="))
    if part in KINDS:
        return "kind", part
    if part == "counts-refused":
        return "counts_refused", True
    if name in ("burst", "at-once", "status") and value.isascii() and value.isdigit():
        return name.replace("-", "_"), int(value)
    if name == "retry-after" and value in ("seconds", "date"):
        return "retry_after", value
    rate = _RATE.fullmatch(part)
    if rate and (seconds := float(rate[2] or 1) * _UNIT_SECONDS[rate[3] or "s"]):
        return "rate", (float(rate[1]), seconds)
    raise ValueError(
        f"rate_limit: {part!r} is none of: a rate such as 200, 100/10s or 1000/m; {', '.join(KINDS)}; counts-refused; "
        "burst=N; at-once=N; status=429 or 503; retry-after=seconds or date"
    )


@define
class Limiter:
    """Applies a `RateLimit`, without waiting: time comes from `clock`, and for dates from `wall_clock`, alone."""

    limit: RateLimit
    _clock: Callable[[], float] = time.monotonic
    _wall_clock: Callable[[], float] = time.time
    _in_progress: int = field(init=False, default=0)
    _rate: "_Bucket | _Window | None" = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        if self.limit.per_second:
            rule = _Bucket if self.limit.kind == "bucket" else _Window
            self._rate = rule(self.limit, self.limit.per_second, self._clock())

    def acquire(self) -> Refusal | None:
        """Return the refusal of a request, or None if it is accepted, to be ended by `release`."""
        if self.limit.at_once is not None and self._in_progress >= self.limit.at_once:
            return self._refusal("too many requests at once", 1.0)
        if self._rate and (wait := self._rate.wait(self._clock())) > 0:
            return self._refusal("too many requests", wait)
        self._in_progress += 1
        return None

    def release(self) -> None:
        self._in_progress -= 1

    def _refusal(self, message: str, wait: float) -> Refusal:
        # Rounded up: a retry at the named moment is accepted.
        if self.limit.retry_after is None:
            return Refusal(self.limit.status, message)
        date = formatdate(math.ceil(self._wall_clock() + wait), usegmt=True)
        value = str(math.ceil(wait)) if self.limit.retry_after == "seconds" else date
        return Refusal(self.limit.status, message, {"Retry-After": value})


class _Bucket:
    """Tokens, one a request, refilled at the limit's rate."""

    def __init__(self, limit: RateLimit, per_second: float, now: float) -> None:
        self._per_second = per_second
        self._tokens = self._size = float(limit.burst or max(1.0, per_second / 5))
        self._filled_at = now

    def wait(self, now: float) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        self._tokens = min(self._size, self._tokens + (now - self._filled_at) * self._per_second)
        self._filled_at = now
        if self._tokens < 1:
            return (1 - self._tokens) / self._per_second
        self._tokens -= 1
        return 0.0


class _Window:
    """The latest requests, as many as a window lets through, each by the time at which its place is free again.

    In a sliding window that is a window later; in a fixed one, all places are free when the next begins.
    """

    def __init__(self, limit: RateLimit, per_second: float, now: float) -> None:
        self._limit = limit
        self._most = round(per_second * limit.window)
        self._free_at: deque[float] = deque(maxlen=self._most)
        self._since = now

    def wait(self, now: float) -> float:
        """Record a request and return 0, or return the seconds until one is accepted if none comes meanwhile."""
        in_window = (
            (now - self._since) % self._limit.window if self._limit.kind == "fixed-window" else 0.0
        )
        refused = len(self._free_at) == self._most and self._free_at[0] > now
        if not refused or self._limit.counts_refused:
            self._free_at.append(now - in_window + self._limit.window)
        return self._free_at[0] - now if refused else 0.0
