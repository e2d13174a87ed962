"""The account of a pull that has ended: for a person to read, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.screen import printable
from seorep_async.cli.wording import counted, duration, size
from seorep_async.errors import SeoRepError
from seorep_async.export import PullFailure, PullSummary
from seorep_async.models import Feed

_LISTED = 20


def show_failures(console: Console, summary: PullSummary) -> None:
    """Print what failed, and why."""
    console.print(Text("Failed", style="bold red"))
    for line in _failures(summary.failures, several=len(summary.feeds) > 1):
        for number, part in enumerate(Text(line).wrap(console, max(1, console.width - 4))):
            console.print(Text(("    " if number else "  ") + part.plain.rstrip()))
    console.print()


def show_summary(
    console: Console, summary: PullSummary, source: str, *, retries: int = 0, to_file: bool = True
) -> None:
    """Print what failed, and then what came.

    Args:
        console: where to.
        summary: what became of the pull.
        source: what the rows came from, in words.
        retries: requests that were repeated.
        to_file: whether files were to be written, and not a stream.
    """
    if summary.failures:
        show_failures(console, summary)
    came = bool(summary.paths) or not to_file
    names = [feed.value for feed in summary.feeds]
    feeds = f"the {' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))} feed{'s' if len(names) > 1 else ''}"
    console.print(
        Text.assemble(
            ("Pulled " if came else "Pulled nothing of ", "bold"),
            (feeds, "bold"),
            f", {summary.start_date} to {summary.end_date}, from {printable(source)}",
        )
    )
    for label, value in _facts(summary, retries, to_file):
        console.print(Text.assemble((f"  {label:<11}", "dim"), value))
    if summary.failures and summary.paths:
        console.print("The same command with --retry-failed asks only for what failed.")


def as_json(summary: PullSummary, code: ExitCode) -> str:
    """Return the account of a pull as one JSON object, for a program to read."""
    facts: dict[str, Any] = {
        "ok": summary.ok,
        "exit_code": int(code),
        "feeds": [feed.value for feed in summary.feeds],
        "start_date": summary.start_date.isoformat(),
        "end_date": summary.end_date.isoformat(),
        "files": [str(path) for path in summary.paths],
        "campaigns": summary.campaigns,
        "campaigns_complete": summary.campaigns_complete,
        "rows": {feed.value: summary.rows_of(feed) for feed in summary.feeds},
        "resumed_reports": summary.resumed,
        "requests": summary.requests,
        "seconds": round(summary.seconds, 3),
        "leftover": None if summary.leftover is None else str(summary.leftover),
        "failures": [_failure(failure) for failure in summary.failures],
    }
    return json.dumps(facts, ensure_ascii=False, indent=2)


def _failure(failure: PullFailure) -> dict[str, Any]:
    error = failure.error
    return {
        "feed": failure.feed.value,
        "campaign_id": failure.campaign_id,
        "keyword_id": failure.keyword_id,
        "error": type(error).__name__,
        "message": printable(error.message),
        "status": error.status,
        "attempts": error.attempts,
    }


def _facts(summary: PullSummary, retries: int, to_file: bool) -> Iterator[tuple[str, Text]]:
    if summary.ok:
        yield "Campaigns", Text(f"{summary.campaigns:,}")
    else:
        failed = summary.campaigns - summary.campaigns_complete
        counts = f"{summary.campaigns_complete:,} of {summary.campaigns:,} complete, "
        whole = len(summary.feeds) == 1 and all(failure.keyword_id is None for failure in summary.failures)
        yield "Campaigns", Text.assemble(counts, (f"{failed:,} {'failed' if whole else 'incomplete'}", "red"))
    several = f" ({', '.join(f'{feed.value} {summary.rows_of(feed):,}' for feed in summary.feeds)})"
    yield "Rows", Text(f"{summary.rows:,}{several if len(summary.feeds) > 1 else ''}")
    if summary.resumed:
        yield "Resumed", Text(f"{counted(summary.resumed, 'report was', 'reports were')} there already")
    again = counted(retries, "of them a retry", "of them retries")
    yield "Requests", Text(f"{summary.requests:,}{f', {again}' if retries else ''}")
    yield "Time", Text(duration(summary.seconds))
    if to_file and not summary.paths:
        yield "File", Text("none was written, as no campaign came")
    if summary.leftover is not None:
        yield "Leftover", Text(f"{printable(str(summary.leftover))}, which could not be removed; please do so")
    for number, path in enumerate(summary.paths):
        yield "" if number else "File", Text(f"{printable(str(path))} ({size(path.stat().st_size)})")


def _failures(failures: Iterable[PullFailure], *, several: bool) -> Iterator[str]:
    """Give one line for all that failed for the same reason; keywords are told by campaign."""
    groups: dict[tuple[Feed | None, int | None, str], list[PullFailure]] = {}
    for failure in failures:
        campaign = None if failure.keyword_id is None else failure.campaign_id
        feed = failure.feed if several else None
        groups.setdefault((feed, campaign, printable(_why(failure.error))), []).append(failure)
    for (feed, campaign, why), group in groups.items():
        told = f"{feed.value}: " if feed is not None else ""
        if campaign is None:
            yield f"{told}{_named('campaign', [failure.campaign_id for failure in group])}: {why}"
        else:
            keywords = [failure.keyword_id for failure in group if failure.keyword_id is not None]
            yield f"{told}campaign {campaign}, {_named('keyword', keywords)}: {why}"


def _why(error: SeoRepError) -> str:
    """Return why a report is missing, without its error's attempts: those are the last request's only."""
    return error.message + (f" (status {error.status})" if error.status is not None else "")


def _named(noun: str, ids: list[int]) -> str:
    more = f" and {len(ids) - _LISTED:,} more" if len(ids) > _LISTED else ""
    return f"{noun}{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids[:_LISTED]))}{more}"
