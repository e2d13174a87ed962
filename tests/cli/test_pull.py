"""`seorep pull`: what its sessions can't show."""

import re
from pathlib import Path
from typing import Any

import pytest
from seorep_async.cli.terminal import stderr_console
from seorep_async.export.checkpoint import Checkpoint
from seorep_async.export.lock import PullLock
from seorep_async.export.staging_area import StagingArea
from tests.export.databases import opened_elsewhere
from tests.export.forged_notes import forge_note

from seorep_async import Feed
from tests.cli.running import Seorep

FEEDS = [feed.value for feed in Feed]


@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_stdout_gets_what_a_file_gets(seorep: Seorep, feed: str, kind: str) -> None:
    arguments = ("pull", "--sandbox", "--campaigns", 2, "--keywords", 3, "--feed", feed, "--quiet")
    ended = seorep(*arguments, "-o", "-", "--format", kind)
    seorep(*arguments, "-o", f"a.{kind}")
    assert (ended.out.encode(), ended.err) == (Path(f"a.{kind}").read_bytes(), "")


def test_the_options_of_csv_hold_for_files_and_stdout(seorep: Seorep) -> None:
    arguments = ("pull", "--sandbox", "--campaigns", 1, "--csv-line-end", "lf", "--csv-bom", "--csv-guard", "--quiet")
    assert seorep(*arguments, "-o", "a.csv").code == 0
    found = Path("a.csv").read_bytes()
    assert (found[:3], b"\r" in found) == (b"\xef\xbb\xbf", False)
    assert seorep(*arguments, "-o", "-").out.encode() == found


def test_a_resumed_pull_opens_its_checkpoint_once(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    really_open, really_ask = Checkpoint.__init__, StagingArea.to_resume

    def opening(*given: Any) -> None:
        steps.append("opened")
        really_open(*given)

    def asking(*given: Any, **how: Any) -> Any:
        steps.append("asked whether it resumes")
        return really_ask(*given, **how)

    with seorep.account(campaigns=2, failing={2: 404}):
        assert seorep("pull").code == 4
        monkeypatch.setattr(Checkpoint, "__init__", opening)
        monkeypatch.setattr(StagingArea, "to_resume", asking)
        assert "Resuming the pull of" in seorep("pull", "--retry-failed").err
    assert steps == ["opened", "asked whether it resumes"]


def test_a_dry_run_reports_another_pull_at_work(seorep: Seorep, tmp_path: Path) -> None:
    (tmp_path / ".a.csv.pull").mkdir(0o700)
    lock = PullLock(tmp_path / ".a.csv.pull" / "lock")
    lock.take()
    ended = seorep("pull", "--sandbox", "-o", "a.csv", "--dry-run")
    lock.release()
    assert (ended.code, "a.csv: another pull of this program is writing it; await" in ended.err) == (7, True)


def test_with_no_color_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert stderr_console().no_color


def test_the_sandbox_refuses_what_is_over_its_limit(seorep: Seorep) -> None:
    ended = seorep("pull", "--sandbox", "--latency", 0.02, "--rate-limit", "at-once=4,status=503")
    assert ended.code == 0
    assert re.search(r"Requests   \d+, \d+ of them (a retry|retries)\n", ended.err)


def test_without_a_terminal_there_is_no_progress(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    ended = seorep("pull", "--sandbox", "--campaigns", 3, "--latency", 0.05)
    assert len(ended.err.splitlines()) == 10
    assert "\x1b" not in ended.err


def test_a_refused_restart_of_months_is_made_up_for(seorep: Seorep) -> None:
    pull = ("pull", "--sandbox", "--campaigns", 3, "--month", "2023-01", "--skip-complete", "-o", "a.duckdb", "--quiet")
    assert seorep(*pull).code == 0
    assert (
        seorep("pull", "--sandbox", "--campaigns", 3, "--last", "3d", "-o", "a.duckdb", "--max-requests", 2).code == 5
    )
    with opened_elsewhere(Path("a.duckdb")):
        assert "the next pull starts over" in seorep(*pull, "--restart").err
    assert [*Path().glob(".a.duckdb.*.pull/restart")]


@pytest.mark.parametrize("name", ["parameters", "planned", "paused"])
def test_a_forged_checkpoint_is_one_line(seorep: Seorep, name: str) -> None:
    with seorep.account(campaigns=4, keywords=1):
        seorep("pull", "-o", "a.csv", "--max-requests", 3)
        forge_note(Path("a.csv"), name, '["\\u001b[31m"]')
        for more in ((), ("--dry-run",)):
            ended = seorep("pull", "-o", "a.csv", *more)
            said = f"Error: can't write {Path.cwd()}/a.csv: the checkpoint in .a.csv.pull is damaged; pass --restart"
            assert (ended.err.count("\n"), ended.err.startswith(said)) == (1, True), ended.err
