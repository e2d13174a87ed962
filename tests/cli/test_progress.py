"""Progress in words: counts, time left, what is waited for, rate; and the line that holds them on a terminal."""

from __future__ import annotations

import asyncio
import io
import re
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
        "resumed": 0,
        "rows": 0,
        "failures": 0,
    }
    return PullProgress(**(facts | values))


class Shown:
    """A display whose text can be looked at, on no terminal or on one of some width, and its clock."""

    def __init__(self, columns: int | None = None, *, term: str = "xterm", **options: Any) -> None:
        self.text = io.StringIO()
        self.clock = Clock()
        self.console = Console(
            file=self.text,
            force_terminal=columns is not None,
            width=columns or 500,
            height=40,
            no_color=True,
            _environ={"TERM": term},
        )
        client = SeoRepClient("http://localhost", "key")
        self.display = ProgressDisplay(self.console, client, clock=self.clock, **options)

    def waits(self, monkeypatch: pytest.MonkeyPatch, reason: str, seconds: float = 5.0, retries: int = 0) -> None:
        """Let the client's figures say that it waited, and the display look at them."""
        stats = self.display._client.stats
        waited = {**stats.waited, reason: seconds}
        monkeypatch.setattr(SeoRepClient, "stats", attrs.evolve(stats, waited=waited, retries={"transient": retries}))
        self.display._look_what_it_waits_for()

    def line(self) -> str:
        """Return the line with the bar, without styles."""
        with self.console.capture() as capture:
            self.console.print(self.display._bar)
        (line,) = re.sub(r"\x1b\[[\d;]*m", "", capture.get()).splitlines()
        return line


def test_it_tells_counts_rate_failures_and_time_left() -> None:
    shown = Shown()
    shown.display.show(at())
    shown.clock.now = 10.0
    shown.display.show(at(done=50, rows=12_000, failures=2))
    assert shown.display.told() == "50/200 campaigns · 30 s left · 2 failed · 12,000 rows · 1,200/s"


def test_what_was_there_already_is_in_neither_rate_nor_time_left() -> None:
    shown = Shown()
    shown.display.show(at(done=100, resumed=100, rows=50_000))
    shown.clock.now = 10.0
    shown.display.show(at(done=150, resumed=100, rows=60_000))
    assert shown.display.told() == "150/200 campaigns · 10 s left · 60,000 rows · 1,000/s"


def test_dates_of_keywords_are_counted_in_keywords() -> None:
    shown = Shown()
    shown.display.show(at(feed=Feed.KEYWORD_BY_DATE))
    assert shown.display.told().startswith("0/200 keywords")


@pytest.mark.parametrize("options", [{}, {"columns": 200, "term": "dumb"}], ids=["no terminal", "a dumb one"])
async def test_where_there_can_be_no_bar_there_is_a_plain_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(module, "_TICK_SECONDS", 0.001)
    shown = Shown(**options)
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
        "Pulling campaign feed: 50/200 campaigns · 3 min 00 s left · 60,000 rows · 1,000/s\n"
    )


async def test_quiet_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TICK_SECONDS", 0.001)
    shown = Shown(quiet=True)
    async with shown.display as display:
        display.show(at())
        shown.clock.now = 600.0
        await asyncio.sleep(0.02)
    assert shown.text.getvalue() == ""


WAITS = {
    "pace": "paced by the service's limit",
    "asked to wait": "asked to wait by the service",
    "backoff": "retrying",
    "outage": "nothing gets through, trying again",
}


@pytest.mark.parametrize(("reason", "told"), [*WAITS.items(), ("concurrency", "")])
def test_it_tells_what_is_waited_for(monkeypatch: pytest.MonkeyPatch, reason: str, told: str) -> None:
    shown = Shown()
    shown.display.show(at())
    shown.waits(monkeypatch, reason)
    assert shown.display.told() == "0/200 campaigns" + (f" · {told}" if told else "") + " · 0 rows"
    shown.display.show(at(done=1))
    shown.display._look_what_it_waits_for()
    assert shown.display.told() == "1/200 campaigns · 0 rows"


