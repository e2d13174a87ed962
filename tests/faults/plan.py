"""What a fault server serves, and how it misbehaves; and what it saw. Values only, so that processes can pass them."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import attrs

from tests.session.scripted_server import Step, answer, then_close

HTML = b"<!DOCTYPE html><html><body><h1>We will be back soon</h1></body></html>"
GZIP = ("Content-Encoding", "gzip")
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TO_THE_END = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"


def half(body: bytes) -> bytes:
    return body[: len(body) // 2]


def corrupt(packed: bytes) -> bytes:
    return half(packed) + b"\xff\xff\xff\xff" + packed[len(packed) // 2 + 4 :]


CUTS: dict[str, Callable[[bytes], Step]] = {
    "short length": lambda body: then_close(answer(half(body), length=len(body))),
    "cut chunk": lambda body: then_close(CHUNKED + b"%x\r\n" % len(body) + half(body)),
    "no last chunk": lambda body: then_close(CHUNKED + b"%x\r\n%s\r\n" % (len(half(body)), half(body))),
    "cut open end": lambda body: then_close(TO_THE_END + b"\r\n" + half(body)),
    "cut gzip": lambda body: then_close(TO_THE_END + b"Content-Encoding: gzip\r\n\r\n" + half(gzip.compress(body))),
    "corrupt gzip": lambda body: answer(corrupt(gzip.compress(body)), headers=[GZIP]),
    "empty": lambda body: answer(b""),
    "HTML": lambda body: answer(HTML),
    "half JSON": lambda body: answer(half(body)),
    "BOM": lambda body: answer(b"\xef\xbb\xbf" + body),
}
"""Ways to give less than the whole body, or another one, under status 200: for each a step in place of a body."""

FAULTS = ("reset", "closed", "hang", "drip", "closes", "cut", *CUTS)
"""What can happen to a request; besides these, every status from `400` to `599`.

`reset` breaks the connection off (RST), `closed` ends it without an answer, `hang` never answers, `drip` sends a byte
every 50 ms, `closes` answers and then closes the connection without having said so; `cut` is one of `CUTS` by chance.
"""

LIGHT = {"reset": 0.05, "500": 0.05, "cut": 0.02}
"""The shares of row 1."""

_DECK = 400
_CUT = tuple(CUTS)


@attrs.frozen
class Limit:
    """A token bucket: `rate` requests a second, `burst` at once after a pause; 429 over it.

    Attributes:
        retry_after: how a 429 says when to come back: not at all, in seconds, or as an HTTP date.
        announced: seconds that a 429 asks to wait.
    """

    rate: float
    burst: float
    retry_after: Literal["seconds", "date"] | None = None
    announced: int = 1


@attrs.frozen
class Outage:
    """A time in which nothing works, from the moment that a number of requests was served.

    Attributes:
        kind: `503`, `refused` (nobody listens, all connections reset), `hang` (requests are read, never answered) or
            `reset`.
        after: requests served before it begins.
        seconds: how long it lasts; infinite for one that does not end.
    """

    kind: Literal["503", "refused", "hang", "reset"]
    after: int
    seconds: float


@attrs.frozen(kw_only=True)
class Plan:
    """What to serve.

    Attributes:
        units: campaigns, with the ids 1 to this.
        pages: pages of each campaign's feed.
        rows: rows of each page.
        latency: seconds that every answer takes.
        faults: share (0 to 1) of the requests that meet each fault.
        failing: units that always meet one fault.
        limit: the rate limit, if there is one.
        outage: the outage, if there is one.
        certificate: key and certificates in PEM, to serve https.
        seed: chooses which requests meet a fault.
    """

    units: int = 20
    pages: int = 5
    rows: int = 2
    latency: float = 0.0
    faults: Mapping[str, float] = attrs.field(factory=dict)
    failing: Mapping[int, str] = attrs.field(factory=dict)
    limit: Limit | None = None
    outage: Outage | None = None
    certificate: bytes | None = attrs.field(default=None, repr=False)
    seed: int = 1

    @property
    def pages_needed(self) -> int:
        """Requests that a client needs if nothing goes wrong."""
        return self.units * self.pages

    def keywords(self, unit: int, page: int) -> list[int]:
        """Return the ids of the rows on one page; no two rows of all units have the same."""
        first = unit * 100_000 + (page - 1) * self.rows
        return list(range(first, first + self.rows))

    def unit_keywords(self, unit: int) -> list[int]:
        """Return the ids of all rows of a unit, in order."""
        return [keyword for page in range(1, self.pages + 1) for keyword in self.keywords(unit, page)]

    def page(self, unit: int, number: int) -> bytes:
        """Return the answer to a request for a page of a unit."""
        rows = [{"keywordId": one, "keywordPhrase": f"keyword {one}"} for one in self.keywords(unit, number)]
        metadata = {"total_pages": self.pages, "total_records": self.pages * self.rows}
        return json.dumps({"metadata": metadata, "data": {"totals": False, "rows": rows}}).encode()

    def draws(self) -> Iterator[str | None]:
        """Give the fault that meets the first, second, … request, or None.

        Faults are drawn like cards from a deck that holds each in its share, so that what is measured is the client's
        doing and not the luck of a seed.
        """
        chance = random.Random(self.seed)
        deck: list[str | None] = []
        for kind, share in self.faults.items():
            deck += [kind] * round(share * _DECK)
        deck += [None] * (_DECK - len(deck))
        while True:
            chance.shuffle(deck)
            for card in deck:
                yield chance.choice(_CUT) if card == "cut" else card


@attrs.frozen
class Seen:
    """One request, as the server saw it.

    Attributes:
        time: when it had come, on the machine's monotonic clock, which all processes share.
        fate: `served`, or the fault that met it; `outage`, `throttled`, or `too late` for a request that came on a
            connection which the server had closed already, and was not read.
        unit: campaign.
        page: page.
    """

    time: float
    fate: str
    unit: int | None = None
    page: int | None = None


@attrs.frozen
class History:
    """What a server saw from its start to its end.

    Attributes:
        seen: all requests, in the order of their arrival.
        windows: waits that it asked for, each from the moment that the 429 was sent to the moment it named.
        outage: when the outage began and ended, or None.
        first_success: when the first answer after the outage was sent, or None.
        open_connections: connections that clients left open.
    """

    seen: tuple[Seen, ...]
    windows: tuple[tuple[float, float], ...]
    outage: tuple[float, float] | None
    first_success: float | None
    open_connections: int

    @property
    def requests(self) -> int:
        """How many requests came."""
        return len(self.seen)

    @property
    def fates(self) -> Counter[str]:
        """How many requests met which fate."""
        return Counter(seen.fate for seen in self.seen)

    @property
    def served(self) -> Counter[tuple[int, int]]:
        """How often each page of each unit was served whole."""
        return Counter(
            (seen.unit, seen.page)
            for seen in self.seen
            if seen.fate in ("served", "closes") and seen.unit is not None and seen.page is not None
        )

    def started_inside_windows(self, grace: float) -> int:
        """Count the requests that came inside a wait that was asked for.

        Args:
            grace: seconds in which requests may still come that were under way as the 429 was.
        """
        return sum(any(begin + grace < seen.time < end for begin, end in self.windows) for seen in self.seen)
