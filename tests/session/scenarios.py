"""Rows 4 to 8, 30 to 36 and 45 of the fault matrix, as services and the bounds of what a pull through them may cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import attrs

from tests.session.limiters import (
    AtOnce,
    AtRandom,
    Both,
    Changing,
    FixedWindow,
    Limiter,
    SlidingLog,
    TokenBucket,
    Unlimited,
)
from tests.session.simulated_service import Figures, SimulatedService, simulate

LATENCIES = (0.002, 0.02, 0.05, 0.2)


@attrs.frozen(kw_only=True)
class Scenario:
    """A service, a pull through it, and the bounds of its figures.

    Attributes:
        row: of the fault matrix.
        name: what the service does.
        service: makes it, from a seed.
        pages: of each client: how many, or their paths.
        ideal: seconds that a client would need that knew everything.
        options: for `simulate`.
        most: the most that figures may be; `times` is seconds / ideal, `refused` a share of the requests.
        least: the least that they may be.
        figures: more figures, by their names.
    """

    row: str
    name: str
    service: Callable[[int], SimulatedService]
    pages: int | list[str]
    ideal: float = 1.0
    options: dict[str, Any] = attrs.field(factory=dict)
    most: dict[str, float] = attrs.field(factory=dict)
    least: dict[str, float] = attrs.field(factory=dict)
    figures: dict[str, Callable[[Figures], float]] = attrs.field(factory=dict)

    def measure(self, seed: int) -> dict[str, float]:
        """Run it, and return its figures."""
        run = simulate(self.service(seed), self.pages, **self.options)
        return {
            "lost": run.lost,
            "refused": run.refused,
            "amplification": run.amplification,
            "times": run.seconds / self.ideal,
            "jain": run.jain,
            "starved": run.starved,
            "in a wait": run.started_in_a_wait,
        } | {name: figure(run) for name, figure in self.figures.items()}

    def broken(self, figures: dict[str, float]) -> dict[str, tuple[float, float]]:
        """Return the figures that are out of their bounds, each with its bound."""
        over = {name: (figures[name], most) for name, most in self.most.items() if figures[name] > most}
        under = {name: (figures[name], least) for name, least in self.least.items() if figures[name] < least}
        return over | under


def service(limiter: Callable[[int], Limiter] = lambda seed: Unlimited(), **options: Any) -> Any:
    """Return a function that makes a service of a seed."""
    return lambda seed: SimulatedService(limiter(seed), seed=seed, **options)


def bucket(rate: float, burst: float) -> Callable[[int], Limiter]:
    return lambda seed: TokenBucket(rate, burst)


def window(count: int, seconds: float = 1.0) -> Callable[[int], Limiter]:
    return lambda seed: FixedWindow(count, seconds, phase=seconds * (0.1 + 0.17 * (seed % 5)))


LOGS: dict[str, Callable[[int], Limiter]] = {
    "fixed window": window(200),
    "sliding log": lambda seed: SlidingLog(200),
    "sliding log that counts refusals": lambda seed: SlidingLog(200, counts_refused=True),
}


def scenarios() -> Iterator[Scenario]:
    """Give all of them."""
    for latency in LATENCIES:
        yield from limits_of_a_rate(latency)
        yield from long_windows(latency)
        yield from changing_limits(latency)
        yield from limits_at_once(latency)
        yield from limits_without_burst(latency)
    yield from at_random()
    yield from several_clients()
    yield from quotas_per_minute()
    yield from outages()
    yield from dead_objects()


def limits_of_a_rate(latency: float) -> Iterator[Scenario]:
    free = max(1.0, latency * 200 / 16)  # 16 permits may be slower than the limit
    for status, wait in ((429, None), (429, 1.0), (503, None), (503, 1.0)):
        how = f"{status}{', Retry-After' if wait else ''}, {latency * 1000:g} ms"
        said: dict[str, Any] = {"status": status, "retry_after": wait, "latency": latency}
        always = {"lost": 0.0, "in a wait": 0.0}
        if status == 503:
            fast, slow, logs = (
                {"amplification": 1.06, "times": 1.6},
                {"amplification": 1.1, "times": 1.6},
                {"refused": 0.05, "amplification": 1.06, "times": 1.6},
            )
        elif wait is None:
            fast, slow, logs = (
                {"refused": 0.03, "amplification": 1.05, "times": 1.5},
                {"amplification": 1.12, "times": 1.5},
                {"refused": 0.05, "amplification": 1.05, "times": 1.5},
            )
        else:
            fast, slow, logs = {"amplification": 1.02, "times": 1.8}, {"amplification": 1.12, "times": 2.5}, {}
        yield Scenario(
            row="31" if status == 503 else "5" if wait else "4",
            name=f"200/s, burst 40, {how}",
            service=service(bucket(200, 40), **said),
            pages=3000,
            ideal=15 * free,
            most=always | fast,
        )
        for burst in (4,) if wait else (4, 40):
            yield Scenario(
                row="31" if status == 503 else "6",
                name=f"20/s, burst {burst}, {how}",
                service=service(bucket(20, burst), **said),
                pages=300,
                ideal=(300 - burst) / 20,
                most=always | slow,
            )
        for kind, limiter in LOGS.items() if logs else ():
            yield Scenario(
                row="31" if status == 503 else "30",
                name=f"{kind}, 200/s, {how}",
                service=service(limiter, **said),
                pages=1500,
                ideal=7.5 * free,
                most=always | logs,
            )


def long_windows(latency: float) -> Iterator[Scenario]:
    for status in (429, 503):
        for count, seconds, pages in ((100, 10.0, 500), (1000, 60.0, 3000)):
            yield Scenario(
                row="32",
                name=f"{count} per {seconds:g} s, {status}, {latency * 1000:g} ms",
                service=service(window(count, seconds), status=status, latency=latency),
                pages=pages,
                ideal=pages / count * seconds,
                most={"lost": 0, "times": 1.3},
            )


def rising_limit(phase: float = 0.0) -> Limiter:
    """Return a limit of 200/s that becomes 50/s after 10 s and a phase, and 400/s after 20 s."""
    return Changing((10 + phase, TokenBucket(200, 40)), (20, TokenBucket(50, 10)), (math.inf, TokenBucket(400, 40)))


def changing_limits(latency: float) -> Iterator[Scenario]:
    highest = min(400.0, 16 / latency)
    yield Scenario(
        row="32",
        name=f"200/s, then 50/s, then 400/s, {latency * 1000:g} ms",
        service=service(lambda seed: rising_limit(), latency=latency),
        pages=6000,
        most={"lost": 0},
        least={"share of 50/s": 0.8, "share of 400/s": 0.8},
        figures={
            "share of 50/s": lambda run: run.rate(15, 20) / 50,
            "share of 400/s": lambda run: run.rate(25, 28) / highest,
        },
    )


def limits_at_once(latency: float) -> Iterator[Scenario]:
    for status, limit in ((429, 8), (503, 8), (429, 7), (503, 6), (429, 4)) if latency >= 0.02 else ():
        yield Scenario(
            row="34",
            name=f"{limit} at once, {status}, {latency * 1000:g} ms",
            service=service(partial(_at_once, limit), status=status, latency=latency),
            pages=1500,
            ideal=1500 / limit * latency,
            most={"lost": 0, "refused": 0.05, "times": 1.3},
        )


def limits_without_burst(latency: float) -> Iterator[Scenario]:
    """Give nginx `limit_req` as it is by default, and with `burst=1`."""
    for rate, pages in ((20, 300), (50, 1500), (100, 1500)) if latency >= 0.02 else ():
        for burst in (0, 1):
            yield Scenario(
                row="45",
                name=f"{rate}/s, burst {burst}, 503, {latency * 1000:g} ms",
                service=service(bucket(rate, 1 + burst), status=503, latency=latency),
                pages=pages,
                ideal=max(pages / rate, pages * latency / 16),
                most={"lost": 0, "refused": 0.1, "times": 1.9},
            )


def quotas_per_minute() -> Iterator[Scenario]:
    limiters: dict[str, Callable[[int], Limiter]] = {
        "fixed window": window(60, 60.0),
        "sliding log": lambda seed: SlidingLog(60, 60.0),
    }
    for kind, limiter in limiters.items():
        yield Scenario(
            row="45",
            name=f"60 per minute, {kind}",
            service=service(limiter),
            pages=300,
            ideal=240,
            most={"lost": 0, "refused": 0.3, "times": 1.5},
        )


def _at_once(limit: int, seed: int) -> Limiter:
    return AtOnce(limit)


def at_random() -> Iterator[Scenario]:
    def alone(share: float, seed: int) -> Limiter:
        return AtRandom(share, seed)

    def beside_a_limit(share: float, seed: int) -> Limiter:
        return Both(AtRandom(share, seed), TokenBucket(200, 40))

    for share in (0.01, 0.03, 0.05, 0.1, 0.25):
        for limiter in (alone, beside_a_limit) if share <= 0.1 else (alone,):
            yield Scenario(
                row="33",
                name=f"{share:.0%} refused at random{', and beyond 200/s' if limiter is beside_a_limit else ''}",
                service=service(partial(limiter, share)),
                pages=2000,
                most={"lost": 0},
                least={"a second": 30 if share == 0.25 else 20},
                figures={"a second": lambda run: 2000 / run.seconds},
            )


def several_clients() -> Iterator[Scenario]:
    for clients in (2, 4, 8):
        most = {"lost": 0, "starved": 5.0, "refused": 0.04 if clients < 8 else 0.07, "times": 1.85}
        least = {"jain": 0.75} if clients < 8 else {}  # of eight only the median is promised
        for apart in (0.0, 0.7, 3.0):
            for how, limiter, wait in (
                ("200/s, burst 40", bucket(200, 40), None),
                ("200/s, burst 40, Retry-After", bucket(200, 40), 1.0),
                ("fixed window, 200/s", window(200), None),
            ):
                pages = (6000 if apart < 3 else 2000 * clients + 4000) // clients
                yield Scenario(
                    row="35",
                    name=f"{clients} clients {apart:g} s apart, {how}",
                    service=service(limiter, retry_after=wait),
                    pages=pages,
                    ideal=max(pages * clients / 200, apart * (clients - 1) + pages / 200),
                    options={"clients": clients, "apart": apart},
                    most=most,
                    least=least,
                )
        for how, wait in (("late refusals", None), ("late refusals, Retry-After", 1.0)):
            yield Scenario(
                row="35",
                name=f"{clients} clients 0.35 s apart, {how}",  # as processes do through the sandbox
                service=service(bucket(200, 40), retry_after=wait, late_refusals=True),
                pages=6000 // clients,
                ideal=30,
                options={"clients": clients, "apart": 0.35},
                most=most,
                least=least,
            )
    yield Scenario(
        row="35",
        name="4 clients, 20/s, burst 4",
        service=service(bucket(20, 4)),
        pages=300,
        ideal=60,
        options={"clients": 4},
        most={"lost": 0, "refused": 0.12, "times": 1.35},
    )


def outages() -> Iterator[Scenario]:
    for kind in ("503", "refused", "hang"):
        for lasts in (3.0, 60.0):
            yield Scenario(
                row="8" if lasts == 3 else "36",
                name=f"{lasts:g} s outage: {kind}",
                service=service(down=(2.0, 2.0 + lasts), outage=kind),
                pages=5000,
                ideal=5000 * 0.02 / 16 + lasts,
                options={"attempt_timeout": 1.0} if kind == "hang" else {},
                most={"amplification": 1.06, "times": 1.3}
                | ({"lost": 0, "recovery": 1.0} if lasts == 3 else {"lost": 2, "recovery": 4.1}),
                figures={"recovery": partial(_recovery, 2.0 + lasts)},
            )


def _recovery(end: float, run: Figures) -> float:
    """Return after how many seconds something was accepted again."""
    return min((moment for moment in run.accepted if moment >= end), default=math.inf) - end


def dead_objects() -> Iterator[Scenario]:
    for dead, name in ((1, "one page"), (40, "40 pages of one campaign")):
        for until in (3.0, math.inf):
            pages = [f"dead/{number}" if 300 <= number < 300 + dead else str(number) for number in range(2000)]
            yield Scenario(
                row="36",
                name=f"{name} dead for {'good' if until == math.inf else f'{until:g} s'}",
                service=service(dead=partial(_is_dead, until)),
                pages=pages,
                most={"times of others": 1.3} | ({"lost": dead} if until == math.inf else {}),
                figures={"times of others": partial(_times_of_others, 2000 - dead)},
            )


def _is_dead(until: float, path: str, now: float) -> bool:
    return path.startswith("dead") and now < until


def _times_of_others(count: int, run: Figures) -> float:
    """Return how long the requests that are not dead took, of what they take without those."""
    return run.accepted[count - 1] / (2000 * 0.02 / 16)
