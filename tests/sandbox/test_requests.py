"""Requests and their answers. Every failure is JSON, and never an accidental 500.

In `requests.txt`, a line after `$` is a request: its method, path and JSON body, and another key
than the right one after `as`. The next line is the status of the answer, and the data or the
message in it.
"""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden import Page
from tests.sandbox.calls import CAMPAIGN, FEEDS, RIGHT_KEY, Caller, calling


async def answer_to(call: Caller, request: str) -> str:
    request, has_key, key = request.partition(" as ")
    method, path, *body = request.split(" ", 2)
    reply = await call.send(
        path,
        method=method,
        authorization=key if has_key else RIGHT_KEY,
        body={"json": json.loads(body[0])} if body else None,
    )
    answer = reply.json()
    if reply.status == 200:
        return f"200 {json.dumps(answer['data'], ensure_ascii=False)}"
    assert answer["code"] == reply.status
    return f"{reply.status} {answer['message']}"


async def test_answers_are_those_of_the_page() -> None:
    page = Page(Path(__file__).with_name("requests.txt"))

    def a_day_later_for_each_request() -> dt.datetime:
        return dt.datetime(2023, 1, 1, 6, 7, 8) + dt.timedelta(call.sandbox.stats.requests)

    async with calling(backlinks=6, clock=a_day_later_for_each_request) as call:
        for request in page.questions():
            page.lines.append(await answer_to(call, request))
    page.compare()


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"failing": [2]}, 500),
        ({"failing": {2: 503}}, 503),
        ({"failing": {2: 404}}, 404),
        ({"forbidden": [2]}, 403),  # under a good key
    ],
)
async def test_a_failing_campaign_is_listed_and_spares_the_others(
    options: dict[str, Any], status: int
) -> None:
    async with calling(**options) as call:
        for path in ("/v3/campaigns/2", *FEEDS):
            reply = await call.send(path, FEEDS.get(path))
            assert reply.status == status
            assert "campaign 2" in reply.json()["message"]
        assert len(await call.data("/v3/campaigns")) == 6
        assert await call.status("/v3/campaigns/3") == 200
        assert await call.status(CAMPAIGN, **{**FEEDS[CAMPAIGN], "campaign_id": 3}) == 200
