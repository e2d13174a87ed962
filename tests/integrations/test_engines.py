"""`pull_table`, the function for engines, in this process, in other processes and in Dask."""

import asyncio
import contextlib
import logging
import os
import pickle
import platform
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from seorep_async import (
    AuthenticationError,
    ConfigurationError,
    Feed,
    Limits,
    SeoRepClient,
    SeoRepError,
    Settings,
)
from seorep_async.export import pull_to
from seorep_async.integrations import engines
from seorep_async.integrations.engines import pull_table, table_schema
from seorep_async.tables.output_tables import table_of
from tests.integrations.service import CANARY, END, KEY, NIGHT, START, WINDOW, served

IDS = range(1, 9)
FAULTY: dict[str, Any] = {
    "faults": "resets=2%,500s=2%,cut=1%",
    "failing": {3: 404},
    "forbidden": [6],
}
FEEDS = pytest.mark.parametrize("feed", Feed)


async def exported(folder: Path) -> dict[Feed, pa.Table]:
    """Return the rows that `pull_to` writes."""
    async with SeoRepClient(api_key=KEY) as client:
        how: dict[str, Any] = {"account": "acme", "snapshot_date": NIGHT, "feeds": list(Feed)}
        await pull_to(client, IDS, START, END, out=folder / "a.parquet", **how)
    return {feed: pq.read_table(folder / f"a.{table_of(feed).name}.parquet") for feed in Feed}


