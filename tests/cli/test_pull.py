"""`seorep pull`."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from seorep_async import SeoRepClient
from seorep_async.cli.terminal import stderr_console
from seorep_async.export.checkpoint import Checkpoint
from seorep_async.export.lock import PullLock
from seorep_async.export.staging_area import StagingArea
from seorep_async.sandbox import Sandbox
from seorep_async.session import Clock
from tests.cli.running import Ended, Seorep, serving
from tests.export.reports import names_in, rows_in


def against(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, api_key: str = "sandbox") -> None:
    monkeypatch.setenv("SEOREP_BASE_URL", sandbox.base_url)
    monkeypatch.setenv("SEOREP_API_KEY", api_key)


def failing(seorep: Seorep, monkeypatch: pytest.MonkeyPatch, statuses: dict[int, int], *arguments: object) -> Ended:
    with serving(failing=statuses) as sandbox:
        against(sandbox, monkeypatch)
        return seorep("pull", *arguments)


def test_it_writes_a_row_for_each_keyword(seorep: Seorep) -> None:
    assert seorep("pull", "--sandbox", "--campaigns", 7, "--keywords", 40).code == 0
    found = rows_in(Path("rankings-campaign.csv"))
    assert len({(row["campaign_id"], row["keyword_id"]) for row in found}) == len(found) == 7 * 40


@pytest.mark.parametrize("feed", ["campaign", "campaign-by-date", "keyword-by-date"])
def test_the_file_is_named_for_the_feed(seorep: Seorep, tmp_path: Path, feed: str) -> None:
    seorep("pull", "--sandbox", "--campaigns", 1, "--keywords", 2, "--feed", feed)
    totals = [] if feed == "campaign" else [f"rankings-{feed}.totals.csv"]
    assert names_in(tmp_path) == [f"rankings-{feed}.csv", *totals]


def test_by_default_it_asks_for_the_last_three_full_months(seorep: Seorep) -> None:
    seorep("pull", "--sandbox", "--campaigns", 1, "--keywords", 1, "--feed", "campaign-by-date")
    found = rows_in(Path("rankings-campaign-by-date.csv"))
    assert {(row["start_date"], row["end_date"]) for row in found} == {("2023-04-01", "2023-06-30")}
    assert [row["date"] for row in found] == ["2023-04-01", "2023-05-01", "2023-06-01"]


def test_it_asks_for_the_dates_given(seorep: Seorep) -> None:
    seorep("pull", "--sandbox", "--campaigns", 1, "--from", "2021-02-03", "--to", "2021-02-04", "--out", "a.csv")
    found = rows_in(Path("a.csv"))
    assert {(row["start_date"], row["end_date"]) for row in found} == {("2021-02-03", "2021-02-04")}


def test_it_pulls_the_campaigns_named_in_their_order(seorep: Seorep) -> None:
    seorep("pull", "--sandbox", "--campaign", 9, "--campaign", 2, "--keywords", 1, "--out", "a.csv")
    assert [row["campaign_id"] for row in rows_in(Path("a.csv"))] == ["9", "2"]


def test_the_summary_shows_counts_time_and_file(seorep: Seorep) -> None:
    ended = seorep("pull", "--sandbox", "--campaigns", 40, "--keywords", 30)
    size = f"{os.path.getsize('rankings-campaign.csv') / 1000:.0f} kB"
    facts = [line.split(maxsplit=1) for line in ended.err.splitlines()]
    assert facts[0] == ["Pulled", "the campaign feed, 2023-04-01 to 2023-06-30, from the sandbox (seed 1)"]
    assert facts[2][0] == "Account"
    del facts[2]
    assert facts[1:5] == [
        ["Dates", "the 3 full months before 2023-07-15 (UTC+02:00)"],
        ["Campaigns", "40"],
        ["Rows", "1,200"],
        ["Requests", "82"],
    ]
    assert facts[5][0] == "Time"
    assert facts[6] == ["File", f"rankings-campaign.csv ({size})"]


def test_the_rows_go_to_stdout(seorep: Seorep) -> None:
    ended = seorep("pull", "--sandbox", "--campaigns", 2, "--keywords", 3, "-o", "-")
    seorep("pull", "--sandbox", "--campaigns", 2, "--keywords", 3, "-o", "a.csv")
    assert ended.code == 0
    assert ended.out.encode() == Path("a.csv").read_bytes()
    assert ended.err.startswith("Pulled the campaign feed")


def test_the_options_of_csv_hold_for_files_and_stdout(seorep: Seorep) -> None:
    arguments = ("pull", "--sandbox", "--campaigns", 1, "--csv-line-end", "lf", "--csv-bom", "--csv-guard", "--quiet")
    assert seorep(*arguments, "-o", "a.csv").code == 0
    found = Path("a.csv").read_bytes()
    assert (found[:3], b"\r" in found) == (b"\xef\xbb\xbf", False)
    assert seorep(*arguments, "-o", "-").out.encode() == found
    ended = seorep(*arguments, "-o", "-", "--format", "jsonl")
    said = "--csv-line-end, --csv-bom or --csv-guard is only for CSV: leave it out, or write CSV"
    assert (ended.code, ended.out, ended.err) == (2, "", f"Error: {said}\n")


@pytest.mark.parametrize("feed", ["campaign", "campaign-by-date", "keyword-by-date"])
def test_json_lines_go_to_stdout(seorep: Seorep, feed: str) -> None:
    arguments = ("pull", "--sandbox", "--campaigns", 2, "--keywords", 3, "--feed", feed, "--quiet")
    ended = seorep(*arguments, "-o", "-", "--format", "jsonl")
    seorep(*arguments, "-o", "a.jsonl")
    assert (ended.out.encode(), ended.err) == (Path("a.jsonl").read_bytes(), "")


def test_failures_of_a_stream_are_reported(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = failing(seorep, monkeypatch, {2: 404}, "-o", "-", "--quiet")
    assert (ended.code, ended.out.count("\n")) == (4, 1 + 3 * 6)
    assert "campaign 2: there is no such object" in ended.err


def test_the_summary_goes_to_stdout_as_json(seorep: Seorep) -> None:
    ended = seorep("pull", "--sandbox", "--campaigns", 2, "--keywords", 3, "--json", "--quiet")
    assert (json.loads(ended.out)["rows"], ended.err) == ({"campaign": 6}, "")


@pytest.mark.parametrize("out", ["a.csv", "-"])
def test_unknown_names_of_engines_are_said_even_if_quiet(seorep: Seorep, out: str) -> None:
    said = seorep("pull", "--sandbox", "--engine-names", "google,bing,wmt", "-o", out, "--quiet").err
    assert said.startswith("Warning: rows have 'engineARanking', ")
    assert said.endswith("pass --engine-names\n")
    assert said.count("\n") == 1


def test_warnings_are_in_the_summary_as_json(seorep: Seorep) -> None:
    pull = ("pull", "--sandbox", "--json", "--restart")
    assert json.loads(seorep(*pull).out)["warnings"] == []
    (said,) = json.loads(seorep(*pull, "--engine-names", "google,bing,wmt").out)["warnings"]
    assert said.startswith("rows have 'engineARanking', ")


def test_quiet_prints_only_failures(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seorep("pull", "--sandbox", "--quiet").err == ""
    ended = failing(seorep, monkeypatch, {2: 404}, "--quiet")
    assert ended.err.split("\n")[:2] == ["Failed", "  campaign 2: there is no such object (status 404)"]


def test_a_dry_run_shows_the_requests_and_writes_nothing(seorep: Seorep, tmp_path: Path) -> None:
    arguments = ("pull", "--sandbox", "--campaigns", 7, "--keywords", 40, "--feed", "campaign", "-o", "a.csv")
    ended = seorep(*arguments, "--dry-run")
    assert ended.code == 0
    assert "Campaigns  7" in ended.out
    (said,) = re.findall(r"about (\d+)", ended.out)
    assert names_in(tmp_path) == []
    assert f"Requests   {said}\n" in seorep(*arguments).err


@pytest.mark.parametrize("feed", ["campaign-by-date", "keyword-by-date"])
def test_a_dry_run_counts_the_requests_of_every_feed(seorep: Seorep, feed: str) -> None:
    arguments = ("pull", "--sandbox", "--campaigns", 3, "--keywords", 30, "--feed", feed, "-o", "a.csv")
    (said,) = re.findall(r"about ([0-9,]+), estimated", seorep(*arguments, "--dry-run").out)
    assert f"Requests   {said}\n" in seorep(*arguments).err


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ((1,), "about 9, estimated from campaign 2; campaign 1 did not answer"),
        ((1, 2, 3, 4), "about 5, at one page per report; campaigns 1, 2 and 3 did not answer"),
    ],
)
def test_a_dry_run_names_campaigns_that_did_not_answer(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch, gone: tuple[int, ...], said: str
) -> None:
    with serving(keywords=30, failing=dict.fromkeys(gone, 404)) as sandbox:
        against(sandbox, monkeypatch)
        ended = seorep("pull", "--dry-run")
    assert (ended.code, ended.err) == (0, "")
    assert f"  Requests   {said}\n" in ended.out


def test_a_dry_run_shows_stored_reports(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(failing={2: 404}) as sandbox:
        against(sandbox, monkeypatch)
        assert seorep("pull").code == 4
        ended = seorep("pull", "--dry-run")
    assert re.search(
        r"  Stored     3 reports of a pull of .* that ended with failures; the pull would start over\n", ended.out
    )


def test_one_stored_report_is_singular(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(campaigns=2, failing={2: 404}) as sandbox:
        against(sandbox, monkeypatch)
        assert seorep("pull").code == 4
        dry = seorep("pull", "--dry-run", "--retry-failed").out
        said = seorep("pull", "--retry-failed").err
    assert re.search(r"  Stored     1 report of a pull of .* that ended with failures; it would be resumed\n", dry)
    assert re.match(r"Resuming the pull of .*: 1 report is stored already\.\n", said)
    assert "  Resumed    1 report was stored already\n" in said


def test_a_resumed_pull_opens_its_checkpoint_once(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    really_open, really_ask = Checkpoint.__init__, StagingArea.resumes

    def opening(*given: Any) -> None:
        steps.append("opened")
        really_open(*given)

    def asking(*given: Any, **how: Any) -> bool:
        steps.append("asked whether it resumes")
        return really_ask(*given, **how)

    with serving(campaigns=2, failing={2: 404}) as sandbox:
        against(sandbox, monkeypatch)
        assert seorep("pull").code == 4
        monkeypatch.setattr(Checkpoint, "__init__", opening)
        monkeypatch.setattr(StagingArea, "resumes", asking)
        assert "Resuming the pull of" in seorep("pull", "--retry-failed").err
    assert steps == ["opened", "asked whether it resumes"]


@pytest.mark.parametrize("feeds", [("campaign",), ("keyword-by-date",), ("campaign", "keyword-by-date")])
def test_a_dry_run_counts_only_missing_reports(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch, feeds: tuple[str, ...]
) -> None:
    arguments = ("--out", "a.csv", *(part for feed in feeds for part in ("--feed", feed)))
    with serving(failing={2: 404}) as sandbox:
        port = int(sandbox.base_url.rpartition(":")[2])
        against(sandbox, monkeypatch)
        assert seorep("pull", *arguments).code == 4
    with serving(port=port):
        (said,) = re.findall(
            r"about ([0-9,]+), estimated", seorep("pull", *arguments, "--retry-failed", "--dry-run").out
        )
        assert f"Requests   {said}\n" in seorep("pull", *arguments, "--retry-failed").err


@pytest.mark.parametrize(
    ("given", "then"), [((), "the pull would start over"), (("--retry-failed",), "they would be resumed")]
)
def test_a_dry_run_says_whether_it_would_resume(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], then: str
) -> None:
    with serving(failing={2: 404}) as sandbox:
        against(sandbox, monkeypatch)
        seorep("pull")
        assert f"{then}\n" in seorep("pull", "--dry-run", *given).out


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_pull_with_other_parameters_is_refused_in_one_line(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch, dry: tuple[str, ...]
) -> None:
    with serving(failing={2: 404}) as sandbox:
        against(sandbox, monkeypatch)
        seorep("pull")
        asked = sandbox.stats.requests
        ended = seorep("pull", "--from", "2022-01-01", "--retry-failed", *dry)
        assert sandbox.stats.requests == asked
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "start date 2023-04-01, not 2022-01-01" in ended.err


def test_a_dry_run_is_refused_as_the_pull_would_be(seorep: Seorep) -> None:
    Path("a.duckdb").write_bytes(b"something else\n" * 1000)
    ended = seorep("pull", "--sandbox", "-o", "a.duckdb", "--dry-run")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Error: can't write ")
    assert ended.err.endswith("it is not a valid DuckDB database file; name another file\n")


def test_a_dry_run_reports_another_pull_at_work(seorep: Seorep, tmp_path: Path) -> None:
    (tmp_path / ".a.csv.pull").mkdir(0o700)
    lock = PullLock(tmp_path / ".a.csv.pull" / "lock")
    lock.take()
    ended = seorep("pull", "--sandbox", "-o", "a.csv", "--dry-run")
    lock.release()
    assert (ended.code, "a.csv: another pull of this program is writing it; await" in ended.err) == (7, True)


def test_a_changed_table_is_one_line_and_a_wrong_argument(seorep: Seorep) -> None:
    seorep("pull", "--sandbox", "-o", "a.duckdb")
    with duckdb.connect("a.duckdb") as database:
        database.execute("ALTER TABLE keyword_rankings RENAME engine_a_ranking TO rank")
    for more in ((), ("--dry-run",)):
        ended = seorep("pull", "--sandbox", "-o", "a.duckdb", *more)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert 'Run ALTER TABLE keyword_rankings RENAME "rank" TO engine_a_ranking there, or name another' in ended.err


def test_a_dry_run_is_written_as_json(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(failing={2: 404}) as sandbox:
        against(sandbox, monkeypatch)
        seorep("pull")
        said = json.loads(seorep("pull", "--dry-run", "--json", "--retry-failed").out)
    held = said.pop("staged")
    assert (held["reports"], held["ended"], held["resumes"]) == (3, True, True)
    assert said == {
        "dry_run": True,
        "feeds": ["campaign"],
        "start_date": "2023-04-01",
        "end_date": "2023-06-30",
        "account": "127.0.0.1",
        "files": ["rankings-campaign.csv"],
        "campaigns": 4,
        "requests": 1,
        "sampled": None,
        "skipped": [2],
    }


def test_with_no_color_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert stderr_console().no_color


def test_several_feeds_go_into_several_files(seorep: Seorep, tmp_path: Path) -> None:
    feeds = ("--feed", "campaign", "--feed", "campaign-by-date")
    seorep("pull", "--sandbox", "--campaigns", 2, "--keywords", 2, *feeds)
    assert names_in(tmp_path) == [
        "rankings.campaign_periods.csv",
        "rankings.keyword_rankings.csv",
        "rankings.totals.csv",
    ]


def test_retry_failed_asks_for_the_rest(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(failing={2: 404}) as sandbox:
        port = int(sandbox.base_url.rpartition(":")[2])
        against(sandbox, monkeypatch)
        assert seorep("pull").code == 4
    with serving(port=port) as sandbox:
        ended = seorep("pull", "--retry-failed")
        assert sandbox.stats.requests == 1
    assert ended.code == 0
    assert ended.err.startswith("Resuming the pull of ")
    assert "  Resumed    3 reports were stored already\n" in ended.err


def test_a_failure_can_be_rehearsed_with_the_sandbox(seorep: Seorep) -> None:
    """The sandbox's data are the same with and without faults, so that the second run resumes the first."""
    pull = ("pull", "--sandbox", "--campaigns", 3)
    assert seorep(*pull, "--forbidden", 3).code == 4
    ended = seorep(*pull, "--faults", "resets=1%", "--retry-failed")
    assert (ended.code, "  Resumed    2 reports were stored already\n" in ended.err) == (0, True)
    assert len(rows_in(Path("rankings-campaign.csv"))) == 3 * 50
    said = "Nothing to retry: no report failed in the last pull into rankings-campaign.csv. "
    ended = seorep(*pull, "--retry-failed")
    assert (ended.code, ended.err) == (0, said + "Omit --retry-failed to pull everything.\n")
    assert seorep(*pull, "--retry-failed", "--dry-run").out.startswith(said)
    assert json.loads(seorep(*pull, "--retry-failed", "--json", "--quiet").out)["requests"] == 0


