"""User code with its types, for every operation. `test_user_code.py` checks it; it never runs.

Nothing here may be `Any` but marked expressions. A wrong use carries the error that it must be: an
ignored error that does not occur is an error itself.
"""
# mypy: disallow-any-expr

import datetime as dt
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final, assert_type

import seorep_async as api

DAY: Final = "2023-01-31"


async def listings(client: api.SeoRepClient) -> None:
    listing = client.campaigns.list(extra_params={"status": ["active"], "group": 1})
    async for campaign in listing:
        assert_type(campaign, api.Campaign)
        assert_type(campaign.company, str)
        assert_type(campaign.date_created, dt.datetime | None)
    async for page in listing.pages():
        assert_type(page, api.Page[api.Campaign])
    assert_type(await listing.page(3), api.Page[api.Campaign])
    assert_type((await listing.page(3)).items, tuple[api.Campaign, ...])
    assert_type(listing.pages(), AsyncGenerator[api.Page[api.Campaign], None])
    async with aclosing(listing.pages()) as pages:
        assert_type(await anext(pages), api.Page[api.Campaign])  # type: ignore[misc]
    items: AsyncIterator[api.Campaign] = aiter(listing)
    assert_type(await anext(items), api.Campaign)


async def reports(client: api.SeoRepClient) -> None:
    report = await client.rankings.campaign(
        42, "2023-01-01", dt.date(2023, 1, 31), search="shoes", limit=10
    )
    assert_type(report, api.RankingReport[api.KeywordRanking])
    assert_type(report.rows[0], api.KeywordRanking)
    assert_type(report.rows[0].keyword_phrase, str)
    assert_type(report.rows[0].to_dict(), dict[str, Any])  # type: ignore[misc]
    assert_type(report.rows[0].engine_a_ranking, int | None)
    assert_type(report.rows[0].last_results_date, dt.date | None)
    assert_type(report.totals, api.RankingTotals | None)
    assert_type(report.start_date, dt.date)
    assert_type((report.campaign_id, report.keyword_id), tuple[int | None, int | None])
    async for row in client.rankings.campaign(42, DAY, DAY, compare_previous_period=True):
        assert_type(row, api.KeywordRanking)
    async for keyword_row in client.rankings.keyword_by_date(42, DAY, DAY):
        assert_type(keyword_row, api.KeywordPeriod)


async def pulls(client: api.SeoRepClient, any_feed: api.Feed) -> None:
    ids = range(1, 1001)
    pull = client.rankings.pull(ids, DAY, DAY)
    assert_type(pull, api.Pull[api.KeywordRanking])
    async with pull as outcomes:
        assert_type(outcomes, api.Pull[api.KeywordRanking])
        async for outcome in outcomes:
            assert_type(outcome, api.PulledReport[api.KeywordRanking] | api.FailedReport)
            assert_type(outcome.id, int)
            assert_type(outcome.ok, bool)
            if outcome.ok:
                assert_type(outcome.report.rows[0].engine_b_ranking, int | None)
            else:
                assert_type(outcome.error, api.SeoRepError)
    everything = await pull
    assert_type(everything, api.PullOutcomes[api.KeywordRanking])
    assert_type(everything[0], api.PulledReport[api.KeywordRanking] | api.FailedReport)
    assert_type(everything[1:] + everything[:1], api.PullOutcomes[api.KeywordRanking])
    assert_type(
        client.rankings.pull(ids, DAY, DAY, feed=api.Feed.CAMPAIGN, limit=5, search="x"),
        api.Pull[api.KeywordRanking],
    )
    assert_type(
        client.rankings.pull((1, 2), DAY, DAY, feed=api.Feed.CAMPAIGN_BY_DATE, on_error="raise"),
        api.Pull[api.CampaignPeriod],
    )
    assert_type(
        client.rankings.pull({1, 2}, DAY, DAY, feed=api.Feed.KEYWORD_BY_DATE, ordered=True),
        api.Pull[api.KeywordPeriod],
    )
    pull_of_any_feed = client.rankings.pull((id_ for id_ in [1]), DAY, DAY, feed=any_feed)
    assert_type(
        pull_of_any_feed,
        api.Pull[api.KeywordRanking] | api.Pull[api.CampaignPeriod] | api.Pull[api.KeywordPeriod],
    )


async def campaigns(client: api.SeoRepClient) -> None:
    new = await client.campaigns.create(
        "u", "c", scope="s", group_title="g", extra_params={"tags": ["a"], "n": 1}
    )
    assert_type(new, api.Campaign)
    assert_type(await client.campaigns.get(7, extra_params={"x": True}), api.Campaign)
    assert_type(
        await client.campaigns.update(7, url="u", company="c", scope="s", group_title=None),
        api.Campaign,
    )
    await client.campaigns.delete(7, extra_params={"since": dt.date(2023, 1, 1)})
    listing = client.campaigns.list(
        filter="f", limit=5, order_by="id", order_direction="asc", extra_params=None
    )
    assert_type(listing, api.Listing[api.Campaign, api.ModelList[api.Campaign]])
    assert_type(await listing, api.ModelList[api.Campaign])


