"""The summary of a pull or of several, and the preview of a dry run: for a person to read, or as JSON."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli.errors import code_of, explain, in_shell_words
from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.output import as_json, counted, duration, size, write
from seorep_async.errors import ExportError, one_line
from seorep_async.export import PullFailure, PullPreview, PullSummary

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


def month_of(one: Any) -> str:
    """Return the month of a pull of several, or its first day if that is another."""
    return f"{one.start_date:%Y-%m}" if one.start_date.day == 1 else one.start_date.isoformat()


def show_failures(console: Console, pulls: Sequence[PullSummary]) -> None:
    """Print a line for each reason."""
    for one in pulls:
        prefix = f"{month_of(one)}: " if len(pulls) > 1 else ""
        for line in failures_in_words(one.failures, several=len(one.feeds) > 1):
            console.print(Text.assemble(("Failed: ", "bold red"), f"{prefix}{line}"))


def failures_in_words(failures: Iterable[PullFailure], *, several: bool) -> Iterator[str]:
    """Yield a line for each reason, with the campaigns, or the keywords of a campaign, that failed for it."""
    groups: dict[tuple[str, int | None, str], list[int]] = defaultdict(list)
    for one in failures:
        status = f" (status {one.status})" if one.status is not None else ""
        feed = f"{one.feed.value}: " if several and one.feed is not None else ""
        keyword = one.keyword_id
        campaign = None if keyword is None else one.campaign_id
        why = one_line(f"{in_shell_words(one.message)}{status}")
        groups[feed, campaign, why].append(one.campaign_id if keyword is None else keyword)
    for (feed, campaign, why), ids in groups.items():
        shown = ", ".join(map(str, sorted(ids)[:_LISTED]))
        more = f" and {len(ids) - _LISTED:,} more" if len(ids) > _LISTED else ""
        kind = f"{'campaign' if campaign is None else f'campaign {campaign}, keyword'}{'s' if len(ids) > 1 else ''}"
        yield f"{feed}{kind} {shown}{more}: {why}"


def show_summary(console: Console, pulls: Sequence[PullSummary], source: str, *, to_stdout: bool, skipped: int) -> None:
    """Print what was pulled, into which files, and the next step if there were failures."""
    if not any(one.requests or one.outcomes for one in pulls):
        console.print("Nothing to retry: no report failed last time. Omit --retry-failed to pull everything.")
        return
    first, last = pulls[0], pulls[-1]
    days = f"{min(one.start_date for one in pulls)} to {max(one.end_date for one in pulls)}, from {one_line(source)}"
    what = counted(len(pulls), "month") if len(pulls) > 1 else " and ".join(feed.value for feed in first.feeds)
    console.print(Text.assemble((f"Pulled {what}", "bold"), f", {days}"))
    for label, value in _facts(pulls, to_stdout=to_stdout, skipped=skipped):
        console.print(Text.assemble((f"  {label:<11}", "dim"), value))
    today = dt.datetime.now(dt.UTC).date()
    if last.resumed and last.snapshot_date < today:
        console.print(f"This finished the pull of {last.snapshot_date}. To pull {today}, run the command once more.")
    code = code_of_pulls(pulls)
    if code is ExitCode.PARTIAL:
        console.print("Repeat the command with --retry-failed to fetch only what failed.")
    elif code is ExitCode.REFUSED:
        ids = sorted({one.campaign_id for pull in pulls for one in pull.failures if one.campaign_id is not None})
        few = ",".join(map(str, ids)) if len(ids) <= _LISTED else "@FILE"
        console.print(f"What failed would fail again; --exclude {few} leaves it out.")


def _facts(pulls: Sequence[PullSummary], *, to_stdout: bool, skipped: int) -> Iterator[tuple[str, str | Text]]:
    first = pulls[0]
    yield "Account", f"{one_line(first.account)}, snapshot of {first.snapshot_date}"
    if skipped:
        yield "Skipped", f"{counted(skipped, 'month')}, complete already"
    campaigns, complete = max(one.campaigns for one in pulls), min(one.campaigns_complete for one in pulls)
    incomplete = (f"{campaigns - complete:,} with failures", "red")
    yield "Campaigns", f"{campaigns:,}" if complete == campaigns else Text.assemble(f"{campaigns:,}, ", incomplete)
    rows = {feed: sum(one.rows_of(feed) for one in pulls) for feed in first.feeds}
    several = f" ({', '.join(f'{feed.value} {count:,}' for feed, count in rows.items())})" if len(rows) > 1 else ""
    yield "Rows", f"{sum(rows.values()):,}{several}"
    if resumed := sum(one.resumed for one in pulls):
        yield "Resumed", f"{counted(resumed, 'report was', 'reports were')} stored already"
    retries = sum(sum(one.stats.retries.values()) for one in pulls)
    again = f", {counted(retries, 'of them a retry', 'of them retries')}" if retries else ""
    yield "Requests", f"{sum(one.requests for one in pulls):,}{again}"
    if not any(one.compared for one in pulls) and not to_stdout:
        yield "Changes", "not requested; --compare-previous-period requests them"
    yield "Time", duration(sum(one.seconds for one in pulls))
    paths = [*dict.fromkeys(path for one in pulls for path in one.paths)]
    if not paths and not to_stdout:
        yield "File", "none written, as every campaign failed"
    for number, path in enumerate(paths[: len(first.feeds)]):
        held = f" ({size(path.stat().st_size)})" if path.is_file() else ""
        yield "" if number else "File", f"{one_line(str(path))}{held}"
    if beside := paths[len(first.feeds) :]:
        yield "Beside it", one_line(", ".join(path.name for path in beside))


def _ended(code: ExitCode) -> dict[str, Any]:
    return {"ok": code is ExitCode.OK, "exit_code": int(code), "error": None, "error_type": None}


def summary_facts(summary: PullSummary, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Return the facts of a pull, by their names in JSON."""
    code, stats = code_of_pulls([summary]), summary.stats
    return {
        **_ended(code),
        **{name: getattr(summary, name) for name in (*_LABELS, "compared")},
        "files": [*map(str, summary.paths)],
        "campaigns": summary.campaigns,
        "campaigns_complete": summary.campaigns_complete,
        "rows": {feed.value: summary.rows_of(feed) for feed in summary.feeds},
        "resumed_reports": summary.resumed,
        "requests": summary.requests,
        "started_at": summary.started_at,
        "retries": dict(stats.retries),
        "refusals": stats.throttled,
        "waited": {reason: round(seconds, 3) for reason, seconds in stats.waited.items()},
        "seconds": round(summary.seconds, 3),
        "warnings": [*warnings],
        "failures": [_failure(one) for one in summary.failures],
    }


