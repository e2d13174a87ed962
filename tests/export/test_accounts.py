"""Accounts of one target: each keeps what is its own, and a new key or address is confirmed once, by a mark."""

import datetime as dt
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from seorep_async import ConfigurationError, Feed
from seorep_async.export import PullSummary, pull_to
from tests.export.databases import change
from tests.export.door import dataset_of, last_receipt, target_of
from tests.export.made_service import Made
from tests.export.reports import cut_off, rows_in
from tests.scripted_api import quick_client, serving

pytestmark = pytest.mark.usefixtures("cheap_digests")
every_store = pytest.mark.parametrize("out", ["a.duckdb", "a/"])
CAMPAIGNS = (1, 2, 3, 4)
FIRST = dt.date(2023, 3, 1)
REPORTS = 4
"""Reports of a campaign with two keywords."""


@attrs.define
class Account:
    """An account, and how it is pulled into a target: the month up to a day, all feeds, as that day's night."""

    out: str
    service: Made
    base_url: str
    name: str = "acme"

    async def pull(self, day: int = 1, *failing: int, key: str = "key-1", **options: Any) -> PullSummary:
        night, self.service.failing = FIRST.replace(day=day), {*failing}
        given: dict[str, Any] = {"feeds": Feed, "account": self.name, "snapshot_date": night} | options
        async with quick_client(self.base_url, key) as client:
            try:
                summary = await pull_to(client, None, FIRST, night, out=self.out, **given)
            except ConfigurationError:
                assert client.stats.attempts == 0  # it is refused before anything is sent
                raise
        assert {failure.campaign_id for failure in summary.failures} == set(failing)
        return summary

    async def pull_and_kill(self) -> None:
        await cut_off(self.pull, lambda progress: progress.rows >= 10)

    async def refusal(self, *arguments: Any, **options: Any) -> str:
        with pytest.raises(ConfigurationError) as refused:
            await self.pull(*arguments, **options)
        return str(refused.value)

    async def mark(self, *arguments: Any, **options: Any) -> str:
        """Return the mark that a refusal names."""
        (mark,) = re.findall('key_renewed="([0-9a-f]{6})"', await self.refusal(*arguments, **options))
        return str(mark)


@asynccontextmanager
async def accounts(out: str) -> AsyncIterator[tuple[Account, Account]]:
    """Serve two accounts of the same name at two addresses."""
    keywords = {one: [one * 10 + 1, one * 10 + 2] for one in CAMPAIGNS}
    one, other = Made(keywords), Made(keywords)
    async with serving(one.answer) as (client, _), serving(other.answer) as (second, _):
        yield Account(out, one, client.base_url), Account(out, other, second.base_url)


# --- Each its own


@every_store
async def test_another_account_leaves_what_failed_to_retry(tmp_path: Path, out: str) -> None:
    async with accounts(f"{tmp_path}/{out}") as both:
        both[1].name = "other"
        for account, failing in zip(both, (3, 2), strict=True):
            await account.pull(1, failing)
        for account in both:
            account.service.asked.clear()
            summary = await account.pull(retry_failed=True)
            assert (summary.ok, summary.resumed, len(account.service.asked)) == (True, 3 * REPORTS, REPORTS)
            assert not (await account.pull(retry_failed=True)).campaigns


@every_store
async def test_another_account_leaves_what_was_killed(tmp_path: Path, out: str) -> None:
    async with accounts(f"{tmp_path}/{out}") as (one, other):
        other.name = "other"
        await one.pull_and_kill()
        assert (await other.pull(restart=True)).ok
        assert (await one.pull()).resumed


@every_store
@pytest.mark.parametrize("lost", ["another job", "deleted"])
async def test_failures_in_the_target_are_retried_anew(tmp_path: Path, out: str, lost: str) -> None:
    async with accounts(f"{tmp_path}/{out}") as (one, _):
        await one.pull(1, 3)
        if lost == "deleted":
            shutil.rmtree(target_of(one.out, tuple(Feed), account="acme").staging_folder)
        else:
            async with quick_client(one.base_url, "key-1") as client:
                night: dict[str, Any] = {"account": "acme", "snapshot_date": FIRST}
                await pull_to(client, [1], FIRST, FIRST, out=one.out, **night)
        summary = await one.pull(retry_failed=True)
        assert (summary.ok, summary.campaigns) == (True, 4)
        one.service.asked.clear()
        assert not (await one.pull(retry_failed=True)).campaigns
        assert one.service.asked == []


