"""The summary of a pull or of several, and the preview of a dry run: for a person to read, or as JSON."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli.errors import code_of, explain, in_shell_words
from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.output import as_json, counted, duration, size, write
from seorep_async.errors import ExportError, one_line
from seorep_async.export import PullFailure, PullPreview, PullSummary
from seorep_async.session import Stats

_LISTED = 20
_FAILS_AGAIN = ("AuthenticationError", "NotFoundError", "InvalidRequestError", "DecodeError")
_LABELS = ("feeds", "start_date", "end_date", "account", "snapshot_date")


def code_of_pulls(pulls: Sequence[PullSummary]) -> ExitCode:
    """Return the exit code: 9 if every failure would come again, else 4, or 5 where nothing was received at all."""
    failures = [failure for one in pulls for failure in one.failures]
    if not failures:
        return ExitCode.OK
    if all(one.error in _FAILS_AGAIN for one in failures):
        return ExitCode.REFUSED
    return ExitCode.PARTIAL if any(one.rows or one.campaigns_complete for one in pulls) else ExitCode.UNAVAILABLE


def show_failures(console: Console, pulls: Sequence[PullSummary]) -> None:
    """Print a line for each reason, with the campaigns, or the keywords of a campaign, that failed for it."""
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for pull in pulls:
        month = f"{pull.start_date:%Y-%m}: " if len(pulls) > 1 else ""
        for one in pull.failures:
            feed = f"{one.feed.value}: " if len(pull.feeds) > 1 else ""
            status = f" (status {one.status})" if one.status is not None else ""
            why = one_line(f"{in_shell_words(one.message)}{status}")
            kind = "campaign" if one.keyword_id is None else f"campaign {one.campaign_id}, keyword"
            groups[f"{month}{feed}", kind, why].append(one.campaign_id if one.keyword_id is None else one.keyword_id)
    for (place, kind, why), ids in groups.items():
        more = f" and {len(ids) - _LISTED:,} more" if len(ids) > _LISTED else ""
        named = f"{kind}{'s' if len(ids) > 1 else ''} {', '.join(map(str, sorted(ids)[:_LISTED]))}{more}"
        console.print(Text.assemble(("Failed: ", "bold red"), f"{place}{named}: {why}"))


@attrs.frozen
class Run:
    """What a run has pulled, and what that cost, an unfinished pull included; `skipped` months were complete."""

    pulls: Sequence[PullSummary]
    source: str
    stats: Stats
    seconds: float
    skipped: int
    to_stdout: bool


def show_summary(console: Console, run: Run) -> None:
    """Print what was pulled, into which files, and the next step if there were failures."""
    pulls = run.pulls
    if not any(one.requests or one.outcomes for one in pulls):
        console.print("Nothing to retry: no report failed last time. Omit --retry-failed to pull everything.")
        return
    first, last = pulls[0], pulls[-1]
    days = f"{min(one.start_date for one in pulls)} to {max(one.end_date for one in pulls)}"
    what = counted(len(pulls), "month") if len(pulls) > 1 else " and ".join(feed.value for feed in first.feeds)
    console.print(Text.assemble((f"Pulled {what}", "bold"), f", {days}, from {one_line(run.source)}"))
    for label, value in [*_counts(run), *_files(run)]:
        console.print(Text.assemble((f"  {label:<11}", "dim"), value))
    today = dt.datetime.now(dt.UTC).date()
    if last.resumed and last.snapshot_date < today:
        console.print(f"This finished the pull of {last.snapshot_date}. To pull {today}, run the command once more.")
    code = code_of_pulls(pulls)
    if code is ExitCode.PARTIAL:
        console.print("Repeat the command with --retry-failed to fetch only what failed.")
    elif code is ExitCode.REFUSED:
        ids = sorted({one.campaign_id for pull in pulls for one in pull.failures})
        few = ",".join(map(str, ids)) if len(ids) <= _LISTED else "@FILE"
        console.print(f"What failed would fail again; --exclude {few} leaves it out.")


def _counts(run: Run) -> Iterator[tuple[str, str | Text]]:
    pulls, first = run.pulls, run.pulls[0]
    yield "Account", f"{one_line(first.account)}, snapshot of {first.snapshot_date}"
    if run.skipped:
        yield "Skipped", f"{counted(run.skipped, 'month')}, complete already"
    campaigns = len({one.campaign_id for pull in pulls for one in pull.outcomes})
    failed = len({one.campaign_id for pull in pulls for one in pull.failures})
    yield "Campaigns", Text.assemble(f"{campaigns:,}", (f", {failed:,} with failures" if failed else "", "red"))
    rows = {feed.value: sum(one.rows_of(feed) for one in pulls) for feed in first.feeds}
    several = f" ({', '.join(f'{feed} {count:,}' for feed, count in rows.items())})" if len(rows) > 1 else ""
    yield "Rows", f"{sum(rows.values()):,}{several}"
    if resumed := sum(one.resumed for one in pulls):
        yield "Resumed", f"{counted(resumed, 'report was', 'reports were')} stored already"
    retries = sum(run.stats.retries.values())
    again = f", {counted(retries, 'of them a retry', 'of them retries')}" if retries else ""
    yield "Requests", f"{run.stats.attempts:,}{again}"
    if not any(one.compared for one in pulls) and not run.to_stdout:
        yield "Changes", "not requested; --compare-previous-period requests them"
    yield "Time", duration(run.seconds)


def _files(run: Run) -> Iterator[tuple[str, str]]:
    paths, feeds = [*dict.fromkeys(path for one in run.pulls for path in one.paths)], len(run.pulls[0].feeds)
    if not paths and not run.to_stdout:
        yield "File", "none written, as every campaign failed"
    for number, path in enumerate(paths[:feeds]):
        held = f" ({size(path.stat().st_size)})" if path.is_file() else ""
        yield "" if number else "File", f"{one_line(str(path))}{held}"
    if beside := paths[feeds:]:
        yield "Beside it", one_line(", ".join(path.name for path in beside))


def _ended(code: ExitCode) -> dict[str, Any]:
    return {"ok": code is ExitCode.OK, "exit_code": int(code), "error": None, "error_type": None}


def summary_facts(summary: PullSummary, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Return the facts of a pull, by their names in JSON."""
    return {
        **_ended(code_of_pulls([summary])),
        **{name: getattr(summary, name) for name in (*_LABELS, "compared")},
        "files": [*map(str, summary.paths)],
        "campaigns": summary.campaigns,
        "campaigns_complete": summary.campaigns_complete,
        "rows": {feed.value: summary.rows_of(feed) for feed in summary.feeds},
        "resumed_reports": summary.resumed,
        "requests": summary.requests,
        "started_at": summary.started_at,
        "retries": summary.stats.retries,
        "refusals": summary.stats.throttled,
        "waited": {reason: round(seconds, 3) for reason, seconds in summary.stats.waited.items()},
        "seconds": round(summary.seconds, 3),
        "warnings": [*warnings],
        "failures": [_failure(one) for one in summary.failures],
    }


