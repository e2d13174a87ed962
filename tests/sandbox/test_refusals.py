"""Every failure is JSON, and never an accidental 500."""

from typing import Any
from urllib.parse import urlencode

import pytest

from tests.sandbox.calls import (
    CAMPAIGN,
    CAMPAIGN_BY_DATE,
    FEEDS,
    KEYWORD_BY_DATE,
    LINKS,
    YEAR,
    Caller,
    basic,
    calling,
)

OK = FEEDS[CAMPAIGN]
YEAR_QUERY = urlencode(YEAR)


WRONG_KEYS = (
    "",
    "Bearer sandbox",
    "Basic",
    "Basic !!!",
    "Basic é",
    "sandbox",
    basic("wrong"),
    basic("", user="sandbox"),
    basic("sandbox")[:-4],
)


async def test_a_wrong_key_gets_403(call: Caller) -> None:
    for key in WRONG_KEYS:
        response = await call.send("/v3/campaigns", authorization=key)
        assert (key, response.status, response.json()["code"]) == (key, 403, 403)


@pytest.mark.parametrize("user", ["", "someone", "é"])
async def test_any_user_name_is_let_in_with_the_key(user: str, call: Caller) -> None:
    response = await call.send("/v3/campaigns", authorization=basic("sandbox", user=user))
    assert response.status == 200


async def test_another_method_gets_405(call: Caller) -> None:
    assert (await call.send("/v3/campaigns", method="DELETE")).status == 405


async def test_the_key_is_checked_before_the_path(call: Caller) -> None:
    assert (await call.send("/nowhere", authorization="no")).status == 403


UNKNOWN = (
    "/",
    "/v3",
    "/v2/campaigns",
    "/v3/campaigns/",
    "/v3/campaigns/7",
    "/v3/campaigns/0",
    "/v3/campaigns/-1",
    "/v3/campaigns/x",
    "/v3/campaigns/1.0",
    "/v3/campaigns/%D9%A1",
    "/v3/campaigns/%FF",
    "/v3/campaigns/2147483648",
    f"/v3/campaigns/{'9' * 5000}",
    "/v3/keywords/200000",
    "/v3/keywords/200041",
    "/v3/keywords/700001",
    "/v3/keywords/1",
    "/v3/users/6",
    "/v3/users/6/loginGrant",
    "/v3/users/x/loginGrant",
    "/v3/backlinks/100004",
    "/v3/backlinks/700001",
    f"{LINKS}?campaign_id=7",
    f"{CAMPAIGN}?campaign_id=7&{YEAR_QUERY}",
    f"{CAMPAIGN_BY_DATE}?campaign_id=7&{YEAR_QUERY}",
    f"{KEYWORD_BY_DATE}?keyword_id=2&{YEAR_QUERY}",
)


async def test_an_unknown_path_or_id_gets_404(call: Caller) -> None:
    for path in UNKNOWN:
        response = await call.send(path)
        assert (path, response.status, response.json()["code"]) == (path, 404, 404)


@pytest.mark.parametrize("path", FEEDS)
async def test_a_missing_or_empty_parameter_gets_400_and_its_name(path: str, call: Caller) -> None:
    for name in FEEDS[path]:
        without = {key: value for key, value in FEEDS[path].items() if key != name}
        for query in (without, {**without, name: ""}):
            response = await call.send(path, query)
            assert (response.status, response.json()["message"]) == (400, f"{name} is required")


BAD_DATES = ("2022-1-1", "20220101", "2022-02-30", "0000-00-00")
BAD_DAYS = ("2014-01-01", "2014-01-02-2014-01-01", "2014-01-01-2014-02-30")
BadValues = dict[str, tuple[Any, ...]]
BAD_VALUES: dict[str, BadValues] = {
    "/v3/campaigns": {"order_by": ("nothing",), "order_direction": ("down",)},
    "/v3/keywords": {"campaign_id": ("two",), "page": ("1.5",)},
    "/v3/users": {"order_by": ("none",)},
}
BAD_VALUES[LINKS] = {
    "campaign_id": ("",),
    "status": ("draft",),
    "sort_metric": ("none",),
    "date_string": BAD_DAYS,
}
BAD_VALUES[CAMPAIGN] = {
    "start_date": BAD_DATES,
    "end_date": ("\u0662022-01-01", "yesterday", "2021-12-31"),
    "campaign_id": ("x", 0, 2**31, "1_0"),
    "page": (0, 2**31),
    "limit": (-5, "all", ""),
    "sort_metric": ("rank", "tags"),
    "sort_direction": ("up",),
    "compare_previous_period": ("maybe",),
}
NEEDED: dict[str, dict[str, Any]] = {CAMPAIGN: OK, LINKS: {"campaign_id": 1}}


async def test_a_bad_parameter_gets_400_in_json(call: Caller) -> None:
    for path, parameters in BAD_VALUES.items():
        needed = NEEDED.get(path, {})
        for name, bad_values in parameters.items():
            for value in bad_values:
                response = await call.send(path, {**needed, name: value})
                assert (value, response.status) == (value, 400)
                assert response.json()["code"] == 400
    assert await call.status(LINKS) == 400


@pytest.mark.parametrize("path", [f"{CAMPAIGN}?{urlencode(OK)}", "/v3/campaigns?", "/v3/keywords?"])
async def test_odd_characters_in_a_query_cause_no_500(path: str, call: Caller) -> None:
    for raw in ("filter=%FF%FE", "filter=%00", "filter=%ED%A0%80", "filter=&filter=x", "%", "=&;"):
        assert (raw, await call.status(f"{path}&{raw}")) == (raw, 200)


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
        assert await call.status(CAMPAIGN, **{**OK, "campaign_id": 3}) == 200
