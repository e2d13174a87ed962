"""Services with limits, outages and dead objects, and the bounds of what a pull through them may cost.

Those with a row are rows 4 to 8, 30 to 36 and 45 of the fault matrix.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import attrs

from tests.session.simulated_service import (
    AtOnce,
    AtRandom,
    Both,
    Changing,
    Figures,
    FixedWindow,
    Limiter,
    SimulatedService,
    SlidingLog,
    TokenBucket,
    simulate,
)

LATENCIES = (0.002, 0.02, 0.05, 0.2)
PHASES = (0.0, 0.9, 1.8, 2.7)
SEEDS = (21,)


@attrs.frozen
class Scenario:
    """A service, a pull through it, and the bounds of its figures.

    Attributes:
        row: of the fault matrix, or nothing.
        name: what the service does.
        service: makes it, from a seed.
        pages: of each client: how many, or their paths.
        most: the most that figures may be; `times` is seconds / ideal, `refused` a share of the requests.
        ideal: seconds that a client would need that knew everything.
        least: the least that figures may be.
        figures: more figures, by their names.
        options: for `simulate`.
        seeds: for each of which the bounds hold.
    """

    row: str
    name: str
    service: Callable[[int], SimulatedService]
    pages: int | list[str]
    most: dict[str, float]
    ideal: float = 1.0
    least: dict[str, float] = attrs.field(factory=dict)
    figures: Mapping[str, Callable[[Figures], float]] = attrs.field(factory=dict)
    options: dict[str, Any] = attrs.field(factory=dict)
    seeds: Iterable[int] = SEEDS

    def measure(self, seed: int) -> dict[str, float]:
        """Run it, and return its figures."""
        run = simulate(self.service(seed), self.pages, **self.options)
        found = {
            name: getattr(run, name) for name in ("lost", "refused", "amplification", "seconds", "jain", "starved")
        }
        found |= {"times": run.seconds / self.ideal, "in a wait": run.started_in_a_wait, "last": run.accepted[-1]}
        return found | {name: figure(run) for name, figure in self.figures.items()}

    def broken(self, seed: int) -> dict[str, tuple[float, float]]:
        """Run it, and return the figures that are out of their bounds, each with its bound."""
        figures = self.measure(seed)
        over = {name: (figures[name], most) for name, most in self.most.items() if not figures[name] <= most}
        return over | {name: (figures[name], least) for name, least in self.least.items() if figures[name] < least}


def service(limiter: Callable[[int], Limiter] = lambda seed: Limiter(), **options: Any) -> Any:
    """Return a function that makes a service of a seed."""
    return lambda seed: SimulatedService(limiter(seed), seed=seed, **options)


def bucket(rate: float, burst: float) -> Callable[[int], Limiter]:
    return lambda seed: TokenBucket(rate, burst)


def window(count: int, seconds: float = 1.0) -> Callable[[int], Limiter]:
    return lambda seed: FixedWindow(count, seconds, phase=seconds * (0.1 + 0.17 * (seed % 5)))


def changing(*limiters: tuple[float, Callable[[int], Limiter]]) -> Callable[[int], Limiter]:
    """Return one limiter after the other, each until a time."""
    return lambda seed: Changing(*((until, limiter(seed)) for until, limiter in limiters))


def rising(phase: float, kind: Callable[[int], Callable[[int], Limiter]] | None = None) -> Callable[[int], Limiter]:
    """Return a limit of 200/s that becomes 50/s after 10 s and a phase, and 400/s after 20 s."""
    low, high = (bucket(50, 10), bucket(400, 40)) if kind is None else (kind(50), kind(400))
    return changing((10 + phase, bucket(200, 40)), (20, low), (math.inf, high))


def share(rate: float, begin: float, end: float) -> Callable[[Figures], float]:
    """Return what measures the part of a rate that was used from one time to another."""
    return lambda run: run.rate(begin, end) / rate


LOGS: dict[str, Callable[[int], Limiter]] = {
    "fixed window": window(200),
    "sliding log": lambda seed: SlidingLog(200),
    "sliding log that counts refusals": lambda seed: SlidingLog(200, counts_refused=True),
}


def scenarios() -> Iterator[Scenario]:
    """Give all of them."""
    for latency in LATENCIES:
        yield from limits_of_a_rate(latency)
        yield from long_windows_and_changing_limits(latency)
        yield from limits_at_once_and_without_burst(latency) if latency >= 0.02 else ()
    yield from quotas_per_minute()
    yield from at_random()
    yield from several_clients()
    yield from outages()
    yield from dead_objects()
    yield from waits_asked_for()
    yield from limits_that_rise()
    yield from first_guesses()


def limits_of_a_rate(latency: float) -> Iterator[Scenario]:
    free = max(1.0, latency * 200 / 16)  # 16 permits may be slower than the limit
    for status, wait in product((429, 503), (None, 1.0)):
        how = f"{status}{', Retry-After' if wait else ''}, {latency * 1000:g} ms"
        said: dict[str, Any] = {"status": status, "retry_after": wait, "latency": latency}
        rows = ("31",) * 3 if status == 503 else ("5" if wait else "4", "6", "30")
        if status == 503:
            fast, slow = {"amplification": 1.06, "times": 1.6}, {"amplification": 1.1, "times": 1.6}
            logs = fast | {"refused": 0.05}
        elif wait is None:
            logs = {"refused": 0.05, "amplification": 1.05, "times": 1.5}
            fast, slow = logs | {"refused": 0.03}, {"amplification": 1.12, "times": 1.5}
        else:
            fast, slow, logs = {"amplification": 1.02, "times": 1.8}, {"amplification": 1.12, "times": 2.5}, {}
        always = {"lost": 0.0, "in a wait": 0.0}
        through = service(bucket(200, 40), **said)
        yield Scenario(rows[0], f"200/s, burst 40, {how}", through, 3000, always | fast, 15 * free)
        for burst in (4,) if wait else (4, 40):
            name, through = f"20/s, burst {burst}, {how}", service(bucket(20, burst), **said)
            yield Scenario(rows[1], name, through, 300, always | slow, (300 - burst) / 20)
        for kind, limiter in LOGS.items() if logs else ():
            name, through = f"{kind}, 200/s, {how}", service(limiter, **said)
            yield Scenario(rows[2], name, through, 1500, always | logs, 7.5 * free)


def long_windows_and_changing_limits(latency: float) -> Iterator[Scenario]:
    ms = f"{latency * 1000:g} ms"
    for status, (count, seconds, pages) in product((429, 503), ((100, 10.0, 500), (1000, 60.0, 3000))):
        through = service(window(count, seconds), status=status, latency=latency)
        most = {"lost": 0, "times": 1.3}
        yield Scenario(
            "32", f"{count} per {seconds:g} s, {status}, {ms}", through, pages, most, pages / count * seconds
        )
    figures = {"share of 50/s": share(50, 15, 20), "share of 400/s": share(min(400.0, 16 / latency), 25, 28)}
    name, through = f"200/s, then 50/s, then 400/s, {ms}", service(rising(0.0), latency=latency)
    yield Scenario("32", name, through, 6000, {"lost": 0}, least=dict.fromkeys(figures, 0.8), figures=figures)


def limits_at_once_and_without_burst(latency: float) -> Iterator[Scenario]:
    """Give nginx `limit_conn`, and `limit_req` as it is by default and with `burst=1`."""
    ms = f"{latency * 1000:g} ms"
    for status, limit in ((429, 8), (503, 8), (429, 7), (503, 6), (429, 4)):
        most = {"lost": 0, "refused": 0.05, "times": 1.3}
        through = service(partial(_at_once, limit), status=status, latency=latency)
        yield Scenario("34", f"{limit} at once, {status}, {ms}", through, 1500, most, 1500 / limit * latency)
    for (rate, pages), burst in product(((20, 300), (50, 1500), (100, 1500)), (0, 1)):
        most = {"lost": 0, "refused": 0.1, "times": 1.9}
        through = service(bucket(rate, 1 + burst), status=503, latency=latency)
        ideal = max(pages / rate, pages * latency / 16)
        yield Scenario("45", f"{rate}/s, burst {burst}, 503, {ms}", through, pages, most, ideal)


def quotas_per_minute() -> Iterator[Scenario]:
    most = {"lost": 0, "refused": 0.3, "times": 1.5}
    yield Scenario("45", "60 per minute, fixed window", service(window(60, 60.0)), 300, most, 240)
    yield Scenario("45", "60 per minute, sliding log", service(lambda _: SlidingLog(60, 60.0)), 300, most, 240)


def _at_once(limit: int, seed: int) -> Limiter:
    return AtOnce(limit)


def at_random() -> Iterator[Scenario]:
    def alone(part: float, seed: int) -> Limiter:
        return AtRandom(part, seed)

    def beside_a_limit(part: float, seed: int) -> Limiter:
        return Both(AtRandom(part, seed), TokenBucket(200, 40))

    figures: dict[str, Callable[[Figures], float]] = {"a second": lambda run: 2000 / run.seconds}
    for part in (0.01, 0.03, 0.05, 0.1, 0.25):
        for limiter in (alone, beside_a_limit) if part <= 0.1 else (alone,):
            name = f"{part:.0%} refused at random{', and beyond 200/s' if limiter is beside_a_limit else ''}"
            least: dict[str, float] = {"a second": 30 if part == 0.25 else 20}
            through = service(partial(limiter, part))
            yield Scenario("33", name, through, 2000, {"lost": 0}, least=least, figures=figures)


def several_clients() -> Iterator[Scenario]:
    ways: list[tuple[str, Callable[[int], Limiter], float | None]] = [
        ("200/s, burst 40", bucket(200, 40), None),
        ("200/s, burst 40, Retry-After", bucket(200, 40), 1.0),
        ("fixed window, 200/s", window(200), None),
    ]
    for clients in (2, 4, 8):
        most = {"lost": 0, "starved": 5.0, "refused": 0.04 if clients < 8 else 0.07, "times": 1.85}
        least = {"jain": 0.75} if clients < 8 else {}  # of eight only the median is promised
        for apart, (how, limiter, wait) in product((0.0, 0.7, 3.0), ways):
            pages = (6000 if apart < 3 else 2000 * clients + 4000) // clients
            ideal = max(pages * clients / 200, apart * (clients - 1) + pages / 200)
            name, through = f"{clients} clients {apart:g} s apart, {how}", service(limiter, retry_after=wait)
            options = {"clients": clients, "apart": apart}
            yield Scenario("35", name, through, pages, most, ideal, least, options=options)
        for how, wait in (("late refusals", None), ("late refusals, Retry-After", 1.0)):
            name = f"{clients} clients 0.35 s apart, {how}"  # as processes do through the sandbox
            through = service(bucket(200, 40), retry_after=wait, late_refusals=True)
            options = {"clients": clients, "apart": 0.35}
            yield Scenario("35", name, through, 6000 // clients, most, 30, least, options=options)
    few = {"lost": 0, "refused": 0.12, "times": 1.35}
    yield Scenario("35", "4 clients, 20/s, burst 4", service(bucket(20, 4)), 300, few, 60, options={"clients": 4})
    late = service(bucket(200, 40), retry_after=1.0, late_refusals=True)
    fair: dict[str, Any] = {"most": {"times": 1.4}, "ideal": 30, "least": {"jain": 0.9}}
    four = {"clients": 4, "apart": 0.1}
    yield Scenario("", "4 processes, waits asked for late", late, 1500, **fair, options=four, seeds=range(10, 15))
    for seeds, apart in (((0, 88, 108), 0.1), ((162,), 0.35)):
        name, options = f"2 processes, {apart:g} s later, waits asked for late", {"clients": 2, "apart": apart}
        yield Scenario("", name, late, 3000, **fair, options=options, seeds=seeds)


def outages() -> Iterator[Scenario]:
    for kind, lasts in product(("503", "refused", "hang"), (3.0, 60.0)):
        some = {"lost": 0, "recovery": 1.0} if lasts == 3 else {"lost": 2, "recovery": 4.1}
        through = service(down=(2.0, 2.0 + lasts), outage=kind)
        yield Scenario(
            *("8" if lasts == 3 else "36", f"{lasts:g} s outage: {kind}", through, 5000),
            most={"amplification": 1.06, "times": 1.3} | some,
            ideal=5000 * 0.02 / 16 + lasts,
            options={"attempt_timeout": 1.0} if kind == "hang" else {},
            figures={"recovery": partial(_recovery, 2.0 + lasts)},
        )
    long, often = service(bucket(200, 40), down=(6, 36)), service(bucket(50, 1), latency=0.05, status=503, dead=_often)
    yield Scenario("", "30 s outage at a known limit", long, 4000, {"lost": 0, "seconds": 80})
    yield Scenario("", "3 s outages at a known limit", often, 2000, {"lost": 0, "seconds": 120})
    searched = service(changing((6.0, bucket(50, 10)), (math.inf, bucket(400, 40))), down=(10.5, 13.5))
    yield Scenario("", "outage while a limit is searched", searched, 4000, {"seconds": 32})


def _recovery(end: float, run: Figures) -> float:
    """Return after how many seconds something was accepted again."""
    return min((moment for moment in run.accepted if moment >= end), default=math.inf) - end


def _often(path: str, now: float) -> bool:
    return now > 20 and now % 20 < 3


def dead_objects() -> Iterator[Scenario]:
    for (dead, name), until in product(((1, "one page"), (40, "40 pages of one campaign")), (3.0, math.inf)):
        pages = [f"dead/{number}" if 300 <= number < 300 + dead else str(number) for number in range(2000)]
        most = {"times of others": 1.3} | ({"lost": dead} if until == math.inf else {})
        figures = {"times of others": partial(_times_of_others, 2000 - dead)}
        name += f" dead for {'good' if until == math.inf else f'{until:g} s'}"
        yield Scenario("36", name, service(dead=partial(_is_dead, until)), pages, most, figures=figures)
    gone = partial(_is_dead, math.inf)
    pages = [f"dead/{number}" if 300 <= number < 340 else str(number) for number in range(6000)]
    waits = service(dead=gone, retry_after=1.0)
    yield Scenario("", "waits asked for by one dead campaign", waits, pages, {"last": 40}, seeds=range(8))
    pages = [f"dead{number}/1" for number in range(8)] + [f"{number // 5}/{number % 5}" for number in range(400)]
    most = {"lost": 8, "last": 60}
    yield Scenario("", "first campaigns dead", service(dead=gone), pages, most, least={"lost": 8}, seeds=range(4))
    for count, first, at_once in product((1, 3, 7), (0, 100), (1, 16)):
        pages = [
            f"{'dead' if first <= n < first + count else 'fine'}{n}/{page}" for n in range(500) for page in range(5)
        ]
        name, through = (
            f"{count} from {first} on down for an hour, {at_once} at once",
            service(dead=gone, retry_after=3600),
        )
        lost, options = {"lost": 5.0 * count}, {"max_concurrency": at_once}
        yield Scenario("", name, through, pages, lost, least=lost, options=options, seeds=(0,))


def _is_dead(until: float, path: str, now: float) -> bool:
    return path.startswith("dead") and now < until


def _times_of_others(count: int, run: Figures) -> float:
    """Return how long the requests that are not dead took, of what they take without those."""
    return run.accepted[count - 1] / (2000 * 0.02 / 16)


def waits_asked_for() -> Iterator[Scenario]:
    slowed = changing((5, bucket(200, 40)), (math.inf, bucket(1, 1)))
    for name, limiter in (("one a second", bucket(1, 1)), ("200/s, then one a second", slowed)):
        through = service(limiter, latency=0.05, retry_after=1.0)
        yield Scenario("", f"{name}, Retry-After", through, 1200, {"lost": 0, "refused": 0.25}, seeds=(0,))
    for wait, seconds in ((5.0, 70), (60.0, 480)):
        through = service(bucket(20, 10), latency=0.05, retry_after=wait)
        yield Scenario("", f"waits of {wait:g} s", through, 500, {"lost": 0, "seconds": seconds}, seeds=range(1, 4))
    log = service(LOGS["sliding log"], latency=0.05, status=503, retry_after=1.0)
    yield Scenario("", "waits again and again", log, 1500, {"times": 1.6}, 7.5, seeds=range(20))
    alone = service(bucket(200, 40), retry_after=1.0)
    yield Scenario("", "waits for one client alone", alone, 6000, {"times": 1.2}, 30, seeds=range(2))


def limits_that_rise() -> Iterator[Scenario]:
    used: dict[str, Any] = {"least": {"share of 400/s": 0.8}, "figures": {"share of 400/s": share(400, 25, 28)}}
    for phase in PHASES:
        yield Scenario("", f"400/s after {phase} s", service(rising(phase)), 6000, {}, **used, seeds=(0,))
    for seed, phase in ((3, 2.7), (40, 0.0), (45, 0.9), (115, 2.7)):
        name = f"400/s for a process that stalls, seed {seed}"
        yield Scenario("", name, service(rising(phase), stall=0.15), 6000, {}, **used, seeds=(seed,))
    kinds: list[Callable[..., Limiter]] = [FixedWindow, SlidingLog, partial(SlidingLog, counts_refused=True)]
    for number, phase in product(range(3), PHASES):
        limiter = rising(phase, lambda count, kind=kinds[number]: lambda _: kind(count))  # type: ignore[misc]
        name = f"400/s in windows after {phase} s, {list(LOGS)[number]}"
        yield Scenario("", name, service(limiter), 6000, {}, **used, seeds=(18,))
    for before, after, begin, end, least in (
        (400, 1200, 40, 45, 0.5),
        (200, 400, 27, 33, 0.8),
        (20, 700, 25, 31, 0.8),
        (5, 200, 25, 31, 0.8),
    ):
        limiter = changing((15.0, bucket(before, before / 5)), (math.inf, bucket(after, after / 5)))
        name, pages = f"{before}/s, then {after}/s, Retry-After", 42_000 if after == 1200 else 30 * after
        figures = {"used": share(after, begin, end)}
        asked = service(limiter, retry_after=1.0)
        yield Scenario("", name, asked, pages, {}, least={"used": least}, figures=figures, seeds=(0,))


def first_guesses() -> Iterator[Scenario]:
    for rate, latency in ((20, 0.2), (50, 0.2), (100, 0.2), (100, 0.05)):
        name, through = f"no burst, {rate}/s, {latency} s", service(bucket(rate, 1), latency=latency, status=503)
        ideal = max(6, 6 * rate * latency / 16)
        yield Scenario("", name, through, 6 * rate, {"lost": 0, "times": 2.3}, ideal, seeds=(0,))
    stalls = service(LOGS["sliding log"], latency=0.05, stall=0.2)
    yield Scenario("", "window, stalls", stalls, 1500, {"lost": 0, "times": 1.5}, 7.5, seeds=range(30, 40))
    for limit in (6, 8):
        most = {"refused": 0.05, "times": 1.1}
        through = service(partial(_at_once, limit), latency=0.5, late_refusals=True)
        yield Scenario("", f"{limit} at once, late refusals", through, 1000, most, 1000 * 0.5 / limit, seeds=(0,))
    for status, latency in product((429, 503), (0.02, 0.05, 0.2)):
        name = f"first count too high, {status}, {latency} s"
        through = service(partial(_at_once, 8), latency=latency, late_refusals=True, status=status)
        yield Scenario("", name, through, 1500, {"times": 1.3}, 1500 * latency / 8, seeds=range(4))
    for count in (3, 5, 7):
        yield Scenario(
            *("", f"the first {count} refused", partial(_first_refused, count), 1000),
            most={"times": 1.3},
            ideal=1000 * 0.2 / 16,
            seeds=range(3),
        )


def _first_refused(count: int, seed: int) -> SimulatedService:
    first = iter([True] * count)
    return SimulatedService(latency=0.2, dead=lambda path, now: next(first, False), seed=seed)
