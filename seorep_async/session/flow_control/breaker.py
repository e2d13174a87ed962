"""A circuit breaker. After too many refusals or failures, only probes go out.

Rules are listed in `pace.py`.
"""

from __future__ import annotations

import enum
import math

import msgspec

FAILURES_THAT_OPEN = 10  # in a row
_SHORTEST_BETWEEN_PROBES = 0.1  # seconds
_LONGEST_BETWEEN_PROBES = 4.0
_OUTAGE_SHARE = 0.25  # the next probe waits for this part of the time since the breaker opened
_PATIENCE = 8  # a probe without a response delays the next by this many usual response times
_LEAST_PATIENCE = 0.5  # seconds


class WaitReason(enum.StrEnum):
    """The reason why an attempt waits. The values are the keys of `Stats.waited`."""

    CONCURRENCY = "concurrency"
    PACE = "pace"
    PAUSE = "asked to wait"
    OUTAGE = "outage"
    BACKOFF = "backoff"


class Circuit(enum.Enum):
    """The state of a breaker."""

    CLOSED = enum.auto()
    OPEN_BY_REFUSALS = enum.auto()
    OPEN_BY_OUTAGE = enum.auto()


class CircuitBreaker(msgspec.Struct, eq=False):
    """Decides whether only probes may start, and when the next probe may start.

    An open breaker stays open until a probe is accepted. The pace asks before each attempt, and
    reports the ends of attempts.

    Attributes:
        is_open: whether it is open; each attempt asks, and an Enum would be slow to compare.
        state: closed, or why it is open.
        opened_at: when it last opened.
        last_probe: when the last probe started.
        is_probing: whether the last probe is still in flight.
        next_probe: when the next probe may start if the last one has ended.
        response_time: the smoothed duration of an accepted attempt, in seconds.
        failures: the number of failures in a row.
        has_repeated: whether an accepted request was repeated since the breaker last opened (see
            `Share.claim_repetition`).
    """

    is_open: bool = False
    state: Circuit = Circuit.CLOSED
    opened_at: float = -math.inf
    last_probe: float = -math.inf
    is_probing: bool = False
    next_probe: float = 0.0
    response_time: float = math.inf
    failures: int = 0
    has_repeated: bool = False

    def open(self, state: Circuit, interval: float, now: float) -> None:
        """Let only probes start, the first after `interval` seconds."""
        self.is_open = True
        self.state = state
        self.opened_at = now
        self.is_probing = False
        self.has_repeated = False
        self.next_probe = now + max(_SHORTEST_BETWEEN_PROBES, interval)

    def close(self) -> None:
        """Let all attempts start again."""
        self.is_open = False
        self.state = Circuit.CLOSED
        self.failures = 0

    def reset(self) -> None:
        """Close the breaker, and forget when it opened."""
        self.close()
        self.opened_at = -math.inf

    def start_probe(self, interval: float, now: float, *, tells_of_service: bool) -> None:
        """Record the start of a probe, and decide when the next one may start.

        Args:
            interval: seconds between attempts at the current rate, or 0. Probes keep to it.
            now: the time.
            tells_of_service: whether a failure of this probe would show that the outage continues.
        """
        self.is_probing = True
        self.last_probe = now
        seconds = _SHORTEST_BETWEEN_PROBES
        # The longer an outage has lasted, the longer it is likely to continue. A dead campaign,
        # whose requests are always refused, says nothing about the outage, so the probe after it
        # need not wait longer.
        if tells_of_service:
            seconds = max(seconds, (now - self.opened_at) * _OUTAGE_SHARE)
        self.next_probe = now + max(interval, min(_LONGEST_BETWEEN_PROBES, seconds))

    def end_attempt(self, started: float) -> None:
        """Record that an attempt ended, in whatever way. It may have been the last probe."""
        if started == self.last_probe:
            self.is_probing = False

    @property
    def wait_reason(self) -> WaitReason:
        """The reason why attempts wait while the breaker is open."""
        if self.state is Circuit.OPEN_BY_REFUSALS:
            return WaitReason.PACE
        return WaitReason.OUTAGE

    def probe_due(self) -> float:
        """Return when the next probe may start."""
        if not self.is_probing:
            return self.next_probe
        # Rule 4: if a probe has no answer for a long time, another one goes out.
        patience = max(_LEAST_PATIENCE, _PATIENCE * self.response_time)
        return max(self.next_probe, self.last_probe + min(_LONGEST_BETWEEN_PROBES, patience))

    def accept(self, started: float, now: float) -> bool:
        """Record an accepted attempt. Return whether it closes the breaker."""
        seconds = now - started
        if self.response_time == math.inf:
            self.response_time = seconds
        else:
            # smoothed like TCP's round-trip time
            self.response_time += (seconds - self.response_time) / 8
        self.failures = 0
        # Rule 4: only an attempt that started after the breaker opened can close it.
        return self.is_open and started > self.opened_at

    def fail(self, started: float) -> bool:
        """Record a failure. Return whether the breaker must open."""
        if self.state is Circuit.OPEN_BY_REFUSALS and started > self.opened_at:
            # Rule 4: a probe failed but was not refused, so the service is now down.
            self.state = Circuit.OPEN_BY_OUTAGE
        self.failures += 1
        # Rule 4: enough failures in a row open the breaker.
        return self.failures >= FAILURES_THAT_OPEN and not self.is_open
