"""The summary of a run, and the preview of a dry run: for a person to read, or as JSON."""

from __future__ import annotations

import datetime as dt
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from seorep_async.cli.errors import ExitCode, code_of, explain, in_shell_words
from seorep_async.cli.output import counted, duration, messages
from seorep_async.cli.pull import Days, Job
from seorep_async.client import SeoRepClient
from seorep_async.errors import one_line
from seorep_async.export import PullFailure, PullPreview, PullSummary
from seorep_async.history.source import fails_again

_LISTED = 20
_LABELS = ("feeds", "start_date", "end_date", "account", "snapshot_date")


@attrs.define
class Run:
    """A run of one pull, or of one for each month.

    Attributes:
        left: first and last day of the pulls that are left, in their order.
        notes: shows what is no failure.
        skipped: how many months were complete already.
        client: has counted what the run has cost, unfinished pulls included.
    """

    job: Job
    left: list[Days]
    several: bool
    notes: Console
    source: str = ""
    account: str | None = None
    skipped: int = 0
    done: list[PullSummary] = attrs.field(factory=list)
    client: SeoRepClient = attrs.field(init=False)
    began: float = attrs.field(init=False)
    warnings: list[str] = attrs.field(factory=list)

    @property
    def labels(self) -> dict[str, Any]:
        """What is pulled."""
        days = {"start_date": min(self.left)[0], "end_date": max(self.left)[1]} if self.left else {}
        return {
            "feeds": self.job.feeds,
            **days,
            "account": self.account,
            "snapshot_date": self.job.snapshot_date,
        }


def month_of(days: Days) -> str:
    """Return the name of a month by its first and last day."""
    return f"{days[0]:%Y-%m}"


def code_of_pulls(pulls: Sequence[PullSummary]) -> ExitCode:
    """Return the exit code for what failed.

    It is 9 if every failure would come again, and otherwise 4. Where nothing was received at all,
    it is 6 if every response had an unexpected shape, 9 as above, and otherwise 5.
    """
    failures = [failure for one in pulls for failure in one.failures]
    if not failures:
        return ExitCode.OK
    has_received = any(pull.received for pull in pulls)
    if not has_received and all(failure.error == "DecodeError" for failure in failures):
        return ExitCode.SHAPE
    if all(fails_again(one.error, one.status) for one in failures):
        return ExitCode.REFUSED
    return ExitCode.PARTIAL if has_received else ExitCode.UNAVAILABLE


def show_failures(pulls: Sequence[PullSummary]) -> None:
    """Print a line for each reason, with the campaigns, or the keywords of a campaign, that failed for it."""
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for pull in pulls:
        month = f"{pull.start_date:%Y-%m}: " if len(pulls) > 1 else ""
        for one in pull.failures:
            feed = f"{one.feed.value}: " if len(pull.feeds) > 1 else ""
            status = f" (status {one.status})" if one.status is not None else ""
            why = one_line(f"{in_shell_words(one.message)}{status}")
            kind = "campaign" if one.keyword_id is None else f"campaign {one.campaign_id}, keyword"
            id_ = one.campaign_id if one.keyword_id is None else one.keyword_id
            groups[f"{month}{feed}", kind, why].append(id_)
    for (place, kind, why), ids in groups.items():
        more = f" and {len(ids) - _LISTED:,} more" if len(ids) > _LISTED else ""
        named = f"{kind}{'s' if len(ids) > 1 else ''} {', '.join(map(str, sorted(ids)[:_LISTED]))}{more}"
        messages().print(Text.assemble(("Failed: ", "bold red"), f"{place}{named}: {why}"))


