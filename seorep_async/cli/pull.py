"""`seorep pull` once its options are parsed: run it, and report on it."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli.choosing import ChosenCampaigns, ChosenDays
from seorep_async.cli.connection import Connection
from seorep_async.cli.exit_codes import ExitCode, exit_code_of, show_error
from seorep_async.cli.humanise import counted, moment
from seorep_async.cli.log import written_log
from seorep_async.cli.progress import ProgressDisplay
from seorep_async.cli.signals import exit_on_signal, run_in_daemon_thread, run_until_interrupted
from seorep_async.cli.summary import (
    preview_as_json,
    preview_in_words,
    print_failure,
    show_failures,
    show_summary,
    summary_as_json,
)
from seorep_async.cli.terminal import print_hanging, shown_warnings, stderr_console, write_stdout, write_stdout_bytes
from seorep_async.client import SeoRepClient
from seorep_async.errors import ExportError, one_line
from seorep_async.export import CsvOptions, PullSummary
from seorep_async.export.campaign_choice import CampaignChoice
from seorep_async.export.formats import Format
from seorep_async.export.job import ExportJob, Snapshot, export_job
from seorep_async.export.preview import preview, resumable_pull, staged_pull
from seorep_async.export.pull_to import run_export, stream_rows
from seorep_async.export.storage import is_address
from seorep_async.export.target import Target, target_of
from seorep_async.models import Feed
from seorep_async.resources.rankings import FeedOptions
from seorep_async.settings import Settings

if TYPE_CHECKING:
    from seorep_async.sandbox import Sandbox


@attrs.frozen(kw_only=True)
class PullJob:
    """A pull with the command line's options; see `pull_to`.

    Attributes:
        out: the target, or None for stdout.
        storage_options: of the object store in `out`, from the profile.
        options: further arguments of the feeds.
        quiet: print only errors, failures and warnings.
        json: print the summary, or the dry run, as JSON on stdout.
        verbose: show the library's log on stderr.
        log_file: append it to this file, or None.
    """

    feeds: tuple[Feed, ...]
    days: ChosenDays
    campaigns: ChosenCampaigns
    out: str | None
    work_dir: str | None
    stdout_format: Format
    options: FeedOptions
    account: str | None
    snapshot_date: dt.date | None
    key_renewed: str | None
    csv: CsvOptions
    force: bool
    restart: bool
    retry_failed: bool
    quiet: bool
    json: bool
    dry_run: bool
    verbose: bool
    log_file: str | None
    storage_options: Mapping[str, Any] | None = attrs.field(default=None, repr=False)
    _console: Console = attrs.field(factory=stderr_console, repr=False)
    _json_begun: threading.Event = attrs.field(factory=threading.Event, repr=False)

    def reported(self, run: Callable[[], ExitCode]) -> ExitCode:
        """Run the pull by one of the methods below; with `--json`, report a complete failure."""
        try:
            with written_log(self._console, verbose=self.verbose, file=self.log_file):
                code = run()
        except (click.exceptions.Exit, click.UsageError):  # `run` reports wrong usage
            raise
        except (Exception, KeyboardInterrupt) as error:
            self._write_failure(error)
            raise
        if code is ExitCode.INTERRUPTED:
            self._write_failure(KeyboardInterrupt())
        return code

    def _write_failure(self, error: BaseException) -> None:
        if self.json and not self._json_begun.is_set():
            print_failure(error, self.feeds, self.days, self.account, self.snapshot_date)

    def of_service(self, connection: Connection) -> ExitCode:
        """Pull from a service, and report on stderr; raises if nothing could be pulled."""
        run = attrs.evolve(self, storage_options=connection.storage_options) if is_address(self.out) else self
        return run_until_interrupted(run._run(connection.client(), connection.base_url, None, connection.account))

    def of_sandbox(self, sandbox: Sandbox, settings: Settings, service: str) -> ExitCode:
        """Pull from a sandbox, and report on stderr; raises as `of_service`.

        The name `service` tells the sandbox from others, as its port changes each time.
        """

        async def run() -> ExitCode:
            async with sandbox:
                client = SeoRepClient(sandbox.base_url, sandbox.api_key, settings=settings)
                return await self._run(client, f"the sandbox (seed {sandbox.seed})", service, "sandbox")

        return run_until_interrupted(run())

    async def _run(self, client: SeoRepClient, source: str, service: str | None, account: str | None) -> ExitCode:
        console = self._console
        async with client:
            chosen, days = self.campaigns, self.days
            snapshot = Snapshot(account if self.account is None else self.account, self.snapshot_date, self.key_renewed)
            job = export_job(
                client,
                chosen.ids or None,
                days.first,
                days.last,
                self.feeds,
                self.options,
                service,
                CampaignChoice(chosen.groups, chosen.filter, chosen.none_found),
                snapshot,
                self.csv,
            )
            target = None
            if self.out is not None:
                target = await asyncio.to_thread(self._target, job)
            for note in () if self.quiet else (*days.notes, *chosen.notes):
                print_hanging(console, Text(one_line(note)), 2)
            if self.dry_run:
                found = await preview(client, job, target, restart=self.restart, retry_failed=self.retry_failed)
                shown = preview_in_words(found, job, source, days.origin)
                if self.json:
                    shown = preview_as_json(found, job)
                elif self.retry_failed and not found.campaigns:
                    shown = _nothing_to_retry(found.files)
                self._json_begun.set()
                await run_in_daemon_thread(partial(write_stdout, shown + "\n", as_data=self.json))
                return ExitCode.OK
            with shown_warnings(console) as warnings:
                if target is None:
                    code = await self._to_stdout(client, job, console, source)
                else:
                    code = await self._to_target(client, job, target, console, source, warnings)
            exit_on_signal(code)
            return code

    def _target(self, job: ExportJob) -> Target:
        return target_of(
            self.out or "",
            job.feeds,
            account=job.account,
            force=self.force,
            work_dir=self.work_dir,
            storage_options=self.storage_options,
        )

    async def _to_target(
        self,
        client: SeoRepClient,
        job: ExportJob,
        target: Target,
        console: Console,
        source: str,
        warnings: Sequence[str],
    ) -> ExitCode:
        staged = await asyncio.to_thread(
            resumable_pull, target, job, restart=self.restart, retry_failed=self.retry_failed
        )
        if staged is not None and not self.quiet:
            reports = counted(staged.reports, "report is", "reports are")
            console.print(f"Resuming the pull of {moment(staged.started_at)}: {reports} stored already.")
        try:
            async with ProgressDisplay(console, client, quiet=self.quiet) as display:
                summary = await run_export(
                    client, job, target, display.show, restart=self.restart, retry_failed=self.retry_failed
                )
        except asyncio.CancelledError:
            console.print(f"Interrupted; {_how_to_resume(target)}")
            return ExitCode.INTERRUPTED
        except ExportError:
            if staged_pull(target) is not None:
                console.print(f"Stopped; {_how_to_resume(target)}")
            raise
        code = _code_of(summary, written=bool(summary.paths))
        problem = await self._write_summary(summary, code, warnings)
        self._report(client, console, summary, source, job.snapshot_date, to_file=True)
        if problem is None:
            return code
        written = f"{_named(summary)} written, but the summary is not" if summary.paths else "nothing is written"
        show_error(f"{written}: {problem}")
        return code or ExitCode.UNWRITTEN

    async def _to_stdout(self, client: SeoRepClient, job: ExportJob, console: Console, source: str) -> ExitCode:
        async def write(data: bytes) -> None:
            await run_in_daemon_thread(partial(write_stdout_bytes, data))

        async with ProgressDisplay(console, client, quiet=self.quiet) as display:
            summary = await stream_rows(client, job, self.stdout_format, write, display.show)
        code = _code_of(summary, written=summary.rows > 0)
        self._report(client, console, summary, source, job.snapshot_date, to_file=False)
        return code

    async def _write_summary(self, summary: PullSummary, code: ExitCode, warnings: Sequence[str]) -> str | None:
        """Write the summary to stdout with `--json`; return the reason if that failed, or None.

        A closed stdout is not an error: the export succeeded.
        """
        if self.json:
            self._json_begun.set()
            try:
                await run_in_daemon_thread(partial(write_stdout, summary_as_json(summary, code, warnings) + "\n"))
            except ExportError as error:
                return error.message
            except (asyncio.CancelledError, click.exceptions.Exit):
                pass
        return None

    def _report(
        self,
        client: SeoRepClient,
        console: Console,
        summary: PullSummary,
        source: str,
        night: dt.date,
        *,
        to_file: bool,
    ) -> None:
        if not summary.outcomes and not summary.requests and not self.quiet:
            console.print(Text(_nothing_to_retry(summary.paths)))
        elif not self.quiet:
            retries = sum(client.stats.retries.values())
            origin = self.days.origin
            show_summary(console, summary, source, origin=origin, retries=retries, to_file=to_file, night=night)
        elif summary.failures:
            show_failures(console, summary)


def _code_of(summary: PullSummary, *, written: bool) -> ExitCode:
    """Return the exit code: if every report failed, that of the first error, or 5 if any error was transient."""
    if summary.ok:
        return ExitCode.OK
    if written:
        return ExitCode.PARTIAL
    codes = [exit_code_of(failure.error) for failure in summary.failures]
    return ExitCode.UNAVAILABLE if ExitCode.UNAVAILABLE in codes else codes[0]


def _nothing_to_retry(paths: Sequence[Path | str]) -> str:
    files = one_line(", ".join(map(str, paths)))
    return f"Nothing to retry: no report failed in the last pull into {files}. Omit --retry-failed to pull everything."


def _named(summary: PullSummary) -> str:
    names = [str(path) for path in summary.paths[: len(summary.feeds)]]
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _how_to_resume(target: Target) -> str:
    staged = staged_pull(target)
    if staged is None:
        return "no report is stored yet."
    reports = counted(staged.reports, "report is", "reports are")
    return f"{reports} stored.\nRepeat the command to resume, or add --restart to start over."
