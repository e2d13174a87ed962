"""`pull_to`: its arguments and refusals, resumes and retries, progress, streams and previews."""
# ruff: noqa: ASYNC240

import asyncio
import csv
import inspect
import os
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest

from seorep_async import (
    ConfigurationError,
    ExportError,
    Feed,
    SeoRepClient,
    Settings,
)
from seorep_async.export import (
    PullProgress,
    Stage,
    pieces,
    preview,
    pull_to,
    stream,
)
from seorep_async.export.pieces import BlockFile, opened_in
from seorep_async.export.request import ARGUMENTS_OF_PULL_TO, ExportOptions, ExportRequest
from seorep_async.history.source import pulled_windows
from seorep_async.sandbox import Sandbox
from tests.export.accounts import Account, page, served
from tests.export.golden_nights import (
    END,
    FORMATS,
    NIGHT,
    START,
    program,
    pull,
    read,
    refused_unsent,
)
from tests.export.staged import folder_of, staged_in
from tests.scripted_api import ApiRequest, serving


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(campaigns=4, keywords=3, failing={2: 404}) as running:
        yield running


@pytest.fixture
async def client(sandbox: Sandbox) -> AsyncIterator[SeoRepClient]:
    async with SeoRepClient(
        sandbox.base_url, sandbox.api_key, settings=Settings(max_concurrency=1)
    ) as opened:
        yield opened


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "x.csv"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "x.csv",
            b"a,b\n1,2\n",
            "no pull wrote it; name another file, or replace it with force=True",
        ),
        ("x.pulls.csv", b"mine\n", "x.pulls.csv exists, and no pull wrote it"),
        ("x.totals.csv", "nowhere/x", "x.totals.csv is a link to nothing; remove it"),
        (".x.csv.pull", 0o755, "another user, or others can open it; remove it.* If its file"),
        (".x.csv.pull", ".", "is a link or a file; remove it"),
        (".x.csv.pull", b"mine\n", "is a link or a file; remove it"),
        (".x.csv.pull", "nowhere/x", "is a link or a file; remove it"),
        (".x.csv.pull/pieces", b"no pieces" * 99, "or from another version .*restart=True"),
    ],
)
async def test_a_place_that_is_not_ours_is_one_clear_error(
    client: SeoRepClient,
    tmp_path: Path,
    out: Path,
    name: str,
    content: bytes | str | int,
    words: str,
) -> None:
    place = tmp_path / name
    place.parent.mkdir(0o700, exist_ok=True)
    if isinstance(content, bytes):
        place.write_bytes(content)
    elif isinstance(content, str):
        place.symlink_to(tmp_path / content)
    else:
        place.mkdir()
        place.chmod(content)
    await refused_unsent(client, out, words, (ConfigurationError, ExportError))
    if "restart=True" in words:
        assert (await pull(client, out, restart=True)).rows == 9
    elif "force=True" in words:
        assert (await pull(client, out, force=True)).rows == 9


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (
            "fcntl.flock",
            OSError(37, "No locks available"),
            "refuses locks; write to a local disk, and move the file",
        ),
        (
            "os.fsync",
            OSError(28, "No space left on device"),
            "device; free some space, and run this again: staged",
        ),
    ],
    ids=["no locks", "full disk"],
)
async def test_the_error_of_a_system_that_refuses_says_what_to_do(
    client: SeoRepClient,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    error: OSError,
    words: str,
) -> None:
    monkeypatch.setattr(function, Mock(side_effect=error))
    with pytest.raises(ExportError, match=words):
        await pull(client, out)
    assert (client.stats.attempts == 0) is (function == "fcntl.flock")


async def test_one_pull_at_a_time_writes_a_target(client: SeoRepClient, out: Path) -> None:
    first = opened_in(folder_of(out))
    for options in ({}, {"restart": True}):
        words = r"another pull into this target is running .* last wrote to it at 20\d\d-.* UTC\);"
        with pytest.raises(ExportError, match=words) as caught:
            await pull(client, out, **options)
        assert caught.value.retryable
    first.close()
    assert (await pull(client, out)).rows == 9


