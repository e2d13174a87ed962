"""A pull in shards: cut, run anywhere and at any time, gathered once."""

import asyncio
import contextlib
import datetime as dt
import json
import multiprocessing
import os
import pickle
import signal
import sqlite3
import threading
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

from seorep_async import Feed, SeoRepClient, Settings
from seorep_async.cli.application import run as command
from seorep_async.errors import AuthenticationError, ConfigurationError, ExportError
from seorep_async.export import PullSummary, pull_to
from seorep_async.sandbox import Sandbox
from seorep_async.sandbox.service import Service
from seorep_async.shards import Shard, ShardReceipt, gather, plan, read_shard, run_shard, running
from tests.cli.running import serving
from tests.export.door import spec, write_parts
from tests.export.made_service import Made
from tests.export.reports import END, NIGHT, START, Fail, account, contents, names, parts, rows
from tests.export.s3 import Bucket
from tests.integrations.service import assert_same, tables_in
from tests.scripted_api import quick_client
from tests.scripted_api import serving as scripted
from tests.session.canary import Canary
from tests.shards.made_shard import SHARD

pytestmark = pytest.mark.heavy

SECRET = "canary-7f3a9c51e8b24d06"
ALL: dict[str, Any] = {"feeds": list(Feed), "account": "acme", "snapshot_date": NIGHT}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEOREP_API_KEY", "sandbox")


def run_all(shards: Sequence[Shard]) -> list[ShardReceipt]:
    return [run_shard(shard) for shard in shards]


async def run_and_gather(shards: Sequence[Shard]) -> PullSummary:
    """Run shards as an engine does, outside of the loop that serves the sandbox."""
    await asyncio.to_thread(run_all, shards)
    return await asyncio.to_thread(gather, shards)


async def cut(client: SeoRepClient, folder: Path, ids: list[int] | None = None, **changes: Any) -> list[Shard]:
    options: dict[str, Any] = {"out": f"{folder}/shared/", "shards": 3, "work_dir": folder / "work"}
    return await plan(client, ids, START, END, **options | ALL | changes)


@pytest.mark.parametrize("where", ["in this process", "in a pool of spawned ones"])
async def test_shards_give_the_same_rows_as_one_process(tmp_path: Path, where: str) -> None:
    options: dict[str, Any] = {"campaigns": 11, "keywords": 4, "shape": "mixed", "rows": "mixed", "seed": 3}
    async with account(**options, failing={2: 404}, forbidden=[5], faults="resets=2%,500s=2%,cut=1%") as (_, client):
        one = await pull_to(client, None, START, END, out=f"{tmp_path}/one/", **ALL)
        shards = await cut(client, tmp_path, shards=5, workers=2)
        if where != "in this process":
            with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
                loop = asyncio.get_running_loop()
                await asyncio.gather(*(loop.run_in_executor(pool, run_shard, shard) for shard in shards))
        summary = await run_and_gather(shards)
    assert_same(tables_in(tmp_path / "one"), tables_in(tmp_path / "shared"))
    assert {failure.campaign_id for failure in summary.failures} == {2, 5}
    assert [type(failure.error) for failure in summary.failures] == [type(failure.error) for failure in one.failures]
    assert (summary.rows, summary.campaigns, summary.ok) == (one.rows, 11, False)
    assert [outcome.campaign_id for outcome in summary.outcomes] == list(range(1, 12))


async def test_nothing_is_seen_before_it_is_gathered(tmp_path: Path) -> None:
    async with account(campaigns=3, keywords=2) as (_, client):
        shards = await cut(client, tmp_path)
        await asyncio.to_thread(run_all, shards)
        assert {name.split("/")[0] for name in parts(tmp_path / "shared")} == {"_receipts", "_staging"}


