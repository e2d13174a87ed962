"""What a client has done so far, in figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import attrs

N = TypeVar("N", int, float)


@attrs.frozen
class Stats:
    """What a client has done since it was opened: a snapshot.

    Where clients share `Limits`, `concurrency` and `pace` are those of all, everything else is the client's own.

    Attributes:
        requests: requests that calls needed, one for each page.
        attempts: requests that were sent, retries included: what the service sees.
        retries: attempts that were repeats, by cause: `throttle`, `overload`, `transient`.
        throttled: responses with status 429.
        bytes_received: bytes of all bodies, decompressed.
        in_flight: attempts in flight now.
        concurrency: attempts that may be in flight; but 8 at first, until as many were accepted or one waited 0.1 s.
        pace: attempts a second that may start now, or None if no limit is known.
        waited: seconds that requests waited before an attempt, in all, by reason: `concurrency` (others were in
            flight), `pace` (the service's rate), `asked to wait` (Retry-After), `outage` (nothing got through),
            `backoff` (before a retry).
    """

    requests: int
    attempts: int
    retries: Mapping[str, int]
    throttled: int
    bytes_received: int
    in_flight: int
    concurrency: int
    pace: float | None
    waited: Mapping[str, float]

    def since(self, earlier: Stats) -> Stats:
        """Return what the client has done since an earlier snapshot; the limits stay those of now."""
        return attrs.evolve(
            self,
            requests=self.requests - earlier.requests,
            attempts=self.attempts - earlier.attempts,
            retries=_grown(self.retries, earlier.retries),
            throttled=self.throttled - earlier.throttled,
            bytes_received=self.bytes_received - earlier.bytes_received,
            waited=_grown(self.waited, earlier.waited),
        )


def _grown(now: Mapping[str, N], before: Mapping[str, N]) -> dict[str, N]:
    return {name: value - before.get(name, 0) for name, value in now.items() if value != before.get(name)}
