"""What a type checker makes of every operation; checked by `test_user_code.py`, never run.

Nothing here may be `Any` but what is marked. A mark on anything else is an error itself.
"""
# mypy: disallow-any-expr

import datetime as dt
from typing import Any, assert_type

from seorep_async import (
    Backlink,
    Campaign,
    CampaignPeriod,
    Feed,
    Keyword,
    KeywordPeriod,
    KeywordRanking,
    Listing,
    LoginGrant,
    ModelList,
    Page,
    Pull,
    RankingReport,
    RawAnswer,
    SeoRepClient,
    Settings,
    Stats,
    User,
)


async def campaigns(client: SeoRepClient) -> None:
    new = await client.campaigns.create("u", "c", scope="s", group_title="g", extra_params={"tags": ["a"], "n": 1})
    assert_type(new, Campaign)
    assert_type(await client.campaigns.get(7, extra_params={"x": True}), Campaign)
    assert_type(await client.campaigns.update(7, url="u", company="c", scope="s", group_title=None), Campaign)
    await client.campaigns.delete(7, extra_params={"since": dt.date(2023, 1, 1)})
    listing = client.campaigns.list(filter="f", limit=5, order_by="id", order_direction="asc", extra_params=None)
    assert_type(listing, Listing[Campaign, ModelList[Campaign]])
    assert_type(await listing, ModelList[Campaign])


async def users(client: SeoRepClient, email_them: bool | None) -> None:
    new = await client.users.create("f", "l", "u", "p", "client", email="e", email_credentials=email_them)
    assert_type(new, User)
    assert_type(await client.users.create("f", "l", "u", "p", role="client", email_credentials="yes"), User)
    assert_type(await client.users.get(7), User)
    changed = await client.users.update(
        7, first_name="f", last_name="l", username="u", email="e", password="p", role=""
    )
    assert_type(changed, User)
    await client.users.delete(7)
    assert_type(await client.users.login_grant(7), LoginGrant)
    listing = client.users.list(filter="f", role="client", limit=5, order_by="id", order_direction="asc")
    assert_type(listing, Listing[User, ModelList[User]])
    assert_type(await client.users.list(role=(role for role in ("a", "b"))), ModelList[User])
    assert_type(await client.users.list(role={"a": 1}.keys()).page(2), Page[User])
    async for user in client.users.list(role=["a"]):
        assert_type(user, User)


async def keywords(client: SeoRepClient) -> None:
    assert_type(await client.keywords.get(7), Keyword)
    listing = client.keywords.list(filter="f", limit=5, order_by="id", order_direction="asc")
    assert_type(listing, Listing[Keyword, ModelList[Keyword]])
    assert_type(await client.keywords.list(extra_params={"campaign_id": 7}), ModelList[Keyword])


async def backlinks(client: SeoRepClient) -> None:
    new = await client.backlinks.create(
        7, "t", "u", "published", "2023-01-01", link_type="l", target_anchor="a", target_url="u", notes=""
    )
    assert_type(new, Backlink)
    assert_type(await client.backlinks.create(7, "t", "u", "published", dt.date(2023, 1, 1)), Backlink)
    assert_type(await client.backlinks.get(7), Backlink)
    changed = await client.backlinks.update(
        7, date_published=dt.date(2023, 1, 1), status="unpublished", url="u", link_type="l", notes="n", title="t",
        target_anchor="a", target_url="u", extra_params={},
    )  # fmt: skip
    assert_type(changed, Backlink)
    await client.backlinks.delete(7)
    listing = client.backlinks.list(
        7, status="published", date_string=("2023-01-01", dt.date(2023, 1, 31)), search="s", link_type="all", limit=5,
        sort_metric="id", sort_direction="asc", extra_params=None,
    )  # fmt: skip
    assert_type(listing, Listing[Backlink, ModelList[Backlink]])
    assert_type(await client.backlinks.list(7, date_string="last month"), ModelList[Backlink])


async def rankings(client: SeoRepClient, start: dt.date) -> None:
    campaign = client.rankings.campaign(
        7, start, "2023-01-31", search="s", limit=5, sort_metric="m", sort_direction="asc",
        compare_previous_period=True, extra_params={"tag": "x"},
    )  # fmt: skip
    assert_type(campaign, Listing[KeywordRanking, RankingReport[KeywordRanking]])
    by_date = client.rankings.campaign_by_date(7, start, start, compare_previous_period="yes")
    assert_type(by_date, Listing[CampaignPeriod, RankingReport[CampaignPeriod]])
    of_keyword = client.rankings.keyword_by_date(7, start, start)
    assert_type(of_keyword, Listing[KeywordPeriod, RankingReport[KeywordPeriod]])
    assert_type(client.rankings.pull([7], start, start, feed=Feed.CAMPAIGN_BY_DATE), Pull[CampaignPeriod])
    assert_type(client.rankings.pull([7], start, start, feed="keyword-by-date"), Pull[KeywordPeriod])


async def client_itself(client: SeoRepClient) -> None:
    found = await client.request("GET", "/v3/campaigns", params={"page": 2})  # type: ignore[misc]
    assert_type(found, dict[str, Any])  # type: ignore[misc]
    await client.request("POST", "/v3/campaigns", body={"tags": ["a"], "url": "u"})  # type: ignore[misc]
    with client.record_answers() as answers:
        assert_type(answers, list[RawAnswer])
    with client.timeout(2):
        assert_type(client.account, str)
    assert_type(client.base_url, str)
    assert_type(client.account, str)
    assert_type(client.now(), dt.datetime)
    assert_type(client.stats, Stats)
    assert_type(client.settings, Settings)
    assert_type(client.stats.attempts, int)
    assert_type(await client.open(), SeoRepClient)
    await client.close()


async def wrong(client: SeoRepClient) -> None:
    await client.campaigns.get("7")  # type: ignore[arg-type]
    await client.campaigns.create("u")  # type: ignore[call-arg]
    await client.campaigns.update(7, "u")  # type: ignore[call-arg]
    await client.users.create("f", "l", "u", "p")  # type: ignore[call-arg]
    await client.users.update(7, campaign_access="all")  # type: ignore[call-arg]
    await client.users.get(7).id  # type: ignore[attr-defined, misc]
    await client.keywords.create("shoes")  # type: ignore[attr-defined, misc]
    await client.backlinks.create(7, "t", "u", "published")  # type: ignore[call-arg]
    await client.backlinks.update(7, date_published=20230101)  # type: ignore[arg-type]
    client.backlinks.list()  # type: ignore[call-arg]
    client.backlinks.list(7, date_string=("2023-01-01",))  # type: ignore[arg-type]
    client.users.list(role=[1])  # type: ignore[list-item]
    await client.users.get(7, extra_params={"x": object()})  # type: ignore[dict-item]
    (await client.users.get(7)).role = "admin"  # type: ignore[misc]
