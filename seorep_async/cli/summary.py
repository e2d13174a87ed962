"""The summary of a pull, and the preview of a dry run: for a person to read, or as JSON."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli.exit_codes import ExitCode, counted, exit_code_of, explain, failure_message, joined, message_of
from seorep_async.cli.terminal import as_json, duration, named, print_hanging, size, write_stdout
from seorep_async.errors import ExportError, one_line
from seorep_async.models import Feed
from seorep_async.old_export import PullFailure, PullSummary
from seorep_async.old_export.preview import PullPreview
from seorep_async.old_export.progress import StagedPull
from seorep_async.old_export.spec import PullSpec

_LISTED = 20


def code_of(failures: Sequence[PullFailure], *, written: bool) -> ExitCode:
    """Return the exit code: if every report failed, that of the first error, or 5 if any error was transient."""
    if not failures:
        return ExitCode.OK
    if written:
        return ExitCode.PARTIAL
    codes = [exit_code_of(failure.error) for failure in failures]
    return ExitCode.UNAVAILABLE if ExitCode.UNAVAILABLE in codes else codes[0]


def show_failures(console: Console, summary: PullSummary) -> None:
    """Print a line for each reason, if there are failures."""
    if not summary.failures:
        return
    console.print(Text("Failed", style="bold red"))
    for line in failures_in_words(summary.failures, several=len(summary.feeds) > 1):
        print_hanging(console, Text(f"  {line}"), 4)
    console.print()


def show_summary(
    console: Console,
    summary: PullSummary,
    source: str,
    *,
    origin: str = "",
    to_file: bool = True,
    night: dt.date | None = None,
) -> None:
    """Print a summary.

    `source` and `origin` are those of the rows and of the dates (or empty), `to_file` tells files from a stream.
    `night` is that of a pull that resumes none, if known.
    """
    pulled = bool(summary.paths) or not to_file
    names = [feed.value for feed in summary.feeds]
    title = f"Pulled {'' if pulled else 'nothing of '}the {joined(names)} feed{'s' if len(names) > 1 else ''}"
    days = f", {summary.start_date} to {summary.end_date}, from {one_line(source)}"
    print_hanging(console, Text.assemble((title, "bold"), days), 2)
    dates = [("Dates", origin)] if origin else []
    print_facts(console, (*dates, *_facts(summary, to_file)))
    if pulled and not summary.compared and set(summary.feeds) != {Feed.KEYWORD_BY_DATE}:
        console.print("Without changes from the previous period; --compare-previous-period requests them.")
    if night is not None and night != summary.snapshot_date:
        began = f"This finished the pull of {summary.snapshot_date}; its rows have that snapshot date."
        print_hanging(console, Text(f"{began} To pull {night}, run the command once more."), 0)
    if summary.failures and summary.paths:
        console.print("Repeat the command with --retry-failed to fetch only what failed.")


def print_facts(console: Console, facts: Iterable[tuple[str, str | Text]]) -> None:
    """Print a line for each fact: its label and its value."""
    for label, value in facts:
        print_hanging(console, Text.assemble((f"  {label:<11}", "dim"), value), 13)


def summary_facts(summary: PullSummary, code: ExitCode, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Return the facts of a pull, by their names in JSON; shards leave no statistics."""
    stats = summary.stats
    return {
        "ok": code is ExitCode.OK,
        "exit_code": int(code),
        "error": None,
        "error_type": None,
        **named(summary, "feeds start_date end_date account snapshot_date compared"),
        "files": summary.paths,
        **named(summary, "campaigns campaigns_complete"),
        "rows": {feed.value: summary.rows_of(feed) for feed in summary.feeds},
        "resumed_reports": summary.resumed,
        "requests": summary.requests,
        "started_at": summary.started_at,
        "retries": stats and stats.retries,
        "refusals": stats and stats.throttled,
        "waited": stats and {reason: round(seconds, 3) for reason, seconds in stats.waited.items()},
        "seconds": round(summary.seconds, 3),
        "leftover": summary.leftover,
        "warnings": list(warnings),
        "failures": [_failure(failure) for failure in summary.failures],
    }


def print_failure(error: BaseException, **known: Any) -> None:
    """Print a pull that ended without a summary as one JSON object; unknown facts are null."""
    facts = {
        "ok": False,
        "exit_code": int(exit_code_of(error)),
        "error": one_line(explain(error)),
        "error_type": type(error).__name__,
        "status": getattr(error, "status", None),
        "attempts": getattr(error, "attempts", 0),
        **dict.fromkeys(("feeds", "start_date", "end_date", "account", "snapshot_date")),
        **known,
        "files": [],
        "failures": [],
    }
    with contextlib.suppress(ExportError, click.exceptions.Exit):  # the failure itself counts
        write_stdout(f"{as_json(facts)}\n")


def preview_in_words(found: PullPreview, spec: PullSpec, source: str, origin: str) -> str:
    feeds, days = ", ".join(feed.value for feed in spec.feeds), f"{spec.start_date} to {spec.end_date}"
    facts = [("Dates", origin)] if origin else []
    facts += [
        ("Account", one_line(spec.account)),
        ("Campaigns", f"{found.campaigns:,}"),
        ("Requests", f"about {found.requests:,}{_estimated(found)}"),
        *(("File", one_line(str(file))) for file in found.files),
    ]
    if (staged := found.staged) is not None:
        state = "that ended with failures" if staged.ended else "that was interrupted"
        reports = counted(staged.reports, "report")
        then = "they would be resumed" if staged.reports != 1 else "it would be resumed"
        then = then if found.resumes else "the pull would start over"
        facts.append(("Stored", f"{reports} of a pull of {staged.started_at:%Y-%m-%d %H:%M} {state}; {then}"))
    return in_lines(f"Would pull {feeds}, {days}, from {one_line(source)}", facts)


