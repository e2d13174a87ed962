"""Row 35 on real sockets, by processes that share nothing but the limit.

Rows 30 to 36 in virtual time, with many more limits, are in `tests/session/scenarios.py`.
"""

import asyncio
import multiprocessing
import time

import attrs
import pytest

from seorep_async import RankingReport, Settings
from seorep_async.sandbox import Sandbox
from tests.faults.conftest import Check
from tests.faults.run import KEY, load_of_the_machine, opened, results_of

pytestmark = pytest.mark.slow

PAGES = 5


@attrs.frozen
class Pulled:
    """A pull by one client.

    Attributes:
        begun: when it began, on the clock that all processes share.
        ended: when it ended.
        lost: campaigns that failed, or have not all their rows.
    """

    begun: float
    ended: float
    lost: int


async def pull_all(base_url: str, campaigns: int) -> Pulled:
    begun = time.monotonic()
    async with opened(base_url, Settings()) as client:
        results = await results_of(client, campaigns)
    complete = 0
    for report in results.values():
        if isinstance(report, RankingReport) and len(report.rows) == 25 * PAGES:
            complete += 1
    return Pulled(begun, time.monotonic(), campaigns - complete)


def _pull_in_a_process(base_url: str, campaigns: int) -> Pulled:
    return asyncio.run(pull_all(base_url, campaigns))


# Of eight processes, only the median of Jain's index is promised.
@pytest.mark.parametrize(
    ("clients", "refused", "unfairness"), [(2, 0.04, 0.25), (4, 0.04, 0.25), (8, 0.07, 1.0)]
)
@pytest.mark.parametrize("retry_after", ["", ",retry-after=seconds"])
async def test_processes_share_a_limit(
    clients: int, refused: float, unfairness: float, retry_after: str, check: Check
) -> None:
    load = load_of_the_machine()
    campaigns = 1200 // clients
    service = Sandbox(
        campaigns=campaigns,
        keywords=25 * PAGES,
        api_key=KEY,
        rate_limit=f"200/s,burst=40{retry_after}",
        latency=0.02,
    )
    async with service as sandbox:
        with multiprocessing.get_context("spawn").Pool(clients) as pool:
            arguments = [(sandbox.base_url, campaigns)] * clients
            pulls: list[Pulled] = await asyncio.to_thread(
                pool.starmap, _pull_in_a_process, arguments, 1
            )
        requests = sandbox.stats.requests
    rates = [campaigns / (pull.ended - pull.begun) for pull in pulls]
    jain = sum(rates) ** 2 / (clients * sum(rate * rate for rate in rates))
    seconds = max(pull.ended for pull in pulls) - min(pull.begun for pull in pulls)
    check(
        "35",
        f"{clients} processes{retry_after}",
        load=load,
        lost=(sum(pull.lost for pull in pulls), 0),
        refused=(requests / 6000 - 1, refused),
        times_ideal=(seconds / 30, 1.85),
        unfairness=(1 - jain, unfairness),
    )
