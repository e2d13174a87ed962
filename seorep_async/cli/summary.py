"""Show the summary of a run, or the preview of a dry run. Both can be JSON."""

from __future__ import annotations

import datetime as dt
import math
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs
from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from seorep_async.cli.errors import ExitCode, code_of, facts_of_error, with_option_names
from seorep_async.cli.output import messages
from seorep_async.cli.progress import Display
from seorep_async.cli.pull import PullArguments, Window
from seorep_async.client import SeoRepClient
from seorep_async.errors import PullPausedError, counted, duration, one_line
from seorep_async.export import PullFailure, PullPreview, PullSummary
from seorep_async.export.progress import fails_again, id_in_text
from seorep_async.export.request import ExportOptions
from seorep_async.history.source import PulledWindow, listed
from seorep_async.session import Stats

_LISTED_IDS = 20
_LABEL_WIDTH = 11
_PLAIN_FACTS = (
    "feeds",
    "start_date",
    "end_date",
    "account",
    "snapshot_date",
    "compared",
    "campaigns",
    "campaigns_complete",
    "requests",
    "started_at",
)
"""The attributes of a pull that JSON shows unchanged."""
_WAIT = re.compile("(?<=the call timed out).*(?=; last error)")
"""The time that a report waited in an outage. It differs between reports."""


@attrs.define(kw_only=True)
class PullRun:
    """A run of the command. It has one pull, or one for each month, and may end early.

    Attributes:
        source: the service, in words.
        target: the path of the target, or `-`.
        options: the library's arguments.
        engine_names: names of engine A and B for the headers of a workbook, or None.
        by_month: whether each month has its own pull.
        night: as requested, or the day on which the run began. A pull of an earlier run that is
            resumed has its own.
        windows: the first and last day of each pull, in order.
        warnings: the warnings that were logged; the list grows while the run lasts.
        months_skipped: months that were complete before.
        lacking: the feeds of skipped months that lack reports; a retry would fail again.
        pulls: the completed pulls.
        ended_by: the error or the interrupt that ended the run early, or None.
        display: the progress of the last pull.
    """

    arguments: PullArguments
    client: SeoRepClient
    source: str
    target: str
    options: ExportOptions
    engine_names: tuple[str, str] | None
    by_month: bool
    night: dt.date
    windows: Sequence[Window]
    warnings: Sequence[str]
    months_skipped: int = 0
    lacking: list[PulledWindow] = attrs.field(factory=list)
    pulls: list[PullSummary] = attrs.field(factory=list)
    ended_by: BaseException | None = None
    seconds: float = 0.0
    display: Display = attrs.field(factory=Display)

    @property
    def account(self) -> str:
        """The account's name as requested. A pull may have another, which the database has."""
        return self.options["account"] or self.client.account

    @property
    def windows_left(self) -> Sequence[Window]:
        """The windows whose pulls are not complete."""
        return self.windows[len(self.pulls) :]

    @property
    def code(self) -> ExitCode:
        """The exit code of the run."""
        if self.ended_by is not None:
            return code_of(self.ended_by)
        code = code_of_pulls(self.pulls, is_retry=self.arguments.retry_failed)
        if code is ExitCode.OK and self.lacking:
            return ExitCode.REFUSED
        return code

    @property
    def stats(self) -> Stats:
        """The cost of the run, unfinished pulls included."""
        return self.client.stats

    @property
    def received(self) -> bool:
        """Whether any report was received."""
        return any(pull.received for pull in self.pulls)

    @property
    def rows(self) -> int:
        """Rows in the target, of all pulls."""
        return sum(pull.rows for pull in self.pulls)

    @property
    def resumed(self) -> int:
        """Reports that an earlier run had stored."""
        return sum(pull.resumed for pull in self.pulls)

    @property
    def failures(self) -> list[PullFailure]:
        """The missing reports of all pulls."""
        return [failure for pull in self.pulls for failure in pull.failures]

    @property
    def missing_reports(self) -> int:
        """The missing reports of all pulls, and of skipped months."""
        return len(self.failures) + sum(feed.failed_reports for feed in self.lacking)

    @property
    def campaign_ids(self) -> set[int]:
        """The campaigns of all pulls."""
        return {outcome.campaign_id for pull in self.pulls for outcome in pull.outcomes}

    @property
    def failed_ids(self) -> list[int]:
        """The campaigns with a missing report."""
        return sorted({failure.campaign_id for failure in self.failures}.union(self.lacking_ids))

    @property
    def lacking_ids(self) -> set[int]:
        """The campaigns whose reports are missing from skipped months."""
        return {campaign_id for feed in self.lacking for campaign_id in feed.failed_ids}


