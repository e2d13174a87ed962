"""Row 23: generated bodies over a real connection; `tests/normalisation/test_hostile.py` reads them without one."""

from __future__ import annotations

import asyncio
import json

import pytest

from seorep_async import SeoRepClient, SeoRepError, Settings
from seorep_async.models import KeywordRanking
from tests.faults.conftest import Check
from tests.faults.plan import Plan
from tests.faults.process import ServerProcess
from tests.faults.run import JANUARY, KEY
from tests.normalisation.faithful import assert_faithful_page
from tests.normalisation.test_hostile import PLACES, generated, nested_to

NASTY = (nested_to(10**5), "9" * 5000, "NaN", r'"\ud800"', '"false"', "1", "null", '{"a": 1, "a": 2}')


def bodies(count: int) -> tuple[bytes, ...]:
    """Return bodies that claim to be a page of the campaign feed: nasty values in every place, and generated ones."""
    named = [place.replace("%s", value).encode() for place in PLACES.values() for value in NASTY]
    found = (generated(number) for number in range(10 * count))
    return tuple([*named, *(body for body, row in found if row is KeywordRanking)][:count])


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_a_hostile_body_is_refused_by_us_or_taken_as_it_is(
    count: int, server: ServerProcess, check: Check
) -> None:
    served_bodies = bodies(count)
    assert len(served_bodies) == count
    refused, others, unfaithful = 0, [], []
    with server.serving(Plan(bodies=served_bodies)) as served:
        async with SeoRepClient(served.base_url, KEY, settings=Settings(max_attempts=1)) as client:

            async def ask(number: int) -> None:
                nonlocal refused
                listing = client.rankings.campaign(number, *JANUARY)
                try:
                    page = await listing.page(1)
                except SeoRepError:
                    refused += 1
                except Exception as error:
                    others.append((number, error))
                else:
                    try:
                        assert_faithful_page(page, json.loads(served_bodies[number]), KeywordRanking)
                    except Exception as error:
                        unfaithful.append((number, error))

            for first in range(1, count, 100):
                await asyncio.gather(*(ask(number) for number in range(first, min(first + 100, count))))
    assert count // 10 < refused < count * 9 // 10
    check(
        "23",
        f"{count} generated bodies",
        errors_that_are_not_ours=(len(others), 0),
        pages_that_say_something_else=(len(unfaithful), 0),
        left_over=(served.history.open_connections, 0),
    )
