"""Whether a 403 concerns one object or the API key: a rule without I/O, shared by the requests of one pull."""

from __future__ import annotations

import asyncio
import enum

import msgspec

from seorep_async.errors import AuthenticationError


class Step(enum.Enum):
    """The next step of a request of the scope."""

    GO = "go"
    """Start: nothing speaks against the key."""
    WAIT = "wait"
    """Wait for an attempt in flight: its response decides."""
    PROBE = "probe"
    """Send one request that names no object; its response decides."""
    CANCEL = "cancel"
    """End: the key was refused."""


class CancelScope(msgspec.Struct, eq=False):
    """Cancels the requests of one pull once the service refuses the API key itself.

    Attempts are numbered as they start. A 403 puts the key in doubt until an attempt that started later succeeds: then
    it concerned one object. In doubt nothing starts; if no attempt in flight can prove the key, one probe decides. It
    repeats the last success, as a key may be good for reports only; before any success, it lists campaigns.

    Attributes:
        error: the refusal, once the key was refused.
        target: path and query of the probe.
        probe: its task, or None before the first.
    """

    error: AuthenticationError | None = None
    target: tuple[str, str] = ("/v3/campaigns", "limit=1")
    probe: asyncio.Task[None] | None = None
    _started: int = 0
    _last_success: int = 0
    _last_forbidden: int = 0
    _in_flight: set[int] = msgspec.field(default_factory=set)
    _probing: bool = False
    _changed: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    @property
    def may_go(self) -> bool:
        """Whether nothing speaks against the key, so that the next step is to start."""
        return self.error is None and self._last_forbidden <= self._last_success

    @property
    def next_step(self) -> Step:
        """What to do before the next attempt."""
        if self.error is not None:
            return Step.CANCEL
        if self.may_go:
            return Step.GO
        may_prove = self._probing or any(number > self._last_forbidden for number in self._in_flight)
        return Step.WAIT if may_prove else Step.PROBE

    def start(self) -> int:
        """Record the start of an attempt and return its number."""
        self._started += 1
        self._in_flight.add(self._started)
        return self._started

    def succeed(self, number: int, target: tuple[str, str]) -> None:
        """Record a success, with its path and query."""
        self._last_success = max(self._last_success, number)
        self.target = target

    def forbid(self, number: int) -> None:
        """Record a 403."""
        self._last_forbidden = max(self._last_forbidden, number)

    def end(self, number: int) -> None:
        """Record the end of an attempt, whatever its outcome."""
        self._in_flight.remove(number)
        self._wake()

    def start_probe(self) -> None:
        """Record the start of the probe."""
        self._probing = True

    def end_probe(self, refusal: AuthenticationError | None) -> None:
        """End the probe; any failure but a refusal leaves the key in good standing."""
        self._probing = False
        self._last_success = self._started
        if refusal is not None:
            self.cancel(refusal)
        self._wake()

    def cancel(self, refusal: AuthenticationError) -> None:
        """Cancel the scope."""
        self.error = self.error or refusal
        self._wake()

    async def wait(self) -> None:
        """Wait until `next_step` may have changed."""
        await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed.clear()