def test_of_one_campaign_there_is_no_plural() -> None:
    shown = Shown()
    shown.display.show(at(total=1))
    assert shown.display.told() == "0/1 campaign · 0 rows"


@pytest.mark.parametrize("reason", WAITS)
def test_while_it_waits_and_nothing_comes_no_time_left_is_told(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    shown = Shown()
    shown.display.show(at())
    shown.clock.now = 10.0
    shown.display.show(at(done=198))
    shown.waits(monkeypatch, reason)
    assert "1 s left" in shown.display.told()
    shown.clock.now = 12.0
    assert ("left" in shown.display.told()) == (reason == "pace")  # at its pace it will come
    shown.display.show(at(done=199))
    assert "1 s left" in shown.display.told()


def test_what_a_stage_waited_for_is_not_told_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown()
    shown.display.show(at(stage=Stage.KEYWORDS))
    shown.waits(monkeypatch, "backoff", retries=1)
    assert "retrying" in shown.display.told()
    shown.display.show(at(done=1))
    assert "retrying" not in shown.display.told()


def test_writing_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown()
    shown.display.show(at())
    shown.waits(monkeypatch, "backoff", retries=1)
    shown.display.show(at(stage=Stage.WRITING, total=None))
    shown.waits(monkeypatch, "backoff", 9.0, retries=1)
    shown.display._look_what_it_waits_for()
    assert shown.display.told() == ""


def half(columns: int, monkeypatch: pytest.MonkeyPatch, reason: str, feed: Feed = Feed.CAMPAIGN) -> str:
    """Return the line of a pull that is at half and waits for something."""
    shown = Shown(columns)
    shown.display.show(at(total=80, feed=feed))
    shown.clock.now = 10.0
    shown.waits(monkeypatch, reason)
    shown.display.show(at(done=40, rows=2_000, total=80, feed=feed))
    return shown.line()


@pytest.mark.parametrize("feed", Feed)
@pytest.mark.parametrize("reason", [*WAITS, "concurrency"])
@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_the_bar_is_whole_whatever_stands_beside_it(
    monkeypatch: pytest.MonkeyPatch, columns: int, reason: str, feed: Feed
) -> None:
    line = half(columns, monkeypatch, reason, feed)
    assert re.match(r"[⠀-⣿] Pulling .* ━{10} {10} 40/80 (campaign|keyword)s", line), line


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (40, "Pulling campaig… 40/80 campaigns…"),
        (60, "Pulling campai… ━━━━━━━━━━           40/80 campaigns…"),
        (80, "Pulling campaign feed ━━━━━━━━━━           40/80 campaigns · 10 s left…"),
        (100, "Pulling campaign feed ━━━━━━━━━━           40/80 campaigns · 10 s left · paced by the service…"),
        (
            200,
            "Pulling campaign feed ━━━━━━━━━━           "
            "40/80 campaigns · 10 s left · paced by the service's limit · 2,000 rows · 200/s",
        ),
    ],
)
def test_a_narrow_line_is_cut_where_it_matters_least(
    monkeypatch: pytest.MonkeyPatch, columns: int, expected: str
) -> None:
    assert half(columns, monkeypatch, "pace")[2:].rstrip() == expected


@pytest.mark.parametrize("columns", range(60, 110))
def test_no_number_is_cut(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    numbers = re.findall(r"[\d,]+", half(columns, monkeypatch, "concurrency"))
    assert numbers == ["40", "80", "10", "2,000", "200"][: len(numbers)]


@pytest.mark.parametrize("columns", [40, 60, 80, 100])
def test_two_interrupts_that_are_echoed_behind_the_line_do_not_wrap_it(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    assert len(half(columns, monkeypatch, "outage") + "^C^C") <= columns
