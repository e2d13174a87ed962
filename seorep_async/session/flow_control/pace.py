"""How fast attempts may start, found by what the service accepts; the time is given, there is no clock and no dice.

1. A 429 and a 503 are one thing, a refusal. A Retry-After pauses everybody.
2. The window begins at 8 attempts in flight; each accepted one opens it by one, a timeout closes it to 70 %. If our
   process can open no more connections, it closes to those in flight.
3. `excess` adds up refusals beyond the tolerated share (as CUSUM does). One of a subject that was refused and not
   accepted since says nothing: it may be about the subject.
4. Too much excess closes the gate (`pace`), as do ten failures in a row (`outage`): probes go out, the next when one
   has failed or has no answer for long, until one that started after the closing is accepted.
5. From one opening to the next the service delivered its limit, whatever kind of limiter it has, pauses left out. So
   the rate becomes 80 % of what was delivered, but at least half of itself if the gate was closed for no more than a
   second. It is held for a while, and then raised by the same step for everyone, so that processes converge.
6. While no limit is known, or once 90 in a row were accepted above the last limit, the rate doubles in about a second.
7. Refusals while a rate is held have another cause than the rate. If a cut does not make them rarer, they come by
   chance, and half as many again are tolerated until the next cut.
"""

from __future__ import annotations

import math

import msgspec

Subject = tuple[object, str]  # what an attempt is about: a client, and its campaign


