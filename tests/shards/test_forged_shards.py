"""A plan and a shard's receipt in a shared folder that somebody changed: refused, and nothing outside is touched."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from seorep_async import SeoRepClient
from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export import pull_to
from seorep_async.shards import Shard, ShardReceipt, gather, plan, run_shard
from tests.export.door import Partition
from tests.export.forged import LINE, OTHER_PULL, change, private_files, state
from tests.export.reports import END, NIGHT, START, account


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEOREP_API_KEY", "sandbox")


@pytest.fixture(autouse=True)
def outside(tmp_path: Path) -> Iterator[None]:
    """Private files that are as they were at the end."""
    folder = private_files(tmp_path)
    before = state(folder)
    yield
    assert state(folder) == before


async def planned(client: SeoRepClient, folder: Path) -> list[Shard]:
    options: dict[str, Any] = {"account": "acme", "snapshot_date": NIGHT, "work_dir": folder / "work", "shards": 2}
    return await plan(client, None, START, END, out=f"{folder}/rankings/", **options)


async def ran(client: SeoRepClient, folder: Path) -> tuple[list[Shard], list[ShardReceipt]]:
    shards = await planned(client, folder)
    return shards, [await asyncio.to_thread(run_shard, shard) for shard in shards]


@pytest.mark.parametrize(
    "changes",
    [
        {"number": True},
        {"part": {"table": "../../private"}},
        {"part": {"number": -1}},
        {"part": {"rows": -1}},
        {"part": {"digest": "../" * 20}},
        {"parts": "x"},
    ],
    ids=str,
)
async def test_a_forged_receipt_of_a_shard_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    async with account(campaigns=2, keywords=1) as (_, client):
        shards, _ = await ran(client, tmp_path)
        change(shards[0].receipt_name, **changes)(tmp_path / "rankings")
        for step in (lambda: run_shard(shards[0]), lambda: gather(shards)):
            with pytest.raises(ExportError, match="move it away to run the shard again"):
                await asyncio.to_thread(step)


@pytest.mark.parametrize(
    "changes",
    [
        {"pull": OTHER_PULL},
        {"pull": "../../private/tree"},
        {"number": 1},
        {"part": {"table": "pulls"}},
        {"part": {"table": "campaign_periods"}},
        {"part": {"number": 1}},
    ],
    ids=str,
)
async def test_a_receipt_of_something_else_is_none(tmp_path: Path, changes: dict[str, Any]) -> None:
    async with account(campaigns=2, keywords=1) as (_, client):
        shards, receipts = await ran(client, tmp_path)
        change(shards[0].receipt_name, **changes)(tmp_path / "rankings")
        with pytest.raises(ExportError, match="1 of 2 shards have no receipt: 0"):
            await asyncio.to_thread(gather, shards)
        again = await asyncio.to_thread(run_shard, shards[0])
        assert (again.outcomes, again.parts[0].table) == (receipts[0].outcomes, receipts[0].parts[0].table)


@pytest.mark.parametrize(
    "changes",
    [
        *({"pull": "../../private/tree"}, {"pull": OTHER_PULL}, {"snapshot_date": "2023-04-03"}),
        *({"started_at": "2023-04-02T00:00:00"}, {"started_at": "2023-04-02T00:00:00+00:00"}, {"ids": [1, 1]}),
        *({"ids": [0]}, {"ids": [True]}, {"ids": ["../x"]}, {"campaigns": {"table": "../../private"}}),
        *({"campaigns": {"table": "keywords"}}, {"campaigns": {"number": 1}}, {"campaigns": {"digest": "x"}}),
        {"parameters": 5},
    ],
    ids=str,
)
async def test_a_forged_plan_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    async with account(campaigns=2, keywords=1) as (_, client):
        shards, _ = await ran(client, tmp_path)
        file = tmp_path / "rankings" / shards[0].night.plan(shards[0].pull)
        found = json.loads(file.read_bytes())
        part = found["campaigns"] | changes.get("campaigns", {})
        file.write_text(json.dumps(found | changes | {"campaigns": part}))
        with pytest.raises(ExportError, match=LINE):
            await planned(client, tmp_path)
        with pytest.raises(ExportError, match="not a plan of this version"):
            await asyncio.to_thread(gather, shards)


async def test_parts_of_another_pull_are_not_gathered(tmp_path: Path) -> None:
    async with account(campaigns=2, keywords=1) as (_, client):
        shards, _ = await ran(client, tmp_path)
        for name in (tmp_path / "rankings/_staging").rglob("totals-*"):
            name.write_bytes(b"PAR1")
        receipt = tmp_path / "rankings" / shards[0].receipt_name
        found = json.loads(receipt.read_bytes())
        receipt.write_text(json.dumps(found | {"parts": [part | {"digest": "0" * 64} for part in found["parts"]]}))
        with pytest.raises(ExportError, match="plan its shards again with restart=True"):
            await asyncio.to_thread(gather, shards)
    assert not (tmp_path / "rankings/totals").exists()


async def test_a_damaged_staged_part_is_not_gathered(tmp_path: Path) -> None:
    async with account(campaigns=2, keywords=1) as (_, client):
        shards, _ = await ran(client, tmp_path)
        staged = next((tmp_path / "rankings/_staging").rglob("keyword_rankings-00001-*"))
        staged.write_bytes(staged.read_bytes()[:-1])
        with pytest.raises(ExportError, match=f"{staged.name} is missing, or does not match its receipt"):
            await asyncio.to_thread(gather, shards)
    assert not (tmp_path / "rankings/keyword_rankings").exists()


@pytest.mark.parametrize("rows", [None, 2])
async def test_a_receipt_of_other_rows_than_reports_is_none(tmp_path: Path, rows: int | None) -> None:
    async with account(campaigns=2, keywords=1) as (_, client):
        shards, _ = await ran(client, tmp_path)
        file = tmp_path / "rankings" / shards[1].receipt_name
        found = json.loads(file.read_bytes())
        ranking = next(part for part in found["parts"] if part["table"] == "keyword_rankings")
        file.write_text(json.dumps(found | {"parts": [] if rows is None else [ranking | {"rows": rows}]}))
        with pytest.raises(ExportError, match="1 of 2 shards have no receipt: 1"):
            await asyncio.to_thread(gather, shards)
        await asyncio.to_thread(run_shard, shards[1])
        assert (await asyncio.to_thread(gather, shards)).rows == 2


async def test_some_shards_of_a_plan_are_not_all(tmp_path: Path) -> None:
    async with account(campaigns=2, keywords=1) as (_, client):
        shards = await planned(client, tmp_path)
        await asyncio.to_thread(run_shard, shards[0])
        with pytest.raises(ConfigurationError, match="other campaigns than its plan"):
            await asyncio.to_thread(gather, [attrs.evolve(shards[0], count=1)])
    assert not (tmp_path / "rankings/keyword_rankings").exists()


async def test_a_forged_receipt_moves_no_parts_of_another_account(tmp_path: Path) -> None:
    out = tmp_path / "rankings"
    async with account(campaigns=2, keywords=1) as (_, client):
        own: dict[str, Any] = {"out": f"{out}/", "account": "other", "snapshot_date": NIGHT}
        await pull_to(client, None, START, END, **own)
        shards, receipts = await ran(client, tmp_path)
        coming = [attrs.asdict(part) for receipt in receipts for part in receipt.parts]
        change(Partition("other", NIGHT).receipt, pull=shards[0].pull, parts=[], coming=coming)(out)
        await pull_to(client, None, START, END, **own)
        assert (await asyncio.to_thread(gather, shards)).rows == 2