def test_other_data_of_the_sandbox_are_another_service(seorep: Seorep) -> None:
    seorep("pull", "--sandbox", "--campaigns", 3, "--forbidden", 3)
    said = "of service the sandbox --campaigns 3, not the sandbox --campaigns 3 --seed 2. Repeat the original pull"
    assert said in seorep("pull", "--sandbox", "--campaigns", 3, "--seed", 2, "--retry-failed").err


def test_a_file_that_no_pull_wrote_needs_force(seorep: Seorep) -> None:
    Path("a.csv").write_text("mine\n")
    ended = seorep("pull", "--sandbox", "-o", "a.csv")
    said = "no pull of this version wrote it; name another file, or replace it with --force\n"
    assert (ended.code, ended.err) == (2, f"Error: can't write a.csv: a.csv exists, and {said}")
    assert seorep("pull", "--sandbox", "-o", "a.csv", "--force", "--quiet").code == 0


def test_the_sandbox_refuses_what_is_over_its_limit(seorep: Seorep) -> None:
    ended = seorep("pull", "--sandbox", "--latency", 0.02, "--rate-limit", "at-once=4,status=503")
    assert ended.code == 0
    assert re.search(r"Requests   \d+, \d+ of them (a retry|retries)\n", ended.err)


def test_messages_go_to_stderr_only(seorep: Seorep) -> None:
    assert seorep("pull", "--sandbox", "--campaigns", 1).out == ""