class Pace(msgspec.Struct, eq=False):
    FIRST = 8
    """Attempts in flight at first."""
    AFTER_TIMEOUT = 0.7
    SLOWLY = 0.01
    """Attempts in flight by which an accepted one opens the window after our process could open no more."""
    TOLERATED = 0.03
    """Share of refusals that adds no excess."""
    TOO_MANY, WHILE_HELD = 1.5, 2
    """Excess that closes the gate; and so many times more while a rate is held."""
    SAME, MOST = 0.6, 0.3
    """A cut made refusals rarer if their share fell below so much of the one before; the largest that is tolerated."""
    BACK_OFF = 0.8
    SPAN = 1.0
    """Seconds, at least, over which a delivered rate is measured."""
    HOLD, ENOUGH_HELD = 1.5, 20
    """Seconds and attempts for which a rate is held after a cut."""
    STEP = 8.0
    """Attempts a second by which the rate grows in a second, but at most 0.2 with each attempt."""
    ENOUGH, HIGHER = 90, 1.1
    """Attempts accepted in a row, at so many times the refused rate, that show that the limit rose."""
    ROW = 10
    """Failures in a row that close the gate."""
    PROBE = 0.1, 4.0
    """Seconds between probes: a quarter of the time for which the gate was closed, within these."""
    PATIENCE, LEAST_PATIENCE = 8, 0.5
    """Another probe goes out if one has no answer within so many usual response times, `PROBE`'s most, and these."""
    SUBJECTS = 1000
    """Refused subjects that are remembered."""
    SLOWEST, GUESS = 0.2, 2.0
    """The lowest rate, attempts a second; and that at first if none was accepted before the gate closed."""
    CATCH_UP = 0.02
    """Seconds that late timers may make up for."""

    ceiling: int
    cap: float = math.inf
    window: float = math.inf
    opens_by: float = 1.0
    shrunk_at: float = -math.inf
    known: float = math.inf  # the rate that was found, attempts a second; infinite before any was
    refused_at: float = math.inf
    next: float = 0.0  # when the next may start, by the rate
    last: float = -math.inf  # when one started
    paused_until: float = -math.inf
    held_until: float = 0.0
    held: int = 0
    held_refused: int = 0
    is_search: bool = True
    counted_from: float = 0.0
    accepted: int = 0
    refused: int = 0
    paused: float = 0.0
    doubled_from: tuple[float, int, float] = 0.0, 0, 0.0
    in_a_row: int = 0  # accepted since the last refusal
    excess: float = 0.0
    loss: float = 0.0
    share_before: float = 0.0
    doubtful: dict[
        Subject | None, float
    ] = {}  # when a subject was refused last, if it was not accepted since
    gate: str = ""  # why it is closed: `pace` or `outage`
    closed_at: float = -math.inf
    probes: int = 0  # in flight
    next_probe: float = 0.0
    usual: float = math.inf  # seconds that an accepted attempt takes
    row: int = 0  # failures
    row_began: float = -math.inf

    def __post_init__(self) -> None:
        self.window = float(min(self.FIRST, self.ceiling))

    @property
    def rate(self) -> float:
        """Attempts a second that may start now."""
        return min(self.known, self.cap)

    def next_start(self, now: float, in_flight: int) -> tuple[str, float]:
        """Return when the next attempt may start, and what it waits for."""
        if in_flight + 1 > (self.ceiling if self.gate else self.window):
            return "concurrency", math.inf
        if self.paused_until > now:
            return "asked to wait", self.paused_until
        if self.gate:
            return self.gate, max(
                self.next_probe, self.last + self.patience
            ) if self.probes else self.next_probe
        return "pace", self.next if self.rate < math.inf else now

    @property
    def patience(self) -> float:
        """Seconds for which a probe without an answer holds up the next."""
        return min(self.PROBE[1], max(self.LEAST_PATIENCE, self.PATIENCE * self.usual))

    def start(self, now: float, subject: Subject | None) -> bool:
        """Note a start, and return whether it is a probe."""
        if self.gate:
            shortest, longest = self.PROBE
            self.probes, self.last = self.probes + 1, now
            self.next_probe = now + min(
                longest, max(shortest, 1 / self.rate, (now - self.closed_at) / 4)
            )
            return True
        if now > max(self.next, self.last) + self.SPAN:
            self.count_from(now)  # what was accepted before a rest shows no rate
        self.last = now
        if self.rate < math.inf:
            idle = now - self.CATCH_UP - self.next
            if idle > 0:  # time without work must not raise the rate
                self.next += idle
                self.held_until += idle
            elif now < self.held_until:
                self.held += subject not in self.doubtful
            else:
                self.grow()
            self.next += 1 / self.rate
        return False

    def grow(self) -> None:
        seen = self.in_a_row > max(self.ENOUGH, 2 * self.refused_at)
        if not self.is_search and seen and self.known > self.HIGHER * self.refused_at:
            self.is_search = True
            self.doubled_from = self.last, self.accepted, self.paused
        step = 1.0 if self.is_search else min(0.2, self.STEP / self.known)
        self.known += min(step, self.known / 4)

    def count_from(self, now: float) -> None:
        self.counted_from, self.accepted, self.refused, self.paused = now, 0, 0, 0.0
        self.doubled_from = now, 0, 0.0

    def delivered(self, now: float) -> float:
        """Return the attempts a second accepted since the last opening, or since the rate began to double if more."""
        begun = (self.counted_from, 0, 0.0), self.doubled_from
        return max(
            (self.accepted - n) / max(self.SPAN, now - at - self.paused + paused)
            for at, n, paused in begun
        )

    @property
    def tolerated(self) -> float:
        return self.TOLERATED + 1.5 * self.loss

    def accept(self, started: float, subject: Subject | None, now: float) -> None:
        self.window = min(self.ceiling, self.window + self.opens_by)
        self.accepted += 1
        self.in_a_row += 1
        self.excess = max(0.0, self.excess - self.tolerated)
        took = now - started
        self.usual = took if self.usual == math.inf else self.usual + (took - self.usual) / 8
        if subject is not None:
            self.doubtful.pop(subject, None)
        self.row = 0 if started > self.row_began else max(0, self.row - 1)
        if self.gate and started > self.closed_at:
            if self.gate == "pace":
                self.cut(now)
            else:
                self.count_from(now)
            self.gate, self.row = "", 0

    def pause(self, now: float, until: float) -> None:
        """Obey a Retry-After."""
        self.paused += max(0.0, until - max(now, self.paused_until))
        self.paused_until = max(self.paused_until, until)

    def refuse(self, started: float, subject: Subject | None, waits: bool, now: float) -> None:
        """Note a refusal, which may ask to wait."""
        says_nothing = subject in self.doubtful and self.refused < max(4, self.accepted)
        if subject is not None:
            self.doubtful.pop(subject, None)
            self.doubtful[subject] = now  # the last one now
            if len(self.doubtful) > self.SUBJECTS:
                del self.doubtful[next(iter(self.doubtful))]
        if started <= self.closed_at:
            return
        self.refused += 1
        if not self.gate and not says_nothing:
            is_held = now < self.held_until
            self.in_a_row = 0
            self.held_refused += is_held
            self.excess += 1 - self.tolerated
            if self.excess > self.TOO_MANY * (self.WHILE_HELD if is_held else 1) or (
                waits and self.known < math.inf
            ):
                self.close("pace", now)
            else:
                self.fail(now)

    def time_out(self, started: float, now: float) -> None:
        if started > self.shrunk_at:  # once for all that were in flight
            self.shrunk_at = now
            self.window = max(1.0, self.window * self.AFTER_TIMEOUT)
        self.fail(now)

    def make_do(self, in_flight: int, now: float) -> None:
        """Keep to the attempts in flight, as our process could not open a connection for another."""
        self.shrunk_at, self.opens_by = now, self.SLOWLY
        self.window = max(1.0, min(self.window, float(in_flight)))

    def fail(self, now: float) -> None:
        if not self.row:
            self.row_began = now
        self.row += 1
        if self.row >= self.ROW and not self.gate:
            self.close("outage", now)

    def close(self, reason: str, now: float) -> None:
        self.gate, self.closed_at, self.excess, self.probes = reason, now, 0.0, 0
        self.next_probe = now + max(self.PROBE[0], 1 / self.rate)

    def reopen(self) -> None:
        """Begin again with the rate that was found; an outage may have ended."""
        self.gate, self.closed_at, self.probes, self.row = "", -math.inf, 0, 0
        self.doubtful.clear()

    def forget(self, client: object) -> None:
        """Forget the subjects of a client, as nobody will ask about them again."""
        self.doubtful = {
            about: when for about, when in self.doubtful.items() if about and about[0] is not client
        }

    def cut(self, now: float) -> None:
        """Lower the rate as the gate opens again."""
        share = self.held_refused / max(self.ENOUGH_HELD, self.held)
        is_chance = share > self.TOLERATED and (
            self.loss > 0 or share > self.SAME * self.share_before > 0
        )
        self.loss, self.share_before = min(self.MOST, share) if is_chance else 0.0, share
        is_first = self.known == math.inf
        if is_first:  # the accepted probe alone shows no rate
            least = self.SLOWEST if self.accepted > 1 else self.GUESS
        else:
            least = self.SLOWEST if now - self.closed_at > self.SPAN else self.known / 2
        since, _, paused = self.doubled_from
        if is_first or now - since - self.paused + paused >= self.SPAN:
            delivered = self.delivered(now)
            self.count_from(now)
        else:
            delivered = self.BACK_OFF * self.known
        self.refused_at = min(self.known, delivered)
        self.known = max(self.SLOWEST, least, self.BACK_OFF * self.refused_at)
        self.is_search = is_first
        self.held_until = (
            -math.inf
            if is_first
            else now + max(self.HOLD, min(10.0, self.ENOUGH_HELD / self.known))
        )
        self.held = self.held_refused = self.in_a_row = 0
        self.next = now + 1 / self.rate