def _failure(one: PullFailure) -> dict[str, Any]:
    message = one_line(in_shell_words(one.message))
    return attrs.asdict(one) | {"message": message, "fails_again": one.error in _FAILS_AGAIN}


def months_facts(run: Run, left: Iterable[str], code: ExitCode, warnings: Sequence[str]) -> dict[str, Any]:
    """Return the facts of a run of several pulls, by their names in JSON; `left` are the months still to pull."""
    return {
        **_ended(code),
        "months_left": [*left],
        "months_skipped": run.skipped,
        "requests": run.stats.attempts,
        "rows": sum(one.rows for one in run.pulls),
        "failures": sum(len(one.failures) for one in run.pulls),
        "warnings": [*warnings],
        "pulls": [summary_facts(one) for one in run.pulls],
    }


def failure_facts(error: BaseException, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a pull that ended without a summary, by their names in JSON; unknown ones are null."""
    return {
        **_ended(code_of(error)),
        "error": explain(error),
        "error_type": type(error).__name__,
        "status": getattr(error, "status", None),
        "attempts": getattr(error, "attempts", 0),
        **dict.fromkeys(_LABELS),
        "files": [],
        "failures": [],
        **known,
    }


def print_failure(error: BaseException, **known: Any) -> None:
    """Print the facts of a pull that ended without a summary as JSON."""
    with contextlib.suppress(ExportError, click.exceptions.Exit):  # the failure itself counts
        write(as_json(failure_facts(error, known)))


def preview_facts(found: Mapping[str, PullPreview], labels: Mapping[str, Any], skipped: int) -> dict[str, Any]:
    """Return the previews of one pull, or of each month by its name, by their names in JSON."""
    one, staged = next(iter(found.values())), None
    if one.staged is not None:
        names = ("started_at", "reports", "ended")
        staged = {name: getattr(one.staged, name) for name in names} | {"resumes": one.resumes}
    return {
        "dry_run": True,
        **labels,
        "files": [*map(str, one.files)],
        **{name: getattr(one, name) for name in ("campaigns", "sampled", "skipped")},
        "requests": sum(each.requests for each in found.values()),
        "staged": staged,
        **({"months": {name: each.requests for name, each in found.items()}} if len(found) > 1 else {}),
        "months_skipped": skipped,
    }


def preview_in_words(facts: Mapping[str, Any], source: str) -> str:
    """Return the facts of a preview for a person to read."""
    lines = [("Account", one_line(facts["account"])), ("Campaigns", f"{facts['campaigns']:,}")]
    if facts["months_skipped"]:
        lines.append(("Skipped", f"{counted(facts['months_skipped'], 'month')}, complete already"))
    lines += [(name, f"about {counted(requests, 'request')}") for name, requests in facts.get("months", {}).items()]
    skipped = f"; campaigns {', '.join(map(str, facts['skipped']))} did not answer" if facts["skipped"] else ""
    sample = "at one page per report" if facts["sampled"] is None else f"estimated from campaign {facts['sampled']}"
    lines.append(("Requests", f"about {facts['requests']:,}, {sample}{skipped}"))
    lines += [("File", one_line(file)) for file in facts["files"]]
    if (staged := facts["staged"]) is not None:
        state = "that ended with failures" if staged["ended"] else "that was interrupted"
        begun = f"{counted(staged['reports'], 'report')} of a pull of {staged['started_at']:%Y-%m-%d %H:%M}"
        lines.append(("Stored", f"{begun} {state}; this {'resumes it' if staged['resumes'] else 'starts over'}"))
    title = f"Would pull {', '.join(facts['feeds'])}, {facts['start_date']} to {facts['end_date']}, from"
    return "\n".join([f"{title} {one_line(source)}", *(f"  {label:<11}{value}" for label, value in lines), ""])