def in_lines(title: str, facts: Iterable[tuple[str, str]]) -> str:
    return "\n".join([title, *(f"  {label:<11}{value}" for label, value in facts)])


def preview_as_json(found: PullPreview, spec: PullSpec) -> str:
    """Return the preview of a pull as one JSON object, for a program to read."""
    staged = found.staged and {
        "begun": found.staged.started_at.isoformat(timespec="minutes"),
        **named(found.staged, "reports ended"),
        "resumes": found.resumes,
    }
    of_spec, of_preview = "feeds start_date end_date account", "files campaigns requests sampled skipped"
    return as_json({"dry_run": True, **named(spec, of_spec), **named(found, of_preview), "staged": staged})


def nothing_to_retry(paths: Sequence[Path | str]) -> str:
    """Return that the last pull into some files had no failure."""
    files = one_line(", ".join(map(str, paths)))
    return f"Nothing to retry: no report failed in the last pull into {files}. Omit --retry-failed to pull everything."


def show_resumed(console: Console, staged: StagedPull) -> None:
    console.print(f"Resuming the pull of {staged.started_at:%Y-%m-%d %H:%M}: {_stored(staged)} already.")


def how_to_resume(staged: StagedPull | None) -> str:
    """Return what is stored of a pull that has ended early, and the next step."""
    if staged is None:
        return "no report is stored yet."
    return f"{_stored(staged)}.\nRepeat the command to resume, or add --restart to start over."


def _stored(staged: StagedPull) -> str:
    return f"{counted(staged.reports, 'report is', 'reports are')} stored"


def written_files(summary: PullSummary) -> str:
    """Return what is written of a pull whose summary is not."""
    names = [str(path) for path in summary.paths[: len(summary.feeds)]]
    if not names:
        return "nothing is written"
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} written, but the summary is not"


def _estimated(found: PullPreview) -> str:
    by = f", estimated from campaign {found.sampled}" if found.sampled is not None else ", at one page per report"
    if not found.skipped:
        return by
    return f"{by}; campaign{'s' if len(found.skipped) > 1 else ''} {joined(map(str, found.skipped))} did not answer"


def _failure(failure: PullFailure) -> dict[str, Any]:
    error = failure.error
    return {
        **named(failure, "feed campaign_id keyword_id"),
        "error": type(error).__name__,
        "message": one_line(message_of(error)),
        **named(error, "status attempts"),
    }


def _facts(summary: PullSummary, to_file: bool) -> Iterator[tuple[str, str | Text]]:
    yield "Account", f"{one_line(summary.account)}, snapshot of {summary.snapshot_date}"
    if summary.ok:
        yield "Campaigns", f"{summary.campaigns:,}"
    else:
        failed = summary.campaigns - summary.campaigns_complete
        counts = f"{summary.campaigns_complete:,} of {summary.campaigns:,} complete, "
        whole = len(summary.feeds) == 1 and all(failure.keyword_id is None for failure in summary.failures)
        yield "Campaigns", Text.assemble(counts, (f"{failed:,} {'failed' if whole else 'incomplete'}", "red"))
    several = f" ({', '.join(f'{feed.value} {summary.rows_of(feed):,}' for feed in summary.feeds)})"
    yield "Rows", f"{summary.rows:,}{several if len(summary.feeds) > 1 else ''}"
    if summary.resumed:
        yield "Resumed", f"{counted(summary.resumed, 'report was', 'reports were')} stored already"
    retries = 0 if summary.stats is None else sum(summary.stats.retries.values())
    again = counted(retries, "of them a retry", "of them retries")
    yield "Requests", f"{summary.requests:,}{f', {again}' if retries else ''}"
    yield "Time", duration(summary.seconds)
    if to_file and not summary.paths:
        yield "File", "none written, as every campaign failed"
    if summary.leftover is not None:
        yield "Leftover", f"{one_line(str(summary.leftover))} could not be removed; please remove it"
    with_rows = summary.paths[: len(summary.feeds)]
    for number, path in enumerate(with_rows):
        held = f" ({size(path.stat().st_size)})" if isinstance(path, Path) and path.is_file() else ""
        yield "" if number else "File", f"{one_line(str(path))}{held}"
    if beside := summary.paths[len(with_rows) :]:
        yield "Beside it", one_line(", ".join(Path(path).name for path in beside))


def failures_in_words(failures: Iterable[PullFailure], *, several: bool) -> Iterator[str]:
    """Yield a line for each reason, with the campaigns, or the keywords of a campaign, that failed for it."""
    groups: dict[tuple[Feed | None, int | None, str], list[PullFailure]] = {}
    for failure in failures:
        campaign = None if failure.keyword_id is None else failure.campaign_id
        feed = failure.feed if several else None
        why = failure_message(failure.error.evolve(attempts=1))  # attempts are those of the last request only
        groups.setdefault((feed, campaign, one_line(why)), []).append(failure)
    for (feed, campaign, why), group in groups.items():
        prefix = f"{feed.value}: " if feed is not None else ""
        if campaign is None:
            yield f"{prefix}{_with_ids('campaign', [failure.campaign_id for failure in group])}: {why}"
        else:
            keywords = [failure.keyword_id for failure in group if failure.keyword_id is not None]
            yield f"{prefix}campaign {campaign}, {_with_ids('keyword', keywords)}: {why}"


def _with_ids(object_name: str, ids: list[int]) -> str:
    more = f" and {len(ids) - _LISTED:,} more" if len(ids) > _LISTED else ""
    return f"{object_name}{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids[:_LISTED]))}{more}"