def split(table: pa.Table, feed: Feed) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Return the rows of reports, and those of failures."""
    failed = pc.is_valid(table["error"])
    schema = table_schema(feed)
    rows = table.filter(pc.invert(failed)).select(schema.names).cast(schema)
    return rows, table.filter(failed).to_pylist()


def test_rows_and_their_order_are_those_of_pull_to(tmp_path: Path) -> None:
    with served(**FAULTY):
        expected = asyncio.run(exported(tmp_path))
        for feed in Feed:
            rows, failures = split(pull_table(IDS, **WINDOW, feed=feed, on_error="rows"), feed)
            assert rows.equals(expected[feed]), feed
            facts = [(row["campaign_id"], row["error"], row["status"]) for row in failures]
            assert facts == [(3, "NotFoundError", 404), (6, "AuthenticationError", 403)]


@FEEDS
def test_the_schema_is_the_declared_one(feed: Feed) -> None:
    with served():
        whole = pull_table([1], **WINDOW, feed=feed)
        rows = pull_table([1], **WINDOW, feed=feed.value, on_error="rows")
        empty = pull_table([], **WINDOW, feed=feed)
    assert whole.schema.equals(table_schema(feed), check_metadata=True)
    assert empty.schema.equals(table_schema(feed), check_metadata=True)
    assert rows.schema.equals(table_schema(feed, on_error="rows"), check_metadata=True)
    assert all(b"description" in field.metadata for field in rows.schema)
    never_null = {"account", "snapshot_date", "campaign_id", "start_date", "end_date"}
    never_null &= {*whole.schema.names}
    assert {field.name for field in rows.schema if not field.nullable} == never_null


def test_a_forbidden_campaign_is_an_error_that_names_it() -> None:
    with (
        served(forbidden=[6]),
        pytest.raises(AuthenticationError, match=r"campaign 6: .*status 403") as caught,
    ):
        pull_table(IDS, **WINDOW)
    CANARY.assert_not_shown_by(caught.value)


def test_only_forbidden_campaigns_are_rows_if_the_key_is_good(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with served(forbidden=[6, 7]):
        errors = pull_table([6, 7], **WINDOW, on_error="rows")["error"].to_pylist()
    assert errors == ["AuthenticationError", "AuthenticationError"]
    (message,) = caplog.messages
    days = "2023-01-01 to 2023-03-31"
    assert message.startswith(f"acme: campaign, {days}: 2 reports failed, such as AuthenticationEr")


@FEEDS
@pytest.mark.parametrize("on_error", ["raise", "rows"])
def test_a_wrong_key_always_raises(
    feed: Feed, on_error: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with served(api_key="another"), caplog.at_level(logging.DEBUG):
        monkeypatch.setenv("OTHER_KEY", KEY)
        with pytest.raises(AuthenticationError) as caught:
            pull_table([1, 2], **WINDOW, feed=feed, on_error=on_error, api_key_env="OTHER_KEY")
    CANARY.assert_not_shown_by(caught.value)
    CANARY.assert_not_in(caplog.text)


@pytest.mark.parametrize("seed", range(5))
def test_a_wrong_key_is_no_row_even_if_its_probe_fails(seed: int) -> None:
    with served(api_key="another", faults="500s=50%", seed=seed), contextlib.suppress(SeoRepError):
        one_attempt = Settings(max_attempts=1)
        rows = pull_table([1, 2], **WINDOW, on_error="rows", settings=one_attempt)
        assert "AuthenticationError" not in rows["error"].to_pylist()


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        ({"snapshot_date": None}, "snapshot_date"),
        ({"snapshot_date": "yesterday"}, "snapshot_date"),
        ({"feed": "weekly"}, "feed"),
        ({"ids": "12"}, "ids"),
        ({"ids": [0]}, "campaign_id"),
        ({"end_date": "2022-01-01"}, "end_date"),
        ({"api_key_env": "NOT_SET"}, "api_key_env"),
        ({"api_key_env": KEY}, "api_key_env"),
        ({"api_key_env": None}, "api_key_env"),
        ({"on_error": "ignore"}, "on_error"),
        ({"settings": {"max_concurrency": 4}}, "settings"),
        ({"base_url": ["https://api.example.com"]}, "base_url"),
        ({"account": " "}, "account"),
        ({"sort": "up"}, "sort"),
        ({"limit": 0}, "limit"),
    ],
    ids=str,
)
def test_bad_input_is_refused_before_anything_is_sent(wrong: dict[str, Any], argument: str) -> None:
    with served() as sandbox:
        with pytest.raises(ConfigurationError) as caught:
            pull_table(**{"ids": [1], **WINDOW, **wrong})
        assert caught.value.argument == argument
        assert sandbox.stats.requests == 0
    CANARY.assert_not_in(str(caught.value))


@pytest.mark.parametrize("variable", ["SEOREP_API_KEY", "SEOREP_BASE_URL"])
def test_an_unset_variable_and_its_machine_are_named(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEOREP_API_KEY", KEY)
    monkeypatch.setenv("SEOREP_BASE_URL", "https://api.example.com")
    monkeypatch.delenv(variable)
    with pytest.raises(ConfigurationError) as caught:
        pull_table([1], **WINDOW)
    machine = f"this machine ({platform.node()})"
    assert str(caught.value) == f"the environment variable {variable} is not set on {machine}"


async def test_it_may_be_called_where_an_event_loop_runs() -> None:
    with served():
        inside = pull_table([1], **WINDOW)
        plain = await asyncio.to_thread(pull_table, [1], **WINDOW)
    assert inside.equals(plain)


async def test_its_requests_belong_to_the_span_of_its_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    span = ContextVar("span", default="none")
    span.set("the caller's")
    spans = []

    def note(*arguments: Any, **options: Any) -> SeoRepClient:
        spans.append(span.get())
        return SeoRepClient(*arguments, **options)

    monkeypatch.setattr(engines, "SeoRepClient", note)
    with served():
        pull_table([1], **WINDOW)
    assert spans == ["the caller's"]


def pull_in_turn() -> None:
    pull_table(range(1, 9), **WINDOW, settings=Settings(max_concurrency=1))


def pull_in_a_notebook() -> None:
    async def main() -> None:
        pull_in_turn()

    with contextlib.closing(asyncio.new_event_loop()) as loop:
        # the loop of a notebook leaves the signal to Python
        loop.run_until_complete(main())


@pytest.mark.parametrize("pull", [pull_in_turn, pull_in_a_notebook])
def test_ctrl_c_ends_pull_table(pull: Callable[[], None]) -> None:
    with served(latency=0.3) as sandbox:
        interrupting = signal_at(2, sandbox, signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            pull()
        interrupting.join()
        assert sandbox.stats.requests <= 4


async def limited_in_a_callback() -> None:
    # a loop only logs errors there
    asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGALRM)
    await asyncio.sleep(100)


def limited_before_it_begins() -> Coroutine[Any, Any, None]:
    os.kill(os.getpid(), signal.SIGALRM)
    threading.Event().wait(0.2)  # for the handler in the main thread
    return asyncio.sleep(100)


@pytest.mark.parametrize("pull", [limited_in_a_callback, limited_before_it_begins])
def test_a_time_limit_ends_pull_table(pull: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_pull", lambda *_: pull())
    before = signal.signal(signal.SIGALRM, Mock(side_effect=InterruptedError))
    began = time.monotonic()
    with served(), pytest.raises(InterruptedError):
        pull_table([1], **WINDOW)
    assert time.monotonic() < began + 50
    signal.signal(signal.SIGALRM, before)


pull_four_at_once: Callable[..., pa.Table] = partial(
    pull_table, **WINDOW, settings=Settings(max_concurrency=4)
)


@pytest.mark.heavy
def test_spawned_processes_pull_the_same_rows() -> None:
    with served(), ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        parts = pool.map(pull_four_at_once, [[1, 2, 3], [4, 5, 6], [7, 8]])
        assert pa.concat_tables(parts).equals(pull_four_at_once(IDS))


def test_it_pickles_without_the_key() -> None:
    with served():
        pickled = pickle.dumps(partial(pull_table, [1], **WINDOW))
    assert len(pickled) < 500
    CANARY.assert_not_in(pickled.decode("latin-1"))


def test_later_calls_use_the_learnt_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Mock(wraps=Limits)
    monkeypatch.setattr(engines, "Limits", limits)
    with served(latency=0.01):
        for _ in range(3):
            pull_table([1], **WINDOW)
        assert limits.call_count == 1
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda ids: pull_table(ids, **WINDOW), [[1, 2, 3, 4], [5, 6, 7, 8]]))
    assert limits.call_count <= 2


@FEEDS
def test_a_value_that_fits_no_column_is_a_failure(feed: Feed) -> None:
    row = {"keywordPhrase": "s", "engineARanking": 3, "keywordId": 2**63}
    by_date = {"date": "2023-01-01", "engineARanking": 2**63}
    reports = {("campaign", 1): [row], ("campaign-by-date", 1): [by_date]}
    with served(reports=reports, campaigns=2):
        table = pull_table([1, 2], **WINDOW, feed=feed, on_error="rows")
        with pytest.raises(SeoRepError):
            pull_table([1, 2], **WINDOW, feed=feed)
    (failure,) = (row for row in table.to_pylist() if row["error"])
    assert (failure["campaign_id"], failure["error"]) == (1, "DecodeError")
    assert table.num_rows > 1


def signal_at(
    requests: int, sandbox: Any, number: signal.Signals, process: int = os.getpid()
) -> threading.Thread:
    """Send a process a signal as soon as a number of requests has arrived."""

    def kill() -> None:
        while sandbox.stats.requests < requests:
            threading.Event().wait(0.005)
        os.kill(process, number)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


@pytest.mark.engines
@pytest.mark.filterwarnings("ignore")
def test_dask_with_a_killed_worker_is_complete(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    cloudpickle = pytest.importorskip("cloudpickle")
    parts = [list(range(start, start + 5)) for start in range(1, 61, 5)]
    with served(campaigns=60, keywords=60, latency=0.02) as sandbox:
        expected = pull_four_at_once(range(1, 61))
        how: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        with distributed.Client(local_directory=str(tmp_path), **how) as client:
            before = set(client.run(os.getpid).values())
            killing = signal_at(sandbox.stats.requests + 20, sandbox, signal.SIGKILL, min(before))
            tasks = client.map(pull_four_at_once, parts)
            table = pa.concat_tables(client.gather(tasks))
            killing.join()
            assert table.equals(expected)
            assert set(client.run(os.getpid).values()) != before
            logs = f"{client.get_worker_logs()} {client.get_scheduler_logs()}"
            story = str(client.story(*tasks))
            tasks_of_scheduler = client.cluster.scheduler.tasks.values()
            graph = cloudpickle.dumps([task.run_spec for task in tasks_of_scheduler])
    CANARY.assert_not_in(logs + story + graph.decode("latin-1"))
