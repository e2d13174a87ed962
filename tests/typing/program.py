"""A program over the public surface, without a cast. Four type checkers must accept it as it is.

`test_user_code.py` runs the checkers; nobody runs the program.
"""

import datetime as dt
from collections.abc import Sequence
from typing import Any, Literal, assert_type

from seorep_async import (
    Attempt,
    Campaign,
    CampaignPeriod,
    FailedReport,
    Feed,
    KeywordRanking,
    Limits,
    NotFoundError,
    Pull,
    PulledReport,
    PullOutcome,
    PullOutcomes,
    RankingReport,
    SeoRepClient,
    SeoRepError,
    Settings,
    __version__,
    export,
    history,
    sandbox,
)

FIRST_DAY = dt.date(2023, 1, 1)
LAST_DAY = "2023-01-31"


async def stream(client: SeoRepClient, ids: Sequence[int]) -> list[SeoRepError]:
    errors: list[SeoRepError] = []
    async with client.rankings.pull(ids, FIRST_DAY, LAST_DAY) as pull:
        async for outcome in pull:
            assert_type(outcome, PulledReport[KeywordRanking] | FailedReport)
            assert_type(outcome.id, int)
            if outcome.report is not None:
                assert_type(outcome, PulledReport[KeywordRanking])
                assert_type(outcome.report, RankingReport[KeywordRanking])
                assert_type(outcome.error, None)
                assert_type(outcome.ok, Literal[True])
                print(outcome.report.rows[0].keyword_phrase.upper())
            else:
                assert_type(outcome, FailedReport)
                assert_type(outcome.error, SeoRepError)
                errors.append(outcome.error)
    return errors


async def gather(client: SeoRepClient, ids: Sequence[int]) -> int:
    outcomes = await client.rankings.pull(ids, FIRST_DAY, LAST_DAY, feed=Feed.CAMPAIGN_BY_DATE)
    assert_type(outcomes, PullOutcomes[CampaignPeriod])
    assert_type(outcomes.reports, list[RankingReport[CampaignPeriod]])
    assert_type(outcomes.failures, list[FailedReport])
    for failure in outcomes.failures:
        print(failure.id, failure.error.retryable, failure.error.status)
    for report in outcomes.reports:
        for period in report.rows:
            assert_type(period.date, dt.date)
            assert_type(period.engine_a_ranking, int | None)
        if report.totals is not None:
            assert_type(report.totals.competitors, float | None)
    for outcome in outcomes[1:]:
        if outcome.error is None:
            assert_type(outcome.report, RankingReport[CampaignPeriod])
        if isinstance(outcome, FailedReport):
            assert_type(outcome.report, None)
        if outcome.ok is True:
            print(len(outcome.report.rows))
    frame = outcomes.to_pandas(skip_failures=True)
    return len(frame) + row_count(outcomes.reports) + len(any_outcomes(outcomes))


def row_count(reports: Sequence[RankingReport[object]]) -> int:
    return sum(len(report.rows) for report in reports)


def any_outcomes(outcomes: Sequence[PullOutcome[object]]) -> list[RankingReport[object]]:
    reports = [outcome.report for outcome in outcomes if outcome.report is not None]
    problems = [outcome.error for outcome in outcomes if outcome.error is not None]
    print([problem.message for problem in problems])
    return reports


def any_pull(pull: Pull[object]) -> int:
    return len(pull)


async def one_report(client: SeoRepClient) -> dict[str, Any]:
    report = await client.rankings.campaign(42, FIRST_DAY, LAST_DAY, search="shoes")
    assert_type(report, RankingReport[KeywordRanking])
    ranks = [row.engine_a_ranking for row in report.rows if row.engine_a_ranking is not None]
    assert_type(ranks, list[int])
    print(any_pull(client.rankings.pull([1, 2], FIRST_DAY, LAST_DAY)))
    async for row in client.rankings.keyword_by_date(7, FIRST_DAY, LAST_DAY):
        assert_type(row.date, dt.date)
    page = await client.campaigns.list(limit=10).page(1)
    print([campaign.company for campaign in page.items], page.total_records)
    return report.rows[0].to_dict()


def observe(attempt: Attempt) -> None:
    assert_type(attempt.error, type[BaseException] | None)
    print(attempt.account, attempt.subject, attempt.seconds)


async def write_files(client: SeoRepClient) -> int:
    def show(progress: export.PullProgress) -> None:
        print(progress.stage)

    summary = await export.pull_to(
        client,
        None,
        FIRST_DAY,
        LAST_DAY,
        out="rankings.duckdb",
        feeds=[Feed.CAMPAIGN, "campaign-by-date"],
        on_progress=show,
    )
    for failure in summary.failures:
        print(failure.campaign_id, failure.message, failure.status)
    changes = history.changes("rankings.duckdb", kind="lost", limit=10)
    for change in changes:
        if change.kind == "lost":
            print(change.keyword_phrase, change.before, change.after)
    return summary.requests


async def rehearse() -> None:
    limits = Limits(max_concurrency=4)
    async with (
        sandbox.Sandbox(campaigns=3, keywords=5) as service,
        SeoRepClient(
            service.base_url, service.api_key, limits=limits, on_attempt=observe
        ) as client,
    ):
        try:
            with client.timeout(2.0):
                campaign = await client.campaigns.create("https://a.example", "Acme")
            assert_type(campaign, Campaign)
            await client.campaigns.delete(campaign.id)
        except NotFoundError as error:
            assert_type(error.status, int | None)
        except SeoRepError as error:
            print(error.retryable)
        with client.record_answers() as answers:
            envelope = await client.request("GET", "/v3/campaigns", params={"limit": 1})
        print(envelope["metadata"], [answer.status for answer in answers])
        assert_type(client.stats.pace, float | None)
        await write_files(client)


async def main() -> None:
    await rehearse()
    print(__version__)
    settings = Settings(max_concurrency=8, call_timeout=None)
    async with SeoRepClient("https://api.example.com", "key", settings=settings) as client:
        campaigns = await client.campaigns.list()
        ids = [campaign.id for campaign in campaigns]
        print(await stream(client, ids), await gather(client, ids), await one_report(client))