def month_of(window: Window) -> str:
    """Return the name of a month by its first and last day."""
    return f"{window[0]:%Y-%m}"


def code_of_pulls(pulls: Sequence[PullSummary], *, is_retry: bool) -> ExitCode:
    """Return the exit code of completed pulls.

    Args:
        is_retry: whether they requested only what had failed before.
    """
    failures = [failure for pull in pulls for failure in pull.failures]
    has_received = any(pull.received for pull in pulls)
    if not failures:
        return ExitCode.OK
    # every response had a wrong shape, so no single campaign is the cause
    if not has_received and all(failure.error == "DecodeError" for failure in failures):
        return ExitCode.SHAPE
    if all(fails_again(failure.error, failure.status) for failure in failures):
        return ExitCode.REFUSED
    # in a retry, a response of any kind shows that there is no outage
    has_answer = is_retry and any(failure.status is not None for failure in failures)
    return ExitCode.PARTIAL if has_received or has_answer else ExitCode.UNAVAILABLE


# --- For a person


def show_early_end(run: PullRun, console: Console) -> None:
    """If a run ended early, print how far it came and how to continue."""
    months_left = f"; {counted(len(run.windows_left), 'month is', 'months are')} left"
    if isinstance(run.ended_by, KeyboardInterrupt):
        position = months_left if run.by_month else run.display.position
        advice = ""
        if not run.arguments.to_stdout:
            advice = "\nRepeat the command to resume. With --restart, it would start over."
        messages().print(f"Interrupted{position}.{advice}")
    # nothing ended early, or the error itself says how far its single pull came
    elif run.ended_by is None or not run.by_month:
        return
    elif isinstance(run.ended_by, PullPausedError):
        requests = counted(run.stats.attempts, "request")
        console.print(
            f"Paused at --max-requests, after {requests}{run.display.position}{months_left}. "
            "Repeat the command to go on."
        )
    else:
        advice = ""
        if run.code is ExitCode.UNAVAILABLE:
            option = "" if run.arguments.skips_pulled_months else " with --skip-complete"
            advice = f" Repeat the command{option} to go on."
        messages().print(f"Stopped{months_left}.{advice}")


def show_failures(run: PullRun) -> None:
    """Print a line for each reason, with the campaigns or keywords that failed for it."""
    reasons_by_line: defaultdict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for pull in run.pulls:
        month = f"{pull.start_date:%Y-%m}: " if run.by_month else ""
        for failure in pull.failures:
            feed = f"{failure.feed.value}: " if len(pull.feeds) > 1 else ""
            kind = "campaign"
            failed_id = failure.campaign_id
            if failure.keyword_id is not None:
                kind = f"campaign {failure.campaign_id}, keyword"
                failed_id = failure.keyword_id
            reason = _reason_of(failure)
            # one line is for all campaigns with this reason, so it must not contain their ids
            shared_reason = id_in_text(failed_id).sub("…", _WAIT.sub("", reason))
            line = f"{month}{feed}{kind}", shared_reason
            reasons_by_line[line][failed_id] = reason
    for (objects, shared_reason), reasons in reasons_by_line.items():
        if len(reasons) == 1:
            (reason,) = reasons.values()
        else:
            reason = shared_reason
            objects = f"{objects}s"
        _print_failure(f"{objects} {listed(sorted(reasons))}: {reason}")
    if run.lacking:
        noun = "campaign" if len(run.lacking_ids) == 1 else "campaigns"
        reports = counted(sum(feed.failed_reports for feed in run.lacking), "report")
        if run.lacking_ids:
            reports += f" of {noun} {listed(sorted(run.lacking_ids))}"
        target = shlex.quote(str(run.arguments.out))
        _print_failure(
            f"skipped months lack {reports}; `seorep doctor -o {target} --json` has the commands "
            "that fetch them"
        )


def _print_failure(words: str) -> None:
    messages().print(Text.assemble(("Failed: ", "bold red"), words))


def _reason_of(failure: PullFailure) -> str:
    """Return why a report failed, in one line."""
    message = with_option_names(failure.message)
    if failure.status is not None:
        message = f"{message} (status {failure.status})"
    return one_line(message)


