"""What `pull_to` takes, refuses and says: one clear sentence each, and nothing is sent where nothing has to be."""
# ruff: noqa: ASYNC240, RUF001

import asyncio
import csv
import datetime as dt
import fcntl
import io
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from seorep_async import (
    AuthenticationError,
    ConfigurationError,
    ExportError,
    Feed,
    PullPausedError,
    SeoRepClient,
    SeoRepError,
    Settings,
)
from seorep_async.export import PullProgress, PullSummary, Stage, database as database_module, preview, pull_to, stream
from seorep_async.sandbox import Sandbox
from tests.export.golden_nights import FORMATS
from tests.export.staged import folder_of, staged_in
from tests.scripted_api import Asked, serving

START, END, NIGHT = "2023-02-01", "2023-03-31", dt.date(2023, 4, 2)
STAGES = [Stage.LISTING, Stage.ROWS, Stage.ROWS, Stage.WRITING]


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(campaigns=4, keywords=3, failing={2: 404}) as running:
        yield running


@pytest.fixture
async def client(sandbox: Sandbox) -> AsyncIterator[SeoRepClient]:
    async with SeoRepClient(sandbox.base_url, sandbox.api_key, settings=Settings(max_concurrency=1)) as opened:
        yield opened


async def pull(client: SeoRepClient, out: Any, ids: Any = None, **options: Any) -> PullSummary:
    asked: dict[str, Any] = {"account": "acme", "snapshot_date": NIGHT, **options}
    dates = [asked.pop(name, day) for name, day in (("start", START), ("end", END))]
    return await pull_to(client, ids, *dates, out=out, **asked)


def unsent(client: SeoRepClient) -> bool:
    return client.stats.attempts == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"out": "x/"}, "no targets; name a file that ends in .csv, .jsonl, .parquet or .duckdb, or pass `pull_table"),
        ({"out": "s3://bucket/x.parquet"}, "object stores are no targets"),
        ({"out": "."}, "no targets"),
        ({"out": "x.txt"}, "must end in .csv, .jsonl"),
        ({"out": "nowhere/x.csv"}, "there is no folder .*nowhere; create it first"),
        ({"out": "a" * 300 + ".csv"}, "File name too long; name another file"),
        ({"out": "a" * 245 + ".csv"}, "File name too long; name another file"),
        ({"out": "a" * 300 + "/x.csv"}, "there is no folder"),
        ({"out": 7}, "out must be a path"),
        ({"out": "x.jsonl", "excel": True}, "excel=True is only for CSV"),
        ({"excel": 1}, "excel must be"),
        ({"restart": True, "retry_failed": True}, "can't be combined"),
        ({"feeds": ()}, "at least one feed"),
        ({"feeds": "nothing"}, "feed must be one of"),
        ({"ids": ()}, "ids is empty"),
        ({"ids": [1], "groups": ["a"]}, "ids can't be combined with groups or filter"),
        ({"groups": "a"}, "groups must hold titles"),
        ({"ids": [1], "exclude": [1]}, "ids is empty"),
        ({"snapshot_date": "2999-01-01"}, "tomorrow"),
        ({"max_requests": 0}, "max_requests"),
        ({"out": "x.duckdb", "search": "shoes"}, "search narrows the rows"),
        ({"on_progress": 7}, "on_progress"),
        ({"end": "2022-01-01"}, "is before start_date"),
    ],
)
async def test_bad_arguments_are_refused_before_anything_is_sent(
    client: SeoRepClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=words):
        await pull(client, **{"out": "x.csv", **options})
    assert unsent(client)
    assert not [*tmp_path.iterdir()]


def foreign_file(out: Path) -> None:
    out.write_text("a,b\n1,2\n")


def foreign_neighbour(out: Path) -> None:
    out.with_name("x.pulls.csv").write_text("mine\n")


def dangling_neighbour(out: Path) -> None:
    out.with_name("x.totals.csv").symlink_to(out.parent / "nowhere" / "x")


def others_folder(out: Path) -> None:
    folder_of(out).mkdir()
    folder_of(out).chmod(0o755)


def linked_folder(out: Path) -> None:
    folder_of(out).symlink_to(out.parent)


def older_version(out: Path) -> None:
    folder_of(out).mkdir(0o700)
    (folder_of(out) / "checkpoint").write_bytes(b"SQLite format 3")