async def test_a_second_run_of_everything_sends_nothing(tmp_path: Path) -> None:
    async with account(campaigns=4, keywords=2) as (sandbox, client):
        shards = await cut(client, tmp_path)
        first = await asyncio.to_thread(run_all, shards)
        requests = sandbox.stats.requests
        assert await asyncio.to_thread(run_all, shards) == first
        summary = await asyncio.to_thread(gather, shards)
        before = {name: (tmp_path / "shared" / name).stat().st_ino for name in parts(tmp_path / "shared")}
        assert await asyncio.to_thread(run_all, shards) == first
        assert await asyncio.to_thread(gather, shards) == summary
        assert {name: (tmp_path / "shared" / name).stat().st_ino for name in parts(tmp_path / "shared")} == before
        assert sandbox.stats.requests == requests


async def test_a_shard_with_failures_runs_again_for_those_only(tmp_path: Path, fail: Fail) -> None:
    async with account(campaigns=6, keywords=2) as (sandbox, client):
        shards = await cut(client, tmp_path, feeds=[Feed.CAMPAIGN])
        fail(2)
        summary = await run_and_gather(shards)
        assert [failure.campaign_id for failure in summary.failures] == [2]
        before = sandbox.stats.requests
        fail()
        again = await run_and_gather(await cut(client, tmp_path, feeds=[Feed.CAMPAIGN], retry_failed=True))
        assert sandbox.stats.requests == before + 1
        assert (again.ok, again.rows) == (True, 12)
        assert await cut(client, tmp_path, out=tmp_path / "shared", retry_failed=True, feeds="campaign") != shards
    assert len(rows(tmp_path / "shared", "keyword_rankings")) == 12
    assert rows(tmp_path / "shared", "failures") == []


async def test_a_later_night_keeps_what_failed_of_the_same_night(tmp_path: Path, fail: Fail) -> None:
    async with account(campaigns=4, keywords=2) as (_, client):
        await pull_to(client, None, START, END, out=f"{tmp_path}/shared/", **ALL)
        before = rows(tmp_path / "shared", "keyword_rankings")
        fail(2, 3)
        await run_and_gather(await cut(client, tmp_path, shards=2))
        assert rows(tmp_path / "shared", "keyword_rankings") == before
        await run_and_gather(await cut(client, tmp_path, shards=4))
        assert rows(tmp_path / "shared", "keyword_rankings") == before


async def test_the_same_plan_is_resumed_until_it_is_gathered(tmp_path: Path) -> None:
    async with account(campaigns=4, keywords=2) as (sandbox, client):
        shards = await cut(client, tmp_path, snapshot_date=None)
        requests = sandbox.stats.requests
        assert await cut(client, tmp_path, snapshot_date=None) == shards
        assert sandbox.stats.requests == requests
        assert {shard.pull for shard in await cut(client, tmp_path, shards=2)} != {shards[0].pull}
        await run_and_gather(shards)
        assert {one.pull for one in await cut(client, tmp_path, restart=True)} != {shards[0].pull}


async def test_a_restarted_plan_leaves_nothing_of_the_older_one(tmp_path: Path) -> None:
    async with account(campaigns=4, keywords=2) as (_, client):
        older = await cut(client, tmp_path, snapshot_date=None)
        await asyncio.to_thread(run_shard, older[0])
        other = await cut(client, tmp_path, shards=2)
        newer = await cut(client, tmp_path, snapshot_date=None, restart=True)
        left = "\n".join(str(path) for path in (tmp_path / "shared").rglob("*") if path.is_file())
        assert [shards[0].pull in left for shards in (older, other, newer)] == [False, True, True]
        with pytest.raises(ExportError, match="3 of 3 shards have no receipt"):
            await asyncio.to_thread(gather, older)
        assert (await run_and_gather(newer)).rows == 4 * 2 + 4 * 2 * 3 + 4 * 3


async def test_a_restart_that_can_not_plan_deletes_nothing(tmp_path: Path) -> None:
    async with account(campaigns=2, keywords=1) as (sandbox, client):
        shards = await cut(client, tmp_path)
        await asyncio.to_thread(run_shard, shards[0])
        async with SeoRepClient(sandbox.base_url, "wrong") as stranger:
            with pytest.raises(AuthenticationError):
                await cut(stranger, tmp_path, restart=True)
        assert (await run_and_gather(shards)).ok