def test_a_folder_that_another_pull_removes_is_made_again(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "BlockFile", Mock(side_effect=[FileNotFoundError, "file"]))
    opened_in(out)


async def test_a_fork_during_a_pull_locks_no_later_pull(client: SeoRepClient, out: Path) -> None:
    inherited: list[int] = []

    def fork(_: PullProgress) -> None:
        # a copy of a descriptor keeps a lock in the same way as a forked process
        for descriptor in os.listdir("/proc/self/fd"):
            path = os.path.realpath(f"/proc/self/fd/{descriptor}")
            if path.endswith(".x.csv.pull/pieces") and not inherited:
                inherited.append(os.dup(int(descriptor)))

    assert (await pull(client, out, on_progress=fork)).failures
    assert (await pull(client, out, retry_failed=True)).failures
    os.close(inherited[0])


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("format_", "limit"),
    [
        ("csv", 100),
        ("duckdb", 100),
        ("jsonl", 3_000),
        ("xlsx", 3_000),
        ("duckdb", 40_000),
        ("parquet", 40_000),
    ],
)
async def test_a_full_disk_loses_nothing(
    sandbox: Sandbox, tmp_path: Path, format_: str, limit: int
) -> None:
    out = tmp_path / f"x.{format_}"
    process = await asyncio.create_subprocess_exec(
        *program(sandbox.base_url, out, limit), stderr=subprocess.PIPE
    )
    _, said = await process.communicate()
    async with SeoRepClient(sandbox.base_url, sandbox.api_key) as client:
        if process.returncode:
            assert re.search(
                r"ExportError: can't (read or )?write .*(File too large|disk|resize|write)",
                said.decode(),
            )
            assert not out.exists()
        assert (await pull(client, out)).rows == 9


async def test_a_night_replaces_files_with_long_values(tmp_path: Path) -> None:
    row = {"keywordId": 1, "keywordPhrase": "shoes", "unknown": "a" * 2_000_000}
    async with served(Account(rows=lambda _: [row])) as (client, _):
        for name in ("x.csv", "x.jsonl"):
            await pull(client, tmp_path / name)
            assert (await pull(client, tmp_path / name)).ok


async def test_a_keyword_in_several_campaigns_fails_for_each(tmp_path: Path) -> None:
    def rows(request: ApiRequest) -> list[dict[str, Any]]:
        return [{"keywordId": id_, "keywordPhrase": "shoes"} for id_ in (9, 7)]

    out = tmp_path / "x.csv"
    account = Account(rows=rows, hidden={7: 404, 9: 404})
    async with served(account) as (client, _):
        summary = await pull(client, out, feeds=Feed.KEYWORD_BY_DATE)
        failed = [(failure.campaign_id, failure.keyword_id) for failure in summary.failures]
        assert failed == [(1, 7), (1, 9), (2, 7), (2, 9)]
        account.hidden = {}
        account.rows = account.one_row
        # a report that succeeds is no failure any more
        assert (await pull(client, out, feeds=Feed.KEYWORD_BY_DATE, retry_failed=True)).ok


async def test_a_report_is_stored_while_another_is_awaited(out: Path) -> None:
    account = Account(campaigns=3)
    is_stored = asyncio.Event()

    async def answer(request: ApiRequest) -> object:
        if "rankings" in request.path and request.id == 3:
            await is_stored.wait()
        return account.answer(request)

    def note(progress: PullProgress) -> None:
        if progress.stage is Stage.ROWS and progress.done == 2:
            is_stored.set()

    async with serving(answer) as (client, _):
        async with asyncio.timeout(60):
            assert (await pull(client, out, on_progress=note)).ok


async def test_an_error_of_on_progress_ends_the_pull(client: SeoRepClient, out: Path) -> None:
    def fail(progress: PullProgress) -> None:
        if progress.total == 4:
            raise LookupError

    with pytest.raises(LookupError):
        await pull(client, out, on_progress=fail)
    assert not out.exists()


