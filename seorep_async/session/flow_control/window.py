"""How many attempts may be in flight: additive increase, multiplicative decrease (AIMD).

Rules are listed in `pace.py`.
"""

from __future__ import annotations

import math

import msgspec

_FIRST = 8  # attempts in flight at first
# With 80 %, more reports were lost behind a firewall that closes all connections above its limit.
_DECREASE = 0.7
# After our process failed to open another connection. If the window grew by one for each time that
# it is full, a process with room for one connection would fail with every second attempt.
_INCREASE_WITHOUT_ROOM = 0.01


class ConcurrencyWindow(msgspec.Struct, eq=False):
    """Decides how many attempts may be in flight. The pace asks before each attempt.

    Attributes:
        ceiling: the largest size, `max_concurrency`.
        size: the number of attempts that may be in flight now.
        increase: the amount that each accepted attempt adds to the size.
        shrunk_at: when the window last shrank.
    """

    ceiling: int
    size: float = 0.0
    increase: float = 1.0
    shrunk_at: float = -math.inf

    def __post_init__(self) -> None:
        # Rule 2: the window begins at 8 attempts in flight.
        self.size = float(min(_FIRST, self.ceiling))

    @property
    def will_open_to(self) -> int:
        """Attempts that may be in flight once the window has grown to its full size."""
        if self.shrunk_at == -math.inf:
            return self.ceiling
        return int(self.size)

    def accept(self) -> None:
        # Rule 2: each accepted attempt enlarges the window by `increase`.
        if self.size < self.ceiling:
            self.size = min(self.ceiling, self.size + self.increase)

    def lose(self, started: float, now: float) -> None:
        # An attempt that was in flight when the window last shrank is already accounted for.
        if started <= self.shrunk_at:
            return
        # Rule 2: a timeout or a lost connection reduces the window to 70 %, but at least one
        # attempt may be in flight. Some firewalls close all connections above their limit.
        self.size = max(1.0, self.size * _DECREASE)
        self.shrunk_at = now

    def keep_to(self, in_flight: int, now: float) -> None:
        """Shrink to the attempts in flight, because our process can't open another connection."""
        # Rule 2: too many open files, for example, keep the window to the attempts in flight, but
        # at least one may always be.
        self.size = max(1.0, min(self.size, float(in_flight)))
        self.increase = _INCREASE_WITHOUT_ROOM
        self.shrunk_at = now
