"""Whether a 403 is about one object or about the API key: a rule without I/O, shared by the requests of one pull."""

from __future__ import annotations

import asyncio
import enum

import msgspec

from seorep_async.errors import AuthenticationError


class Step(enum.Enum):
    """What a request of the scope does before its next attempt."""

    GO = "go"
    """Start: the key works as far as is known."""
    WAIT = "wait"
    """Wait for an attempt in flight: its response decides."""
    PROBE = "probe"
    """Send one request that names no object; its response decides."""
    CANCEL = "cancel"
    """End: the key was refused."""


class CancelScope(msgspec.Struct, eq=False):
    """Cancels the requests of one pull once the service refuses the API key itself.

    Attempts are numbered as they start. A 403 leaves the key in doubt until an attempt that started later succeeds: the
    403 was about one object then. Nothing starts in doubt: if no attempt in flight can prove the key, one probe
    decides. It asks for the list of campaigns, or once an attempt has succeeded for the same again, as a key may be
    good for reports and not for the list.

    Attributes:
        error: the refusal, once the key was refused.
        target: path and query of the probe.
        probe: its task, or None if there was none yet.
    """

    error: AuthenticationError | None = None
    target: tuple[str, str] = ("/v3/campaigns", "limit=1")
    probe: asyncio.Task[None] | None = None
    _started: int = 0
    _last_success: int = 0
    _last_forbidden: int = 0
    _in_flight: set[int] = msgspec.field(default_factory=set)
    _probing: bool = False
    _changed: asyncio.Future[None] | None = None

    @property
    def next_step(self) -> Step:
        """What a request does before its next attempt."""
        if self.error is not None:
            return Step.CANCEL
        if self._last_forbidden <= self._last_success:
            return Step.GO
        may_prove = self._probing or any(number > self._last_forbidden for number in self._in_flight)
        return Step.WAIT if may_prove else Step.PROBE

    def start(self) -> int:
        """Note that an attempt starts, and return its number."""
        self._started += 1
        self._in_flight.add(self._started)
        return self._started

    def succeed(self, number: int, target: tuple[str, str]) -> None:
        """Note that an attempt succeeded, with its path and query."""
        self._last_success = max(self._last_success, number)
        self.target = target

    def forbid(self, number: int) -> None:
        """Note that an attempt was answered with 403."""
        self._last_forbidden = max(self._last_forbidden, number)

    def end(self, number: int) -> None:
        """Note that an attempt has ended, whatever became of it."""
        self._in_flight.remove(number)
        self._wake()

    def start_probe(self) -> None:
        """Note that the probe starts."""
        self._probing = True

    def end_probe(self, refusal: AuthenticationError | None) -> None:
        """Note whether the probe was refused; if it failed otherwise, nobody is condemned."""
        self._probing = False
        self._last_success = self._started
        if refusal is not None:
            self.cancel(refusal)
        self._wake()

    def cancel(self, refusal: AuthenticationError) -> None:
        """Let no request of the scope start any more."""
        self.error = self.error or refusal
        self._wake()

    async def wait(self) -> None:
        """Wait until `next_step` may have changed."""
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._changed)

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None