async def test_the_signature_names_each_argument_and_its_default(
    client: SeoRepClient, out: Path
) -> None:
    arguments = inspect.getfullargspec(pull_to)
    assert arguments.kwonlyargs == [*ARGUMENTS_OF_PULL_TO, *ExportOptions.__annotations__]
    # tools such as Prefect pass the defaults that they read
    await pull(client, out, **(arguments.kwonlydefaults or {}))
    for function in (preview, stream):
        assert inspect.signature(function).parameters.keys() >= ExportOptions.__annotations__.keys()


def test_the_names_in_staging_files_stay() -> None:
    names = ExportRequest.__struct_encode_fields__
    assert {"names_account", "names_snapshot_date"} < {*names}


async def test_groups_and_exclude_may_be_iterators(client: SeoRepClient, out: Path) -> None:
    summary = await pull(client, out, groups=iter(["Retail"]), exclude=iter([3]))
    assert [outcome.campaign_id for outcome in summary.outcomes] == [2, 4]


async def test_a_group_of_an_account_without_groups_is_refused(out: Path) -> None:
    async with served(Account()) as (client, _):
        with pytest.raises(ConfigurationError) as caught:
            await pull(client, out, groups=["Retail"])
    problem = "there is no group 'Retail': none of the campaigns found has a group"
    assert caught.value.message == problem