async def users(client: api.SeoRepClient, email_them: bool | None) -> None:
    new = await client.users.create(
        "f", "l", "u", "p", "client", email="e", email_credentials=email_them
    )
    assert_type(new, api.User)
    await client.users.create("f", "l", "u", "p", role="client", email_credentials="yes")
    changed = await client.users.update(
        7, first_name="f", last_name="l", username="u", email="e", password="p", role=""
    )
    assert_type(changed, api.User)
    assert_type(await client.users.get(7), api.User)
    await client.users.delete(7)
    assert_type(await client.users.login_grant(7), api.LoginGrant)
    listing = client.users.list(
        filter="f", role="client", limit=5, order_by="id", order_direction="asc"
    )
    assert_type(listing, api.Listing[api.User, api.ModelList[api.User]])
    assert_type(
        await client.users.list(role=(role for role in ("a", "b"))), api.ModelList[api.User]
    )
    assert_type(await client.users.list(role={"a": 1}.keys()).page(2), api.Page[api.User])
    async for user in client.users.list(role=["a"]):
        assert_type(user, api.User)


async def keywords(client: api.SeoRepClient) -> None:
    assert_type(await client.keywords.get(7), api.Keyword)
    listing = client.keywords.list(filter="f", limit=5, order_by="id", order_direction="asc")
    assert_type(listing, api.Listing[api.Keyword, api.ModelList[api.Keyword]])
    assert_type(
        await client.keywords.list(extra_params={"campaign_id": 7}), api.ModelList[api.Keyword]
    )


async def backlinks(client: api.SeoRepClient) -> None:
    new = await client.backlinks.create(
        7,
        "t",
        "u",
        "published",
        "2023-01-01",
        link_type="l",
        target_anchor="a",
        target_url="u",
        notes="",
    )
    assert_type(new, api.Backlink)
    assert_type(
        await client.backlinks.create(7, "t", "u", "published", dt.date(2023, 1, 1)), api.Backlink
    )
    assert_type(await client.backlinks.get(7), api.Backlink)
    changed = await client.backlinks.update(
        7,
        date_published=dt.date(2023, 1, 1),
        status="unpublished",
        url="u",
        link_type="l",
        notes="n",
        title="t",
        target_anchor="a",
        target_url="u",
        extra_params={},
    )
    assert_type(changed, api.Backlink)
    await client.backlinks.delete(7)
    listing = client.backlinks.list(
        7,
        status="published",
        date_string=("2023-01-01", dt.date(2023, 1, 31)),
        search="s",
        link_type="all",
        limit=5,
        sort_metric="id",
        sort_direction="asc",
        extra_params=None,
    )
    assert_type(listing, api.Listing[api.Backlink, api.ModelList[api.Backlink]])
    assert_type(
        await client.backlinks.list(7, date_string="last month"), api.ModelList[api.Backlink]
    )


async def rankings(client: api.SeoRepClient, start: dt.date) -> None:
    campaign = client.rankings.campaign(
        7,
        start,
        "2023-01-31",
        search="s",
        limit=5,
        sort_metric="m",
        sort_direction="asc",
        compare_previous_period=True,
        extra_params={"tag": "x"},
    )
    assert_type(campaign, api.Listing[api.KeywordRanking, api.RankingReport[api.KeywordRanking]])
    by_date = client.rankings.campaign_by_date(7, start, start, compare_previous_period="yes")
    assert_type(by_date, api.Listing[api.CampaignPeriod, api.RankingReport[api.CampaignPeriod]])
    of_keyword = client.rankings.keyword_by_date(7, start, start)
    assert_type(of_keyword, api.Listing[api.KeywordPeriod, api.RankingReport[api.KeywordPeriod]])
    assert_type(
        client.rankings.pull([7], start, start, feed="keyword-by-date"), api.Pull[api.KeywordPeriod]
    )


async def client_itself(client: api.SeoRepClient) -> None:
    answer = await client.request("GET", "/v3/campaigns", params={"page": 2})  # type: ignore[misc]
    assert_type(answer, dict[str, Any])  # type: ignore[misc]
    await client.request("POST", "/v3/campaigns", body={"tags": ["a"]})  # type: ignore[misc]
    with client.record_answers() as answers:
        assert_type(answers, list[api.RawAnswer])
    with client.timeout(2):
        assert_type(client.account, str)
    assert_type(client.base_url, str)
    assert_type(client.account, str)
    assert_type(client.now(), dt.datetime)
    assert_type(client.stats, api.Stats)
    assert_type(client.settings, api.Settings)
    assert_type(client.stats.attempts, int)
    assert_type(await client.open(), api.SeoRepClient)
    await client.close()


async def wrong(client: api.SeoRepClient) -> None:
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
    client.rankings.campaign("42", DAY, DAY)  # type: ignore[arg-type]
    client.rankings.campaign(42, 20230101, DAY)  # type: ignore[arg-type]
    client.rankings.campaign(42, DAY, DAY, filter="x")  # type: ignore[call-arg]
    client.rankings.pull(7, DAY, DAY)  # type: ignore[call-overload]
    client.rankings.pull([7], DAY, DAY, feed="campaigns")  # type: ignore[call-overload]
    client.rankings.pull([7], DAY, DAY, on_error="ignore")  # type: ignore[call-overload]
    client.rankings.pull([7], DAY, DAY, serch="x")  # type: ignore[call-overload]
    report = await client.rankings.campaign(42, DAY, DAY)
    report.rows[0].keyword_phrse  # type: ignore[attr-defined]  # noqa: B018
    report.rows = ()  # type: ignore[misc]
    for _ in client.campaigns.list():  # type: ignore[attr-defined, misc]
        pass
