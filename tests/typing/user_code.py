"""User code with its types. `test_user_code.py` checks it; it never runs.

Nothing here may be `Any` but marked expressions. A wrong use carries the error that it must be: an
ignored error that does not occur is an error itself.
"""
# mypy: disallow-any-expr

import datetime as dt
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final, assert_type

from seorep_async import (
    Backlink,
    Campaign,
    CampaignPeriod,
    Feed,
    KeywordPeriod,
    KeywordRanking,
    Listing,
    LoginGrant,
    ModelList,
    Page,
    Pull,
    PullOutcomes,
    SeoRepClient,
    User,
)

DAY: Final = "2023-01-31"


async def listings(client: SeoRepClient) -> None:
    listing = client.campaigns.list(extra_params={"status": ["active"], "group": 1})
    async for campaign in listing:
        assert_type(campaign, Campaign)
        assert_type(campaign.company, str)
        assert_type(campaign.date_created, dt.datetime | None)
    async for page in listing.pages():
        assert_type(page, Page[Campaign])
    third_page = await listing.page(3)
    assert_type(third_page, Page[Campaign])
    assert_type(third_page.items, tuple[Campaign, ...])
    assert_type(listing.pages(), AsyncGenerator[Page[Campaign], None])
    async with aclosing(listing.pages()) as pages:
        assert_type(await anext(pages), Page[Campaign])  # type: ignore[misc]
    items: AsyncIterator[Campaign] = aiter(listing)
    assert_type(await anext(items), Campaign)


async def pulls(client: SeoRepClient, any_feed: Feed) -> None:
    pull = client.rankings.pull(range(1, 1001), DAY, DAY)
    assert_type(pull, Pull[KeywordRanking])
    everything = await pull
    assert_type(everything, PullOutcomes[KeywordRanking])
    assert_type(everything[1:] + everything[:1], PullOutcomes[KeywordRanking])
    of_campaigns = client.rankings.pull((1, 2), DAY, DAY, feed=Feed.CAMPAIGN_BY_DATE)
    assert_type(of_campaigns, Pull[CampaignPeriod])
    of_keywords = client.rankings.pull({1, 2}, DAY, DAY, feed="keyword-by-date", ordered=True)
    assert_type(of_keywords, Pull[KeywordPeriod])
    generated_ids = (id_ for id_ in [1])
    of_any_feed = client.rankings.pull(generated_ids, DAY, DAY, feed=any_feed)
    assert_type(of_any_feed, Pull[KeywordRanking] | Pull[CampaignPeriod] | Pull[KeywordPeriod])


async def resources(client: SeoRepClient) -> None:
    new = await client.campaigns.create("u", "c", scope="s", extra_params={"tags": ["a"], "n": 1})
    assert_type(new, Campaign)
    assert_type(await client.campaigns.update(7, group_title=None), Campaign)
    listing = client.backlinks.list(7, date_string=("2023-01-01", dt.date(2023, 1, 31)))
    assert_type(listing, Listing[Backlink, ModelList[Backlink]])
    assert_type(await listing, ModelList[Backlink])


async def users(client: SeoRepClient) -> None:
    assert_type(await client.users.login_grant(7), LoginGrant)
    generated_roles = (role for role in ("a", "b"))
    assert_type(await client.users.list(role=generated_roles), ModelList[User])
    assert_type(await client.users.list(role="client").page(2), Page[User])


async def wrong(client: SeoRepClient) -> None:
    await client.campaigns.get("7")  # type: ignore[arg-type]
    await client.campaigns.create("u")  # type: ignore[call-arg]
    await client.campaigns.update(7, "u")  # type: ignore[call-arg]
    await client.users.get(7).id  # type: ignore[attr-defined, misc]
    client.backlinks.list(7, date_string=("2023-01-01",))  # type: ignore[arg-type]
    client.users.list(role=[1])  # type: ignore[list-item]
    await client.users.get(7, extra_params={"x": object()})  # type: ignore[dict-item]
    (await client.users.get(7)).role = "admin"  # type: ignore[misc]
    client.rankings.campaign(42, 20230101, DAY)  # type: ignore[arg-type]
    client.rankings.pull(7, DAY, DAY)  # type: ignore[call-overload]
    client.rankings.pull([7], DAY, DAY, feed="campaigns")  # type: ignore[call-overload]
    client.rankings.pull([7], DAY, DAY, serch="x")  # type: ignore[call-overload]
    for _ in client.campaigns.list():  # type: ignore[attr-defined, misc]
        pass