def show_summary(run: Run) -> None:
    """Print what was pulled, into which files, and the next step if there were failures."""
    console, pulls, last = run.notes, run.done, run.done[-1]
    if not any(one.requests or one.outcomes for one in pulls):
        console.print(
            "Nothing to retry: no report failed last time. Omit --retry-failed to pull everything."
        )
        return
    days = f"{min(one.start_date for one in pulls)} to {max(one.end_date for one in pulls)}"
    what = f"{counted(len(pulls), 'month')}, {days}," if len(pulls) > 1 else days
    did = (
        "Pulled"
        if any(one.received for one in pulls)
        else "Nothing pulled, as every report failed:"
    )
    console.print(Text.assemble((f"{did} {what}", "bold"), f" from {one_line(run.source)}"))
    for label, value in [*_counts(run), *_files(run)]:
        console.print(Text.assemble((f"  {label:<11}", "dim"), value))
    today = dt.datetime.now(dt.UTC).date()
    if last.resumed and last.snapshot_date < today:
        console.print(
            f"This finished the pull of {last.snapshot_date}. To pull {today}, run the command once more."
        )
    code = code_of_pulls(pulls)
    ids = sorted({one.campaign_id for pull in pulls for one in pull.failures})
    few = ",".join(map(str, ids)) if len(ids) <= _LISTED else "@FILE"
    if code in (ExitCode.PARTIAL, ExitCode.UNAVAILABLE):
        option = "--retry-failed" + " in place of --skip-complete" * run.job.skip_complete
        again = f"for --campaign {few}" if run.job.to_stdout else f"with {option}"
        console.print(f"Repeat the command {again} to fetch only what failed.")
    elif code is ExitCode.SHAPE:
        console.print("What failed would fail again: please report the unexpected shape.")
    elif code is ExitCode.REFUSED:
        others = {one.campaign_id for pull in pulls for one in pull.outcomes}.difference(ids)
        console.print(
            f"What failed would fail again{f'; --exclude {few} leaves it out' if others else ''}."
        )


def _counts(run: Run) -> Iterator[tuple[str, str | Text]]:
    pulls, first = run.done, run.done[0]
    yield "Feed", ", ".join(run.job.feeds)
    yield "Account", f"{one_line(first.account)}, snapshot of {first.snapshot_date}"
    if run.skipped:
        yield "Skipped", f"{counted(run.skipped, 'month')}, complete already"
    campaigns = len({one.campaign_id for pull in pulls for one in pull.outcomes})
    failed = len({one.campaign_id for pull in pulls for one in pull.failures})
    yield (
        "Campaigns",
        Text.assemble(f"{campaigns:,}", (f", {failed:,} with failures" if failed else "", "red")),
    )
    rows = {feed.value: sum(one.rows_of(feed) for one in pulls) for feed in first.feeds}
    several = (
        f" ({', '.join(f'{feed} {count:,}' for feed, count in rows.items())})"
        if len(rows) > 1
        else ""
    )
    yield "Rows", f"{sum(rows.values()):,}{several}"
    if resumed := sum(one.resumed for one in pulls):
        yield "Resumed", f"{counted(resumed, 'report was', 'reports were')} stored already"
    retries = sum(run.client.stats.retries.values())
    again = f", {counted(retries, 'of them a retry', 'of them retries')}" if retries else ""
    yield "Requests", f"{run.client.stats.attempts:,}{again}"
    if any(one.compared for one in pulls):
        yield "Compared", "with the previous period, in the columns …_change"
    yield "Time", duration(time.monotonic() - run.began)


def _files(run: Run) -> Iterator[tuple[str, str]]:
    paths, feeds = (
        [*dict.fromkeys(path for one in run.done for path in one.paths)],
        len(run.job.feeds),
    )
    if not paths and not run.job.to_stdout:
        yield "File", "none written, as every campaign failed"
    for number, path in enumerate(paths[:feeds]):
        held = f" ({decimal(path.stat().st_size)})" if path.is_file() else ""
        yield "" if number else "File", f"{one_line(str(path))}{held}"
    if beside := paths[feeds:]:
        yield "Beside it", one_line(", ".join(path.name for path in beside))


def facts_of(run: Run, code: ExitCode) -> dict[str, Any]:
    """Return the facts of a run that has ended, by their names in JSON: of its pull, or of its months."""
    if run.done and not run.several:
        return _facts_of_pull(run.done[0]) | {"warnings": run.warnings}
    if not run.several and code is not ExitCode.OK:
        return facts_of_failure(KeyboardInterrupt(), run)
    return {
        **({"dry_run": True} if run.job.dry_run else {}),
        **_ended(code),
        "months_left": [*map(month_of, run.left)],
        "months_skipped": run.skipped,
        "requests": run.client.stats.attempts,
        "rows": sum(one.rows for one in run.done),
        "failures": sum(len(one.failures) for one in run.done),
        "warnings": run.warnings,
        "pulls": [*map(_facts_of_pull, run.done)],
    }