def show_summary(run: PullRun, console: Console) -> None:
    """Print what was pulled, into which files, and the next step if there were failures."""
    if not run.pulls:
        console.print("Nothing to pull: no month needs another pull.")
        _show_next_step(run, console)
        return
    # with --retry-failed, there are no campaigns if no requested report failed last time
    if not run.campaign_ids:
        console.print(
            "Nothing to retry: no requested report failed last time. Omit --retry-failed to pull "
            "everything."
        )
        return
    console.print(Text.assemble((_headline(run), "bold"), f" from {one_line(run.source)}"))
    notes = {note: None for pull in run.pulls for note in pull.notes if note not in run.warnings}
    if run.engine_names is None and run.arguments.is_workbook:
        notes["engine_a and engine_b have no names yet: --engines 'Google, Bing' gives them"] = None
    lines: list[tuple[str, str | Text]] = [("Note", one_line(note)) for note in notes]
    if run.received:
        lines = [*_count_lines(run), *_file_lines(run), *lines]
    for label, value in lines:
        console.print(Text.assemble((f"  {label:<{_LABEL_WIDTH}}", "dim"), value))
    # a run that ended early has said how to continue
    if run.ended_by is None:
        _show_next_step(run, console)


def _headline(run: PullRun) -> str:
    """Return the beginning of the summary's first line. The source of the pull follows it."""
    pulls = run.pulls
    first_day = min(pull.start_date for pull in pulls)
    last_day = max(pull.end_date for pull in pulls)
    window = f"{first_day} to {last_day}"
    if len(pulls) > 1:
        window = f"{len(pulls):,} months, {window},"
    if run.received:
        return f"Pulled {window}"
    which = "every retried report" if run.arguments.retry_failed else "every report"
    return f"Nothing pulled, because {which} failed: {window}"


def _count_lines(run: PullRun) -> Iterator[tuple[str, str | Text]]:
    """Yield the label and the text of each line with counts."""
    pulls = run.pulls
    yield "Feed", ", ".join(run.arguments.feeds)
    yield "Account", f"{one_line(pulls[0].account)}, snapshot of {pulls[0].snapshot_date}"
    if run.months_skipped:
        yield "Skipped", f"{counted(run.months_skipped, 'month')}, complete already"
    failures = f", {len(run.failed_ids):,} with failures" if run.failed_ids else ""
    yield "Campaigns", Text.assemble(f"{len(run.campaign_ids):,}", (failures, "red"))
    yield "Rows", _rows_in_words(run)
    if run.resumed:
        yield "Resumed", f"{counted(run.resumed, 'report was', 'reports were')} stored already"
    requests = f"{run.stats.attempts:,}"
    retries = sum(run.stats.retries.values())
    if retries:
        requests += f", {counted(retries, 'of them a retry', 'of them retries')}"
    yield "Requests", requests + _page_sizes_in_words(run.stats.page_sizes)
    yield "Time", duration(run.seconds)


def _page_sizes_in_words(page_sizes: Mapping[str, int]) -> str:
    """Return the page size that the client found, if it is larger than the default."""
    if not page_sizes:
        return ""
    return f", pages of {max(page_sizes.values()):,} rows"


def _rows_in_words(run: PullRun) -> str:
    """Return the number of rows, and with several feeds also the number for each."""
    total = f"{run.rows:,}"
    feeds = run.pulls[0].feeds
    if len(feeds) == 1:
        return total
    rows = {feed.value: sum(pull.rows_of(feed) for pull in run.pulls) for feed in feeds}
    by_feed = ", ".join(f"{feed} {count:,}" for feed, count in rows.items())
    return f"{total} ({by_feed})"


def _file_lines(run: PullRun) -> Iterator[tuple[str, str]]:
    """Yield the label and the text of each line with files."""
    paths = list(dict.fromkeys(path for pull in run.pulls for path in pull.paths))
    feed_count = len(run.arguments.feeds)
    label = "File"
    # the files of the feeds come first in a pull's paths; several pulls share one database
    for path in paths[:feed_count]:
        size = f" ({decimal(path.stat().st_size)})" if path.is_file() else ""
        yield label, f"{one_line(str(path))}{size}"
        # only the first line has a label
        label = ""
    side_files = paths[feed_count:]
    if side_files:
        yield "Beside it", one_line(", ".join(path.name for path in side_files))


