"""Rate limiters as services have them, in any time: each says whether it lets a request through."""

from __future__ import annotations

import random
from collections import deque
from typing import Protocol


class Limiter(Protocol):
    """What lets requests through."""

    def take(self, now: float) -> bool:
        """Tell whether a request that arrives now is let through."""

    def give_back(self, now: float) -> None:
        """Note that a request that was let through was answered."""


class _Forgetful:
    def give_back(self, now: float) -> None:
        pass


class Unlimited(_Forgetful):
    """Lets everything through."""

    def take(self, now: float) -> bool:
        return True


class TokenBucket(_Forgetful):
    """Lets `rate` requests a second through, and `burst` at once after a rest."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = self._tokens = burst
        self._filled = 0.0

    def take(self, now: float) -> bool:
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._rate)
        self._filled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class FixedWindow(_Forgetful):
    """Lets `count` requests through in each window of so many seconds; `phase` is when the first one ends."""

    def __init__(self, count: int, seconds: float = 1.0, phase: float = 0.37) -> None:
        self._count, self._seconds, self._phase = count, seconds, phase
        self._window = -1.0
        self._taken = 0

    def take(self, now: float) -> bool:
        window = (now - self._phase) // self._seconds
        if window != self._window:
            self._window, self._taken = window, 0
        self._taken += 1
        return self._taken <= self._count


class SlidingLog(_Forgetful):
    """Lets a request through if fewer than `count` were in the last seconds, those refused among them or not."""

    def __init__(self, count: int, seconds: float = 1.0, *, counts_refused: bool = False) -> None:
        self._count, self._seconds, self._counts_refused = count, seconds, counts_refused
        self._log: deque[float] = deque()

    def take(self, now: float) -> bool:
        while self._log and self._log[0] <= now - self._seconds:
            self._log.popleft()
        fits = len(self._log) < self._count
        if fits or self._counts_refused:
            self._log.append(now)
        return fits


class AtOnce:
    """Lets a request through if fewer than `count` are being answered."""

    def __init__(self, count: int) -> None:
        self._free = count

    def take(self, now: float) -> bool:
        if self._free == 0:
            return False
        self._free -= 1
        return True

    def give_back(self, now: float) -> None:
        self._free += 1


class AtRandom(_Forgetful):
    """Refuses a share of the requests, whatever their rate."""

    def __init__(self, share: float, seed: int = 0) -> None:
        self._share = share
        self._chance = random.Random(seed)

    def take(self, now: float) -> bool:
        return self._chance.random() >= self._share


class Both:
    """Lets through what both of two limiters do."""

    def __init__(self, first: Limiter, second: Limiter) -> None:
        self._limiters = (first, second)

    def take(self, now: float) -> bool:
        return all(limiter.take(now) for limiter in self._limiters)

    def give_back(self, now: float) -> None:
        for limiter in self._limiters:
            limiter.give_back(now)


class Changing(_Forgetful):
    """One limiter after the other, each until a time."""

    def __init__(self, *limiters: tuple[float, Limiter]) -> None:
        self._limiters = limiters

    def take(self, now: float) -> bool:
        return next(limiter for until, limiter in self._limiters if now < until).take(now)
