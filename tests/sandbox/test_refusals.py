"""Every failure is JSON, and never an accidental 500.

In `refusals.txt`, a line after `$` is a request: its method, path and JSON body, and another key
than the right one after `as`. The next line is the status of the answer and the message in it.
`RENEW_GOLDEN=1 python -m pytest -n 0 tests/sandbox/test_refusals.py` writes the answers of today.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.calls import CAMPAIGN, FEEDS, RIGHT_KEY, Caller, calling

PAGE = Path(__file__).with_name("refusals.txt")


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
        return "200"
    assert answer["code"] == reply.status
    return f"{reply.status} {answer['message']}"


async def test_refusals_are_those_of_the_page(call: Caller) -> None:
    page = PAGE.read_text(encoding="utf-8")
    lines: list[str] = []
    for line in page.splitlines():
        if line.startswith("$ "):
            lines += [line, await answer_to(call, line.removeprefix("$ "))]
        elif not line or line.startswith("#"):
            lines.append(line)
    replayed = "".join(f"{line}\n" for line in lines)
    if os.environ.get("RENEW_GOLDEN"):
        PAGE.write_text(replayed, encoding="utf-8")
    assert replayed == page


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