def _show_next_step(run: PullRun, console: Console) -> None:
    """Say how to fetch what failed, or how to leave it out."""
    code = run.code
    failed = run.failed_ids
    # a line has no room for many ids: "@FILE" stands for a file into which the reader puts them
    ids = ",".join(map(str, failed)) if len(failed) <= _LISTED_IDS else "@FILE"
    if code in (ExitCode.PARTIAL, ExitCode.UNAVAILABLE):
        advice = "with --retry-failed"
        if run.arguments.to_stdout:
            advice = f"for --campaign {ids}"
        elif run.arguments.skip_complete:
            advice = f"{advice} in place of --skip-complete"
        later = ""
        # --retry-failed looks only at one night, and a run on a later day is another night
        if run.by_month and run.arguments.snapshot_date is None:
            target = shlex.quote(str(run.arguments.out))
            later = f" On a later day, `seorep doctor -o {target}` prints the commands for that."
        console.print(f"Repeat the command {advice} to fetch only what failed.{later}")
    elif code is ExitCode.SHAPE:
        console.print("Retrying will not help: please report the unexpected shape.")
    elif code is ExitCode.REFUSED:
        console.print(f"Retrying will not help{_advice_on_refused(run, ids)}.")


def _advice_on_refused(run: PullRun, ids: str) -> str:
    """Say how to leave out the campaigns that fail each time, unless all of them do."""
    failed = run.failed_ids
    if len(failed) == len(run.campaign_ids):
        is_unknown = all(failure.status == 404 for failure in run.failures)
        return "; `seorep campaigns list` shows the ids" if is_unknown else ""
    them = "it" if len(failed) == 1 else "them"
    return f"; --exclude {ids} leaves {them} out"


def closing_line(run: PullRun, code: ExitCode) -> str:
    """Return the result of a run in one line, for a log or an e-mail."""
    account = run.account
    night = run.night
    if run.pulls:
        account = run.pulls[0].account
        night = run.pulls[0].snapshot_date
        counts = f"{counted(len(run.campaign_ids), 'campaign')}, {counted(run.rows, 'row')}"
        # if no report was resumed, these are only the counts of the retried reports
        if run.arguments.retry_failed and not run.resumed:
            counts = f"{counts} in this retry"
        if run.missing_reports:
            counts = f"{counts}, {counted(run.missing_reports, 'report')} failed"
        elif run.arguments.retry_failed and not run.campaign_ids:
            counts = "nothing to retry, no requested report failed last time"
    else:
        counts = "nothing written"
        if run.ended_by is not None:
            counts = f"{counts}, {facts_of_error(run.ended_by)['kind']}"
            # a refused key is the cause of all failures so far
            if run.code is not ExitCode.AUTHENTICATION:
                counts += run.display.position
    period = ""
    if run.windows:
        period = f", {min(run.windows)[0]} to {max(run.windows)[1]}"
    subject = f"{one_line(account)}, night of {night}{period}"
    return f"{_now()}: {subject}: {counts}; exit code {code:d}"


def show_line_of_failed_start(error: BaseException, code: int, arguments: Sequence[str]) -> None:
    """Print the closing line of a run that failed before its first pull."""
    kind = facts_of_error(error)["kind"]
    # The error may come from the parser, so the options are read from the words of the command: the
    # word after an option is its value.
    words = []
    for argument in arguments:
        # as in --account=acme; an argument that is a value may have a `=` of its own
        words += argument.split("=", 1) if argument.startswith("--") else [argument]
    values = dict(pairwise(words))
    facts = [_now()]
    if "--account" in values and "--snapshot-date" in values:
        night = f"{values['--account']}, night of {values['--snapshot-date']}"
        facts.append(one_line(night))
    messages().print(f"{': '.join(facts)}: nothing written, {kind}; exit code {code}")


def _now() -> str:
    return f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M:%S} UTC"


# --- As JSON


def facts_of(run: PullRun) -> dict[str, Any]:
    """Return the facts of a run for JSON. An error that ended the run is also a fact."""
    error = None if run.ended_by is None else facts_of_error(run.ended_by)
    if not run.by_month and error is not None:
        return {"error": error}
    is_retry = run.arguments.retry_failed
    if not run.by_month and run.pulls:
        return _facts_of_pull(run.pulls[0], is_retry) | {"warnings": list(run.warnings)}
    facts = _facts_of_end(run.code, error)
    # a dry run gets here only if all months are complete
    if run.arguments.dry_run:
        facts["dry_run"] = True
    return facts | {
        "months_left": [month_of(window) for window in run.windows_left],
        "months_skipped": run.months_skipped,
        "requests": run.stats.attempts,
        "rows": run.rows,
        "failures": run.missing_reports,
        "warnings": list(run.warnings),
        "pulls": [_facts_of_pull(pull, is_retry) for pull in run.pulls],
    }


def _facts_of_end(code: ExitCode, error: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"ok": code is ExitCode.OK, "exit_code": int(code), "error": error}