@every_store
async def test_an_ended_pull_of_other_dates_does_not_block(tmp_path: Path, out: str) -> None:
    async with accounts(f"{tmp_path}/{out}") as (one, _):
        await one.pull(1, 3)
        assert (await one.pull(2, retry_failed=True)).ok


async def test_a_killed_night_names_the_dates_to_repeat(tmp_path: Path) -> None:
    async with accounts(f"{tmp_path}/a.duckdb") as (one, _):
        await one.pull_and_kill()
        dates = 'Repeat the original pull with start_date="2023-03-01" and end_date="2023-03-01" to resume it'
        assert dates in await one.refusal(2)


@every_store
async def test_a_night_that_failed_does_not_claim_the_account(tmp_path: Path, out: str) -> None:
    async with accounts(f"{tmp_path}/{out}") as (one, other):
        assert not (await one.pull(1, *CAMPAIGNS)).paths
        assert (await other.pull(2)).ok
        assert "give this account a name of its own" in await one.refusal(3, restart=True)


async def test_files_beside_the_rows_are_of_the_same_pull(tmp_path: Path) -> None:
    out, keywords = tmp_path / "a.csv", tmp_path / "a.keywords.csv"
    async with accounts(str(out)) as (one, other):
        await one.pull(feeds=Feed.CAMPAIGN)
        assert keywords.exists()
        other.name = "other"
        await other.pull(feeds=Feed.CAMPAIGN_BY_DATE)
        assert not keywords.exists()
        assert {row["account"] for row in rows_in(tmp_path / "a.campaigns.csv")} == {"other"}
        keywords.write_text("mine\n")
        await other.pull(feeds=Feed.CAMPAIGN_BY_DATE)
    assert keywords.read_text() == "mine\n"


async def test_a_resumed_pull_keeps_its_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, service = tmp_path / "a.csv", Made({1: [10], 2: [11]}, failing={2})
    async with serving(service.answer) as (client, _):
        for now in (1679700000.0, 1679900000.0):  # 2023-03-24, and two days later
            clock = attrs.evolve(client._session.clock, wall_clock=partial(float, now))
            monkeypatch.setattr(client._session, "clock", clock)
            summary = await pull_to(client, None, FIRST, FIRST, out=out, retry_failed=True)
            service.failing.clear()
    assert (summary.snapshot_date, summary.rows) == (dt.date(2023, 3, 24), 2)
    assert {row["snapshot_date"] for row in rows_in(out)} == {"2023-03-24"}


# --- A new key or address


@every_store
async def test_a_mark_confirms_one_key_and_no_other(tmp_path: Path, out: str) -> None:
    async with accounts(f"{tmp_path}/{out}") as (one, moved):
        await one.pull(1)
        mark = await one.mark(2, key="key-2")
        assert mark == await one.mark(3, key="key-2")
        assert (await one.pull(2, key="key-2", key_renewed=mark)).ok
        assert (await one.pull(3, key="key-2", key_renewed=mark)).ok
        assert (await one.pull(4, key="key-2")).ok
        marks = {mark}
        for stranger, key in ((one, "key-3"), (one, "key-1"), (moved, "key-2"), (moved, "key-4")):
            assert "has rows under the account name acme" in await stranger.refusal(5, key=key)
            assert "the mark that was given is of another" in await stranger.refusal(5, key=key, key_renewed=mark)
            marks.add(await stranger.mark(5, key=key, key_renewed=mark))
        assert len(marks) == 5


@every_store
async def test_an_address_and_a_key_change_by_one_mark(tmp_path: Path, out: str) -> None:
    async with accounts(f"{tmp_path}/{out}") as (one, moved):
        await one.pull(1)
        only_moved, both = await moved.mark(2), await moved.mark(2, key="key-2")
        said = await moved.refusal(2, key="key-2", key_renewed=only_moved)
        assert "give this account a name of its own with account=" in said
        assert "the account moved to another address" in said
        assert (await moved.pull(2, key="key-2", key_renewed=both)).ok
        assert (await moved.pull(3, key="key-2")).ok
        assert await one.mark(4, key_renewed=both)


@every_store
async def test_another_account_has_another_mark(tmp_path: Path, out: str) -> None:
    async with accounts(f"{tmp_path}/{out}") as (one, _):
        await one.pull(1)
        await one.pull(1, account="other")
        mark = await one.mark(2, key="key-2")
        assert await one.mark(2, key="key-2", account="other", key_renewed=mark) != mark