async def test_a_night_on_which_all_failed_is_recorded(tmp_path: Path, fail: Fail) -> None:
    async with account(campaigns=2, keywords=2) as (_, client):
        fail(1, 2)
        summary = await run_and_gather(await cut(client, tmp_path, shards=2))
        assert (summary.ok, summary.paths) == (False, ())
        assert len(rows(tmp_path / "shared", "failures")) == 2 * 3
        assert len(rows(tmp_path / "shared", "pulls")) == 1


async def test_a_limit_is_found_once_and_not_by_each_shard(tmp_path: Path) -> None:
    async with account(campaigns=24, keywords=5, rate_limit=60) as (sandbox, client):
        shards = await cut(client, tmp_path, shards=12, feeds=["keyword-by-date"])
        for shard in shards:
            await asyncio.to_thread(run_shard, shard)
        assert sandbox.stats.per_status.get(429, 0) <= 0.1 * sandbox.stats.requests


async def test_shards_of_two_pulls_are_not_gathered(tmp_path: Path) -> None:
    async with account(campaigns=2, keywords=1) as (_, client):
        one, other = await cut(client, tmp_path), await cut(client, tmp_path, feeds="campaign")
    with pytest.raises(ConfigurationError, match="these are of several"):
        gather([one[0], other[1]])
    with pytest.raises(ConfigurationError, match="these are of several"):
        gather([one[0], attrs.evolve(one[1], account="another")])


async def test_no_campaign_gives_an_empty_night(tmp_path: Path) -> None:
    async with account(campaigns=2, keywords=1) as (_, client):
        shards = await cut(client, tmp_path, ids=[])
        summary = await run_and_gather(shards)
    assert (len(shards), summary.rows, summary.ok) == (1, 0, True)
    assert rows(tmp_path / "shared", "keyword_rankings") == []


async def test_campaigns_have_their_names(tmp_path: Path) -> None:
    async with account(campaigns=5, keywords=1) as (_, client):
        await run_and_gather(await cut(client, tmp_path, ids=[4, 2]))
    assert [id_ for (id_,) in rows(tmp_path / "shared", "campaigns", "campaign_id")] == [2, 4]


async def test_read_shard_gives_every_column_in_batches(tmp_path: Path) -> None:
    async with account(campaigns=3, keywords=2) as (sandbox, client):
        shards = await cut(client, tmp_path)

        def read(name: str | None) -> pa.Table:
            return pa.Table.from_batches([batch for shard in shards for batch in read_shard(shard, name)])

        before = await asyncio.to_thread(read, None)
        requests = sandbox.stats.requests
        periods = await asyncio.to_thread(read, "keyword_periods")
        await asyncio.to_thread(gather, shards)
        assert await asyncio.to_thread(read, None) == before
        assert sandbox.stats.requests == requests
    assert before.column_names[:3] == ["account", "snapshot_date", "campaign_id"]
    assert (before.num_rows, periods.num_rows) == (6, 18)
    with pytest.raises(ConfigurationError, match="there is no table campaigns"):
        read_shard(shards[0], "campaigns")


async def test_workers_divide_what_is_allowed(tmp_path: Path) -> None:
    async with Sandbox(campaigns=2, keywords=1) as sandbox:
        settings = Settings(max_concurrency=10, requests_per_second=100)
        async with SeoRepClient(sandbox.base_url, "sandbox", settings=settings) as client:
            shards = await cut(client, tmp_path, workers=4)
            assert {(one.settings.max_concurrency, one.settings.requests_per_second) for one in shards} == {(2, 25)}
            shards = await cut(client, tmp_path, workers=40)
            assert {one.settings.max_concurrency for one in shards} == {1}


async def test_shards_and_receipts_go_through_pickle_and_json(tmp_path: Path, fail: Fail) -> None:
    async with account(campaigns=3, keywords=1) as (_, client):
        fail(2)
        shards = await cut(client, tmp_path, sort_metric="x", extra_params={"a": 1})
        assert [pickle.loads(pickle.dumps(shard)) for shard in shards] == shards  # noqa: S301
        assert [Shard.from_json(shard.to_json()) for shard in shards] == shards
        receipts = await asyncio.to_thread(run_all, shards)
    for receipt in receipts:
        again = ShardReceipt.from_json(receipt.to_json())
        assert again.to_json() == receipt.to_json()
        assert (again.rows, again.ok) == (receipt.rows, receipt.ok)


