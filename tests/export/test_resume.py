"""A pull that was cut off is resumed, and nothing else is."""

import asyncio
import base64
import contextlib
import sqlite3
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from seorep_async import AuthenticationError, ConfigurationError, Feed, SeoRepClient
from seorep_async.export import ExportError, PullProgress, Stage, pull_to
from seorep_async.session import Authentication
from tests.export import reports
from tests.export.door import Checkpoint, StagedPull, StagingArea, Target, differences, staged_in, target_of
from tests.export.made_service import made
from tests.export.reports import END, FORMATS, START, Fail, account, names_in, pull_into, rows_in

pytestmark = pytest.mark.heavy

CAMPAIGNS = 24


async def cut_off(client: SeoRepClient, out: Path, *, after: int = 5, **options: Any) -> None:
    """Pull, and cancel the pull when some reports are stored."""
    pull = partial(pull_into, client, out, **options)
    await reports.cut_off(pull, lambda progress: progress.rows and progress.done >= after)
    assert all(name.endswith(".pull") for name in names_in(out.parent))


def staged_pull(target: Target) -> StagedPull | None:
    with target.area().inspect() as checkpoint:
        return None if checkpoint is None else staged_in(checkpoint)


def slow(**options: Any) -> Any:
    return account(**{"campaigns": CAMPAIGNS, "keywords": 5, "latency": 0.015, "max_concurrency": 2, **options})


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("feed", Feed)
async def test_it_resumes_and_asks_for_nothing_twice(tmp_path: Path, feed: Feed, ending: str) -> None:
    out = tmp_path / f"a.{ending}"
    async with slow(keywords=2, latency=0.01) as (sandbox, client):
        await cut_off(client, out, feeds=feed)
        staged = staged_pull(target_of(out, (feed,), account="127.0.0.1"))
        assert staged is not None
        assert staged.reports >= 5
        before = sandbox.stats.requests
        summary = await pull_into(client, out, feeds=feed)
        keywords = feed is Feed.KEYWORD_BY_DATE
        assert sandbox.stats.requests - before == CAMPAIGNS * (2 if keywords else 1) - staged.reports
    assert (summary.ok, summary.resumed) == (True, staged.reports)
    assert out in summary.paths
    assert not target_of(out, (feed,), account="127.0.0.1").staging_folder.exists()


@pytest.mark.parametrize("after", [5, pytest.param(CAMPAIGNS, id="while campaigns are named")])
async def test_a_pull_whose_client_is_closed_is_resumed(tmp_path: Path, after: int) -> None:
    out, ids = tmp_path / "a.csv", range(1, CAMPAIGNS + 1)
    closing: list[asyncio.Future[None]] = []

    def close(progress: PullProgress) -> None:
        if progress.rows and progress.done >= after and not closing:
            closing.append(asyncio.ensure_future(client.close()))

    async with slow() as (sandbox, client):
        await pull_into(client, out, ids=ids)
        before = out.read_bytes()
        with pytest.raises(ConfigurationError, match=r"client (was|is) closed"):
            await pull_into(client, out, ids=ids, on_progress=close)
        await closing[0]
        assert out.read_bytes() == before
        async with SeoRepClient(sandbox.base_url, "sandbox") as another:
            summary = await pull_into(another, out, ids=ids)
    assert (summary.ok, summary.rows, summary.resumed >= after) == (True, CAMPAIGNS * 5, True)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
async def test_a_resumed_pull_gives_the_same_bytes(tmp_path: Path, ending: str) -> None:
    async with slow(keywords=2, latency=0.005) as (_, client):
        await cut_off(client, tmp_path / f"a.{ending}", feeds=Feed)
        await pull_into(client, tmp_path / f"a.{ending}", feeds=Feed)
        await pull_into(client, tmp_path / f"b.{ending}", feeds=Feed)
    for name in ("keyword_rankings", "campaign_periods", "keyword_periods", "totals", "campaigns", "keywords"):
        one, other = (tmp_path / f"{stem}.{name}.{ending}" for stem in "ab")
        assert one.read_bytes() == other.read_bytes()


async def test_progress_of_a_resumed_pull_counts_stored_reports(tmp_path: Path) -> None:
    seen: list[PullProgress] = []
    async with slow() as (_, client):
        await cut_off(client, tmp_path / "a.csv")
        staged = staged_pull(target_of(tmp_path / "a.csv", (Feed.CAMPAIGN,)))
        assert staged is not None
        await pull_into(client, tmp_path / "a.csv", on_progress=seen.append)
    stored = staged.reports
    rows = [(one.done, one.total, one.resumed, one.rows) for one in seen if one.stage is Stage.ROWS]
    assert rows[0] == (stored, CAMPAIGNS, stored, stored * 5)
    assert rows[-1] == (CAMPAIGNS, CAMPAIGNS, stored, CAMPAIGNS * 5)


