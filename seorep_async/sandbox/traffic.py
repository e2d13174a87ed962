"""The sandbox's traffic, counted at the server to check a client's own figures."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType

from attrs import frozen


@frozen(kw_only=True)
class Stats:
    """A snapshot of the traffic since the sandbox started.

    Attributes:
        requests: requests that arrived, refused ones too.
        in_flight: requests being answered now.
        most_in_flight: the most that were ever being answered at once.
        per_path: requests by path as the reference writes it (`/v3/campaigns/:id`); all others are "unknown".
        per_operation: requests by method and path (`GET /v3/campaigns/:id`); all others are "unknown".
        per_status: finished requests by status; those of which the caller saw no status are left out.
        faults: finished requests that met a fault, by its kind.
        clean: finished requests that met none.
        bytes_sent: bytes of the bodies of finished requests.
        at_in_flight: seconds spent with exactly so many requests in flight; the seconds with none are left out.
    """

    requests: int
    in_flight: int
    most_in_flight: int
    per_path: Mapping[str, int]
    per_operation: Mapping[str, int]
    per_status: Mapping[int, int]
    faults: Mapping[str, int]
    clean: int
    bytes_sent: int
    at_in_flight: Mapping[int, float]


class Traffic:
    """Counts requests as they come and go; `clock` gives seconds and never goes back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._in_flight = self._most_in_flight = self._bytes_sent = 0
        self._per_operation: Counter[str] = Counter()
        self._faults: Counter[str | None] = Counter()
        self._per_status: Counter[int] = Counter()
        self._at_in_flight: defaultdict[int, float] = defaultdict(float)

    def arrive(self, operation: str) -> None:
        """Count a request in: its method and path, or a word for all others."""
        self._pass_time()
        self._in_flight += 1
        self._most_in_flight = max(self._most_in_flight, self._in_flight)
        self._per_operation[operation] += 1

    def leave(self, status: int | None, size: int, fault: str | None = None) -> None:
        """Count a request out: the status that the caller saw, the bytes of its body, and the fault that it met."""
        self._pass_time()
        self._in_flight -= 1
        self._bytes_sent += size
        self._faults[fault] += 1
        if status is not None:
            self._per_status[status] += 1

    def snapshot(self) -> Stats:
        """Return the counts so far."""
        self._pass_time()
        per_path: Counter[str] = Counter()
        for operation, count in self._per_operation.items():
            per_path[operation.rpartition(" ")[2]] += count
        return Stats(
            requests=per_path.total(),
            in_flight=self._in_flight,
            most_in_flight=self._most_in_flight,
            per_path=MappingProxyType(dict(per_path)),
            per_operation=MappingProxyType(dict(self._per_operation)),
            per_status=MappingProxyType(dict(self._per_status)),
            faults=MappingProxyType({kind: count for kind, count in self._faults.items() if kind}),
            clean=self._faults[None],
            bytes_sent=self._bytes_sent,
            at_in_flight=MappingProxyType(dict(sorted(self._at_in_flight.items()))),
        )

    def _pass_time(self) -> None:
        now = self._clock()
        if self._in_flight:
            self._at_in_flight[self._in_flight] += now - self._since
        self._since = now