def fail_with_the_key() -> str:
    raise RuntimeError(SECRET)


async def find_key_later() -> str:
    return SECRET


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (fail_with_the_key, r"finds no API key by key\(\), which raised RuntimeError$"),
        (lambda: None, r"finds no API key by key\(\), which returned no text$"),
        (lambda: "", "which returned no text$"),
        (lambda: SECRET.encode(), "which returned no text$"),
        (lambda: f"{SECRET}\n", "api_key holds a line break"),
        (lambda one: one, "which raised TypeError$"),
        (find_key_later, "key must be a function that returns the API key, and not an async one$"),
        (SECRET, "key must be a function that returns the API key"),
    ],
)
def test_a_function_without_a_key_is_an_error_in_words(key: Any, words: str) -> None:
    for step in (lambda: run_shard(SHARD, key=key), lambda: list(read_shard(SHARD, key=key))):
        with pytest.raises(ConfigurationError, match=words) as caught:
            step()
        frames = traceback.TracebackException.from_exception(caught.value, capture_locals=True).stack
        held = {
            name: value
            for frame in frames
            if "/seorep_async/" in frame.filename
            for name, value in (frame.locals or {}).items()
        }
        assert SECRET not in str({**held, "key": ""}) + str(caught.value)
        assert caught.value.__cause__ is caught.value.__context__ is None


async def test_gather_refuses_an_account_that_came_since_the_plan(tmp_path: Path) -> None:
    async with account(campaigns=2, keywords=1) as (_, one), account(campaigns=3, keywords=1) as (_, other):
        shards, others = await cut(one, tmp_path), await cut(other, tmp_path)
        await run_and_gather(shards)
        before = contents(tmp_path / "shared")
        await asyncio.to_thread(run_all, others)
        with pytest.raises(ConfigurationError, match="has rows under the account name acme of the service") as refused:
            await asyncio.to_thread(gather, others)
        assert contents(tmp_path / "shared").items() >= before.items()
        renewed = await cut(other, tmp_path, key_renewed=str(refused.value)[-7:-1])
        assert (await run_and_gather(renewed)).rows == 3 * (1 + 3 + 3)


async def test_another_account_key_is_refused_by_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with account(campaigns=2, keywords=1) as (sandbox, client):
        shards = await cut(client, tmp_path)
        requests = sandbox.stats.requests
        monkeypatch.setenv("SEOREP_API_KEY", "another")
        with pytest.raises(ConfigurationError, match="env:SEOREP_API_KEY does not hold the key of the plan's account"):
            await asyncio.to_thread(run_shard, shards[0])
        monkeypatch.delenv("SEOREP_API_KEY")
        with pytest.raises(ConfigurationError, match="finds no API key in env:SEOREP_API_KEY"):
            await asyncio.to_thread(run_shard, shards[0])
        with pytest.raises(ConfigurationError, match=r"^key\(\) does not hold the key of the plan's account"):
            await asyncio.to_thread(run_shard, shards[0], key=lambda: "another")
        assert sandbox.stats.requests == requests


async def test_a_function_gives_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEOREP_API_KEY")

    def find_key() -> str:
        asyncio.run(asyncio.sleep(0))  # as a client of a vault does
        return SECRET

    async with account(key=SECRET, campaigns=2, keywords=1) as (_, client):
        shards = await cut(client, tmp_path, shards=2)

        async def inside() -> ShardReceipt:
            return run_shard(shards[0], key=find_key)

        assert (await asyncio.to_thread(asyncio.run, inside())).ok
        rows = await asyncio.to_thread(lambda: list(read_shard(shards[1], key=find_key)))
        assert (rows[0].num_rows, (await asyncio.to_thread(gather, shards)).ok) == (1, True)


