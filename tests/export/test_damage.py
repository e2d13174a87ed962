"""Whatever happens to the files of a staging folder, a resumed pull gives an equal target or a clear `ExportError`.

A sample runs always; 500 damages for each format with `pytest -m slow tests/export/test_damage.py`.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from seorep_async import ConfigurationError, Feed, SeoRepClient
from seorep_async.export import ExportError, PullProgress, pull_to
from tests.export.reports import END, START, account

FEEDS = (Feed.CAMPAIGN, Feed.CAMPAIGN_BY_DATE)
Files = dict[str, bytes]


class Enough(Exception):
    """Enough reports are stored."""


async def interrupted(client: SeoRepClient, out: Path, ids: list[int]) -> tuple[Files, Files]:
    """Interrupt a pull; return its staging folder's files as a kill would leave them, and as a good end does."""
    folder = out.with_name(f".{out.name}.pull")
    as_killed: Files = {}

    def look(progress: PullProgress) -> None:
        if progress.feed is Feed.CAMPAIGN_BY_DATE and progress.done >= 4:
            as_killed.update({path.name: path.read_bytes() for path in folder.iterdir()})
            raise Enough

    with pytest.raises(Enough):
        await pull_to(client, ids, START, END, out=out, feeds=FEEDS, on_progress=look)
    return as_killed | {"rows-0": b"half written"}, {path.name: path.read_bytes() for path in folder.iterdir()}


def damaged(files: Files, others: Files, dice: random.Random) -> tuple[str, Files]:
    """Return the files with one of them damaged, and how."""
    name = dice.choice(sorted(files))
    data = bytearray(files[name])
    place = dice.randrange(len(data))
    kind = dice.choice(["bit", "bit", "bit", "cut", "zeros", "garbage", "swap", "other", "gone"])
    match kind:
        case "bit":
            data[place] ^= 1 << dice.randrange(8)
        case "cut":
            del data[place:]
        case "zeros":
            end = min(len(data), place + dice.randrange(1, 5000))
            data[place:end] = bytes(end - place)
        case "garbage":
            end = min(len(data), place + dice.randrange(1, 200))
            data[place:end] = dice.randbytes(end - place)
        case "swap":
            other = dice.choice(sorted(files))
            return f"{kind} {name} {other}", files | {name: files[other], other: files[name]}
        case "other":
            other = dice.choice(sorted(others))
            return f"{kind} {name} {other}", files | {name: others[other]}
        case _:
            return f"{kind} {name}", {one: held for one, held in files.items() if one != name}
    return f"{kind} {name} {place}", files | {name: bytes(data)}


def content(out: Path) -> list[Any]:
    paths = [out.with_name(f"{out.stem}.{word}{out.suffix}") for word in ("keyword_rankings", "campaign_periods")]
    return [pq.read_table(path) if path.suffix == ".parquet" else path.read_bytes() for path in paths]


async def check(folder: Path, ending: str, damages: int) -> Counter[str]:
    ids, dice, found = list(range(1, 9)), random.Random(ending), Counter[str]()
    problems: list[str] = []
    async with account(campaigns=9, keywords=6, shape="mixed", rows="mixed") as (_, client):
        await pull_to(client, ids, START, END, out=folder / f"whole.{ending}", feeds=FEEDS)
        expected = content(folder / f"whole.{ending}")
        snapshots = await interrupted(client, folder / f"one.{ending}", ids)
        others = (await interrupted(client, folder / f"other.{ending}", [9, *ids]))[0]
        for number in range(damages):
            out = folder / f"{number}.{ending}"
            staging = folder / f".{out.name}.pull"
            how, files = damaged(dice.choice(snapshots), others, dice)
            staging.mkdir(0o700)
            for name, data in files.items():
                (staging / name).write_bytes(data)
            try:
                await pull_to(client, ids, START, END, out=out, feeds=FEEDS)
                found["equal"] += 1
            except ExportError as error:
                problems.append(error.message)
                await pull_to(client, ids, START, END, out=out, feeds=FEEDS, restart=True)
                found["refused"] += 1
            except ConfigurationError as error:
                # the files of another pull are a sound, unfinished pull of other campaigns
                assert how.startswith("other"), how
                problems.append(error.message)
                await pull_to(client, ids, START, END, out=out, feeds=FEEDS, restart=True)
                found["refused"] += 1
            except Exception as error:
                raise AssertionError(how) from error
            assert content(out) == expected, how
    assert all("pass restart=True to start over" in problem for problem in problems)
    return found


@pytest.mark.parametrize("ending", ["csv", pytest.param("parquet", marks=pytest.mark.slow)])
async def test_damage_is_refused_or_does_not_matter(tmp_path: Path, ending: str) -> None:
    found = await check(tmp_path, ending, 30)
    assert found["equal"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
async def test_five_hundred_damages_are_refused_or_do_not_matter(tmp_path: Path, ending: str) -> None:
    print(f"\n{ending}: {await check(tmp_path, ending, 500)}")
