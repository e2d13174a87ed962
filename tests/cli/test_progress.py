"""The progress of a pull: counts, time left, waits, rate; and the line that shows them on a terminal."""

import io
import re
from typing import Any

import attrs
import pytest
from rich.console import Console

from seorep_async import Feed, SeoRepClient
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
    """A display on no terminal or on one of some width, its output, and its clock."""

    def __init__(self, columns: int | None = None, *, term: str = "xterm", quiet: bool = False) -> None:
        self.text = io.StringIO()
        self.clock = Clock()
        self.console = Console(
            file=self.text,
            force_terminal=columns is not None,
            width=columns or 500,
            height=40,
            no_color=True,
            quiet=quiet,
            _environ={"TERM": term},
        )
        client = SeoRepClient("http://localhost", "key")
        self.display = ProgressDisplay(self.console, client, clock=self.clock)

    def waits(self, monkeypatch: pytest.MonkeyPatch, reason: str, seconds: float = 5.0, retries: int = 0) -> None:
        """Let the client report a wait, and the display notice it."""
        stats = self.display._client.stats
        waited = {**stats.waited, reason: seconds}
        monkeypatch.setattr(SeoRepClient, "stats", attrs.evolve(stats, waited=waited, retries={"transient": retries}))
        self.display._update_waiting()

    def line(self) -> str:
        """Return the line with the bar, without styles."""
        with self.console.capture() as capture:
            self.console.print(self.display._bar)
        (line,) = re.sub(r"\x1b\[[\d;]*m", "", capture.get()).splitlines()
        return line


FAILED = {"done": 50, "rows": 12_000, "failures": 2}
BEGUN = {"done": 100, "resumed": 100, "rows": 50_000}


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        ({}, FAILED, "50/200 campaigns · 30 s left · 2 failed · 12,000 rows · 1,200/s"),
        # resumed reports count for neither rate nor time left
        (BEGUN, BEGUN | {"done": 150, "rows": 60_000}, "150/200 campaigns · 10 s left · 60,000 rows · 1,000/s"),
        ({"feed": Feed.KEYWORD_BY_DATE}, {"feed": Feed.KEYWORD_BY_DATE}, "0/200 keywords · 0 rows · 0/s"),
        ({"total": 1}, {"total": 1}, "0/1 campaign · 0 rows · 0/s"),
    ],
)
def test_it_shows_counts_rate_failures_and_time_left(first: dict[str, Any], then: dict[str, Any], said: str) -> None:
    shown = Shown()
    shown.display.show(at(**first))
    shown.clock.now = 10.0
    shown.display.show(at(**then))
    assert shown.display.describe() == said


@pytest.mark.parametrize("options", [{}, {"columns": 200, "term": "dumb"}], ids=["no terminal", "a dumb one"])
async def test_without_a_bar_there_is_a_plain_line_a_minute(options: dict[str, Any]) -> None:
    shown = Shown(**options)
    async with shown.display as display:
        for now, progress in ((0.0, at()), (60.0, at(done=50, rows=60_000)), (119.0, at(done=60, rows=61_000))):
            shown.clock.now = now
            display.show(progress)
            display.tick()
    assert shown.text.getvalue() == "Pulling campaign: 50/200 campaigns · 3 min 00 s left · 60,000 rows · 1,000/s\n"


async def test_quiet_shows_no_progress() -> None:
    shown = Shown(quiet=True)
    async with shown.display as display:
        display.show(at())
        shown.clock.now = 600.0
        display.tick()
    assert shown.text.getvalue() == ""


WAITS = {
    "pace": "at the service's limit",
    "asked to wait": "the service asked for a pause",
    "backoff": "retrying",
    "outage": "no responses, trying again",
}


