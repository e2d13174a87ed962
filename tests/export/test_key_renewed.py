"""A new key, or a new address, of an account that a target knows: confirmed once, by the mark that a refusal names."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from seorep_async import ConfigurationError
from seorep_async.export import PullSummary, pull_to
from seorep_async.models import Feed
from tests.export.databases import change
from tests.export.door import dataset_of, last_receipt
from tests.export.made_service import CAMPAIGNS, Numbered
from tests.scripted_api import quick_client, serving

FIRST = dt.date(2023, 3, 1)
Pull: TypeAlias = Callable[..., Any]
every_store = pytest.mark.parametrize("out", ["a.duckdb", "a/"])


@asynccontextmanager
async def pulls(out: str) -> AsyncIterator[tuple[Pull, Pull]]:
    """Return a function that pulls a night with a key, and one that does it from another address."""

    def pull_from(base_url: str, service: Numbered) -> Pull:
        async def pull(key: str, night: int, *failing: int, **options: Any) -> PullSummary:
            service.failing, day = frozenset(failing), FIRST.replace(day=night)
            given: dict[str, Any] = {"feeds": Feed.CAMPAIGN, "account": "acme", "snapshot_date": day} | options
            async with quick_client(base_url, key) as client:
                try:
                    return await pull_to(client, None, FIRST, FIRST, out=out, **given)
                except ConfigurationError:
                    assert client.stats.attempts == 0
                    raise

        return pull

    one, other = Numbered(), Numbered(answers=5_000)
    async with serving(one.answer) as (client, _), serving(other.answer) as (second, _):
        yield pull_from(client.base_url, one), pull_from(second.base_url, other)


async def refusal(pull: Pull, *arguments: Any, **options: Any) -> str:
    with pytest.raises(ConfigurationError) as refused:
        await pull(*arguments, **options)
    return str(refused.value)


async def mark_of(pull: Pull, *arguments: Any, **options: Any) -> str:
    """Return the mark that a refusal names."""
    (mark,) = re.findall('key_renewed="([0-9a-f]{6})"', await refusal(pull, *arguments, **options))
    return str(mark)


@every_store
async def test_a_mark_confirms_one_key_and_no_other(tmp_path: Path, out: str) -> None:
    async with pulls(f"{tmp_path}/{out}") as (pull, moved):
        await pull("key-1", 1)
        mark = await mark_of(pull, "key-2", 2)
        assert mark == await mark_of(pull, "key-2", 3)
        assert (await pull("key-2", 2, key_renewed=mark)).ok
        assert (await pull("key-2", 3, key_renewed=mark)).ok
        assert (await pull("key-2", 4)).ok
        marks = {mark}
        for stranger, key in ((pull, "key-3"), (pull, "key-1"), (moved, "key-2"), (moved, "key-4")):
            assert "has rows under the account name acme" in await refusal(stranger, key, 5)
            assert "the mark that was given is of another" in await refusal(stranger, key, 5, key_renewed=mark)
            marks.add(await mark_of(stranger, key, 5, key_renewed=mark))
        assert len(marks) == 5


@every_store
async def test_an_address_and_a_key_change_by_one_mark(tmp_path: Path, out: str) -> None:
    async with pulls(f"{tmp_path}/{out}") as (pull, moved):
        await pull("key-1", 1)
        only_moved, both = await mark_of(moved, "key-1", 2), await mark_of(moved, "key-2", 2)
        said = await refusal(moved, "key-2", 2, key_renewed=only_moved)
        assert "give this account a name of its own with account=" in said
        assert "the account moved to another address" in said
        assert (await moved("key-2", 2, key_renewed=both)).ok
        assert (await moved("key-2", 3)).ok
        assert await mark_of(pull, "key-1", 4, key_renewed=both)


@every_store
async def test_another_account_has_another_mark(tmp_path: Path, out: str) -> None:
    async with pulls(f"{tmp_path}/{out}") as (pull, _):
        await pull("key-1", 1)
        await pull("key-1", 1, account="other")
        mark = await mark_of(pull, "key-2", 2)
        assert await mark_of(pull, "key-2", 2, account="other", key_renewed=mark) != mark


@every_store
@pytest.mark.parametrize("night", [1, 2], ids=["same night", "next night"])
async def test_a_confirmation_survives_a_night_of_failures(tmp_path: Path, out: str, night: int) -> None:
    async with pulls(f"{tmp_path}/{out}") as (pull, _):
        await pull("key-1", 1)
        mark = await mark_of(pull, "key-2", night)
        assert not (await pull("key-2", night, *CAMPAIGNS, key_renewed=mark)).paths
        assert "that another API key fetched" in await refusal(pull, "key-1", 3)
        assert not (await pull("key-2", 3, *CAMPAIGNS)).paths
        assert (await pull("key-2", 4)).ok
        assert "that another API key fetched" in await refusal(pull, "key-1", 5)


@every_store
async def test_a_stranger_who_failed_first_needs_a_mark(tmp_path: Path, out: str) -> None:
    async with pulls(f"{tmp_path}/{out}") as (pull, _):
        assert not (await pull("key-2", 2, *CAMPAIGNS)).paths
        assert (await pull("key-1", 1)).ok
        assert await mark_of(pull, "key-2", 3)
        assert (await pull("key-1", 3)).ok


async def test_a_key_is_known_though_every_receipt_is_lost(tmp_path: Path) -> None:
    async with pulls(f"{tmp_path}/a/") as (pull, moved):
        await pull("key-1", 1)
        shutil.rmtree(tmp_path / "a/_receipts")
        for stranger, key in ((pull, "key-2"), (moved, "key-1")):
            for night in (1, 2):
                assert await mark_of(stranger, key, night)
        assert (await pull("key-1", 2)).ok


async def test_a_mark_confirms_rows_that_lost_their_pull(tmp_path: Path) -> None:
    async with pulls(f"{tmp_path}/a.duckdb") as (pull, moved):
        await pull("key-1", 1)
        change(tmp_path / "a.duckdb", "DELETE FROM pulls")
        assert (await pull("key-2", 1, account="other")).ok
        for stranger, key in ((moved, "key-1"), (pull, "key-2")):
            mark = await mark_of(stranger, key, 2)
            assert "put its rows back" in await refusal(pull, "key-1", 2, key_renewed=mark)
        assert (await pull("key-1", 2, key_renewed=await mark_of(pull, "key-1", 2))).ok
        assert (await pull("key-1", 3)).ok
        assert await mark_of(pull, "key-2", 4)


async def test_a_mark_resumes_a_file_begun_with_the_older_key(tmp_path: Path) -> None:
    async with pulls(f"{tmp_path}/a.csv") as (pull, moved):
        await pull("key-1", 1, 2)
        again = {"retry_failed": True}
        mark = await mark_of(pull, "key-2", 1, **again)
        assert "unfinished pull of another API key" in await refusal(pull, "key-3", 1, **again, key_renewed=mark)
        assert "unfinished pull of service" in await refusal(moved, "key-2", 1, **again, key_renewed=mark)
        assert not (await pull("key-2", 1, 2, **again, key_renewed=mark)).ok
        assert "unfinished pull of another API key" in await refusal(pull, "key-1", 1, **again)
        assert (await pull("key-2", 1, **again)).resumed == len(CAMPAIGNS) - 1


@pytest.mark.parametrize("wrong", [True, False, 1, "", "true", "3F9A21", "3f9a2", "3f9a210", "3f9a21\n", b"3f9a21"])
async def test_what_is_no_mark_is_refused_before_anything_else(tmp_path: Path, wrong: object) -> None:
    async with pulls(f"{tmp_path}/missing/a.duckdb") as (pull, _):
        said = await refusal(pull, "key-1", 1, key_renewed=wrong)
    assert said.startswith("key_renewed must be the mark of the new key, six hexadecimal digits such as ")


async def test_a_key_given_as_its_mark_is_not_shown(tmp_path: Path) -> None:
    async with pulls(f"{tmp_path}/a.duckdb") as (pull, _):
        await pull("key-1", 1)
        for key in ("canary-7f3a9c51e8b24d06", "c0ffee"):
            said = await refusal(pull, key, 2, key_renewed=key)
            assert key not in said


async def test_a_mark_is_no_part_of_what_is_stored(tmp_path: Path) -> None:
    async with pulls(f"{tmp_path}/a/") as (pull, _):
        await pull("key-1", 1)
        mark = await mark_of(pull, "key-2", 2)
        await pull("key-2", 2, key_renewed=mark)
    receipt = last_receipt(dataset_of(tmp_path / "a", [Feed.CAMPAIGN]).storage, "acme")
    assert receipt is not None
    assert mark not in receipt.key_digest
