"""Shards on the processes of a Dask cluster: `client.map(run_here, shards)`.

`TEST_KILLS=10` kills as many workers, one after the other, each at another point.
"""

import os
import pickle
import signal
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import attrs
import pytest

from seorep_async import Feed
from seorep_async.sandbox import Sandbox
from seorep_async.shards import Shard, gather, plan, run_shard
from tests.integrations.service import (
    CANARY,
    END,
    FAULTY,
    MIXED,
    START,
    WHOSE,
    alone,
    assert_key_in_no_file,
    assert_same,
    killing,
    note_process,
    run,
    served,
    tables_in,
)

distributed = pytest.importorskip("distributed")
cloudpickle = pytest.importorskip("cloudpickle")
pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]

run_here = partial(run_shard, key=note_process)
PAGES = ("status", "tasks", "info/main/workers.html", "info/main/logs.html", "json/counts.json")


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Any]:
    """A client of a cluster of processes with one thread each."""
    options = {"threads_per_worker": 1, "dashboard_address": ":0", "local_directory": str(folder / "dask")}
    with distributed.LocalCluster(n_workers=workers, **options) as local, distributed.Client(local) as client:
        yield client


def cut(sandbox: Sandbox, folder: Path, settings: Mapping[str, Any] | None = None, **changes: Any) -> list[Shard]:
    """Return the shards of a pull of every campaign and feed into the folder `shared`."""
    given: dict[str, Any] = {"feeds": list(Feed), "out": f"{folder}/shared/", "shards": 4, "workers": 2, **WHOSE}
    options = given | {"work_dir": folder / "work"} | changes
    found: list[Shard] = run(lambda client: plan(client, None, START, END, **options), sandbox, **settings or {})
    return found


def test_dask_brings_what_one_process_brings(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path, **MIXED, **FAULTY) as sandbox, cluster(tmp_path) as client:
        shards = cut(sandbox, tmp_path)
        receipts = client.gather(client.map(run_here, shards))
        summary = gather(shards)
        assert_same(alone(sandbox, tmp_path), tables_in(tmp_path / "shared"))
        assert {failure.campaign_id for failure in summary.failures} == {3, 6}

        other_account = attrs.evolve(shards[0], base_url="http://127.0.0.1:9", pull="other", key_digest="0")
        failed = client.submit(run_here, other_account)
        assert "not hold the key of the plan's account" in str(
            failed.exception()
        )  # Dask logs the arguments of a task that fails
        scheduler = client.cluster.scheduler
        graph = cloudpickle.dumps([task.run_spec for task in scheduler.tasks.values()])
        site = client.dashboard_link.rpartition("/")[0]
        pages = [*PAGES, *(f"info/task/{quote(str(key), safe='')}.html" for key in scheduler.tasks)]
        shown = [urllib.request.urlopen(f"{site}/{page}").read() for page in pages]  # noqa: S310
        logs = str((client.get_worker_logs(), client.get_scheduler_logs(), client.story(*scheduler.tasks)))
    printed = "".join(capfd.readouterr())
    assert "run_shard" in printed
    for data in (graph, pickle.dumps([shards, receipts, summary]), *shown):
        CANARY.assert_not_in(data.decode("latin-1"))
    CANARY.assert_not_in(printed + logs)
    assert assert_key_in_no_file(tmp_path) > 20


@pytest.mark.parametrize("seed", range(int(os.environ.get("TEST_KILLS", "2"))))
def test_a_killed_worker_loses_and_doubles_nothing(tmp_path: Path, seed: int) -> None:
    feeds = [Feed.CAMPAIGN, Feed.KEYWORD_BY_DATE]
    with served(tmp_path, campaigns=8, keywords=10, latency=0.02) as sandbox, cluster(tmp_path) as client:
        shards = cut(sandbox, tmp_path, {"max_concurrency": 8}, shards=4, feeds=feeds)
        planned, ideal = sandbox.stats.requests, 8 + 8 * 10
        with killing(sandbox, tmp_path, [planned + Random(seed).randrange(5, 70)]) as killed:
            client.gather(client.map(run_here, shards))
        in_progress = 2 * 4 + 1  # a worker has half of the 8 permits; reports fetched, or waiting to be stored
        assert len(killed) == 1
        assert sandbox.stats.requests - planned <= ideal + in_progress
        summary = gather(shards)
        assert (summary.ok, summary.rows) == (True, 8 * 10 + 8 * 10 * 3)
        requests = sandbox.stats.requests
        client.gather(client.map(run_here, shards, pure=False))
        assert (gather(shards), sandbox.stats.requests) == (summary, requests)


def test_results_lost_and_tasks_cancelled_cost_no_request(tmp_path: Path) -> None:
    with served(tmp_path, campaigns=4, keywords=10, latency=0.02) as sandbox, cluster(tmp_path) as client:
        shards = cut(sandbox, tmp_path, shards=4, feeds=[Feed.KEYWORD_BY_DATE])
        planned = sandbox.stats.requests
        futures = client.map(run_here, shards)
        while sandbox.stats.requests < planned + 10:
            time.sleep(0.001)
        client.cancel(futures, force=True)  # what runs can't be interrupted
        futures = client.map(run_here, shards, pure=False)
        distributed.wait(futures)
        assert sandbox.stats.requests - planned == 4 + 4 * 10
        os.kill(int(max(tmp_path.glob("process-*")).read_text(encoding="utf-8")), signal.SIGKILL)
        assert sum(receipt.rows for receipt in client.gather(futures)) == 4 * 10 * 3
        assert sandbox.stats.requests - planned == 4 + 4 * 10


def test_workers_find_a_limit_that_none_of_them_knows(tmp_path: Path) -> None:
    limited = served(tmp_path, campaigns=24, keywords=60, rate_limit=100)
    with limited as sandbox, cluster(tmp_path, workers=4) as client:
        shards = cut(sandbox, tmp_path, shards=8, workers=4, feeds=[Feed.CAMPAIGN, Feed.KEYWORD_BY_DATE])
        client.gather(client.map(run_here, shards))
        summary = gather(shards)
        assert (summary.ok, summary.rows) == (True, 24 * 60 + 24 * 60 * 3)
        assert sandbox.stats.per_status.get(429, 0) <= 0.05 * sandbox.stats.requests
