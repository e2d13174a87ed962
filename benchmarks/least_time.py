"""The least time of any client that doesn't know the limit: `python -m benchmarks.least_time`.

The service accepts one request at a time, at a rate from 1 to some number a second that the client
doesn't know. It refuses a request that comes too early, and asks for a pause of a second. There is no
latency and no jitter, and the client knows all this. It begins with several requests at once, because most
services have no such limit. After that, it chooses how long it waits before each request.

The figure is the time divided by the ideal time at the worst of all rates, for the best such client. It
is found backwards: from the latest moment at which the last request may be accepted, to the first.
"""

from __future__ import annotations

from benchmarks.findings import as_text

PAUSE = 1.0  # seconds
STEP = 1.08  # between two rates that the service may have
ACCURACY = 0.005


def rates_up_to(most: float) -> list[float]:
    """Return the rates that the service may have, in requests a second."""
    rates = [1.0]
    while rates[-1] * STEP < most:
        rates.append(rates[-1] * STEP)
    return [*rates, most]


def is_enough(factor: float, requests: int, rates: list[float]) -> bool:
    """Return whether a client can end in `factor` times the ideal time at each of the rates."""
    count = len(rates)
    # latest[low][high]: the latest time at which a client that knows the rate to be between these
    # two may have so many requests left. At first, none is left.
    latest = [[factor * requests / rates[high] for high in range(count)] for _ in range(count)]
    for _ in range(requests - 1):
        earlier = [[0.0] * count for _ in range(count)]
        for low in range(count):
            for high in range(low, count):
                # A request at the lowest rate is certainly accepted.
                best = latest[low][high] - 1 / rates[low]
                # At a higher one, it tells whether the service's rate is at least as high. If it is
                # refused, the next one is accepted after the pause.
                for middle in range(low + 1, high + 1):
                    if_refused = latest[low][middle - 1] - PAUSE
                    safe = min(latest[middle][high], if_refused) - 1 / rates[middle]
                    best = max(best, safe)
                earlier[low][high] = best
        latest = earlier
    # The client finds that there is a limit, and pauses for the first time.
    return latest[0][-1] >= PAUSE


def least_factor(requests: int, most: float) -> float:
    """Return the least factor that suffices for rates from 1 to `most` a second."""
    rates = rates_up_to(most)
    too_low, enough = 1.0, 4.0
    while enough - too_low > ACCURACY:
        middle = (too_low + enough) / 2
        if is_enough(middle, requests, rates):
            enough = middle
        else:
            too_low = middle
    return too_low


def main() -> None:
    """Print the table."""
    rows = []
    for requests in (60, 300):
        factors = [f"{least_factor(requests, most):.2f}" for most in (10, 20)]
        rows.append([str(requests), *factors])
    print(as_text(("requests", "1 to 10 a second", "1 to 20 a second"), rows))


if __name__ == "__main__":
    main()