def garbage(out: Path) -> None:
    folder_of(out).mkdir(0o700)
    (folder_of(out) / "pieces").write_bytes(b"no pieces" * 99)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (foreign_file, "no pull wrote it; name another file, or replace it with force=True"),
        (foreign_neighbour, "x.pulls.csv exists, and no pull wrote it"),
        (dangling_neighbour, "x.totals.csv is a link to nothing; remove it"),
        (others_folder, "is another user's, or open to others; remove it"),
        (linked_folder, "is a link or a file; remove it"),
        (older_version, "another version of seorep staged .*restart=True"),
        (garbage, "damaged, or of another version .*restart=True"),
    ],
)
async def test_a_place_that_is_not_ours_is_one_clear_error(
    client: SeoRepClient, tmp_path: Path, make: Any, words: str
) -> None:
    out = tmp_path / "x.csv"
    make(out)
    with pytest.raises(SeoRepError, match=words) as caught:
        await pull(client, out)
    assert isinstance(caught.value, ConfigurationError | ExportError)
    assert unsent(client)
    if "restart=True" in words:
        assert (await pull(client, out, restart=True)).rows == 9


async def test_force_replaces_a_file_that_no_pull_wrote(client: SeoRepClient, tmp_path: Path) -> None:
    foreign_file(tmp_path / "x.csv")
    await pull(client, tmp_path / "x.csv", force=True)
    assert "account,snapshot_date" in (tmp_path / "x.csv").read_text()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
async def test_a_read_only_folder_is_refused_before_anything_is_sent(client: SeoRepClient, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigurationError, match="is read-only"):
        await pull(client, tmp_path / "x.csv")
    assert unsent(client)


async def test_a_file_system_without_locks_says_what_to_do(
    client: SeoRepClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ExportError, match="refuses locks; write to a local disk, and move the file"):
        await pull(client, tmp_path / "x.csv")
    assert unsent(client)


async def test_one_pull_at_a_time_writes_a_target(client: SeoRepClient, tmp_path: Path) -> None:
    first = asyncio.create_task(pull(client, tmp_path / "x.csv"))
    while not folder_of(tmp_path / "x.csv").exists():  # noqa: ASYNC110
        await asyncio.sleep(0)
    for options in ({}, {"restart": True}):
        with pytest.raises(ExportError, match="another pull into this target is at work"):
            await pull(client, tmp_path / "x.csv", **options)
    assert (await first).rows == 9