def _facts_of_pull(pull: PullSummary, is_retry: bool) -> dict[str, Any]:
    """Return the facts of one pull for JSON."""
    return {
        **_facts_of_end(code_of_pulls([pull], is_retry=is_retry)),
        **{name: getattr(pull, name) for name in _PLAIN_FACTS},
        "files": [str(path) for path in pull.paths],
        "notes": pull.notes,
        "rows": {feed.value: pull.rows_of(feed) for feed in pull.feeds},
        "resumed_reports": pull.resumed,
        "retries": pull.stats.retries,
        "refusals": pull.stats.throttled,
        "page_sizes": pull.stats.page_sizes,
        "waited": {reason: round(seconds, 3) for reason, seconds in pull.stats.waited.items()},
        "seconds": round(pull.seconds, 3),
        "warnings": [],
        "failures": [_facts_of_failure(failure) for failure in pull.failures],
    }


def _facts_of_failure(failure: PullFailure) -> dict[str, Any]:
    return attrs.asdict(failure) | {
        "message": one_line(with_option_names(failure.message)),
        "fails_again": fails_again(failure.error, failure.status),
    }


# --- A dry run


def facts_of_previews(run: PullRun, previews: Mapping[str, PullPreview]) -> dict[str, Any]:
    """Return the facts of a dry run for JSON. All months are counted together."""
    arguments = run.arguments
    first = next(iter(previews.values()))
    requests = sum(preview.requests for preview in previews.values())
    # without --max-requests, one run is enough; a pull that is complete needs 0 requests
    requests_of_run = arguments.max_requests or requests or 1
    staged = None
    if first.staged is not None:
        staged = attrs.asdict(first.staged) | {"resumes": first.resumes}
    facts = {
        "dry_run": True,
        "feeds": arguments.feeds,
        "start_date": min(first_day for first_day, _ in run.windows),
        "end_date": max(last_day for _, last_day in run.windows),
        "account": first.account,
        "snapshot_date": arguments.snapshot_date,
        "files": [str(file) for file in first.files],
        "campaigns": first.campaigns,
        "sampled": first.sampled,
        "requests": requests,
        "page_sizes": first.page_sizes,
        "notes": list(first.notes),
        "runs": math.ceil(requests / requests_of_run),
        "staged": staged,
        "months_skipped": run.months_skipped,
    }
    if len(previews) > 1:
        facts["months"] = {month: preview.requests for month, preview in previews.items()}
    return facts


def preview_in_words(facts: Mapping[str, Any], source: str) -> str:
    """Return the facts of a preview for a person to read."""
    lines = [f"Would pull {facts['start_date']} to {facts['end_date']} from {one_line(source)}"]
    lines += [f"  {label:<{_LABEL_WIDTH}}{value}" for label, value in _preview_lines(facts)]
    return "\n".join([*lines, ""])


def _preview_lines(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the label and the text of each line of a preview."""
    yield "Feed", ", ".join(facts["feeds"])
    yield "Account", one_line(facts["account"])
    yield "Campaigns", f"{facts['campaigns']:,}"
    if facts["months_skipped"]:
        yield "Skipped", f"{counted(facts['months_skipped'], 'month')}, complete already"
    for month, requests in facts.get("months", {}).items():
        yield month, f"about {counted(requests, 'request')}"
    yield "Requests", _requests_in_words(facts)
    for file in facts["files"]:
        yield "File", one_line(file)
    if facts["staged"] is not None:
        consequence = "resumes it" if facts["staged"]["resumes"] else "starts over"
        yield "Stored", f"{staged_in_words(facts['staged'])}; this {consequence}"
    for note in facts["notes"]:
        yield "Note", one_line(note)


def _requests_in_words(facts: Mapping[str, Any]) -> str:
    """Return the estimated number of requests, and how it was estimated."""
    parts = [f"about {facts['requests']:,}"]
    if facts["runs"] > 1:
        parts.append(f"in {facts['runs']} runs")
    if facts["sampled"] is None:
        parts.append("at one page per report")
    else:
        parts.append(f"estimated from campaign {facts['sampled']}")
    return ", ".join(parts) + _page_sizes_in_words(facts["page_sizes"])


def staged_in_words(staged: Mapping[str, Any]) -> str:
    """Return the attributes of a staged pull as a sentence."""
    state = "ended with failures" if staged["ended"] else "is unfinished"
    night = f"{one_line(staged['account'])}, night of {staged['snapshot_date']}"
    window = f"{staged['start_date']} to {staged['end_date']}"
    reports = counted(staged["reports"], "report")
    return f"{night}: the pull of {window} {state}, with {reports}"