def test_without_a_terminal_there_is_no_progress(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    ended = seorep("pull", "--sandbox", "--campaigns", 3, "--latency", 0.05)
    assert len(ended.err.splitlines()) == 10
    assert "\x1b" not in ended.err


def test_it_pulls_from_the_account_in_the_environment(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as sandbox:
        against(sandbox, monkeypatch)
        ended = seorep("pull")
        assert f"from {sandbox.base_url}\n" in ended.err
    assert ended.code == 0
    assert len(rows_in(Path("rankings-campaign.csv"))) == 4 * 6


@pytest.mark.parametrize("feed", ["campaign", "campaign-by-date", "keyword-by-date"])
def test_failing_campaigns_end_in_4_with_the_others_whole(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch, feed: str
) -> None:
    assert (
        failing(seorep, monkeypatch, {}, "--feed", feed, "--campaign", 2, "--campaign", 4, "--out", "w.csv").code == 0
    )
    ended = failing(seorep, monkeypatch, {1: 404, 3: 404}, "--feed", feed, "--out", "a.csv")
    assert ended.code == 4
    assert Path("a.csv").read_bytes() == Path("w.csv").read_bytes()


def test_failures_are_listed_by_reason(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    said = failing(seorep, monkeypatch, {1: 404, 2: 422, 3: 404}).err.splitlines()
    assert said[-1] == "Repeat the command with --retry-failed to fetch only what failed."
    assert said[0] == "Failed"
    assert said[1].startswith("  campaigns 1, 3: there is no such object (status 404)")
    assert said[2].startswith("  campaign 2: ")
    assert "  Campaigns  1 of 4 complete, 3 failed" in said


@pytest.mark.parametrize(("third", "code"), [(404, 2), (501, 5)])
@pytest.mark.parametrize("out", ["a.csv", "-"])
def test_if_all_fail_a_transient_error_gives_the_code(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch, out: str, third: int, code: int
) -> None:
    ended = failing(seorep, monkeypatch, {1: 404, 2: 404, 3: third, 4: 404}, "-o", out)
    assert ended.code == code
    assert "campaigns 1, 2, " in ended.err
    assert not Path("a.csv").exists()


@pytest.mark.parametrize(
    ("feed", "campaigns"), [("campaign", ()), ("keyword-by-date", ("--campaign", 1, "--campaign", 2, "--campaign", 3))]
)
def test_a_wrong_key_is_one_line_and_leaves_no_file(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, feed: str, campaigns: tuple[object, ...]
) -> None:
    with serving() as sandbox:
        against(sandbox, monkeypatch, "s3cret-k3y")
        ended = seorep("pull", "--feed", feed, *campaigns)
    assert ended.code == 3
    assert re.fullmatch(r"Error: the API key was refused.* \(status 403\); check SEOREP_API_KEY .*\n", ended.err)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("statuses", [{}, {1: 404}, {1: 404, 2: 404, 3: 404, 4: 404}])
def test_the_key_is_nowhere_in_the_output(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch, statuses: dict[int, int]
) -> None:
    with serving(failing=statuses, api_key="s3cret-k3y") as sandbox:
        against(sandbox, monkeypatch, "s3cret-k3y")
        ended = seorep("pull")
    assert "s3cret" not in ended.out + ended.err


def test_nothing_listening_is_5(seorep: Seorep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEOREP_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("SEOREP_API_KEY", "key")
    monkeypatch.setattr(SeoRepClient, "_clock", Clock(jitter=lambda: 0.0))  # eight attempts without a wait
    ended = seorep("pull")
    assert ended.code == 5
    assert ended.err.startswith("Error: the connection could not be opened")
    assert ended.err.count("\n") == 1
    assert names_in(tmp_path) == []