FULL_DISK = """
import asyncio, resource, signal, sys
from seorep_async import SeoRepClient
from seorep_async.export import pull_to
async def main():
    async with SeoRepClient(sys.argv[1], "sandbox") as client:
        labels = {"account": "acme", "snapshot_date": "2023-04-02"}
        await pull_to(client, None, "2023-02-01", "2023-03-31", out=sys.argv[2], **labels)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
asyncio.run(main())
"""


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("limit", [100, 3_000, 40_000])
async def test_a_full_disk_loses_nothing(sandbox: Sandbox, tmp_path: Path, format_: str, limit: int) -> None:
    out = tmp_path / f"x.{format_}"
    arguments = [sys.executable, "-B", "-c", FULL_DISK, sandbox.base_url, str(out), str(limit)]
    process = await asyncio.create_subprocess_exec(*arguments, stderr=subprocess.PIPE)
    _, said = await process.communicate()
    async with SeoRepClient(sandbox.base_url, sandbox.api_key) as client:
        if process.returncode:
            assert re.search(r"ExportError: can't write .*(File too large|disk|resize|write)", said.decode())
            assert not out.exists()
        assert (await pull(client, out)).rows == 9


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"end": "2023-03-01"}, "end date 2023-03-31, not 2023-03-01"),
        ({"feeds": Feed.CAMPAIGN_BY_DATE}, "feeds campaign, not campaign-by-date"),
        ({"ids": [1]}, "other campaigns"),
        ({"exclude": [1]}, "exclude none, not 1"),
        ({"account": "other"}, "account acme, not other"),
        ({"snapshot_date": "2023-04-01"}, "snapshot date 2023-04-02, not 2023-04-01"),
        ({"compare_previous_period": True}, "other options"),
        ({"excel": True}, "excel False, not True"),
    ],
)
async def test_another_request_is_not_resumed(
    client: SeoRepClient, tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(PullPausedError):
        await pull(client, tmp_path / "x.csv", max_requests=2)
    sent = client.stats.attempts
    with pytest.raises(ConfigurationError, match=rf"{words}.*restart=True"):
        await pull(client, tmp_path / "x.csv", **options)
    assert client.stats.attempts == sent
    assert (await pull(client, tmp_path / "x.csv", **options, restart=True)).ok in (True, False)


async def test_a_paused_pull_goes_on_with_few_requests_at_a_time(client: SeoRepClient, tmp_path: Path) -> None:
    runs = 1
    while True:
        try:
            summary = await pull(client, tmp_path / "x.csv", max_requests=1, limit=500)
            break
        except PullPausedError:
            runs += 1
    assert (summary.campaigns, summary.rows, summary.resumed) == (4, 9, 2)
    assert runs < 9


async def test_a_resume_keeps_its_night_and_the_campaigns_found_first(sandbox: Sandbox, tmp_path: Path) -> None:
    async with SeoRepClient(sandbox.base_url, sandbox.api_key) as client:
        with pytest.raises(PullPausedError):
            await pull(client, tmp_path / "x.csv", max_requests=1)
        await client.campaigns.create(company="New", url="https://new.example.com")
        asked: Any = {"account": "acme", "snapshot_date": None}
        summary = await pull(client, tmp_path / "x.csv", **asked)
    assert (summary.snapshot_date, summary.campaigns) == (NIGHT, 4)


async def test_retry_failed_sends_only_what_failed(client: SeoRepClient, sandbox: Sandbox, tmp_path: Path) -> None:
    for format_ in FORMATS:
        await pull(client, tmp_path / f"x.{format_}", feeds=[Feed.CAMPAIGN, Feed.CAMPAIGN_BY_DATE])
        sent = client.stats.attempts
        feeds = [Feed.CAMPAIGN, Feed.CAMPAIGN_BY_DATE]
        await pull(client, tmp_path / f"x.{format_}", feeds=feeds, retry_failed=True)
        assert client.stats.attempts - sent == 3  # two reports, and the look at whose campaigns they are


@pytest.mark.parametrize("format_", FORMATS)
async def test_retry_failed_sends_nothing_if_nothing_failed(tmp_path: Path, format_: str) -> None:
    async with Sandbox(campaigns=2, keywords=1) as sandbox, SeoRepClient(sandbox.base_url, "sandbox") as client:
        await pull(client, tmp_path / f"x.{format_}")
        before = client.stats.attempts
        summary = await pull(client, tmp_path / f"x.{format_}", retry_failed=True)
        assert (client.stats.attempts - before, summary.campaigns) == (0, 0)
        assert (await pull(client, tmp_path / f"x.{format_}", retry_failed=True, snapshot_date="2023-04-03")).rows == 2


async def test_a_database_knows_what_failed_in_an_earlier_window(
    client: SeoRepClient, sandbox: Sandbox, tmp_path: Path
) -> None:
    for start in ("2023-01-01", "2023-02-01"):
        await pull(client, tmp_path / "x.duckdb", start=start)
    sent = client.stats.attempts
    summary = await pull(client, tmp_path / "x.duckdb", start="2023-01-01", retry_failed=True)
    assert [one.campaign_id for one in summary.outcomes] == [2]
    assert client.stats.attempts - sent == 2


async def test_progress_names_each_stage(client: SeoRepClient, tmp_path: Path) -> None:
    states: list[PullProgress] = []
    await pull(client, tmp_path / "x.csv", on_progress=states.append)
    assert [one.stage for one in states] == STAGES
    last = states[-2]
    assert (last.done, last.total, last.rows, last.failures) == (4, 4, 9, 1)


async def test_an_error_of_on_progress_ends_the_pull(client: SeoRepClient, tmp_path: Path) -> None:
    def fail(progress: PullProgress) -> None:
        if progress.total == 4:
            raise LookupError

    with pytest.raises(LookupError):
        await pull(client, tmp_path / "x.csv", on_progress=fail)
    assert not (tmp_path / "x.csv").exists()


async def test_groups_filter_and_exclude_choose_campaigns(client: SeoRepClient, tmp_path: Path) -> None:
    titles = {one.id: one.group_title for one in await client.campaigns.list()}
    title = next(one for one in titles.values() if one)
    summary = await pull(client, tmp_path / "x.csv", groups=[f" {title.upper()} "], exclude=[3])
    assert [one.campaign_id for one in summary.outcomes] == [
        id_ for id_, one in titles.items() if one == title and id_ != 3
    ]
    with pytest.raises(ConfigurationError, match="there is no group 'nowhere'"):
        await pull(client, tmp_path / "y.csv", groups=["Nowhere"])
    assert not folder_of(tmp_path / "y.csv").exists()


@pytest.mark.parametrize(
    ("options", "selection"),
    [({}, ""), ({"ids": [3, 1]}, '{"ids": [1, 3]}'), ({"exclude": [4, 2]}, '{"exclude": [2, 4]}')],
)
async def test_the_table_of_pulls_says_what_was_chosen(
    client: SeoRepClient, tmp_path: Path, options: dict[str, Any], selection: str
) -> None:
    await pull(client, tmp_path / "x.csv", **options)
    (row,) = csv.DictReader((tmp_path / "x.pulls.csv").read_text().splitlines())
    assert (row["selection"], "key_digest" in row) == (selection, False)


async def test_excel_gets_a_byte_order_mark_and_no_formulas(tmp_path: Path) -> None:
    phrases = ["=1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1+1", "＝1+1", "＋1", "－1", "＠SUM(A1)", " =1+1", "\u00a0=1"]
    plain = ["shoes", "1+1", "", "ａ"]

    def answer(asked: Asked) -> object:
        if asked.path == "/v3/campaigns":
            found: list[dict[str, Any]] = [{"id": 1, "account_id": 1, "url": "u", "company": "-c"}]
            return {"metadata": {"total_pages": 1, "total_records": 1}, "data": found}
        rows = [{"keywordId": id_, "keywordPhrase": one} for id_, one in enumerate([*phrases, *plain], 1)]
        return {"metadata": {"total_pages": 1, "total_records": len(rows)}, "data": {"rows": rows, "totals": False}}

    async with serving(answer) as (client, _):
        await pull(client, tmp_path / "x.csv", excel=True)
    assert (tmp_path / "x.csv").read_bytes().startswith(b"\xef\xbb\xbfaccount,")
    text = io.StringIO((tmp_path / "x.csv").read_bytes().decode("utf-8-sig"), newline="")
    written = [line["keyword_phrase"] for line in csv.DictReader(text)]
    assert written == [*(f"'{one}" for one in phrases), *plain]


async def test_json_lines_hold_null_where_nothing_unknown_came(client: SeoRepClient, tmp_path: Path) -> None:
    await pull(client, tmp_path / "x.jsonl")
    assert '"extra":null' in (tmp_path / "x.jsonl").read_text()
    assert "{}" not in (tmp_path / "x.jsonl").read_text()


async def test_a_target_keeps_its_permissions_and_a_link_its_file(client: SeoRepClient, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real = tmp_path / "real" / "x.csv"
    real.write_bytes(b"")
    real.chmod(0o640)
    (tmp_path / "link.csv").symlink_to(real)
    summary = await pull(client, tmp_path / "link.csv")
    assert summary.paths[0] == tmp_path / "link.csv"
    assert real.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "link.csv").is_symlink()


async def test_a_relative_path_stays_relative(
    client: SeoRepClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert (await pull(client, "x.csv")).paths[:2] == (Path("x.csv"), Path("x.campaigns.csv"))


async def test_a_refused_key_leaves_nothing_and_raises_once(sandbox: Sandbox, tmp_path: Path) -> None:
    async with SeoRepClient(sandbox.base_url, "wrong") as client:
        for ids in (None, [1, 2]):
            with pytest.raises(AuthenticationError) as caught:
                await pull(client, tmp_path / "x.csv", ids)
            assert caught.value.subject is None
    assert not (tmp_path / "x.csv").exists()


async def test_a_summary_shows_itself(client: SeoRepClient, tmp_path: Path) -> None:
    summary = await pull(client, tmp_path / "x.csv")
    (failure,) = summary.failures
    assert (failure.error, failure.status, failure.campaign_id) == ("NotFoundError", 404, 2)
    assert "4 campaigns, 9 rows, 1 reports failed" in repr(summary)
    assert "NotFoundError" in summary._repr_html_()


async def test_nothing_that_was_cancelled_is_left_running(client: SeoRepClient, tmp_path: Path) -> None:
    def stop(progress: PullProgress) -> None:
        if progress.stage is Stage.WRITING:
            task.cancel()

    task = asyncio.create_task(pull(client, tmp_path / "x.duckdb", on_progress=stop))
    with pytest.raises(asyncio.CancelledError):
        await task
    staged = staged_in(tmp_path / "x.duckdb", "acme")
    assert staged is not None
    assert staged.stored["keyword_rankings"] == {1, 3, 4}
    assert (await pull(client, tmp_path / "x.duckdb")).resumed == 3


@pytest.mark.parametrize("format_", ["csv", "jsonl"])
@pytest.mark.parametrize("feed", Feed)
async def test_a_stream_is_the_file_of_its_feed(client: SeoRepClient, tmp_path: Path, format_: str, feed: Feed) -> None:
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        written.append(data)

    labels: Any = {"account": "acme", "snapshot_date": NIGHT, "feeds": feed}
    summary = await stream(client, None, START, END, write=write, format=format_, **labels)  # type: ignore[arg-type]
    in_file = await pull(client, tmp_path / f"x.{format_}", feeds=feed)
    assert b"".join(written) == (tmp_path / f"x.{format_}").read_bytes()
    assert (summary.rows, summary.failures) == (in_file.rows, in_file.failures)


async def test_a_preview_estimates_and_looks_into_the_staging(client: SeoRepClient, tmp_path: Path) -> None:
    labels: Any = {"account": "acme", "snapshot_date": NIGHT, "out": tmp_path / "x.csv", "feeds": Feed}
    found = await preview(client, None, START, END, **labels)
    assert (found.campaigns, found.requests, found.sampled, found.staged) == (4, 1 + 4 + 4 + 12, 1, None)
    with pytest.raises(PullPausedError):
        await pull(client, tmp_path / "x.csv", feeds=Feed, max_requests=6)
    found = await preview(client, None, START, END, **labels)
    assert found.resumes
    assert found.staged is not None
    assert (found.staged.reports, found.staged.ended) == (4, False)
    assert not (tmp_path / "x.csv").exists()


@pytest.fixture(autouse=True)
def no_long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "WAIT_SECONDS", 0.3)


async def test_parquet_has_descriptions_and_small_row_groups(client: SeoRepClient, tmp_path: Path) -> None:
    await pull(client, tmp_path / "x.parquet")
    schema = pq.read_schema(tmp_path / "x.parquet")
    assert b"account" in schema.field("account").metadata[b"description"]


async def test_a_keyword_of_two_campaigns_is_fetched_once(tmp_path: Path) -> None:
    asked_for: list[str] = []

    def answer(asked: Asked) -> object:
        asked_for.append(f"{asked.path}?{asked.query}")
        if asked.path == "/v3/campaigns":
            rows: list[dict[str, Any]] = [{"id": one, "account_id": 1, "url": "u", "company": "c"} for one in (1, 2)]
            return {"metadata": {"total_pages": 1, "total_records": 2}, "data": rows}
        by_date = "keyword_id" in asked.query
        rows = [{"date": "2023-02"}] if by_date else [{"keywordId": 7, "keywordPhrase": "shoes"}]
        return {"metadata": {"total_pages": 1, "total_records": 1}, "data": {"rows": rows, "totals": False}}

    async with serving(answer) as (client, _):
        await pull(client, tmp_path / "x.csv", feeds=Feed.KEYWORD_BY_DATE)
    rows = [*csv.DictReader((tmp_path / "x.csv").read_text().splitlines())]
    assert [(one["campaign_id"], one["keyword_id"]) for one in rows] == [("1", "7"), ("2", "7")]
    assert sum("keyword_id" in one for one in asked_for) == 1


def test_a_new_database_can_be_opened_by_the_lowest_duckdb(tmp_path: Path) -> None:
    async def run() -> None:
        async with Sandbox(campaigns=1, keywords=1) as sandbox, SeoRepClient(sandbox.base_url, "sandbox") as client:
            await pull(client, tmp_path / "x.duckdb")

    asyncio.run(run())
    with duckdb.connect(str(tmp_path / "x.duckdb"), read_only=True) as database:
        query = "SELECT tags->>'storage_version' FROM duckdb_databases() WHERE database_name = 'x'"
        ((found,),) = database.execute(query.replace("tags->>'storage_version'", "tags::VARCHAR")).fetchall()
    assert "v1.0.0" in found
