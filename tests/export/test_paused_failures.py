"""A pull that pauses at its limit of requests ends, whatever fails: failed reports come after those not tried yet."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from seorep_async import (
    AuthenticationError,
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
from seorep_async.export import ExportError, PullSummary
from seorep_async.sandbox import Sandbox
from tests.export.door import Checkpoint, failed_reports
from tests.export.forged_notes import forge_note
from tests.export.made_service import TOO_LARGE, made
from tests.export.reports import account, contents, names, pull_into, refuse_to_encode, rows_in

CAMPAIGNS_404 = dict.fromkeys([1, 2, 3], 404)


async def until_it_ends(pull: Callable[[], Awaitable[PullSummary]], *pauses: type[Exception]) -> PullSummary:
    """Run a pull again and again until it ends."""
    for _ in range(60):
        with contextlib.suppress(PullPausedError, *pauses):
            return await pull()
    pytest.fail("it never ends")


def failures_in(summary: PullSummary) -> list[tuple[Feed, int, int | None, str]]:
    return [(one.feed, one.campaign_id, one.keyword_id, str(one.error)) for one in summary.failures]


@pytest.mark.parametrize("feeds", [[Feed.CAMPAIGN], [Feed.KEYWORD_BY_DATE], list(Feed)], ids=["one", "keywords", "all"])
@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_it_ends_although_reports_always_fail(tmp_path: Path, limit: int, feeds: list[Feed]) -> None:
    async with account(campaigns=5, keywords=2, failing=CAMPAIGNS_404) as (_, client):
        whole = await pull_into(client, tmp_path / "whole.jsonl", feeds=feeds)
        out = tmp_path / "a.jsonl"
        summary = await until_it_ends(lambda: pull_into(client, out, feeds=feeds, max_requests=limit))
        again = await until_it_ends(lambda: pull_into(client, out, feeds=feeds, max_requests=limit, retry_failed=True))
    assert (summary.rows, again.rows) == (whole.rows, whole.rows)
    assert failures_in(summary) == failures_in(again) == failures_in(whole)


async def test_failed_reports_come_after_those_not_tried(tmp_path: Path) -> None:
    async with made({id_: [id_] for id_ in range(1, 7)}, failing={1, 2}) as (service, client):
        with pytest.raises(PullPausedError, match=r"failed reports \(2\) are tried again last"):
            await pull_into(client, tmp_path / "a.csv", max_requests=3)
        service.asked, service.failing = [], set()
        assert (await pull_into(client, tmp_path / "a.csv", max_requests=5)).failures
        assert service.asked[:4] == ["3", "4", "5", "6"]
        assert [*service.asked[4:]] == ["1"]


async def test_a_pause_before_anything_is_stored_goes_on(tmp_path: Path) -> None:
    async with made({1: [10]}) as (service, client):
        with pytest.raises(PullPausedError):
            await pull_into(client, tmp_path / "a.csv", max_requests=1)
        assert (await pull_into(client, tmp_path / "a.csv", max_requests=1)).ok
    assert service.asked == ["campaigns", "1"]


# --- A keyword of two campaigns


async def paused(client: SeoRepClient, out: Path, **options: Any) -> None:
    with pytest.raises(PullPausedError):
        await pull_into(client, out, feeds=Feed.KEYWORD_BY_DATE, **options)


async def test_a_failed_keyword_is_told_of_each_campaign(tmp_path: Path) -> None:
    """Its second campaign becomes known only after it has failed."""
    out = tmp_path / "a.csv"
    async with made({1: [10], 2: [10, 20]}, failing={2}, gone={10}) as (service, client):
        await paused(client, out, max_requests=3)
        service.failing = set()
        summary = await pull_into(client, out, feeds=Feed.KEYWORD_BY_DATE)
    assert [(one.campaign_id, one.keyword_id) for one in summary.failures] == [(1, 10), (2, 10)]
    assert [row["keyword_id"] for row in rows_in(out)] == ["20"]


async def test_a_stored_keyword_is_fetched_for_each_campaign(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    async with made({1: [10, 11], 2: [10, 20]}, failing={2}) as (service, client):
        await paused(client, out, max_requests=4)
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
        await paused(client, tmp_path / "a.csv", max_requests=4)
        await paused(client, tmp_path / "a.csv", max_requests=4)
    assert looked_up == {10}


# --- Refusals


async def test_a_forbidden_first_campaign_is_passed(tmp_path: Path) -> None:
    async with (
        Sandbox(campaigns=4, keywords=2, forbidden=[1]) as sandbox,
        SeoRepClient(sandbox.base_url, sandbox.api_key) as client,
    ):
        out, ids = tmp_path / "a.csv", [1, 2, 3]
        with pytest.raises(AuthenticationError):  # of all that was asked for so far
            await pull_into(client, out, ids, max_requests=1)
        summary = await until_it_ends(lambda: pull_into(client, out, ids, max_requests=1))
    assert (summary.rows, [one.campaign_id for one in summary.failures]) == (4, [1])


async def test_campaigns_that_are_all_forbidden_are_told(tmp_path: Path) -> None:
    async with (
        Sandbox(campaigns=4, keywords=2, forbidden=[1, 2, 3]) as sandbox,
        SeoRepClient(sandbox.base_url, sandbox.api_key) as client,
    ):
        for _ in range(5):
            with pytest.raises(AuthenticationError):
                await pull_into(client, tmp_path / "a.csv", [1, 2, 3], max_requests=1)
    assert names(tmp_path) in ([], [".a.csv.pull"])


async def test_an_invalid_id_is_told_without_requests(tmp_path: Path) -> None:
    async with made({1: [10], TOO_LARGE: [11]}) as (_, client):
        with pytest.raises(PullPausedError):
            await pull_into(client, tmp_path / "a.csv", max_requests=1)
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
        with pytest.raises(PullPausedError):
            await pull_into(client, tmp_path / "a.csv", max_requests=2)
        summary = await pull_into(client, tmp_path / "a.csv", max_requests=1)
        whole = await pull_into(client, tmp_path / "whole.csv")
    (noted,), (direct,) = summary.failures, whole.failures
    assert type(noted.error) is NotFoundError
    assert (noted.error.subject, noted.error.path, noted.error.status) == ("campaign 1", direct.error.path, 404)
    assert str(noted.error) == str(direct.error)


SOUND = {"feed": "campaign", "id": 1, "kind": "NotFoundError", "message": "gone"}
FORGED: Mapping[str, str] = {
    "no JSON": "{",
    "deep": "[" * 100_000,
    "no list": "7",
    "no object": "[7]",
    "no field": "[{}]",
    "feed": json.dumps([SOUND | {"feed": "none"}]),
    "id": json.dumps([SOUND | {"id": "1"}]),
    "kind": json.dumps([SOUND | {"kind": "annotations"}]),
    "other kind": json.dumps([SOUND | {"kind": "Path"}]),
    "NaN": json.dumps([SOUND | {"kind": "ServerError", "retry_after": float("nan")}]),
    "field of another kind": json.dumps([SOUND | {"page": 1}]),
    "field": json.dumps([SOUND | {"more": 1}]),
    "message": json.dumps([SOUND | {"message": None}]),
    "status": json.dumps([SOUND | {"status": 2**70}]),
    "text": json.dumps([SOUND | {"subject": "\ud800"}]),
}


@pytest.mark.parametrize("kind", FORGED)
async def test_a_forged_note_is_damage(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "a.csv"
    async with made({1: [10], 2: [20]}) as (_, client):
        with pytest.raises(PullPausedError):
            await pull_into(client, out, max_requests=2)
        forge_note(out, "paused", FORGED[kind])
        for _ in range(2):
            with pytest.raises(ExportError, match=r"the checkpoint in \.a\.csv\.pull is damaged; pass restart=True"):
                await pull_into(client, out)
        assert (await pull_into(client, out, restart=True)).ok


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
