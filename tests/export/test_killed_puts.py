"""Killed between two requests to an object store, and run again: readers see the old night or the new one.

Two points run always, 20 random ones with `pytest -m slow tests/export/test_killed_puts.py`.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
from pathlib import Path
from typing import Any

import obstore
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from seorep_async import Feed, SeoRepClient
from seorep_async.export import pull_to
from seorep_async.shards import gather, plan, run_shard
from tests.cli.running import serving
from tests.export.cut_off import PowerFailure, Steps
from tests.export.door import RECEIPTS, Partition, Receipt, digest_of
from tests.export.reports import END, NIGHT, START
from tests.export.s3 import Bucket

STEPS = {"one": 27, "shards": 60}
"""Requests that change the bucket, in a pull that replaces a night; at least so many."""


@pytest.fixture(autouse=True)
def night_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bucket: Bucket) -> None:
    """Let nights be pulled in this folder, with the options of the bucket."""
    monkeypatch.chdir(tmp_path)
    for name, value in (bucket.server.environment | {"SEOREP_API_KEY": "sandbox"}).items():
        monkeypatch.setenv(name, value)


async def pull_night(out: str, base_url: str, way: str) -> None:
    """Pull the night in one, or in shards."""
    options: dict[str, Any] = {"feeds": list(Feed), "account": "acme", "snapshot_date": NIGHT, "work_dir": os.getcwd()}
    async with SeoRepClient(base_url, "sandbox") as client:
        if way == "one":
            await pull_to(client, None, START, END, out=out, **options)
            return
        shards = await plan(client, None, START, END, out=out, shards=3, **options)
    for shard in shards:
        await asyncio.to_thread(run_shard, shard)
    await asyncio.to_thread(gather, shards)


def seen(bucket: Bucket) -> dict[str, str]:
    """Return table and part → digest, after a check that each is whole, and is what the receipt vouches for."""
    found: dict[str, str] = {}
    objects = {name.removeprefix("rankings/"): data for name, data in bucket.objects().items()}
    for name, data in objects.items():
        if name.endswith(".parquet"):
            pq.ParquetFile(io.BytesIO(data)).read()
            if not name.startswith("_"):
                found[name] = digest_of(data)
    receipt = objects.get(Partition("acme", NIGHT).receipt)
    if receipt is not None and json.loads(receipt)["parts"]:
        there = Receipt.from_json(receipt)
        assert found == {part.name(there.night): part.digest for part in there.parts}, "a mixture is vouched for"
    return found


async def pull_older(bucket: Bucket, folder: Path, **options: Any) -> int:
    """Pull a night of other rows from a service, and return its port."""
    with serving(campaigns=6, keywords=2, seed=1, **options) as sandbox:
        async with SeoRepClient(sandbox.base_url, "sandbox") as client:
            await pull(client, bucket, folder)
        return int(sandbox.base_url.rpartition(":")[2])


async def pull(client: SeoRepClient, bucket: Bucket, folder: Path) -> int:
    """Pull the night, and return how many requests that took."""
    options: dict[str, Any] = {"storage_options": bucket.server.options, "work_dir": folder, "account": "acme"}
    out = f"{bucket.url}/rankings/"
    summary = await pull_to(client, None, START, END, out=out, feeds=list(Feed), snapshot_date=NIGHT, **options)
    assert summary.ok
    return summary.requests


def without_pulls(found: dict[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in found.items() if not name.startswith("pulls/")}


async def check(tmp_path: Path, bucket: Bucket, steps: int, way: str) -> None:
    port = await pull_older(bucket, tmp_path)
    older = seen(bucket)
    with serving(campaigns=6, keywords=2, seed=2, port=port) as sandbox:
        left = Steps(steps)
        with pytest.MonkeyPatch.context() as patched:
            for name in ("put", "copy", "delete"):
                patched.setattr(obstore, name, left.counted(getattr(obstore, name)))
            with pytest.raises(PowerFailure):
                await pull_night(f"{bucket.url}/rankings/", sandbox.base_url, way)
        seen(bucket)
        await pull_night(f"{bucket.url}/rankings/", sandbox.base_url, way)
        found = seen(bucket)
        assert not any(f"/{RECEIPTS}/" in name and "replacing" in name for name in bucket.objects())
        assert Partition("acme", NIGHT).receipt in {name.removeprefix("rankings/") for name in bucket.objects()}
        fresh = bucket.server.bucket()
        await pull_night(f"{fresh.url}/rankings/", sandbox.base_url, way)
    assert without_pulls(found) == without_pulls(seen(fresh))
    assert without_pulls(found) != without_pulls(older)


@pytest.mark.parametrize(("steps", "way"), [(12, "one"), (40, "shards")])
async def test_killed_between_puts_the_night_is_whole_or_unvouched(
    tmp_path: Path, bucket: Bucket, steps: int, way: str
) -> None:
    await check(tmp_path, bucket, steps, way)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["one", "shards"])
@pytest.mark.parametrize("number", range(10))
async def test_killed_at_random_points(tmp_path: Path, bucket: Bucket, number: int, way: str) -> None:
    dice = random.Random(f"{number} {way}")
    await check(tmp_path, bucket, dice.randrange(STEPS[way]), way)
