"""The same account gives the same bytes, in whatever shape it answers and however fast it is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from seorep_async import Feed
from tests.cli.running import Seorep

FEEDS = [feed.value for feed in Feed]
SMALL = ("--sandbox", "--campaigns", 4, "--keywords", 30)


def pulled(seorep: Seorep, *arguments: object, seed: int = 7) -> bytes:
    assert seorep("pull", *SMALL, "--seed", seed, "--out", "a.csv", *arguments).code == 0
    return Path("a.csv").read_bytes()


@pytest.mark.parametrize(("feed", "rows"), [(FEEDS[0], "older"), (FEEDS[1], "current"), (FEEDS[2], "older")])
def test_nested_and_flat_give_the_same_bytes(seorep: Seorep, feed: str, rows: str) -> None:
    nested, flat = (pulled(seorep, "--feed", feed, "--rows", rows, "--shape", shape) for shape in ("nested", "flat"))
    assert nested == flat
    assert nested.count(b"\r\n") > 4


@pytest.mark.parametrize("feed", FEEDS)
def test_concurrency_1_and_32_give_the_same_bytes(seorep: Seorep, feed: str) -> None:
    mixed = ("--feed", feed, "--shape", "mixed", "--rows", "mixed")
    slow, fast = (pulled(seorep, *mixed, "--max-concurrency", number) for number in (1, 32))
    assert slow == fast


def test_another_seed_gives_other_bytes(seorep: Seorep) -> None:
    assert pulled(seorep) != pulled(seorep, seed=8)