async def test_progress_counts_campaigns_whose_keywords_are_known(tmp_path: Path) -> None:
    seen: list[PullProgress] = []
    async with made({id_: [id_] for id_ in range(1, 40)}, revoked_after=3) as (service, client):
        with pytest.raises(AuthenticationError):
            await pull_into(client, tmp_path / "a.csv", feeds=Feed.KEYWORD_BY_DATE)
        service.revoked_after = None
        await pull_into(client, tmp_path / "a.csv", feeds=Feed.KEYWORD_BY_DATE, on_progress=seen.append)
    keywords = [(one.done, one.total, one.resumed) for one in seen if one.stage is Stage.KEYWORDS]
    assert (keywords[0], keywords[-1]) == ((2, 39, 2), (39, 39, 2))
    assert (seen[-1].stage, seen[-1].rows) == (Stage.WRITING, 39)


async def test_leaving_an_unreadable_checkpoint_raises_the_first_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_: Checkpoint, *__: object) -> bool:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorname = "SQLITE_IOERR"
        raise error

    async with slow() as (_, client):
        with monkeypatch.context() as patched:
            patched.setattr(Checkpoint, "is_empty", unreadable)
            patched.setattr(Checkpoint, "counts", unreadable)
            with pytest.raises(ExportError, match=r"\.a\.csv\.pull: disk I/O error"):
                await pull_into(client, tmp_path / "a.csv")
        assert (await pull_into(client, tmp_path / "a.csv")).ok


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"ids": [1, 2]}, "other campaigns"),
        ({"start": "2022-01-01"}, "start date 2023-01-01, not 2022-01-01"),
        ({"feeds": Feed.CAMPAIGN_BY_DATE}, "feeds campaign, not campaign-by-date"),
        ({"search": "shoes"}, "other options"),
        ({"compare_previous_period": True}, "other options"),
    ],
)
async def test_another_job_is_refused_and_the_first_one_stays(tmp_path: Path, other: dict[str, Any], said: str) -> None:
    out = tmp_path / "a.csv"
    async with slow() as (sandbox, client):
        await cut_off(client, out)
        before = sandbox.stats.requests
        arguments = {"ids": None, "start": START} | other
        with pytest.raises(ConfigurationError, match=said) as caught:
            await pull_to(client, arguments.pop("ids"), arguments.pop("start"), END, out=out, **arguments)
        assert "restart=True" in str(caught.value)
        assert sandbox.stats.requests == before
        assert (await pull_into(client, out)).resumed