@every_store
@pytest.mark.parametrize("day", [1, 2], ids=["same night", "next night"])
async def test_a_confirmation_survives_a_night_of_failures(tmp_path: Path, out: str, day: int) -> None:
    async with accounts(f"{tmp_path}/{out}") as (one, _):
        await one.pull(1)
        mark = await one.mark(day, key="key-2")
        assert not (await one.pull(day, *CAMPAIGNS, key="key-2", key_renewed=mark)).paths
        assert "that another API key fetched" in await one.refusal(3)
        assert not (await one.pull(3, *CAMPAIGNS, key="key-2")).paths
        assert (await one.pull(4, key="key-2")).ok
        assert "that another API key fetched" in await one.refusal(5)


@every_store
async def test_a_stranger_who_failed_first_needs_a_mark(tmp_path: Path, out: str) -> None:
    async with accounts(f"{tmp_path}/{out}") as (one, _):
        assert not (await one.pull(2, *CAMPAIGNS, key="key-2")).paths
        assert (await one.pull(1)).ok
        assert await one.mark(3, key="key-2")
        assert (await one.pull(3)).ok


async def test_a_key_is_known_though_every_receipt_is_lost(tmp_path: Path) -> None:
    async with accounts(f"{tmp_path}/a/") as (one, moved):
        await one.pull(1)
        shutil.rmtree(tmp_path / "a/_receipts")
        for day in (1, 2):
            assert await one.mark(day, key="key-2")
            assert await moved.mark(day)
        assert (await one.pull(2)).ok


async def test_a_mark_confirms_rows_that_lost_their_pull(tmp_path: Path) -> None:
    async with accounts(f"{tmp_path}/a.duckdb") as (one, moved):
        await one.pull(1)
        change(tmp_path / "a.duckdb", "DELETE FROM pulls")
        assert (await one.pull(1, key="key-2", account="other")).ok
        for mark in (await moved.mark(2), await one.mark(2, key="key-2")):
            assert "put its rows back" in await one.refusal(2, key_renewed=mark)
        assert (await one.pull(2, key_renewed=await one.mark(2))).ok
        assert (await one.pull(3)).ok
        assert await one.mark(4, key="key-2")


async def test_a_mark_resumes_a_file_begun_with_the_older_key(tmp_path: Path) -> None:
    again: dict[str, Any] = {"retry_failed": True}
    async with accounts(f"{tmp_path}/a.csv") as (one, moved):
        await one.pull(1, 2)
        mark = await one.mark(1, key="key-2", **again)
        assert "unfinished pull of another API key" in await one.refusal(1, key="key-3", key_renewed=mark, **again)
        assert "unfinished pull of service" in await moved.refusal(1, key="key-2", key_renewed=mark, **again)
        assert not (await one.pull(1, 2, key="key-2", key_renewed=mark, **again)).ok
        assert "unfinished pull of another API key" in await one.refusal(1, **again)
        assert (await one.pull(1, key="key-2", **again)).resumed == 3 * REPORTS


@pytest.mark.parametrize("wrong", [True, False, 1, "", "true", "3F9A21", "3f9a2", "3f9a210", "3f9a21\n", b"3f9a21"])
async def test_what_is_no_mark_is_refused_before_anything_else(tmp_path: Path, wrong: object) -> None:
    async with accounts(f"{tmp_path}/missing/a.duckdb") as (one, _):
        said = await one.refusal(key_renewed=wrong)
    assert said.startswith("key_renewed must be the mark of the new key, six hexadecimal digits such as ")


async def test_a_key_given_as_its_mark_is_not_shown(tmp_path: Path) -> None:
    async with accounts(f"{tmp_path}/a.duckdb") as (one, _):
        await one.pull(1)
        for key in ("canary-7f3a9c51e8b24d06", "c0ffee"):
            assert key not in await one.refusal(2, key=key, key_renewed=key)


async def test_a_mark_is_no_part_of_what_is_stored(tmp_path: Path) -> None:
    async with accounts(f"{tmp_path}/a/") as (one, _):
        await one.pull(1)
        mark = await one.mark(2, key="key-2")
        await one.pull(2, key="key-2", key_renewed=mark)
    receipt = last_receipt(dataset_of(tmp_path / "a", [Feed.CAMPAIGN]).storage, "acme")
    assert receipt is not None
    assert mark not in receipt.key_digest
