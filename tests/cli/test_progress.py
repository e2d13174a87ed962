"""Progress in words: counts, rate, what is waited for, time left."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import attrs
import pytest
from rich.console import Console

from seorep_async import Feed, SeoRepClient
from seorep_async.cli import progress as module
from seorep_async.cli.progress import ProgressDisplay
from seorep_async.export import PullProgress, Stage


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def at(**values: Any) -> PullProgress:
    facts: dict[str, Any] = {
        "stage": Stage.ROWS,
        "feed": Feed.CAMPAIGN,
        "done": 0,
        "total": 200,
        "kept": 0,
        "rows": 0,
        "failures": 0,
    }
    return PullProgress(**(facts | values))


class Shown:
    """A display whose text can be looked at, off any terminal, and its clock."""

    def __init__(self, **options: Any) -> None:
        self.text = io.StringIO()
        self.clock = Clock()
        client = SeoRepClient("http://localhost", "key")
        self.display = ProgressDisplay(Console(file=self.text, width=500), client, clock=self.clock, **options)


def test_it_tells_counts_rate_failures_and_time_left() -> None:
    shown = Shown()
    shown.display.show(at())
    shown.clock.now = 10.0
    shown.display.show(at(done=50, rows=12_000, failures=2))
    assert shown.display.told() == "50/200 campaigns · 12,000 rows · 1,200 rows/s · 2 failed · 30 s left"


def test_what_was_there_already_is_in_neither_rate_nor_time_left() -> None:
    shown = Shown()
    shown.display.show(at(done=100, kept=100, rows=50_000))
    shown.clock.now = 10.0
    shown.display.show(at(done=150, kept=100, rows=60_000))
    assert shown.display.told() == "150/200 campaigns · 60,000 rows · 1,000 rows/s · 10 s left"


def test_dates_of_keywords_are_counted_in_keywords() -> None:
    shown = Shown()
    shown.display.show(at(feed=Feed.KEYWORD_BY_DATE))
    assert shown.display.told().startswith("0/200 keywords")


async def test_off_a_terminal_there_is_a_plain_line_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TICK_SECONDS", 0.001)
    shown = Shown()
    async with shown.display as display:
        display.show(at())
        await asyncio.sleep(0.02)
        assert shown.text.getvalue() == ""
        shown.clock.now = 60.0
        display.show(at(done=50, rows=60_000))
        await asyncio.sleep(0.02)
        shown.clock.now = 119.0
        await asyncio.sleep(0.02)
    assert shown.text.getvalue() == (
        "Pulling campaign feed: 50/200 campaigns · 60,000 rows · 1,000 rows/s · 3 min 00 s left\n"
    )


async def test_quiet_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TICK_SECONDS", 0.001)
    shown = Shown(quiet=True)
    async with shown.display as display:
        display.show(at())
        shown.clock.now = 600.0
        await asyncio.sleep(0.02)
    assert shown.text.getvalue() == ""


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("pace", "paced by the service's limit"),
        ("asked to wait", "the service asked to wait"),
        ("backoff", "retrying"),
        ("outage", "nothing gets through, trying again"),
        ("concurrency", ""),
    ],
)
def test_it_tells_what_is_waited_for(monkeypatch: pytest.MonkeyPatch, reason: str, told: str) -> None:
    shown = Shown()
    stats = shown.display._client.stats
    waited = attrs.evolve(stats, waited={**stats.waited, reason: 5.0})
    monkeypatch.setattr(SeoRepClient, "stats", waited)
    shown.display.show(at())
    shown.display._look_what_it_waits_for()
    assert shown.display.told() == "0/200 campaigns · 0 rows" + (f" · {told}" if told else "")
    shown.display.show(at(done=1))
    shown.display._look_what_it_waits_for()
    assert shown.display.told() == "1/200 campaigns · 0 rows"