async def test_another_service_or_key_is_refused_until_a_restart(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    async with slow(), slow() as (_, client):
        await cut_off(client, out)
        port = int(client.base_url.rpartition(":")[2])
    for served, said in (
        ({}, "service http://127.0.0.1:.*, not http"),
        ({"port": port, "key": "another"}, r"unfinished pull of another API key .*restart=True"),
    ):
        async with slow(**served) as (sandbox, client):
            with pytest.raises(ConfigurationError, match=said):
                await pull_into(client, out)
            assert sandbox.stats.requests == 0
            if served:
                assert (await pull_into(client, out, restart=True)).resumed == 0


def test_a_fingerprint_tells_keys_apart_and_salts_too() -> None:
    keys, salts = [Authentication(key) for key in ("one", "one", "other")], (b"salt" * 4, b"more" * 4)
    same, again, another = (key.fingerprint(salts[0]) for key in keys)
    assert same == again
    assert len({same, another, keys[0].fingerprint(salts[1])}) == 3


async def test_the_first_request_does_not_wait_for_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requested = threading.Event()
    async with account() as (_, client):
        digest, send = client.key_digest, client._session.send

        def patient(salt: bytes) -> str:
            assert requested.wait(60)
            return digest(salt)

        async def noted(*args: Any, **options: Any) -> Any:
            requested.set()
            return await send(*args, **options)

        monkeypatch.setattr(client, "key_digest", patient)
        monkeypatch.setattr(client._session, "send", noted)
        assert (await pull_into(client, tmp_path / "a.csv", [1])).ok


async def test_another_page_size_is_no_other_parameter(tmp_path: Path) -> None:
    async with slow() as (_, client):
        await cut_off(client, tmp_path / "a.csv")
        assert (await pull_into(client, tmp_path / "a.csv", limit=500)).resumed


async def test_campaigns_created_meanwhile_are_not_in_it(tmp_path: Path) -> None:
    async with slow() as (sandbox, client):
        port = int(sandbox.base_url.rpartition(":")[2])
        await cut_off(client, tmp_path / "a.csv")
    async with slow(campaigns=CAMPAIGNS + 3, port=port) as (_, client):
        summary = await pull_into(client, tmp_path / "a.csv")
    assert summary.campaigns == CAMPAIGNS


async def test_failed_reports_are_fetched_again_on_resume(tmp_path: Path, fail: Fail) -> None:
    async with slow() as (_, client):
        fail(1)
        await cut_off(client, tmp_path / "a.csv")
        fail()
        summary = await pull_into(client, tmp_path / "a.csv")
    assert (summary.ok, summary.rows) == (True, CAMPAIGNS * 5)


@pytest.mark.parametrize(("retry_failed", "resumed", "requests"), [(True, 3, 2), (False, 0, 1 + 4 * 2)])
async def test_only_retry_failed_resumes_a_pull_that_has_ended(
    tmp_path: Path, fail: Fail, retry_failed: bool, resumed: int, requests: int
) -> None:
    async with account() as (sandbox, client):
        fail(2)
        assert not (await pull_into(client, tmp_path / "a.csv")).ok
        fail()
        before = sandbox.stats.requests
        summary = await pull_into(client, tmp_path / "a.csv", retry_failed=retry_failed)
        assert sandbox.stats.requests - before == requests
    assert (summary.ok, summary.resumed, summary.rows) == (True, resumed, 120)
    assert [row["campaign_id"] for row in rows_in(tmp_path / "a.csv")][::30] == ["1", "2", "3", "4"]
    assert names_in(tmp_path) == ["a.csv"]


@pytest.mark.parametrize("ending", FORMATS)
async def test_retry_failed_asks_nothing_if_nothing_failed(tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"a.{ending}"
    async with account() as (sandbox, client):
        await pull_into(client, out)
        before, asked = out.read_bytes(), sandbox.stats.requests
        summary = await pull_into(client, out, retry_failed=True)
        assert (sandbox.stats.requests, out.read_bytes()) == (asked, before)
    assert (summary.ok, summary.outcomes, summary.requests, summary.paths) == (True, (), 0, (out,))


async def test_retry_failed_fetches_all_if_all_had_failed(tmp_path: Path, fail: Fail) -> None:
    """An older target says nothing about the pull that brought nothing."""
    async with account() as (_, client):
        await pull_into(client, tmp_path / "a.csv")
        fail(1, 2, 3, 4)
        assert not (await pull_into(client, tmp_path / "a.csv", restart=True)).paths
        fail()
        assert (await pull_into(client, tmp_path / "a.csv", retry_failed=True)).requests == 9


async def test_retry_failed_fetches_all_if_nothing_could_be_listed(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    async with account() as (sandbox, client), SeoRepClient(sandbox.base_url, "another") as wrong:
        await pull_into(client, out)
        with pytest.raises(AuthenticationError):
            await pull_into(wrong, out, restart=True)
        assert (await pull_into(client, out, retry_failed=True)).requests == 9
    assert names_in(tmp_path) == ["a.csv"]


@pytest.mark.parametrize("night", [{}, {"snapshot_date": END}], ids=["today", "named"])
@pytest.mark.parametrize("out", [*(f"a.{ending}" for ending in FORMATS), "a/"])
async def test_retry_failed_fetches_a_night_that_is_not_there(tmp_path: Path, out: str, night: dict[str, Any]) -> None:
    """A pull of it may have ended before it stored anything, as the disk was full or the database open elsewhere."""
    async with account() as (_, client):
        await pull_to(client, None, START, END, out=f"{tmp_path}/{out}", snapshot_date=START)
        summary = await pull_to(client, None, START, END, out=f"{tmp_path}/{out}", retry_failed=True, **night)
    assert summary.rows == 120


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("other", [{"end_date": "2023-02-28"}, {"account": "other"}], ids=["days", "account"])
async def test_retry_failed_fetches_all_that_a_file_does_not_hold(tmp_path: Path, ending: str, other: Any) -> None:
    pull: dict[str, Any] = {"ids": None, "start_date": START, "end_date": END, "out": tmp_path / f"a.{ending}"}
    async with account() as (_, client):
        await pull_to(client, **pull)
        held = await pull_to(client, **pull, retry_failed=True)
        summary = await pull_to(client, **pull | other, retry_failed=True)
    assert (held.requests, summary.rows) == (0, 120)


async def test_retry_failed_without_an_earlier_pull_fetches_all(tmp_path: Path) -> None:
    async with account() as (_, client):
        assert (await pull_into(client, tmp_path / "a.csv", retry_failed=True)).rows == 120


async def test_a_key_refused_midway_keeps_stored_reports(tmp_path: Path) -> None:
    async with made({id_: [id_] for id_ in range(1, 40)}, revoked_after=4) as (service, client):
        with pytest.raises(AuthenticationError):
            await pull_into(client, tmp_path / "a.csv")
        assert names_in(tmp_path) == [".a.csv.pull"]
        service.revoked_after = None
        assert (await pull_into(client, tmp_path / "a.csv")).resumed == 3


async def test_two_pulls_at_once_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    async with slow() as (_, client):
        first = asyncio.create_task(pull_into(client, out))
        while not (tmp_path / ".a.csv.pull" / "checkpoint").exists():  # noqa: ASYNC110, no event tells
            await asyncio.sleep(0)
        with pytest.raises(ExportError, match="another pull of this program is writing it; await or cancel it"):
            await pull_into(client, out)
        assert (await first).ok


async def test_the_key_is_in_no_file(tmp_path: Path) -> None:
    async with slow(key="s3cret-k3y") as (_, client):
        await cut_off(client, tmp_path / "a.csv", extra_params={"token": "s3cret-k3y"})
    folder = tmp_path / ".a.csv.pull"
    assert names_in(folder)
    for form in (b"s3cret", base64.b64encode(b"s3cret-k3y"), base64.b64encode(b":s3cret-k3y")):
        assert all(form not in (folder / name).read_bytes() for name in names_in(folder))


def forget(out: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(out.with_name(f".{out.name}.pull") / "checkpoint")) as database:
        database.execute(statement)
        database.commit()


async def test_keywords_that_a_campaign_has_lost_are_not_counted(tmp_path: Path) -> None:
    out, feeds = tmp_path / "a.csv", (Feed.CAMPAIGN, Feed.KEYWORD_BY_DATE)
    async with made({1: [10, 11]}, gone={11}) as (service, client):
        await pull_into(client, out, feeds=feeds)
        forget(out, "DELETE FROM reports WHERE name = 'keyword_rankings'")
        service.keywords[1], service.gone = [12], set()
        summary = await pull_into(client, out, feeds=feeds, retry_failed=True)
    assert (summary.ok, summary.rows, summary.resumed) == (True, 2, 0)
    assert [row["keyword_id"] for row in rows_in(tmp_path / "a.keyword_periods.csv")] == ["12"]


@pytest.mark.parametrize("retry_failed", [False, True])
async def test_after_a_folder_that_stayed_the_next_pull_starts_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retry_failed: bool
) -> None:
    async with account() as (_, client):
        with monkeypatch.context() as patched:
            patched.setattr(StagingArea, "_delete_all", lambda area, but=(): None)
            summary = await pull_into(client, tmp_path / "a.csv")
        assert summary.leftover == tmp_path / ".a.csv.pull"
        assert staged_pull(target_of(tmp_path / "a.csv", (Feed.CAMPAIGN,))) is None
        summary = await pull_into(client, tmp_path / "a.csv", retry_failed=retry_failed)
    assert (summary.resumed, summary.leftover) == (0, None)
    assert names_in(tmp_path) == ["a.csv"]


async def test_a_cancelled_pull_with_all_in_place_has_ended_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removing, resumes, remove = asyncio.Event(), threading.Event(), StagingArea.remove
    loop = asyncio.get_running_loop()

    def slowly(area: StagingArea) -> None:
        loop.call_soon_threadsafe(removing.set)
        resumes.wait(60)
        remove(area)

    monkeypatch.setattr(StagingArea, "remove", slowly)
    async with account() as (_, client):
        pull = asyncio.create_task(pull_into(client, tmp_path / "a.csv"))
        await removing.wait()
        pull.cancel()
        resumes.set()
        assert (await pull).paths[0] == tmp_path / "a.csv"
    assert names_in(tmp_path) == ["a.csv"]


@pytest.mark.parametrize(
    ("feeds", "words"),
    [(["campaign"], ["another version of seorep"]), (["keyword-by-date"], ["feeds campaign, not keyword-by-date"])],
)
def test_other_feeds_are_not_called_another_version(feeds: list[str], words: list[str]) -> None:
    earlier = {"feeds": ["campaign"], "version": [1, 2]}
    assert differences(earlier, {"feeds": feeds, "version": [1, 3]}) == words