@attrs.frozen
class Planned:
    """A pull of two shards that is planned, and perhaps run, whatever tests do with forged ones."""

    sandbox: Sandbox
    folder: Path
    shards: list[Shard]

    def state(self) -> tuple[list[Path], int]:
        return sorted(self.folder.rglob("*")), self.sandbox.stats.requests


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planned]:
    async def plan_two() -> list[Shard]:
        async with SeoRepClient(sandbox.base_url, "sandbox") as client:
            return await cut(client, folder, shards=2)

    folder = tmp_path_factory.mktemp("planned")
    with serving(campaigns=4, keywords=1) as sandbox:
        yield Planned(sandbox, folder, asyncio.run(plan_two()))


def run_code() -> None:
    raise AssertionError("a shard ran code")


@pytest.mark.parametrize(
    "changes",
    [
        *({"key_from": f"{__name__}:run_code"}, {"key_from": "env:PATH"}, {"work_dir": "{}/elsewhere/work"}),
        *({"out": "{}/elsewhere/"}, {"out": "{}/shared/../elsewhere/"}),
        {"out": "s3://elsewhere/", "storage_options": {"endpoint": "http://127.0.0.1:9", "allow_http": "true"}},
        *({"storage_options": {"endpoint": "http://127.0.0.1:9"}}, {"base_url": "http://127.0.0.1:9"}),
        *({"settings": {"allow_insecure_http": True}}, {"account": "other"}, {"account": "a\0b"}, {"ids": [3, 4]}),
        *({"ids": []}, {"ids": [1]}, {"number": 1}, {"pull": "0123456789ab"}, {"snapshot_date": "2023-04-03"}),
        *({"started_at": "2023-04-02T00:00:00"}, {"end_date": "2023-03-30"}, {"feeds": ["campaign"]}),
        *({"options": {"search": "shoes"}}, {"key_digest": "0"}, {"key_renewed": "3f9a21"}, {"seal": ""}),
    ],
    ids=lambda changes: " ".join(f"{name}={value}" for name, value in changes.items())[:40].replace("\0", "NUL"),
)
def test_a_changed_shard_does_nothing_at_all(planned: Planned, changes: dict[str, Any]) -> None:
    before, found = planned.state(), json.loads(planned.shards[0].to_json())
    place = planned.folder
    changes = {name: value.format(place) if isinstance(value, str) else value for name, value in changes.items()}
    changed = found | changes | {"settings": found["settings"] | changes.get("settings", {})}
    assert changed != found
    for step in (run_shard, lambda shard: list(read_shard(shard))):
        with pytest.raises(ConfigurationError):
            step(Shard.from_json(json.dumps(changed)))
    assert planned.state() == before


@pytest.mark.parametrize(
    "changes",
    [
        {"ids": (1,)},
        {"ids": (2, 1)},
        {"start_date": dt.date(2023, 1, 2)},
        {"end_date": dt.date(2023, 3, 30)},
        {"feeds": (Feed.CAMPAIGN,)},
        {"key_digest": "0"},
    ],
    ids=str,
)
def test_a_receipt_is_taken_only_for_its_own_shard(planned: Planned, changes: dict[str, Any]) -> None:
    run_all(planned.shards)
    other = attrs.evolve(planned.shards[0], **changes)
    with pytest.raises(ExportError, match="1 of 2 shards have no receipt: 0; run them first"):
        gather([other, planned.shards[1]])
    assert not (planned.folder / "shared/keyword_rankings").exists()


async def test_another_key_does_not_resume_a_plan(tmp_path: Path) -> None:
    async with scripted(Made({1: [10]}).answer) as (client, _), quick_client(client.base_url, "another") as stranger:
        shards, others = await cut(client, tmp_path), await cut(stranger, tmp_path)
        assert {shard.pull for shard in others}.isdisjoint(shard.pull for shard in shards)
        assert (await cut(client, tmp_path), await cut(stranger, tmp_path)) == (shards, others)