def _failure(one: PullFailure) -> dict[str, Any]:
    names = ("feed", "campaign_id", "keyword_id", "error", "status", "attempts")
    facts = {name: getattr(one, name) for name in names}
    return facts | {"message": one_line(in_shell_words(one.message)), "fails_again": one.error in _FAILS_AGAIN}


def months_facts(
    pulls: Sequence[PullSummary],
    left: Iterable[str],
    code: ExitCode,
    *,
    skipped: int,
    requests: int,
    warnings: Sequence[str],
) -> dict[str, Any]:
    """Return the facts of several pulls, by their names in JSON; `left` are the months that are not pulled yet."""
    return {
        **_ended(code),
        "months_left": [*left],
        "months_skipped": skipped,
        "requests": requests,
        "rows": sum(one.rows for one in pulls),
        "failures": sum(len(one.failures) for one in pulls),
        "warnings": [*warnings],
        "pulls": [summary_facts(one) for one in pulls],
    }


def print_failure(error: BaseException, **known: Any) -> None:
    """Print a pull that ended without a summary as one JSON object; unknown facts are null."""
    facts = {
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
    with contextlib.suppress(ExportError, click.exceptions.Exit):  # the failure itself counts
        write(as_json(facts))


def preview_in_words(found: Mapping[str, PullPreview], facts: Mapping[str, Any], source: str) -> str:
    """Return the previews of one pull, or of each month by its name, for a person to read."""
    one = next(iter(found.values()))
    lines = [("Account", one_line(facts["account"])), ("Campaigns", f"{one.campaigns:,}")]
    if facts["months_skipped"]:
        lines.append(("Skipped", f"{counted(facts['months_skipped'], 'month')}, complete already"))
    if len(found) > 1:
        lines += [(name, f"about {counted(each.requests, 'request')}") for name, each in found.items()]
    skipped = f"; campaigns {', '.join(map(str, one.skipped))} did not answer" if one.skipped else ""
    sample = "at one page per report" if one.sampled is None else f"estimated from campaign {one.sampled}"
    lines.append(("Requests", f"about {facts['requests']:,}, {sample}{skipped}"))
    lines += [("File", one_line(file)) for file in facts["files"]]
    if (staged := one.staged) is not None:
        state = "that ended with failures" if staged.ended else "that was interrupted"
        then = "resumes it" if one.resumes else "starts over"
        begun = f"{counted(staged.reports, 'report')} of a pull of {staged.started_at:%Y-%m-%d %H:%M}"
        lines.append(("Stored", f"{begun} {state}; this {then}"))
    days = f"{facts['start_date']} to {facts['end_date']}"
    title = f"Would pull {', '.join(facts['feeds'])}, {days}, from {one_line(source)}"
    return "\n".join([title, *(f"  {label:<11}{value}" for label, value in lines), ""])


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
