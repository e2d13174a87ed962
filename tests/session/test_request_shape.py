"""What a request looks like, through aioresponses."""

import pytest
from aioresponses import aioresponses
from yarl import URL

from seorep_async import Settings
from tests.session.calls import OpenClient, ask
from tests.session.scripted_server import EMPTY_PAGE

BASE = "https://api.example.com"


async def test_list_is_one_get_with_an_encoded_query(open_client: OpenClient, seorep_responses: aioresponses) -> None:
    client = await open_client(BASE)
    seorep_responses.get(URL(f"{BASE}/v3/campaigns?filter=a%26b+%C3%BC&limit=50&page=2"), payload=EMPTY_PAGE)
    await client.campaigns.list(filter="a&b ü", limit=50).page(2)
    (((method, url), (call,)),) = seorep_responses.requests.items()
    assert (method, str(url)) == ("GET", f"{BASE}/v3/campaigns?filter=a%26b+%C3%BC&limit=50&page=2")
    assert call.kwargs["headers"] == {
        "Accept": "application/json",
        "Accept-Encoding": "gzip, deflate",
        "User-Agent": Settings().user_agent,
    }
    assert call.kwargs["data"] is None
    assert call.kwargs["allow_redirects"] is False


async def test_feed_search_goes_under_both_names(open_client: OpenClient, seorep_responses: aioresponses) -> None:
    client = await open_client(BASE)
    query = "campaign_id=42&start_date=2023-01-01&end_date=2023-01-31&filter=x&search=x&page=1"
    seorep_responses.get(f"{BASE}/v3/resources/rankings/campaign?{query}", payload=EMPTY_PAGE)
    await client.rankings.campaign(42, "2023-01-01", "2023-01-31", search="x").page(1)
    assert len(seorep_responses.requests) == 1


@pytest.mark.parametrize("size", [0, 200_000, 5_000_000])
async def test_mocked_body_may_have_any_size(
    size: int, open_client: OpenClient, seorep_responses: aioresponses
) -> None:
    client = await open_client(BASE)
    seorep_responses.get(f"{BASE}/v3/campaigns?page=1", payload=EMPTY_PAGE | {"note": "x" * size})
    assert (await ask(client)).items == ()
