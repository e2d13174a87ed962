"""How many requests a pull sends: estimated before it runs, and limited, so that it pauses and goes on.

A pull that pauses ends, whatever fails: failed reports come after those not tried yet.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from seorep_async import (
    AuthenticationError,
    ConfigurationError,
    DecodeError,
    Feed,
    NotFoundError,
    PaginationError,
    PullPausedError,
    RateLimitedError,
    RedirectError,
    SeoRepClient,
    SeoRepError,
    ServerError,
)
from seorep_async.export import PullSummary
from tests.export.door import Checkpoint, PullPreview, PullSpec, failed_reports, preview, target_of
from tests.export.made_service import TOO_LARGE, made
from tests.export.reports import (
    END,
    FORMATS,
    START,
    Fail,
    account,
    contents,
    names,
    pull_into,
    refuse_to_encode,
    rows_in,
)


async def previewed(client: SeoRepClient, feeds: Any = Feed.CAMPAIGN, out: Path | None = None) -> PullPreview:
    spec = PullSpec.of(client, None, START, END, feeds, {})
    target = None if out is None else target_of(out, spec.feeds)
    return await preview(client, spec, target, retry_failed=True)


@pytest.mark.parametrize("status", [404, 422, 501])
async def test_it_is_estimated_from_the_first_campaign_that_answers(status: int) -> None:
    async with account(failing={1: status}) as (_, client):
        found = await previewed(client)
    assert (found.sampled, found.skipped, found.requests) == (2, (1,), 1 + 4 * 2)


@pytest.mark.parametrize("feed", Feed)
async def test_if_none_answers_each_report_counts_as_one_page(feed: Feed) -> None:
    async with account(failing=dict.fromkeys(range(1, 5), 404)) as (_, client):
        found = await previewed(client, feed)
    assert (found.sampled, found.skipped, found.requests) == (None, (1, 2, 3), 1 + 4)


async def test_a_refused_key_is_an_error_all_the_same() -> None:
    async with account(failing={1: 403}) as (_, client):
        with pytest.raises(AuthenticationError):
            await previewed(client)


async def test_it_is_estimated_from_missing_reports_only(tmp_path: Path, fail: Fail) -> None:
    async with account() as (_, client):
        fail(3)
        await pull_into(client, tmp_path / "a.csv")
        fail()
        found = await previewed(client, out=tmp_path / "a.csv")
    assert (found.sampled, found.requests) == (3, 2)


@pytest.mark.parametrize("out", ["a.duckdb", "a/"])
async def test_what_the_pull_would_refuse_a_preview_refuses(tmp_path: Path, out: str) -> None:
    async with account(campaigns=1) as (sandbox, client):
        spec = PullSpec.of(client, None, START, END, Feed.CAMPAIGN, {"search": "shoes"})
        with pytest.raises(ConfigurationError, match="search narrows the rows"):
            await preview(client, spec, target_of(f"{tmp_path}/{out}", spec.feeds))
        assert sandbox.stats.requests == 0


async def test_where_nothing_is_missing_nothing_is_asked(tmp_path: Path) -> None:
    async with account(campaigns=0) as (sandbox, client):
        found = await previewed(client)
        assert (found.sampled, found.skipped, found.requests) == (None, (), sandbox.stats.requests)


# --- A limit


async def pause(client: SeoRepClient, out: Path, *, said: str = "run the same pull again", **options: Any) -> None:
    """Pull until a limit, which is reached."""
    with pytest.raises(PullPausedError, match=said):
        await pull_into(client, out, **options)


@pytest.mark.parametrize("ending", FORMATS)
async def test_paused_pulls_end_as_one_that_was_not(tmp_path: Path, ending: str) -> None:
    async with account(campaigns=7, keywords=3) as (_, client):
        whole = await pull_into(client, tmp_path / f"whole.{ending}", feeds=Feed)
        out, runs, summary = tmp_path / f"parts.{ending}", 0, None
        while summary is None:
            runs += 1
            try:
                summary = await pull_into(client, out, feeds=Feed, max_requests=10)
            except PullPausedError:
                assert not out.exists()
    assert runs >= 3
    assert (summary.rows, summary.ok, summary.resumed > 0) == (whole.rows, True, True)


@pytest.mark.parametrize("limit", [1, 5, 12])
async def test_reports_of_one_page_keep_to_the_limit(tmp_path: Path, limit: int) -> None:
    async with account(campaigns=20, keywords=3) as (sandbox, client):
        await pause(client, tmp_path / "a.csv", max_requests=limit)
        assert sandbox.stats.requests <= limit + (limit == 1)  # the list of campaigns is always read


async def test_a_limit_that_suffices_changes_nothing(tmp_path: Path) -> None:
    async with account(campaigns=4, keywords=3) as (_, client):
        summary = await pull_into(client, tmp_path / "a.csv", max_requests=100)
    assert (summary.ok, summary.rows) == (True, 12)


async def test_a_refused_key_is_no_pause(tmp_path: Path) -> None:
    async with account() as (sandbox, _), SeoRepClient(sandbox.base_url, "another-key") as client:
        with pytest.raises(AuthenticationError):
            await pull_into(client, tmp_path / "a.csv", [1, 2, 3], max_requests=1)


async def test_a_pull_that_does_not_run_is_not_finished() -> None:
    async with account() as (_, client):
        with pytest.raises(ConfigurationError, match="has ended or was not started"):
            client.rankings.pull([1], START, END).finish()


# --- Failures


async def until_it_ends(pull: Callable[[], Awaitable[PullSummary]], *pauses: type[Exception]) -> PullSummary:
    for _ in range(60):
        with contextlib.suppress(PullPausedError, *pauses):
            return await pull()
    pytest.fail("it never ends")


def failures_in(summary: PullSummary) -> list[tuple[Feed, int, int | None, str]]:
    return [(one.feed, one.campaign_id, one.keyword_id, str(one.error)) for one in summary.failures]


@pytest.mark.parametrize("feeds", [[Feed.CAMPAIGN], [Feed.KEYWORD_BY_DATE], list(Feed)], ids=["one", "keywords", "all"])
@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_it_ends_although_reports_always_fail(tmp_path: Path, limit: int, feeds: list[Feed]) -> None:
    async with account(campaigns=5, keywords=2, failing=dict.fromkeys([1, 2, 3], 404)) as (_, client):
        whole = await pull_into(client, tmp_path / "whole.jsonl", feeds=feeds)
        out = tmp_path / "a.jsonl"
        summary = await until_it_ends(lambda: pull_into(client, out, feeds=feeds, max_requests=limit))
        again = await until_it_ends(lambda: pull_into(client, out, feeds=feeds, max_requests=limit, retry_failed=True))
    assert (summary.rows, again.rows) == (whole.rows, whole.rows)
    assert failures_in(summary) == failures_in(again) == failures_in(whole)


async def test_failed_reports_come_after_those_not_tried(tmp_path: Path) -> None:
    async with made({id_: [id_] for id_ in range(1, 7)}, failing={1, 2}) as (service, client):
        await pause(client, tmp_path / "a.csv", max_requests=3, said=r"failed reports \(2\) are tried again last")
        service.asked, service.failing = [], set()
        assert (await pull_into(client, tmp_path / "a.csv", max_requests=5)).failures
        assert service.asked == ["3", "4", "5", "6", "1"]


async def test_a_pause_before_anything_is_stored_goes_on(tmp_path: Path) -> None:
    async with made({1: [10]}) as (service, client):
        await pause(client, tmp_path / "a.csv", max_requests=1)
        assert (await pull_into(client, tmp_path / "a.csv", max_requests=1)).ok
    assert service.asked == ["campaigns", "1"]


# --- A keyword of two campaigns


async def test_a_failed_keyword_is_told_of_each_campaign(tmp_path: Path) -> None:
    """Its second campaign becomes known only after it has failed."""
    out = tmp_path / "a.csv"
    async with made({1: [10], 2: [10, 20]}, failing={2}, gone={10}) as (service, client):
        await pause(client, out, feeds=Feed.KEYWORD_BY_DATE, max_requests=3)
        service.failing = set()
        summary = await pull_into(client, out, feeds=Feed.KEYWORD_BY_DATE)
    assert [(one.campaign_id, one.keyword_id) for one in summary.failures] == [(1, 10), (2, 10)]
    assert [row["keyword_id"] for row in rows_in(out)] == ["20"]


async def test_a_stored_keyword_is_fetched_for_each_campaign(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    async with made({1: [10, 11], 2: [10, 20]}, failing={2}) as (service, client):
        await pause(client, out, feeds=Feed.KEYWORD_BY_DATE, max_requests=4)
        service.failing = set()
        summary = await pull_into(client, out, feeds=Feed.KEYWORD_BY_DATE)
    assert summary.ok
    found = [(row["campaign_id"], row["keyword_id"]) for row in rows_in(out)]
    assert found == [("1", "10"), ("1", "11"), ("2", "10"), ("2", "20")]


async def test_only_failed_keywords_are_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up, owners = set(), Checkpoint.owners_without_report

    def counted(checkpoint: Checkpoint, keyword_id: int) -> list[int]:
        looked_up.add(keyword_id)
        return owners(checkpoint, keyword_id)

    monkeypatch.setattr(Checkpoint, "owners_without_report", counted)
    async with made({1: [*range(10, 40)]}, gone={10}) as (_, client):
        await pause(client, tmp_path / "a.csv", feeds=Feed.KEYWORD_BY_DATE, max_requests=4)
        await pause(client, tmp_path / "a.csv", feeds=Feed.KEYWORD_BY_DATE, max_requests=4)
    assert looked_up == {10}


# --- Refusals


async def test_a_forbidden_first_campaign_is_passed(tmp_path: Path) -> None:
    async with account(keywords=2, forbidden=[1]) as (_, client):
        out, ids = tmp_path / "a.csv", [1, 2, 3]
        with pytest.raises(AuthenticationError):  # of all that was asked for so far
            await pull_into(client, out, ids, max_requests=1)
        summary = await until_it_ends(lambda: pull_into(client, out, ids, max_requests=1))
    assert (summary.rows, [one.campaign_id for one in summary.failures]) == (4, [1])


async def test_campaigns_that_are_all_forbidden_are_told(tmp_path: Path) -> None:
    async with account(keywords=2, forbidden=[1, 2, 3]) as (_, client):
        for _ in range(5):
            with pytest.raises(AuthenticationError):
                await pull_into(client, tmp_path / "a.csv", [1, 2, 3], max_requests=1)
    assert names(tmp_path) in ([], [".a.csv.pull"])


async def test_an_invalid_id_is_told_without_requests(tmp_path: Path) -> None:
    async with made({1: [10], TOO_LARGE: [11]}) as (_, client):
        await pause(client, tmp_path / "a.csv", max_requests=1)
        summary = await pull_into(client, tmp_path / "a.csv", max_requests=1)
    assert (summary.rows, [one.campaign_id for one in summary.failures]) == (1, [TOO_LARGE])


async def test_an_account_of_invalid_ids_is_no_pause(tmp_path: Path) -> None:
    async with made({TOO_LARGE: [11]}) as (_, client):
        summary = await pull_into(client, tmp_path / "a.csv", max_requests=1)
    assert [one.campaign_id for one in summary.failures] == [TOO_LARGE]


async def test_what_a_format_can_not_hold_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_to_encode(monkeypatch, 1, OverflowError("too large"))
    async with made({1: [10], 2: [20], 3: [30]}) as (service, client):
        pull = lambda: pull_into(client, tmp_path / "a.csv", [1, 2, 3], max_requests=1)  # noqa: E731
        summary = await until_it_ends(pull)
    assert (summary.rows, [one.campaign_id for one in summary.failures]) == (2, [1])
    assert service.asked[:3] == ["1", "2", "3"]


# --- The note of a pause


async def test_an_error_noted_at_a_pause_is_whole(tmp_path: Path) -> None:
    async with made({1: [10], 2: [20]}, failing={1}) as (_, client):
        await pause(client, tmp_path / "a.csv", max_requests=2)
        summary = await pull_into(client, tmp_path / "a.csv", max_requests=1)
        whole = await pull_into(client, tmp_path / "whole.csv")
    (noted,), (direct,) = summary.failures, whole.failures
    assert type(noted.error) is NotFoundError
    assert (noted.error.subject, noted.error.path, noted.error.status) == ("campaign 1", direct.error.path, 404)
    assert str(noted.error) == str(direct.error)


@pytest.mark.parametrize(
    "error",
    [
        DecodeError("wrong", field_path="data.rows[3].engineARanking"),
        PaginationError("wrong", expected_records=7, received_records=6, page=2),
        PaginationError("wrong", expected_records=0, received_records=0),
        RateLimitedError("too many", status=429, retry_after=0.0, attempts=3),
        ServerError("down", status=503, retry_after=float("inf"), body_excerpt="b"),
        RedirectError("moved", location="https://example.com/", subject="campaign 1"),
    ],
)
def test_an_error_is_the_same_after_a_pause(error: SeoRepError, tmp_path: Path) -> None:
    with contextlib.closing(Checkpoint(tmp_path / "checkpoint")) as checkpoint:
        checkpoint.note(paused=failed_reports({(Feed.CAMPAIGN, 1): error}))
    with contextlib.closing(Checkpoint(tmp_path / "checkpoint")) as checkpoint:
        ((found,),) = [checkpoint.notes.paused or []]
    assert (type(found.error), vars(found.error)) == (type(error), vars(error))


# --- Random pulls


@pytest.mark.parametrize("seed", range(6))
async def test_random_pulls_end_as_one_that_was_not_paused(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    pool = range(100, 100 + chance.randint(1, 5))
    keywords = {id_: chance.sample(pool, chance.randint(0, len(pool))) for id_ in range(1, chance.randint(2, 7))}
    failing, gone = ({one for one in some if chance.random() < 0.4} for some in (keywords, pool))
    ids, feeds = chance.choice([None, [*keywords]]), chance.sample(list(Feed), chance.randint(1, 3))
    limit = chance.randint(1, 5)
    async with made(keywords, failing=failing, gone=gone) as (_, client):
        pull = lambda: pull_into(client, tmp_path / "a.jsonl", ids, feeds=feeds, max_requests=limit)  # noqa: E731
        summary = await until_it_ends(pull)
        whole = await pull_into(client, tmp_path / "b.jsonl", ids, feeds=feeds)
    assert failures_in(summary) == failures_in(whole)
    written = {name: data for name, data in contents(tmp_path).items() if ".pulls." not in name}
    assert {name: data for name, data in written.items() if name[0] == "a"} == {
        f"a{name[1:]}": data for name, data in written.items() if name[0] == "b"
    }
