"""What `seorep pull` does once its options are understood."""

from __future__ import annotations

import asyncio
import datetime as dt
from functools import partial
from pathlib import Path

import attrs
import click
from rich.console import Console

from seorep_async.cli.exit_codes import ExitCode, exit_code_of
from seorep_async.cli.interruption import end_with
from seorep_async.cli.preview import preview_as_json, preview_in_words
from seorep_async.cli.progress import ProgressDisplay
from seorep_async.cli.screen import screen, show_error
from seorep_async.cli.stdout import in_daemon, write_stdout, write_stdout_bytes
from seorep_async.cli.summary import as_json, show_failures, show_summary
from seorep_async.cli.wording import counted, moment
from seorep_async.client import SeoRepClient
from seorep_async.export import ExportError, PullSummary
from seorep_async.export.formats import Format
from seorep_async.export.job import ExportJob, export_job
from seorep_async.export.pipe import stream_rows
from seorep_async.export.preview import preview, resumable_pull, staged_pull
from seorep_async.export.pull_to import run_export
from seorep_async.export.target import Target, target_of
from seorep_async.models import Feed
from seorep_async.resources.rankings import FeedOptions
from seorep_async.settings import Settings


@attrs.frozen(kw_only=True)
class Job:
    """A pull as the command line asks for it.

    Attributes:
        feeds: which feeds.
        first: first day.
        last: last day.
        campaigns: which campaigns, or None for all.
        out: where to, or None for stdout.
        stdout_format: what goes to stdout.
        settings: of the client.
        options: further arguments of the feeds.
        restart: begin anew.
        retry_failed: ask only for what failed.
        quiet: tell errors and failures only.
        json: give the summary, or what a dry run tells, as JSON on stdout.
        dry_run: only tell what would be asked.
    """

    feeds: tuple[Feed, ...]
    first: dt.date
    last: dt.date
    campaigns: tuple[int, ...] | None
    out: Path | None
    stdout_format: Format
    settings: Settings
    options: FeedOptions
    restart: bool
    retry_failed: bool
    quiet: bool
    json: bool
    dry_run: bool

    async def run(self, client: SeoRepClient, source: str, service: str | None = None) -> ExitCode:
        """Carry it out, and tell what came of it.

        Args:
            client: not open yet.
            source: what the rows come from, in words.
            service: what tells it from other services, if that is not its address.
        """
        console = screen()
        async with client:
            job = export_job(client, self.campaigns, self.first, self.last, self.feeds, self.options, service)
            target = None if self.out is None else await asyncio.to_thread(target_of, self.out, job.feeds)
            if self.dry_run:
                found = await preview(client, job, target, restart=self.restart, retry_failed=self.retry_failed)
                told = preview_as_json(found, job) if self.json else preview_in_words(found, job, source)
                await in_daemon(partial(write_stdout, told + "\n", as_data=self.json))
                return ExitCode.OK
            if target is None:
                code = await self._to_stdout(client, job, console, source)
            else:
                code = await self._to_target(client, job, target, console, source)
            end_with(code)
            return code

    async def _to_target(
        self, client: SeoRepClient, job: ExportJob, target: Target, console: Console, source: str
    ) -> ExitCode:
        kept = await asyncio.to_thread(
            resumable_pull, target, job, restart=self.restart, retry_failed=self.retry_failed
        )
        if kept is not None and not self.quiet:
            there = counted(kept.reports, "report is", "reports are")
            console.print(f"Going on with the pull begun {moment(kept.begun)}: {there} there.")
        try:
            async with ProgressDisplay(console, client, quiet=self.quiet) as display:
                summary = await run_export(
                    client, job, target, display.show, restart=self.restart, retry_failed=self.retry_failed
                )
        except asyncio.CancelledError:
            console.print(f"Interrupted; {_how_to_go_on(target)}")
            return ExitCode.INTERRUPTED
        except ExportError:
            if staged_pull(target) is not None:
                console.print(f"Stopped; {_how_to_go_on(target)}")
            raise
        code = _code_of(summary, came=bool(summary.paths))
        unwritten = await self._summary_as_json(summary, code)
        self._tell(client, console, summary, source, to_file=True)
        if unwritten is None:
            return code
        written = (
            f"{_named(summary)} written, but the summary is not"
            if summary.paths
            else "neither a file nor the summary is written"
        )
        show_error(f"{written}: {unwritten}")
        return code or ExitCode.UNWRITTEN

    async def _to_stdout(self, client: SeoRepClient, job: ExportJob, console: Console, source: str) -> ExitCode:
        async def write(data: bytes) -> None:
            await in_daemon(partial(write_stdout_bytes, data))

        async with ProgressDisplay(console, client, quiet=self.quiet) as display:
            summary = await stream_rows(client, job, self.stdout_format, write, display.show)
        code = _code_of(summary, came=summary.rows > 0)
        self._tell(client, console, summary, source, to_file=False)
        return code

    async def _summary_as_json(self, summary: PullSummary, code: ExitCode) -> str | None:
        """Write the summary to stdout if that was asked for; return why that was not possible, or None.

        Who does not read it has no need of it, and the target is there.
        """
        if self.json:
            try:
                await in_daemon(partial(write_stdout, as_json(summary, code) + "\n"))
            except ExportError as error:
                return error.message
            except (asyncio.CancelledError, click.exceptions.Exit):
                pass
        return None

    def _tell(
        self, client: SeoRepClient, console: Console, summary: PullSummary, source: str, *, to_file: bool
    ) -> None:
        if not self.quiet:
            retries = sum(client.stats.retries.values())
            show_summary(console, summary, source, retries=retries, to_file=to_file)
        elif summary.failures:
            show_failures(console, summary)


def _code_of(summary: PullSummary, *, came: bool) -> ExitCode:
    if summary.ok:
        return ExitCode.OK
    if came:
        return ExitCode.PARTIAL
    codes = [exit_code_of(failure.error) for failure in summary.failures]
    # by this one scripts know that another try may help
    return ExitCode.UNAVAILABLE if ExitCode.UNAVAILABLE in codes else codes[0]


def _named(summary: PullSummary) -> str:
    names = [str(path) for path in summary.paths]
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _how_to_go_on(target: Target) -> str:
    kept = staged_pull(target)
    if kept is None:
        return "nothing came yet, and nothing is left behind."
    there = counted(kept.reports, "report is", "reports are")
    return f"{there} kept.\nThe same command goes on; with --restart it begins anew."