@pytest.mark.parametrize("damage", ["rubbish", "rows", "another version"])
async def test_a_damaged_checkpoint_starts_over(
    tmp_path: Path, fail: Fail, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    async with account(campaigns=4, keywords=1) as (_, client):
        (shard,) = await cut(client, tmp_path, shards=1)
        fail(2)
        assert not (await asyncio.to_thread(run_shard, shard)).ok
        fail()
        (folder,) = (tmp_path / "work").iterdir()
        if damage == "rows":
            (folder / "checkpoint-rows").write_bytes(b"")
        elif damage == "rubbish":
            (folder / "checkpoint").write_bytes(b"rubbish" * 1000)
        else:
            (folder / "checkpoint").unlink()
            with contextlib.closing(sqlite3.connect(folder / "checkpoint")) as database:
                database.execute("CREATE TABLE notes (name TEXT)")
        assert (await asyncio.to_thread(run_shard, shard)).rows == 4 + 4 * 3 + 4 * 3
        assert names(tmp_path / "work") == []
    assert [record.message for record in caplog.records if "damaged" in record.message] == [
        f"the checkpoint of shard 0 in {tmp_path}/work was damaged; starting over"
    ] * (damage != "rows")


async def test_a_checkpoint_of_another_version_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise ExportError("the disk is full")

    async with account(campaigns=2, keywords=1) as (_, client):
        (shard,) = await cut(client, tmp_path, shards=1)
        with monkeypatch.context() as patched:
            patched.setattr(running, "write_parts", refuse)
            patched.setattr(spec, "VERSION", 0)
            with pytest.raises(ExportError, match="the disk is full"):
                await asyncio.to_thread(run_shard, shard)
        assert (await asyncio.to_thread(run_shard, shard)).requests == 2 + 2 + 2


async def test_a_message_names_ten_of_many_shards(tmp_path: Path) -> None:
    async with account(campaigns=1, keywords=1) as (_, client):
        (shard,) = await cut(client, tmp_path, shards=1)
    many = [attrs.evolve(shard, number=number, count=1_500) for number in range(1_500)]
    numbers = "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 1,490 more; run them first"
    with pytest.raises(ExportError, match=f"1500 of 1500 shards have no receipt: {numbers}"):
        gather(many)


@pytest.mark.parametrize("chosen", [[], [0, 1], [0, 1, 2, 2], [1, 2, 3]])
def test_gather_wants_every_shard_once(planned: Planned, chosen: list[int]) -> None:
    shards = [attrs.evolve(planned.shards[0], number=min(number, 2), count=3) for number in chosen]
    with pytest.raises(ConfigurationError, match="every shard of one pull, each once"):
        gather(shards)


async def test_one_mark_serves_calls_commands_and_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with account(campaigns=2, keywords=1) as (_, one), account(campaigns=3, keywords=1) as (other, second):
        await pull_to(one, None, START, END, out=f"{tmp_path}/shared/", **ALL)
        with pytest.raises(ConfigurationError) as refused:
            await pull_to(second, None, START, END, out=f"{tmp_path}/shared/", **ALL)
        mark = str(refused.value)[-7:-1]
        with pytest.raises(ConfigurationError, match=f'confirm it once with key_renewed="{mark}"'):
            await cut(second, tmp_path)
        monkeypatch.setenv("SEOREP_BASE_URL", other.base_url)
        days = ("--from", str(START), "--to", str(END), "--account", "acme", "--snapshot-date", str(NIGHT))
        words = ["-o", f"{tmp_path}/shared/", *days]
        for start in ("pull", "shards plan"):
            assert await asyncio.to_thread(command, [*start.split(), *words]) == 2
            assert f"confirm it once with --key-renewed {mark}\n" in capsys.readouterr().err
        wrong = [*words, "--key-renewed", "000000"]
        assert await asyncio.to_thread(command, ["pull", *wrong]) == 2
        assert f"--key-renewed {mark}; the mark that was given is of another key" in capsys.readouterr().err
        assert await asyncio.to_thread(command, ["pull", *words, "--key-renewed", mark, "--quiet"]) == 0
        assert (await run_and_gather(await cut(second, tmp_path, key_renewed=mark))).ok


async def test_the_key_is_in_nothing_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: Fail
) -> None:
    monkeypatch.setenv("SEOREP_API_KEY", SECRET)
    canary = Canary(SECRET)
    async with account(key=SECRET, campaigns=4, keywords=1) as (_, client):
        fail(2)
        shards = await cut(client, tmp_path, shards=2)
        receipts = await asyncio.to_thread(run_all, shards)
        written = contents(tmp_path)
        await asyncio.to_thread(gather, shards)
        written |= contents(tmp_path)
    assert any(name.endswith("/checkpoint") for name in written)
    for data in (*written.values(), pickle.dumps(shards), pickle.dumps(receipts)):
        canary.assert_not_in(data.decode("latin-1"))
    canary.assert_not_in(
        f"{shards!r} {receipts!r} {[one.to_json() for one in shards]} {[one.to_json() for one in receipts]}"
    )


