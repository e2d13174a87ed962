"""An awaited pull: a list of outcomes in the order of the ids, and one table of all rows."""

import asyncio
import json
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import attrs
import pytest

from seorep_async import (
    DeadlineExceededError,
    FailedReport,
    Feed,
    KeywordRanking,
    NotFoundError,
    PulledReport,
    PullOutcome,
    PullOutcomes,
)
from seorep_async.tables.output_tables import table_of
from tests.scripted_api import FEED, simulating
from tests.session.simulated_service import ApiRequest

pytestmark = pytest.mark.virtual

JANUARY = ("2023-01-01", "2023-01-31")


def two_rows(request: ApiRequest) -> Any:
    """Serve every campaign with two keywords, but no campaign 404."""
    if request.id == 404:
        return 404
    return FEED.envelope([request.id * 10, request.id * 10 + 1], 1, 2)


async def pulled(ids: Any, **options: Any) -> PullOutcomes[KeywordRanking]:
    async with simulating(two_rows) as (client, _):
        return await client.rankings.pull(ids, *JANUARY, **options)


async def test_awaiting_returns_outcomes_in_the_order_of_ids() -> None:
    outcomes = await pulled([3, 1, 404, 3, 2, 1])
    assert type(outcomes) is PullOutcomes
    assert [outcome.id for outcome in outcomes] == [3, 1, 404, 2]
    assert [report.id for report in outcomes.reports] == [3, 1, 2]
    assert [failure.id for failure in outcomes.failures] == [404]


async def test_a_frame_begins_with_ranks_and_ends_with_constants() -> None:
    outcomes = await pulled([3, 1])
    for columns in (list(outcomes.to_pandas().columns), outcomes.to_polars().columns):
        assert columns[:4] == [
            "campaign_id",
            "keyword_phrase",
            "engine_a_ranking",
            "engine_a_mobile_ranking",
        ]
        assert columns[-4:] == ["account", "snapshot_date", "start_date", "end_date"]


@pytest.mark.parametrize(
    ("method", "keyword_ids"),
    [
        ("to_dicts", lambda rows: [row["keyword_id"] for row in rows]),
        ("to_jsonl", lambda lines: [json.loads(line)["keyword_id"] for line in lines.splitlines()]),
        ("to_arrow", lambda table: table["keyword_id"].to_pylist()),
        ("to_pandas", lambda frame: list(frame["keyword_id"])),
        ("to_polars", lambda frame: frame["keyword_id"].to_list()),
    ],
)
async def test_a_table_raises_the_first_failure_or_skips(
    method: str, keyword_ids: Callable[[Any], list[int]]
) -> None:
    outcomes = await pulled([3, 404, 1])
    make = getattr(outcomes, method)
    with pytest.raises(NotFoundError) as caught:
        make()
    assert caught.value is outcomes[1].error
    assert keyword_ids(make(skip_failures=True)) == [30, 31, 10, 11]


async def test_campaign_ids_given_for_keywords_are_suspected() -> None:
    words = "keyword-by-date takes keyword ids, not campaign ids"
    assert words in repr(await pulled([404], feed=Feed.KEYWORD_BY_DATE))
    assert words not in repr(await pulled([404, 3], feed=Feed.KEYWORD_BY_DATE))
    assert words not in repr(await pulled([404]))


async def test_a_raised_failure_says_once_how_to_leave_failures_out() -> None:
    outcomes = await pulled([404])
    for _ in range(2):
        with pytest.raises(NotFoundError) as caught:
            outcomes.to_dicts()
    assert caught.value.__notes__ == ["skip_failures=True leaves failed reports out of the table"]


async def test_a_notebook_shows_an_outcome_as_its_report() -> None:
    (outcome,) = await pulled([3])
    assert isinstance(outcome, PulledReport)
    assert outcome._repr_html_() == outcome.report._repr_html_()


@pytest.mark.parametrize("ids", [[], [404]])
@pytest.mark.parametrize("feed", Feed)
async def test_without_a_report_a_table_is_empty(feed: Feed, ids: list[int]) -> None:
    outcomes = await pulled(ids, feed=feed)
    columns = [column.name for column in table_of(feed).columns]
    arrow = outcomes.to_arrow(skip_failures=True)
    assert arrow.column_names == columns
    assert arrow.num_rows == 0
    assert set(outcomes.to_pandas(skip_failures=True).columns) == set(columns)
    assert set(outcomes.to_polars(skip_failures=True).columns) == set(columns)
    assert outcomes.to_dicts(skip_failures=True) == []


