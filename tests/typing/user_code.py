"""What a type checker makes of user code; checked by `test_user_code.py`, never run.

A wrong use carries the error that it must be: an ignored error that does not occur is an error itself.
"""

import datetime as dt
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, assert_type

from seorep_async import (
    Campaign,
    CampaignPeriod,
    Feed,
    KeywordPeriod,
    KeywordRanking,
    Listing,
    ModelList,
    Page,
    Pull,
    PullOutcome,
    PullOutcomes,
    RankingReport,
    RankingTotals,
    SeoRepClient,
    SeoRepError,
)


async def listings(client: SeoRepClient) -> None:
    listing = client.campaigns.list(filter="shoes", limit=100, extra_params={"status": ["active"], "group": 1})
    assert_type(listing, Listing[Campaign, ModelList[Campaign]])
    assert_type(await listing, ModelList[Campaign])
    async for campaign in listing:
        assert_type(campaign, Campaign)
        assert_type(campaign.company, str)
        assert_type(campaign.date_created, dt.datetime | None)
    async for page in listing.pages():
        assert_type(page, Page[Campaign])
    assert_type(await listing.page(3), Page[Campaign])
    assert_type((await listing.page(3)).items, tuple[Campaign, ...])
    assert_type(listing.pages(), AsyncGenerator[Page[Campaign], None])
    async with aclosing(listing.pages()) as pages:
        assert_type(await anext(pages), Page[Campaign])
    items: AsyncIterator[Campaign] = aiter(listing)
    assert_type(await anext(items), Campaign)


async def reports(client: SeoRepClient) -> None:
    report = await client.rankings.campaign(42, "2023-01-01", dt.date(2023, 1, 31), search="shoes", limit=10)
    assert_type(report, RankingReport[KeywordRanking])
    assert_type(report.rows[0], KeywordRanking)
    assert_type(report.rows[0].keyword_phrase, str)
    assert_type(report.rows[0].to_dict(), dict[str, Any])
    assert_type(report.rows[0].engine_a_ranking, int | None)
    assert_type(report.rows[0].last_results_date, dt.date | None)
    assert_type(report.totals, RankingTotals | None)
    assert_type(report.start_date, dt.date)
    assert_type(report.campaign_id, int | None)
    assert_type(report.keyword_id, int | None)
    async for row in client.rankings.campaign(42, "2023-01-01", "2023-01-31", compare_previous_period=True):
        assert_type(row, KeywordRanking)
    assert_type(await client.rankings.campaign_by_date(42, "2023-01-01", "2023-01-31"), RankingReport[CampaignPeriod])
    assert_type(await client.rankings.keyword_by_date(42, "2023-01-01", "2023-01-31"), RankingReport[KeywordPeriod])
    async for keyword_row in client.rankings.keyword_by_date(42, "2023-01-01", "2023-01-31"):
        assert_type(keyword_row, KeywordPeriod)


async def pulls(client: SeoRepClient, any_feed: Feed) -> None:
    ids = range(1, 1001)
    pull = client.rankings.pull(ids, "2023-01-01", "2023-01-31")
    assert_type(pull, Pull[KeywordRanking])
    assert_type(len(pull), int)
    async with pull as outcomes:
        assert_type(outcomes, Pull[KeywordRanking])
        async for outcome in outcomes:
            assert_type(outcome, PullOutcome[KeywordRanking])
            assert_type(outcome.id, int)
            assert_type(outcome.ok, bool)
            assert_type(outcome.report, RankingReport[KeywordRanking] | None)
            assert_type(outcome.error, SeoRepError | None)
            if outcome.report is not None:
                assert_type(outcome.report.rows[0].engine_b_ranking, int | None)
    everything = await pull
    assert_type(everything, PullOutcomes[KeywordRanking])
    assert_type(everything[0], PullOutcome[KeywordRanking])
    assert_type(everything[1:] + everything[:1], PullOutcomes[KeywordRanking])
    assert_type(
        client.rankings.pull(ids, "2023-01-01", "2023-01-31", feed=Feed.CAMPAIGN, limit=5, search="x"),
        Pull[KeywordRanking],
    )
    assert_type(
        client.rankings.pull((1, 2), "2023-01-01", "2023-01-31", feed=Feed.CAMPAIGN_BY_DATE, on_error="raise"),
        Pull[CampaignPeriod],
    )
    assert_type(
        client.rankings.pull({1, 2}, "2023-01-01", "2023-01-31", feed=Feed.KEYWORD_BY_DATE, ordered=True),
        Pull[KeywordPeriod],
    )
    some = client.rankings.pull((one for one in [1]), "2023-01-01", "2023-01-31", feed=any_feed)
    assert_type(some, Pull[KeywordRanking] | Pull[CampaignPeriod] | Pull[KeywordPeriod])


async def wrong(client: SeoRepClient) -> None:
    client.rankings.campaign("42", "2023-01-01", "2023-01-31")  # type: ignore[arg-type]
    client.rankings.campaign(42, 20230101, "2023-01-31")  # type: ignore[arg-type]
    client.rankings.campaign(42, "2023-01-01", "2023-01-31", filter="x")  # type: ignore[call-arg]
    client.rankings.pull(7, "2023-01-01", "2023-01-31")  # type: ignore[call-overload]
    client.rankings.pull([7], "2023-01-01", "2023-01-31", feed="campaigns")  # type: ignore[call-overload]
    client.rankings.pull([7], "2023-01-01", "2023-01-31", on_error="ignore")  # type: ignore[call-overload]
    client.rankings.pull([7], "2023-01-01", "2023-01-31", serch="x")  # type: ignore[call-overload]
    report = await client.rankings.campaign(42, "2023-01-01", "2023-01-31")
    report.rows[0].keyword_phrse  # type: ignore[attr-defined]  # noqa: B018
    report.rows = ()  # type: ignore[misc]
    for _ in client.campaigns.list():  # type: ignore[attr-defined]
        pass
