"""A pull that was cut off is gone on with, and nothing else is."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import os
import pickle
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from seorep_async import AuthenticationError, ConfigurationError, Feed, SeoRepClient
from seorep_async.export import ExportError, PullProgress, PullSummary, pull_to
from seorep_async.export.errors import export_error
from seorep_async.export.job import export_job
from seorep_async.export.journal import BlockPlace, DoneUnit, Journal, one_at_a_time
from seorep_async.export.preview import staged_pull
from seorep_async.export.target import target_of
from seorep_async.export.work import Work
from seorep_async.sandbox import Sandbox
from seorep_async.session import Authentication
from tests.export.made_service import made
from tests.export.reports import END, FORMATS, START, account, names_in, rows_in

CAMPAIGNS = 24


async def cut_off(client: SeoRepClient, out: Path, *, after: int = 5, **options: Any) -> None:
    """Pull, and cancel the pull when some reports are kept."""
    enough = asyncio.Event()

    def told(progress: PullProgress) -> None:
        if progress.rows and progress.done >= after:
            enough.set()

    pull = asyncio.create_task(
        pull_to(client, options.pop("ids", None), START, END, out=out, on_progress=told, **options)
    )
    waiting = asyncio.create_task(enough.wait())
    await asyncio.wait([pull, waiting], return_when=asyncio.FIRST_COMPLETED)
    assert not pull.done(), "it was over before it could be cut off"
    pull.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pull
    waiting.cancel()


async def again(client: SeoRepClient, out: Path, **options: Any) -> PullSummary:
    return await pull_to(client, options.pop("ids", None), START, END, out=out, **options)


def slow(**options: Any) -> Any:
    return account(**{"campaigns": CAMPAIGNS, "keywords": 5, "latency": 0.015, "max_concurrency": 2, **options})


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("feed", Feed)
async def test_it_goes_on_where_it_was_and_asks_for_nothing_twice(tmp_path: Path, feed: Feed, ending: str) -> None:
    out = tmp_path / f"a.{ending}"
    async with slow(keywords=2, latency=0.01) as (sandbox, client):
        await cut_off(client, out, feeds=feed)
        kept = staged_pull(target_of(out, (feed,)))
        assert kept is not None
        assert kept.reports >= 5
        before = sandbox.stats.requests
        summary = await again(client, out, feeds=feed)
        keywords = feed is Feed.KEYWORD_BY_DATE
        assert sandbox.stats.requests - before == CAMPAIGNS * (2 if keywords else 1) - kept.reports
    assert (summary.ok, summary.resumed) == (True, kept.reports)
    assert out in summary.paths
    assert not target_of(out, (feed,)).work_folder.exists()


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
async def test_the_result_is_the_same_as_of_a_pull_in_one_go(tmp_path: Path, ending: str) -> None:
    async with slow(keywords=2, latency=0.005) as (_, client):
        await cut_off(client, tmp_path / f"a.{ending}", feeds=Feed)
        await again(client, tmp_path / f"a.{ending}", feeds=Feed)
        await again(client, tmp_path / f"b.{ending}", feeds=Feed)
    for name in (
        "campaign",
        "campaign-by-date",
        "keyword-by-date",
        "campaign-by-date.totals",
        "keyword-by-date.totals",
    ):
        one, other = (tmp_path / f"{stem}.{name}.{ending}" for stem in "ab")
        assert one.read_bytes() == other.read_bytes()


async def test_keywords_that_were_found_are_not_looked_for_again(tmp_path: Path) -> None:
    feed = Feed.KEYWORD_BY_DATE
    async with slow(campaigns=4, keywords=6) as (sandbox, client):
        await cut_off(client, tmp_path / "a.csv", feeds=feed, after=3)
        await again(client, tmp_path / "a.csv", feeds=feed)
        assert sandbox.stats.per_path["/v3/resources/rankings/campaign"] == 4


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"ids": [1, 2]}, "other campaigns"),
        ({"start": "2022-01-01"}, "start date 2023-01-01, not 2022-01-01"),
        ({"feeds": Feed.CAMPAIGN_BY_DATE}, "feeds campaign, not campaign-by-date"),
        ({"search": "shoes"}, "other options"),
        ({"compare_previous_period": True}, "other options"),
    ],
)
async def test_with_other_parameters_it_is_refused_and_stays(tmp_path: Path, other: dict[str, Any], told: str) -> None:
    out = tmp_path / "a.csv"
    async with slow() as (sandbox, client):
        await cut_off(client, out)
        before = sandbox.stats.requests
        arguments = {"ids": None, "start": START} | other
        with pytest.raises(ConfigurationError, match=told) as caught:
            await pull_to(client, arguments.pop("ids"), arguments.pop("start"), END, out=out, **arguments)
        assert "--restart" in str(caught.value)
        assert sandbox.stats.requests == before
        assert (await again(client, out)).resumed


async def test_with_another_service_it_is_refused(tmp_path: Path) -> None:
    async with slow() as (_, client):
        await cut_off(client, tmp_path / "a.csv")
    async with slow() as (sandbox, client):
        with pytest.raises(ConfigurationError, match=f"service http://127.0.0.1:.*, not {sandbox.base_url}"):
            await again(client, tmp_path / "a.csv")


async def test_with_another_key_it_is_refused_until_it_is_begun_anew(tmp_path: Path) -> None:
    async with slow() as (sandbox, client):
        port = int(sandbox.base_url.rpartition(":")[2])
        await cut_off(client, tmp_path / "a.csv")
    async with slow(port=port, key="another") as (sandbox, client):
        with pytest.raises(ConfigurationError, match=r"begun with another API key .*--restart"):
            await again(client, tmp_path / "a.csv")
        assert sandbox.stats.requests == 0
        assert (await again(client, tmp_path / "a.csv", restart=True)).resumed == 0


def test_a_fingerprint_tells_keys_apart_and_salts_too() -> None:
    keys, salts = [Authentication(key) for key in ("one", "one", "other")], (b"salt" * 4, b"more" * 4)
    same, again, another = (key.fingerprint(salts[0]) for key in keys)
    assert same == again
    assert len({same, another, keys[0].fingerprint(salts[1])}) == 3


async def test_another_page_size_is_no_other_parameter(tmp_path: Path) -> None:
    async with slow() as (_, client):
        await cut_off(client, tmp_path / "a.csv")
        assert (await again(client, tmp_path / "a.csv", limit=500)).resumed


async def test_restart_begins_anew(tmp_path: Path) -> None:
    async with slow() as (sandbox, client):
        await cut_off(client, tmp_path / "a.csv")
        before = sandbox.stats.requests
        summary = await again(client, tmp_path / "a.csv", restart=True)
        assert sandbox.stats.requests - before == 1 + CAMPAIGNS
    assert (summary.resumed, summary.rows) == (0, CAMPAIGNS * 5)


async def test_campaigns_made_meanwhile_are_not_in_it(tmp_path: Path) -> None:
    async with slow() as (sandbox, client):
        port = int(sandbox.base_url.rpartition(":")[2])
        await cut_off(client, tmp_path / "a.csv")
    async with slow(campaigns=CAMPAIGNS + 3, port=port) as (_, client):
        summary = await again(client, tmp_path / "a.csv")
    assert summary.campaigns == CAMPAIGNS


async def test_what_failed_is_asked_for_again_when_it_goes_on(tmp_path: Path) -> None:
    async with slow(failing={1: 404}) as (sandbox, client):
        port = int(sandbox.base_url.rpartition(":")[2])
        await cut_off(client, tmp_path / "a.csv")
    async with slow(port=port) as (_, client):
        summary = await again(client, tmp_path / "a.csv")
    assert (summary.ok, summary.rows) == (True, CAMPAIGNS * 5)


async def partial(folder: Path, **options: Any) -> tuple[PullSummary, Sandbox]:
    """End a pull with a failure, and pull again from the service mended."""
    out = folder / "a.csv"
    async with account(failing={2: 404}) as (sandbox, client):
        port = int(sandbox.base_url.rpartition(":")[2])
        assert not (await again(client, out)).ok
    async with account(port=port) as (sandbox, client):
        return await again(client, out, **options), sandbox


async def test_retry_failed_asks_for_nothing_else(tmp_path: Path) -> None:
    summary, sandbox = await partial(tmp_path, retry_failed=True)
    assert sandbox.stats.requests == 2
    assert (summary.ok, summary.resumed, summary.rows) == (True, 3, 120)
    assert [row["campaign_id"] for row in rows_in(tmp_path / "a.csv")][::30] == ["1", "2", "3", "4"]
    assert names_in(tmp_path) == ["a.csv"]


async def test_a_pull_that_has_ended_is_begun_anew_without_it(tmp_path: Path) -> None:
    summary, sandbox = await partial(tmp_path)
    assert (summary.ok, summary.resumed, sandbox.stats.requests) == (True, 0, 1 + 4 * 2)


async def test_retry_failed_without_a_pull_before_pulls_everything(tmp_path: Path) -> None:
    async with account() as (_, client):
        assert (await again(client, tmp_path / "a.csv", retry_failed=True)).rows == 120


async def test_a_key_refused_midway_keeps_what_came(tmp_path: Path) -> None:
    async with account(failing={3: 403}, max_concurrency=1) as (sandbox, client):
        port = int(sandbox.base_url.rpartition(":")[2])
        with pytest.raises(AuthenticationError):
            await again(client, tmp_path / "a.csv")
    assert names_in(tmp_path) == [".a.csv.pull"]
    async with account(port=port) as (_, client):
        assert (await again(client, tmp_path / "a.csv")).resumed == 2


async def test_two_pulls_at_once_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    async with slow() as (_, client):
        first = asyncio.create_task(again(client, out))
        await asyncio.sleep(0.15)
        with pytest.raises(ExportError, match="another pull is writing it"):
            await again(client, out)
        assert (await first).ok


def torn_at_the_end(rows: Path) -> None:
    with open(rows, "ab") as file:
        file.write(b"half a block")


def cut_short(rows: Path) -> None:
    os.truncate(rows, rows.stat().st_size - 7)


def overwritten(rows: Path) -> None:
    with open(rows, "r+b") as file:
        file.seek(-20, os.SEEK_END)
        file.write(b"\0" * 10)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("tear", [torn_at_the_end, cut_short, overwritten])
async def test_a_torn_last_write_is_noticed_and_mended(tmp_path: Path, tear: Any, ending: str) -> None:
    out = tmp_path / f"a.{ending}"
    async with slow() as (_, client):
        await cut_off(client, out)
        tear(target_of(out, (Feed.CAMPAIGN,)).work_folder / "rows")
        assert (await again(client, out)).resumed
        await again(client, tmp_path / f"b.{ending}")
    assert out.read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


async def test_a_torn_tail_of_the_journal_is_as_if_it_were_not_written(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    async with slow() as (_, client):
        target = target_of(out, (Feed.CAMPAIGN,))
        order = export_job(client, None, START, END, Feed.CAMPAIGN, {})
        with Work(target, order) as work:
            work.plan(range(1, CAMPAIGNS + 1))
            log = target.work_folder / "journal-wal"
            whole = log.read_bytes()
            torn = whole[: len(whole) - 100]
            kept = {file.name: file.read_bytes() for file in target.work_folder.iterdir()} | {"journal-wal": torn}
        target.work_folder.mkdir()
        for name, content in kept.items():
            (target.work_folder / name).write_bytes(content)
        await again(client, out, restart=False)
    assert len(rows_in(out)) == CAMPAIGNS * 5


async def test_a_damaged_journal_is_refused_until_it_is_begun_anew(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    folder = tmp_path / ".a.csv.pull"
    folder.mkdir()
    (folder / "journal").write_bytes(b"no database at all, but long enough to be looked at" * 100)
    async with account() as (_, client):
        with pytest.raises(ExportError, match="its journal is damaged; begin anew"):
            await again(client, out)
        assert (await again(client, out, restart=True)).ok
    assert names_in(tmp_path) == ["a.csv"]


async def test_the_key_is_in_no_file(tmp_path: Path) -> None:
    async with slow(key="s3cret-k3y") as (_, client):
        await cut_off(client, tmp_path / "a.csv", extra_params={"token": "s3cret-k3y"})
    folder = tmp_path / ".a.csv.pull"
    assert names_in(folder)
    for form in (b"s3cret", base64.b64encode(b"s3cret-k3y"), base64.b64encode(b":s3cret-k3y")):
        assert all(form not in (folder / name).read_bytes() for name in names_in(folder))


def test_an_error_pickles_with_its_file() -> None:
    error = export_error(Path("a.csv"), "No space left on device")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (str(again), again.file) == ("can't write a.csv: No space left on device", Path("a.csv"))


def test_a_journal_tells_when_the_pull_was_begun(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    now = dt.datetime.now().astimezone().isoformat(timespec="minutes")
    journal.note(begun=now)
    assert journal.read("begun") == now
    journal.close()


def test_a_keyword_that_fails_is_missing_only_where_it_is_not_kept_already(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.plan([1, 2])
    kept = DoneUnit(campaign_id=1, id=7, block=BlockPlace(0, 0, 0), start=0, length=0, rows=0, totals=None)
    journal.add(Feed.KEYWORD_BY_DATE, BlockPlace(0, 0, 0), [kept], {1: [7], 2: [7]})
    assert journal.owners(7) == [1, 2]
    assert journal.owners_without_report(7) == [2]
    journal.close()


async def test_keywords_that_a_campaign_no_longer_has_are_not_counted(tmp_path: Path) -> None:
    out, feeds = tmp_path / "a.csv", (Feed.CAMPAIGN, Feed.KEYWORD_BY_DATE)
    async with made({1: [10, 11]}, gone={11}) as (service, client):
        await again(client, out, feeds=feeds)
        rows = target_of(out, feeds).work_folder / "rows"
        rows.write_bytes(b"\0" + rows.read_bytes()[1:])  # the campaign's own block, so that it is asked for again
        service.keywords[1], service.gone = [12], set()
        summary = await again(client, out, feeds=feeds, retry_failed=True)
    assert (summary.ok, summary.rows, summary.resumed) == (True, 2, 0)
    assert [row["keyword_id"] for row in rows_in(tmp_path / "a.keyword-by-date.csv")] == ["12"]


@pytest.mark.parametrize("retry_failed", [False, True])
async def test_with_work_that_could_not_be_removed_the_next_pull_begins_anew(
    tmp_path: Path, retry_failed: bool
) -> None:
    (tmp_path / ".a.csv.pull.done").touch()  # so that the folder can't be moved there
    async with account() as (_, client):
        await again(client, tmp_path / "a.csv")
        assert (await again(client, tmp_path / "a.csv", retry_failed=retry_failed)).resumed == 0


async def test_work_that_could_not_be_removed_is_told(tmp_path: Path) -> None:
    (tmp_path / ".a.csv.pull.done").touch()
    async with account() as (_, client):
        assert (await again(client, tmp_path / "a.csv")).leftover == tmp_path / ".a.csv.pull"


async def test_it_is_no_pull_that_could_be_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / ".a.csv.pull.done").touch()
    async with account() as (_, client):
        await again(client, tmp_path / "a.csv")
    assert staged_pull(target_of(tmp_path / "a.csv", (Feed.CAMPAIGN,))) is None


async def test_of_work_that_was_removed_nothing_is_told(tmp_path: Path) -> None:
    async with account() as (_, client):
        assert (await again(client, tmp_path / "a.csv")).leftover is None


def test_of_pulls_begun_at_the_same_instant_one_has_the_journal(tmp_path: Path) -> None:
    together = threading.Barrier(4)

    def open_journal(path: Path) -> Journal | None:
        together.wait(5)
        try:
            return Journal(path)
        except sqlite3.OperationalError:
            return None

    with ThreadPoolExecutor(4) as threads:
        for number in range(30):
            folder = tmp_path / str(number)
            folder.mkdir()
            opened = [one for one in threads.map(open_journal, [folder / "journal"] * 4) if one is not None]
            for journal in opened:
                journal.close()
            assert len(opened) == 1


async def test_a_pull_that_is_refused_does_not_take_the_folder_from_one_that_is_opening_it(tmp_path: Path) -> None:
    folder = tmp_path / ".a.csv.pull"
    folder.mkdir()
    async with account() as (_, client):
        with one_at_a_time(folder), pytest.raises(ExportError, match="another pull is writing it"):
            await again(client, tmp_path / "a.csv")
    assert folder.exists()


async def test_interrupted_when_all_is_in_place_it_has_ended_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removing, resumes, remove = asyncio.Event(), threading.Event(), Work.remove
    loop = asyncio.get_running_loop()

    def slowly(work: Work) -> None:
        loop.call_soon_threadsafe(removing.set)
        resumes.wait(5)
        remove(work)

    monkeypatch.setattr(Work, "remove", slowly)
    async with account() as (_, client):
        pull = asyncio.create_task(again(client, tmp_path / "a.csv"))
        await removing.wait()
        pull.cancel()
        resumes.set()
        assert (await pull).paths == (tmp_path / "a.csv",)
    assert names_in(tmp_path) == ["a.csv"]