async def test_an_outcome_is_a_report_or_a_failure() -> None:
    pulled_report, failed = await pulled([3, 404])
    assert isinstance(pulled_report, PulledReport)
    assert isinstance(failed, FailedReport)
    for outcome in (pulled_report, failed):
        assert isinstance(outcome, PullOutcome)
        assert (outcome.report is None) == (not outcome.ok)
        assert (outcome.error is None) == outcome.ok
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            outcome.ok = False  # type: ignore[misc]


@pytest.mark.parametrize("campaign_id", [3, 404])
async def test_a_pickled_outcome_is_as_before(campaign_id: int) -> None:
    (outcome,) = await pulled([campaign_id])
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(outcome, protocol))  # noqa: S301
        assert type(again) is type(outcome)
        assert again.id == outcome.id
        assert again.ok == outcome.ok
        assert again.report == outcome.report
        assert str(again.error) == str(outcome.error)


async def test_a_sum_of_two_feeds_or_with_others_is_a_plain_list() -> None:
    outcomes = await pulled([1])
    months = await pulled([404], feed=Feed.CAMPAIGN_BY_DATE)
    month: Any = PulledReport(1, attrs.evolve(outcomes.reports[0], feed=Feed.CAMPAIGN_BY_DATE))
    for other in (months, [month], [1], [outcomes[0], None]):
        for mine in (outcomes, outcomes[:0]):
            both: list[Any] = mine + other
            assert type(both) is list
            assert both == [*mine, *other]
    assert type(outcomes + list(months)) is PullOutcomes  # a failure is of any feed


async def test_raising_cancels_the_rest() -> None:
    def script(request: ApiRequest) -> int | None:
        return 404 if request.id == 404 else None

    async with simulating(script) as (client, _):
        with pytest.raises(NotFoundError):
            await client.rankings.pull([1, 2, 404, *range(5, 50)], *JANUARY, on_error="raise")
        assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize(("whole", "expected"), [(None, None), (5.0, DeadlineExceededError)])
async def test_call_timeout_limits_each_request_of_a_pull(
    whole: float | None, expected: type | None
) -> None:
    async with simulating(two_rows, call_timeout=5, max_concurrency=1) as (client, service):
        service.latency = 1
        with client.timeout(whole) if whole else nullcontext():
            outcomes = await client.rankings.pull(range(1, 21), *JANUARY)
    assert {type(outcome.error) for outcome in outcomes[10:]} == {expected or type(None)}
    assert all(outcome.ok for outcome in outcomes[:3])


async def test_after_its_time_a_pull_begins_no_more_ids() -> None:
    # Beginning each of 10,000 ids only to end it made the pull a second late.
    async with simulating(two_rows, max_concurrency=1) as (client, service):
        service.latency = 1
        with client.timeout(5.5):
            outcomes = await client.rankings.pull(range(1, 1001), *JANUARY)
        assert client.stats.requests < 20
    late = outcomes[-1].error
    assert isinstance(late, DeadlineExceededError)
    assert late.subject == "campaign 1000"
    assert "this request was not sent" in late.message
    assert late.path == "/v3/resources/rankings/campaign"


async def test_the_repr_and_the_notebook_name_failures() -> None:
    outcomes = await pulled([1, 404, 2])
    words = (
        "Pull of feed campaign, 2023-01-01 to 2023-01-31: "
        "2 reports, 1 failure (404: there is no such object)"
    )
    assert repr(outcomes) == f"<{words}>"
    assert f"{words}: 4 rows</div>" in outcomes._repr_html_()
    html = outcomes._repr_html_()
    assert html.index("campaign_<wbr>id") < html.index("keyword_<wbr>phrase")


def test_an_outcome_is_made_of_the_class_that_fits() -> None:
    error = NotFoundError("gone")
    base_class: Any = PullOutcome
    failed = base_class(1, error=error)
    assert type(failed) is FailedReport
    assert (failed.id, failed.error) == (1, error)
