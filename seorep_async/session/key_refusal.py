"""Whether the service refuses the API key itself, or single objects: a rule without I/O, of one client."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from seorep_async.errors import AuthenticationError
from seorep_async.session.request import Request
from seorep_async.session.timeouts import Deadline


class KeyGuard:
    """What 401s and 403s say about the key.

    A 401 is about the key. A 403 may be about an object, so it fails its own request alone. After eight in a row, a
    probe decides: it repeats the last success, as a key may be good for reports only; before any success, it lists
    campaigns. While the service accepts probes, the next one is due after twice as many.
    """

    MANY = 8
    """Forbidden requests in a row that make a probe due, at first and after a success."""

    def __init__(self) -> None:
        self.refusals: int = 0
        """How often the key was refused: requests that began before the last refusal are stopped."""
        self.probe: Request[Any] | None = None
        """The probe in flight; only it may start."""
        self._refusal: AuthenticationError | None = None
        self._target: Request[Any] | None = None  # of a probe
        self._in_a_row = 0
        self._due = self.MANY

    def refusal_since(self, refusals: int) -> AuthenticationError | None:
        """Return a copy of the last refusal of the key, or None if there was none since `refusals` were counted."""
        return (
            None if self._refusal is None or self.refusals <= refusals else self._refusal.evolve()
        )

    def may_start(self, request: Request[Any], refusals: int) -> bool:
        """Return whether a request may start that began after so many refusals of the key."""
        return refusals == self.refusals and (self.probe is None or self.probe is request)

    def succeed(self, request: Request[Any]) -> None:
        if request is not self.probe:
            self._in_a_row, self._due = 0, self.MANY
            if request.method == "GET" and not request.private:
                self._target = request

    def forbid(self, request: Request[Any]) -> bool:
        """Record a 403, and return whether a probe is due."""
        self._target = self._target or Request("GET", "/v3/campaigns", request.decode, "limit=1")
        self._in_a_row += 1
        return self._in_a_row >= self._due and self.probe is None

    def refuse(self, refusal: AuthenticationError) -> None:
        self.refusals += 1
        self._refusal, self._due = refusal, self.MANY

    @property
    def in_doubt(self) -> bool:
        """Whether neither a request nor a probe spoke for the key since the last 403."""
        return self._in_a_row > 0

    def new_probe(self, refusals: int, deadline: Deadline) -> Request[Any]:
        """Return a request that shows whether the key is refused; a 403 was recorded before."""
        fresh = {
            "subject": None,
            "deadline": deadline,
            "priority": 0,
            "lane": None,
            "refusals": refusals,
        }
        return msgspec.structs.replace(cast("Request[Any]", self._target), **fresh)

    def start_probe(self, deadline: Deadline) -> Request[Any]:
        """Return the probe that is due, which is in flight from now on."""
        self._due *= 2
        self.probe = self.new_probe(self.refusals, deadline)
        return self.probe

    def end_probe(self, *_: object) -> None:
        """Let others start, whatever the probe ended with: unless it was refused, the key is in good standing."""
        self.probe, self._in_a_row = None, 0
