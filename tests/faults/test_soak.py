"""The soak: many requests through the sandbox with random faults, in one process.

Neither memory nor the number of open files may grow.
"""

import gc
import os
import time
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from seorep_async import PullOutcome, SeoRepClient, Settings
from seorep_async.sandbox import Faults, Sandbox
from tests.faults.conftest import Check
from tests.faults.run import JANUARY, load_of_the_machine

pytestmark = pytest.mark.heavy

FAULTS = (
    "resets=2%,500s=2%,502s=0.5%,503s=0.2%,cut=2%,empty=1%,html=1%,malformed=1%,errors=1%,"
    "garbage=1%,404s=0.02%,redirects=0.02%"
)
"""All kinds but two.

After `closes` a request may meet a closed connection that the sandbox does not see (row 12), and
`hang` needs a short time limit, which a busy machine breaks as well.
"""
CAMPAIGNS = 200
KEYWORDS = 60
SAMPLE_EVERY = 100  # outcomes
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def sample() -> tuple[int, int]:
    """Return the bytes of memory and the number of file descriptors of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * PAGE_BYTES, len(os.listdir("/proc/self/fd"))


def growth(samples: list[tuple[int, int]]) -> tuple[float, float]:
    """Return the growth from the first third to the last.

    It is MiB of memory on average, and the ninth decile of descriptors: a slow pace needs fewer
    descriptors for a while, so their mean says little.
    """
    third = max(1, len(samples) // 3)
    memory, descriptors = zip(*samples[:third], strict=True)
    later_memory, later_descriptors = zip(*samples[-third:], strict=True)
    ninth_decile = third * 9 // 10
    more_memory = mean(later_memory) - mean(memory)
    more_descriptors = sorted(later_descriptors)[ninth_decile] - sorted(descriptors)[ninth_decile]
    return more_memory / 2**20, more_descriptors


def is_wrong(outcome: PullOutcome[Any]) -> bool:
    """Return whether a report does not hold each row once, or no fault explains an error."""
    if outcome.report is None:
        return getattr(outcome.error, "status", None) not in (404, 302)
    ids = [row.keyword_id for row in outcome.report.rows]
    return len(ids) != KEYWORDS or len(set(ids)) != KEYWORDS


@pytest.mark.parametrize(
    ("length", "slack", "hangs"),
    [(2_500, 4.0, False), pytest.param(200_000, 1.0, True, marks=pytest.mark.slow)],
)
async def test_nothing_grows_and_both_sides_count_the_same(
    length: int, slack: float, hangs: bool, check: Check
) -> None:
    load = load_of_the_machine()
    begun = time.monotonic()
    samples: list[tuple[int, int]] = []
    wrong_outcomes = 0
    outcome_count = 0
    faults = Faults.parse(FAULTS)
    settings = Settings(attempt_timeout=600.0, backoff_max=0.5, page_size=None)
    if hangs:
        faults = Faults.parse(f"{FAULTS},hang=0.01%")
        settings = Settings(attempt_timeout=1.0, backoff_max=0.5)
    async with (
        Sandbox(campaigns=CAMPAIGNS, keywords=KEYWORDS, faults=faults) as sandbox,
        SeoRepClient(sandbox.base_url, sandbox.api_key, settings=settings) as client,
    ):
        while client.stats.attempts < length:
            async with client.rankings.pull(range(1, CAMPAIGNS + 1), *JANUARY) as outcomes:
                async for outcome in outcomes:
                    if is_wrong(outcome):
                        wrong_outcomes += 1
                    outcome_count += 1
                    # The first quarter warms up.
                    is_warm = client.stats.attempts > length / 4
                    if is_warm and outcome_count % SAMPLE_EVERY == 0:
                        samples.append(sample())
        sent = client.stats.attempts
        arrived = sandbox.stats.requests
    memory, descriptors = growth(samples)
    pace = sent / (time.monotonic() - begun)
    check(
        "soak",
        f"{length} requests through the sandbox ({pace:.0f}/s)",
        load=load,
        counts_differ_by=(abs(sent - arrived), 0),
        wrong_outcomes=(wrong_outcomes, 0),
        memory_growth_MiB=(memory, 4.0),
        descriptor_growth=(descriptors, 3.0 * slack),
    )