@pytest.mark.parametrize(("reason", "said"), [*WAITS.items(), ("concurrency", "")])
def test_it_shows_what_it_waits_for(monkeypatch: pytest.MonkeyPatch, reason: str, said: str) -> None:
    shown = Shown()
    shown.display.show(at())
    shown.waits(monkeypatch, reason)
    assert shown.display.describe() == "0/200 campaigns" + (f" · {said}" if said else "") + " · 0 rows"
    shown.display.show(at(done=1))
    shown.display._update_waiting()
    assert shown.display.describe() == "1/200 campaigns · 0 rows"


@pytest.mark.parametrize("reason", WAITS)
def test_a_stalled_pull_shows_no_time_left(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    shown = Shown()
    shown.display.show(at())
    shown.clock.now = 10.0
    shown.display.show(at(done=198))
    shown.waits(monkeypatch, reason)
    assert "1 s left" in shown.display.describe()
    shown.clock.now = 12.0
    assert ("left" in shown.display.describe()) == (reason == "pace")  # at its pace it will come
    shown.display.show(at(done=199))
    assert "1 s left" in shown.display.describe()


def test_a_new_stage_forgets_the_waits_of_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown()
    shown.display.show(at(stage=Stage.KEYWORDS))
    shown.waits(monkeypatch, "backoff", retries=1)
    assert "retrying" in shown.display.describe()
    shown.display.show(at(done=1))
    assert "retrying" not in shown.display.describe()


def test_writing_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown()
    shown.display.show(at())
    shown.waits(monkeypatch, "backoff", retries=1)
    shown.display.show(at(stage=Stage.WRITING, total=None))
    shown.waits(monkeypatch, "backoff", 9.0, retries=1)
    shown.display._update_waiting()
    assert shown.display.describe() == ""


def half(columns: int, monkeypatch: pytest.MonkeyPatch, reason: str, feed: Feed = Feed.CAMPAIGN) -> str:
    """Return the line of a pull that is half done and waits."""
    shown = Shown(columns)
    shown.display.show(at(total=80, feed=feed))
    shown.clock.now = 10.0
    shown.waits(monkeypatch, reason)
    shown.display.show(at(done=40, rows=2_000, total=80, feed=feed))
    return shown.line()


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_the_bar_is_whole_beside_the_longest_texts(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    half_of_bar = 10 if columns == 100 else 5
    line = half(columns, monkeypatch, "asked to wait", Feed.KEYWORD_BY_DATE)
    assert re.search(rf"keyword-by-date ━{{{half_of_bar}}} {{{half_of_bar}}} 40/80 keywords", line), line


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (40, "campaign 40/80 campaigns · 10 s l…"),
        (60, "campaign ━━━━━      40/80 campaigns · 10 s left · at…"),
        (80, "campaign ━━━━━      40/80 campaigns · 10 s left · at the service's limit…"),
        (100, "Pulling campaign ━━━━━━━━━━           40/80 campaigns · 10 s left · at the service's limit…"),
        (
            200,
            "Pulling campaign ━━━━━━━━━━           "
            "40/80 campaigns · 10 s left · at the service's limit · 2,000 rows · 200/s",
        ),
    ],
)
def test_a_narrow_line_loses_the_least_important(monkeypatch: pytest.MonkeyPatch, columns: int, expected: str) -> None:
    assert half(columns, monkeypatch, "pace")[2:].rstrip() == expected


def test_the_time_left_fits_80_columns_in_a_huge_pull() -> None:
    shown = Shown(80)
    shown.display.show(at(feed=Feed.KEYWORD_BY_DATE, total=200_000))
    shown.clock.now = 36_000.0
    shown.display.show(at(feed=Feed.KEYWORD_BY_DATE, total=200_000, done=100_000, rows=900_000))
    assert "100,000/200,000 keywords · 10 h 00 min left" in shown.line()


def test_no_number_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in range(60, 110):
        numbers = re.findall(r"[\d,]+", half(columns, monkeypatch, "concurrency"))
        assert numbers == ["40", "80", "10", "2,000", "200"][: len(numbers)]


@pytest.mark.parametrize("columns", [40, 80])
def test_two_echoed_interrupts_do_not_wrap_the_line(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    assert len(half(columns, monkeypatch, "outage") + "^C^C") <= columns