@pytest.mark.parametrize("how", ["plain", "in a loop", "command"])
def test_an_interrupt_ends_a_shard_and_keeps_what_arrived(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def planned() -> list[Shard]:
        async with SeoRepClient(sandbox.base_url, "sandbox", settings=Settings(max_concurrency=1)) as client:
            return await cut(client, tmp_path, shards=1, feeds="campaign")

    def run() -> object:
        if how == "command":
            return command(["shards", "run", str(tmp_path / "shards.jsonl")])
        # a notebook's loop leaves Ctrl-C to Python
        return run_shard(shard) if how == "plain" else loop.run_until_complete(inside())

    async def inside() -> ShardReceipt:
        return run_shard(shard)

    def interrupt(service: Service, id_: int) -> Any:
        if interrupted:
            ended.wait(60)
        elif id_ == 20:
            interrupted.append(id_)
            os.kill(os.getpid(), signal.SIGINT)
        return campaign(service, id_)

    campaign, interrupted, ended = Service.campaign, list[int](), threading.Event()
    loop = asyncio.new_event_loop()
    with contextlib.closing(loop), serving(campaigns=40, keywords=1) as sandbox:
        (shard,) = asyncio.run(planned())
        (tmp_path / "shards.jsonl").write_text(shard.to_json())
        monkeypatch.setattr(Service, "campaign", interrupt)
        if how == "command":
            assert run() == 130
        else:
            with pytest.raises(KeyboardInterrupt):
                run()
        ended.set()
        assert sandbox.stats.requests < 40
        receipt = run_shard(shard)
    assert receipt.ok
    assert receipt.requests < 30


async def test_a_shard_begun_twice_is_fetched_once(tmp_path: Path) -> None:
    async with account(campaigns=6, keywords=2, latency=0.02) as (sandbox, client):
        (shard,) = await cut(client, tmp_path, shards=1)
        requests = sandbox.stats.requests
        twice = await asyncio.gather(*(asyncio.to_thread(run_shard, shard) for _ in range(2)))
        assert twice[0] == twice[1]
        assert sandbox.stats.requests == requests + 6 + 6 + 12


async def test_a_shard_resumes_from_its_checkpoint(
    tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bucket.server.environment.items():
        monkeypatch.setenv(name, value)
    async with account(campaigns=3, keywords=2) as (_, client):
        shards = await cut(client, tmp_path, out=f"{bucket.url}/shared/")

        def disappear(*arguments: Any) -> Any:
            bucket.remove()
            return write_parts(*arguments)

        monkeypatch.setattr(running, "write_parts", disappear)
        with pytest.raises(ExportError, match="NoSuchBucket"):
            await asyncio.to_thread(run_shard, shards[0])
        monkeypatch.setattr(running, "write_parts", write_parts)
        bucket.server.ask("PUT", f"/{bucket.name}")
        receipts = await asyncio.to_thread(run_all, shards)
    assert (receipts[0].requests, receipts[0].rows, receipts[1].requests) == (0, 2 + 3 + 6, 4)


async def test_a_bucket_is_shared_by_workers(tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in bucket.server.environment.items():
        monkeypatch.setenv(name, value)
    async with account(campaigns=5, keywords=2) as (_, client):
        await pull_to(client, None, START, END, out=f"{tmp_path}/one/", **ALL)
        summary = await run_and_gather(await cut(client, tmp_path, out=f"{bucket.url}/shared/"))
    for name, data in bucket.objects().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    assert_same(tables_in(tmp_path / "one"), tables_in(tmp_path / "shared"))
    assert summary.paths[0] == f"{bucket.url}/shared/keyword_rankings/account=acme/snapshot_date={NIGHT}"