async def test_a_target_keeps_its_permissions_and_a_link_its_file(
    client: SeoRepClient, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    real = tmp_path / "real" / "x.csv"
    real.write_bytes(b"")
    real.chmod(0o640)
    (tmp_path / "link.csv").symlink_to(real)
    summary = await pull(client, tmp_path / "link.csv")
    assert summary.paths[0] == tmp_path / "link.csv"
    assert real.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real" / "x.pulls.csv").stat().st_mode & 0o777 == 0o640
    (tmp_path / "x.duckdb").touch(0o600)
    await pull(client, tmp_path / "x.duckdb")
    assert (tmp_path / "x.duckdb").stat().st_mode & 0o777 == 0o600


async def test_a_summary_shows_itself(client: SeoRepClient, out: Path) -> None:
    summary = await pull(client, out)
    (failure,) = summary.failures
    assert (failure.error, failure.status, failure.campaign_id) == ("NotFoundError", 404, 2)
    words = "4 campaigns, 9 rows, 1 report failed (NotFoundError; see failures; "
    assert f"{words}retrying will not help)" in repr(summary)


async def test_nothing_that_was_cancelled_is_left_running(
    client: SeoRepClient, tmp_path: Path
) -> None:
    def stop(progress: PullProgress) -> None:
        if progress.stage is Stage.WRITING:
            task.cancel()

    task = asyncio.create_task(pull(client, tmp_path / "x.duckdb", on_progress=stop))
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert caught.value.__notes__ == [
        "any reports that arrived are kept: the same call of pull_to resumes"
    ]
    staged = staged_in(tmp_path / "x.duckdb", "acme")
    assert staged is not None
    assert staged.stored["keyword_rankings"] == {1, 3, 4}
    assert (await pull(client, tmp_path / "x.duckdb")).resumed == 3


async def test_a_cancel_after_the_writing_loses_no_summary(
    client: SeoRepClient, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = BlockFile.close
    loop = asyncio.get_running_loop()

    def cancelled_close(file: BlockFile) -> None:
        loop.call_soon_threadsafe(task.cancel)
        close(file)

    monkeypatch.setattr(BlockFile, "close", cancelled_close)
    task = asyncio.create_task(pull(client, out))
    assert out in (await task).paths


@pytest.mark.parametrize("format_", ["csv", "jsonl"])
@pytest.mark.parametrize("feed", Feed)
async def test_a_stream_is_the_file_of_its_feed(
    client: SeoRepClient, tmp_path: Path, format_: str, feed: Feed
) -> None:
    written: list[bytes] = []

    async def write(data: bytes) -> None:
        written.append(data)

    labels: Any = {"account": "acme", "snapshot_date": NIGHT, "feeds": feed}
    options: Any = {"write": write, "format": format_, **labels}
    summary = await stream(client, None, START, END, **options)
    in_file = await pull(client, tmp_path / f"x.{format_}", feeds=feed)
    assert b"".join(written) == (tmp_path / f"x.{format_}").read_bytes()
    assert (summary.rows, summary.failures) == (in_file.rows, in_file.failures)


async def test_a_stream_counts_a_shared_keyword_for_each_campaign(tmp_path: Path) -> None:
    rows: list[int] = []

    def note(progress: PullProgress) -> None:
        rows.append(progress.rows)

    async def write(data: bytes) -> None:
        pass

    def shared_keyword(_: ApiRequest) -> list[dict[str, Any]]:
        return [{"keywordId": 7, "keywordPhrase": "shoes", "date": "2023-03"}]

    async with served(Account(rows=shared_keyword)) as (client, _):
        options: Any = {"feeds": Feed.KEYWORD_BY_DATE, "on_progress": note}
        in_file = await pull(client, tmp_path / "x.csv", **options)
        assert rows[-1] == in_file.rows == 2
        summary = await stream(client, None, START, END, write=write, **options)
        assert rows[-1] == summary.rows == 2


async def test_parquet_describes_its_columns(client: SeoRepClient, tmp_path: Path) -> None:
    await pull(client, tmp_path / "x.parquet")
    schema = pq.read_schema(tmp_path / "x.parquet")
    assert b"account" in schema.field("account").metadata[b"description"]
    # fastparquet needs the type of each date
    assert "snapshot_date" in str(schema.pandas_metadata)


async def test_a_keyword_of_two_campaigns_is_fetched_once(out: Path) -> None:
    def rows(request: ApiRequest) -> list[dict[str, Any]]:
        if "keyword_id" in request.query:
            return [{"date": "2023-02"}]
        return [{"keywordId": 7, "keywordPhrase": "shoes"}]

    async with served(Account(rows=rows)) as (client, service):
        await pull(client, out, feeds=Feed.KEYWORD_BY_DATE)
    lines = csv.DictReader(out.read_text().splitlines())
    ids = [(line["campaign_id"], line["keyword_id"]) for line in lines]
    assert ids == [("1", "7"), ("2", "7")]
    assert sum("keyword_id" in request.query for request in service.requests) == 1


async def test_40_reports_need_at_most_30_further_requests(out: Path) -> None:
    async with (
        Sandbox(campaigns=40, keywords=60) as sandbox,
        SeoRepClient(sandbox.base_url, sandbox.api_key) as client,
    ):
        summary = await pull(client, out)
        assert client.stats.attempts <= 40 + 30
    assert summary.rows == 40 * 60


@pytest.mark.parametrize("format_", FORMATS)
async def test_a_number_that_does_not_fit_fails_its_report_alone(
    tmp_path: Path, format_: str
) -> None:
    """Campaign 3 has it in a row, campaign 4 in its totals, and another one in its id."""
    out = tmp_path / f"x.{format_}"
    account = Account()
    campaigns = [account.campaign(id_) for id_ in (1, 2**63, 3, 4)]

    def answer(request: ApiRequest) -> object:
        if request.path == "/v3/campaigns":
            return page(campaigns, campaigns)
        report: Any = account.answer(request)
        if request.id == 3:
            report["data"]["rows"][0]["competitors"] = 2**70
        total = 10**400 if request.id == 4 else 1
        report["data"]["totals"] = {"engineARanking": {"value": total}}
        return report

    async with serving(answer) as (client, _):
        summary = await pull(client, out)
    messages = {failure.campaign_id: failure.message for failure in summary.failures}
    tables = read(out)
    _, totals = tables["totals"]
    assert len(totals) == summary.rows == 4 - len(messages)
    columns, failures = tables["failures"]
    assert str(2**63) in str([row[columns.index("message")] for row in failures])
    assert messages.keys() <= {2**63, 3, 4}
    if format_ in ("parquet", "duckdb"):
        said = f"a value can't be written to .{format_}: "
        assert f"{said}competitors: " in messages[3]
        assert f"{said}engine_a_ranking: " in messages[4]
    if format_ == "duckdb":
        (window,) = pulled_windows(out, "acme", None, compared=False).values()
        assert (window.failed_reports, window.failed_ids) == (3, [3, 4])
