"""A plan and a shard's receipt in a shared folder that somebody changed: refused, and nothing outside is touched."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from seorep_async import SeoRepClient
from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export import PullSummary, pull_to
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


@attrs.frozen
class Pull:
    """A pull of two shards, of one campaign each, that have run."""

    client: SeoRepClient
    out: Path
    shards: list[Shard]
    receipts: list[ShardReceipt]

    async def run(self, number: int) -> ShardReceipt:
        return await asyncio.to_thread(run_shard, self.shards[number])

    async def gather(self) -> PullSummary:
        return await asyncio.to_thread(gather, self.shards)

    def change(self, number: int, /, **changes: Any) -> None:
        """Change fields of a shard's receipt."""
        change(self.shards[number].receipt_name, **changes)(self.out)


async def planned(client: SeoRepClient, out: Path) -> list[Shard]:
    options: dict[str, Any] = {"account": "acme", "snapshot_date": NIGHT, "work_dir": out.with_name("work")}
    return await plan(client, None, START, END, out=f"{out}/", shards=2, **options)


@pytest.fixture
async def pull(tmp_path: Path) -> AsyncIterator[Pull]:
    async with account(campaigns=2, keywords=1) as (_, client):
        shards = await planned(client, tmp_path / "rankings")
        yield Pull(client, tmp_path / "rankings", shards, [await asyncio.to_thread(run_shard, one) for one in shards])


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
async def test_a_forged_receipt_of_a_shard_is_refused(pull: Pull, changes: dict[str, Any]) -> None:
    pull.change(0, **changes)
    for step in (pull.run(0), pull.gather()):
        with pytest.raises(ExportError, match="move it away to run the shard again"):
            await step


@pytest.mark.parametrize(
    "changes",
    [
        {"pull": OTHER_PULL},
        {"pull": "../../private/tree"},
        {"number": 1},
        {"part": {"table": "pulls"}},
        {"part": {"table": "campaign_periods"}},
        {"part": {"number": 1}},
        {"part": {"rows": 2}},  # others than its reports have
        {"parts": []},
    ],
    ids=str,
)
async def test_a_receipt_of_something_else_is_none(pull: Pull, changes: dict[str, Any]) -> None:
    pull.change(0, **changes)
    with pytest.raises(ExportError, match="1 of 2 shards have no receipt: 0"):
        await pull.gather()
    again = await pull.run(0)
    assert (again.outcomes, again.parts[0].table) == (pull.receipts[0].outcomes, pull.receipts[0].parts[0].table)
    assert (await pull.gather()).rows == 2


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
async def test_a_forged_plan_is_refused(pull: Pull, changes: dict[str, Any]) -> None:
    file = pull.out / pull.shards[0].night.plan(pull.shards[0].pull)
    found = json.loads(file.read_bytes())
    part = found["campaigns"] | changes.get("campaigns", {})
    file.write_text(json.dumps(found | changes | {"campaigns": part}))
    with pytest.raises(ExportError, match=LINE):
        await planned(pull.client, pull.out)
    with pytest.raises(ExportError, match="not a plan of this version"):
        await pull.gather()


async def test_parts_of_another_pull_are_not_gathered(pull: Pull) -> None:
    for name in (pull.out / "_staging").rglob("totals-*"):
        name.write_bytes(b"PAR1")
    parts = [attrs.asdict(part) | {"digest": "0" * 64} for part in pull.receipts[0].parts]
    pull.change(0, parts=parts)
    with pytest.raises(ExportError, match="plan its shards again with restart=True"):
        await pull.gather()
    assert not (pull.out / "totals").exists()


async def test_a_damaged_staged_part_is_not_gathered(pull: Pull) -> None:
    staged = next((pull.out / "_staging").rglob("keyword_rankings-00001-*"))
    staged.write_bytes(staged.read_bytes()[:-1])
    with pytest.raises(ExportError, match=f"{staged.name} is missing, or does not match its receipt"):
        await pull.gather()
    assert not (pull.out / "keyword_rankings").exists()


async def test_some_shards_of_a_plan_are_not_all(pull: Pull) -> None:
    with pytest.raises(ConfigurationError, match="other campaigns than its plan"):
        await asyncio.to_thread(gather, [attrs.evolve(pull.shards[0], count=1)])
    assert not (pull.out / "keyword_rankings").exists()


async def test_a_forged_receipt_moves_no_parts_of_another_account(pull: Pull) -> None:
    own: dict[str, Any] = {"out": f"{pull.out}/", "account": "other", "snapshot_date": NIGHT}
    await pull_to(pull.client, None, START, END, **own)
    coming = [attrs.asdict(part) for receipt in pull.receipts for part in receipt.parts]
    change(Partition("other", NIGHT).receipt, pull=pull.shards[0].pull, parts=[], coming=coming)(pull.out)
    await pull_to(pull.client, None, START, END, **own)
    assert (await pull.gather()).rows == 2