def facts_of_failure(error: BaseException, run: Run | None = None) -> dict[str, Any]:
    """Return the facts of a run that an error ended, by their names in JSON; unknown ones are null."""
    facts = _ended(code_of(error)) | {"error": explain(error), "error_type": type(error).__name__}
    facts |= {"status": getattr(error, "status", None), "attempts": getattr(error, "attempts", 0)}
    facts |= {**dict.fromkeys(_LABELS), "files": [], "failures": []}
    if run is not None:
        facts |= run.labels | ({"pulls": [*map(_facts_of_pull, run.done)]} if run.several else {})
    return facts


def _ended(code: ExitCode) -> dict[str, Any]:
    return {"ok": code is ExitCode.OK, "exit_code": int(code), "error": None, "error_type": None}


def _facts_of_pull(pull: PullSummary) -> dict[str, Any]:
    plain = (*_LABELS, "compared", "campaigns", "campaigns_complete", "requests", "started_at")
    return {
        **_ended(code_of_pulls([pull])),
        **{name: getattr(pull, name) for name in plain},
        "files": [*map(str, pull.paths)],
        "rows": {feed.value: pull.rows_of(feed) for feed in pull.feeds},
        "resumed_reports": pull.resumed,
        "retries": pull.stats.retries,
        "refusals": pull.stats.throttled,
        "waited": {reason: round(seconds, 3) for reason, seconds in pull.stats.waited.items()},
        "seconds": round(pull.seconds, 3),
        "warnings": [],
        "failures": [*map(_facts_of_report, pull.failures)],
    }


def _facts_of_report(one: PullFailure) -> dict[str, Any]:
    message = one_line(in_shell_words(one.message))
    return attrs.asdict(one) | {
        "message": message,
        "fails_again": fails_again(one.error, one.status),
    }


def facts_of_previews(found: Mapping[str, PullPreview], run: Run) -> dict[str, Any]:
    """Return the previews of one pull, or of each month by its name, by their names in JSON."""
    one, several = next(iter(found.values())), len(found) > 1
    staged = attrs.asdict(one.staged) | {"resumes": one.resumes} if one.staged is not None else None
    requests = sum(each.requests for each in found.values())
    return {
        "dry_run": True,
        **run.labels,
        "files": [*map(str, one.files)],
        **{name: getattr(one, name) for name in ("campaigns", "sampled", "skipped")},
        "requests": requests,
        "runs": -(-requests // (run.job.max_requests or requests or 1)),
        "staged": staged,
        **({"months": {name: each.requests for name, each in found.items()}} if several else {}),
        "months_skipped": run.skipped,
    }


def preview_in_words(facts: Mapping[str, Any], source: str) -> str:
    """Return the facts of a preview for a person to read."""
    lines = [("Feed", ", ".join(facts["feeds"])), ("Account", one_line(facts["account"]))]
    lines.append(("Campaigns", f"{facts['campaigns']:,}"))
    if facts["months_skipped"]:
        lines.append(("Skipped", f"{counted(facts['months_skipped'], 'month')}, complete already"))
    lines += [
        (name, f"about {counted(requests, 'request')}")
        for name, requests in facts.get("months", {}).items()
    ]
    skipped = (
        f"; campaigns {', '.join(map(str, facts['skipped']))} did not answer"
        if facts["skipped"]
        else ""
    )
    sample = (
        "at one page per report"
        if facts["sampled"] is None
        else f"estimated from campaign {facts['sampled']}"
    )
    runs = f", in {facts['runs']} runs" if facts["runs"] > 1 else ""
    lines.append(("Requests", f"about {facts['requests']:,}{runs}, {sample}{skipped}"))
    lines += [("File", one_line(file)) for file in facts["files"]]
    if (staged := facts["staged"]) is not None:
        state = "that ended with failures" if staged["ended"] else "that was interrupted"
        begun = f"{counted(staged['reports'], 'report')} of a pull of {staged['started_at']:%Y-%m-%d %H:%M}"
        lines.append(
            (
                "Stored",
                f"{begun} {state}; this {'resumes it' if staged['resumes'] else 'starts over'}",
            )
        )
    title = f"Would pull {facts['start_date']} to {facts['end_date']} from {one_line(source)}"
    return "\n".join([title, *(f"  {label:<11}{value}" for label, value in lines), ""])
