"""User code with its types. `test_user_code.py` checks it; it never runs.

Nothing here may be `Any` but marked expressions. A wrong use carries the error that it must be: an
ignored error that does not occur is an error itself.
"""
# mypy: disallow-any-expr

import datetime as dt
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final, assert_type

from seorep_async import (
    Backlink,
    Campaign,
    CampaignPeriod,
    FailedReport,
    Feed,
    KeywordPeriod,
    KeywordRanking,
    Listing,
    LoginGrant,
    ModelList,
    Page,
    Pull,
    PulledReport,
    PullOutcomes,
    RankingReport,
    RankingTotals,
    RawAnswer,
    SeoRepClient,
    SeoRepError,
    Stats,
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


async def reports(client: SeoRepClient) -> None:
    report = await client.rankings.campaign(
        42, "2023-01-01", dt.date(2023, 1, 31), search="shoes", limit=10
    )
    assert_type(report, RankingReport[KeywordRanking])
    first_row = report.rows[0]
    assert_type(first_row, KeywordRanking)
    assert_type(first_row.keyword_phrase, str)
    assert_type(first_row.to_dict(), dict[str, Any])  # type: ignore[misc]
    assert_type(first_row.engine_a_ranking, int | None)
    assert_type(first_row.last_results_date, dt.date | None)
    assert_type(report.totals, RankingTotals | None)
    assert_type(report.start_date, dt.date)
    assert_type((report.campaign_id, report.keyword_id), tuple[int | None, int | None])
    async for row in client.rankings.campaign(42, DAY, DAY, compare_previous_period=True):
        assert_type(row, KeywordRanking)
    async for keyword_row in client.rankings.keyword_by_date(42, DAY, DAY):
        assert_type(keyword_row, KeywordPeriod)


async def pulls(client: SeoRepClient, any_feed: Feed) -> None:
    pull = client.rankings.pull(range(1, 1001), DAY, DAY)
    assert_type(pull, Pull[KeywordRanking])
    async with pull as outcomes:
        async for outcome in outcomes:
            assert_type(outcome, PulledReport[KeywordRanking] | FailedReport)
            if outcome.ok:
                assert_type(outcome.report.rows[0].engine_b_ranking, int | None)
            else:
                assert_type(outcome.error, SeoRepError)
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


async def campaigns(client: SeoRepClient) -> None:
    new = await client.campaigns.create(
        "u", "c", scope="s", group_title="g", extra_params={"tags": ["a"], "n": 1}
    )
    assert_type(new, Campaign)
    assert_type(await client.campaigns.get(7, extra_params={"x": True}), Campaign)
    changed = await client.campaigns.update(7, url="u", company="c", scope="s", group_title=None)
    assert_type(changed, Campaign)
    await client.campaigns.delete(7, extra_params={"since": dt.date(2023, 1, 1)})
    listing = client.campaigns.list(
        filter="f", limit=5, order_by="id", order_direction="asc", extra_params=None
    )
    assert_type(listing, Listing[Campaign, ModelList[Campaign]])
    assert_type(await listing, ModelList[Campaign])


async def backlinks(client: SeoRepClient) -> None:
    new = await client.backlinks.create(7, "t", "u", "published", dt.date(2023, 1, 1), notes="")
    assert_type(new, Backlink)
    listing = client.backlinks.list(7, date_string=("2023-01-01", dt.date(2023, 1, 31)), limit=5)
    assert_type(listing, Listing[Backlink, ModelList[Backlink]])
    of_last_month = await client.backlinks.list(7, date_string="last month")
    assert_type(of_last_month, ModelList[Backlink])


async def users(client: SeoRepClient) -> None:
    assert_type(await client.users.login_grant(7), LoginGrant)
    generated_roles = (role for role in ("a", "b"))
    assert_type(await client.users.list(role=generated_roles), ModelList[User])
    assert_type(await client.users.list(role="client").page(2), Page[User])


async def client_itself(client: SeoRepClient) -> None:
    answer = await client.request("GET", "/v3/campaigns", params={"page": 2})  # type: ignore[misc]
    assert_type(answer, dict[str, Any])  # type: ignore[misc]
    with client.record_answers() as answers:
        assert_type(answers, list[RawAnswer])
    with client.timeout(2):
        assert_type(client.stats, Stats)
    assert_type(await client.open(), SeoRepClient)


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
