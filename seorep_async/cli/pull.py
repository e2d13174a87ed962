"""`seorep pull` once its options are parsed: run it, and report on it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli.backfill import Backfill, months_in_words
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
from seorep_async.errors import ExportError, PullPausedError, SeoRepError, one_line
from seorep_async.export import PullSummary
from seorep_async.export.formats import Format
from seorep_async.export.preview import preview
from seorep_async.export.progress import ProgressTracker, StagedPull
from seorep_async.export.pull_to import run_export, stream_rows
from seorep_async.export.spec import CampaignChoice, PullSpec
from seorep_async.export.storage import is_address
from seorep_async.export.targets import Target, target_of
from seorep_async.models import Feed
from seorep_async.resources.rankings import FeedOptions
from seorep_async.settings import Settings

if TYPE_CHECKING:
    from seorep_async.sandbox import Sandbox


@attrs.frozen(kw_only=True)
class PullJob:
    """A pull with the command line's options; see `pull_to`.

    Attributes:
        options: further arguments of the feeds.
        labels: of the rows, and the options of CSV.
        out: the target, or None for stdout.
        place: further arguments of `target_of`.
        how: whether to `restart`, or to retry only what failed, `retry_failed`; and `max_requests`.
        skip_complete: leave out what an earlier pull has fetched without a failure.
        quiet: print only errors, failures and warnings.
        json: print the summary, or the dry run, as JSON on stdout.
        verbose: show the library's log on stderr.
        log_file: append it to this file, or None.
    """

    feeds: tuple[Feed, ...]
    days: ChosenDays
    campaigns: ChosenCampaigns
    options: FeedOptions
    labels: Mapping[str, Any]
    out: str | None
    place: Mapping[str, Any] = attrs.field(repr=False)
    stdout_format: Format
    how: Mapping[str, Any]
    skip_complete: bool
    quiet: bool
    json: bool
    dry_run: bool
    verbose: bool
    log_file: str | None
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
            print_failure(error, self.feeds, self.days, self.labels["account"], self.labels["snapshot_date"])

    def of_service(self, connection: Connection) -> ExitCode:
        """Pull from a service, and report on stderr; raises if nothing could be pulled."""
        labels, place = {"account": connection.account}, {"storage_options": connection.storage_options}
        place = place if is_address(self.out) else {}
        return run_until_interrupted(self._run(connection.client(), connection.base_url, labels, place))

    def of_sandbox(self, sandbox: Sandbox, settings: Settings, service: str) -> ExitCode:
        """Pull from a sandbox, and report on stderr; raises as `of_service`.

        The name `service` tells the sandbox from others, as its port changes each time.
        """

        async def run() -> ExitCode:
            async with sandbox:
                client = SeoRepClient(sandbox.base_url, sandbox.api_key, settings=settings)
                labels = {"account": "sandbox", "service": service}
                return await self._run(client, f"the sandbox (seed {sandbox.seed})", labels, {})

        return run_until_interrupted(run())

    async def _run(
        self, client: SeoRepClient, source: str, labels: Mapping[str, Any], place: Mapping[str, Any]
    ) -> ExitCode:
        console, chosen, days = self._console, self.campaigns, self.days
        further = {"choice": CampaignChoice(chosen.groups, chosen.filter, chosen.none_found), **labels}
        further |= {name: value for name, value in self.labels.items() if value is not None}
        async with client:
            spec, *others = (
                PullSpec.of(client, chosen.ids or None, *window, self.feeds, self.options, **further)
                for window in days.windows
            )

            def find_target(one: PullSpec) -> Target:
                return target_of(self.out or "", one.feeds, account=one.account, **self.place, **place)

            for note in () if self.quiet else (*days.notes, *chosen.notes):
                print_hanging(console, Text(one_line(note)), 2)
            if others or self.skip_complete:
                backfill = Backfill([spec, *others], find_target)
                await asyncio.to_thread(backfill.prepare, skip_complete=self.skip_complete, **place)
                code = await self._backfill(client, backfill, source)
                exit_on_signal(code)
                return code
            target = None if self.out is None else await asyncio.to_thread(find_target, spec)
            if self.dry_run:
                return await self._preview(client, spec, target, source)
            with shown_warnings(console) as warnings:
                code = await self._pull(client, spec, target, source, warnings)
            exit_on_signal(code)
            return code

    async def _backfill(self, client: SeoRepClient, backfill: Backfill, source: str) -> ExitCode:
        if self.dry_run:
            found = await backfill.preview(client)
            shown = months_in_words(found, source, backfill.skipped, as_json=self.json)
            self._json_begun.set()
            await run_in_daemon_thread(partial(write_stdout, shown + "\n", as_data=self.json))
            return ExitCode.OK
        with shown_warnings(self._console) as warnings:
            try:
                async with ProgressDisplay(self._console, client, quiet=self.quiet) as display:

                    def tracker(label: str) -> ProgressTracker:
                        display.label = label
                        return ProgressTracker(display.show)

                    await backfill.run(client, tracker, self.how)
            except asyncio.CancelledError:
                self._console.print(f"Interrupted; {backfill.finished}. Repeat the command to resume.")
                return ExitCode.INTERRUPTED
            except SeoRepError:
                self._console.print(f"Stopped; {backfill.finished}.")
                raise
            if self.json:
                self._json_begun.set()
                await run_in_daemon_thread(partial(write_stdout, backfill.as_json(warnings) + "\n"))
        backfill.show(self._console, source, quiet=self.quiet)
        return backfill.code

    async def _preview(self, client: SeoRepClient, spec: PullSpec, target: Target | None, source: str) -> ExitCode:
        restart, retry_failed = self.how["restart"], self.how["retry_failed"]
        found = await preview(client, spec, target, restart=restart, retry_failed=retry_failed)
        shown = preview_in_words(found, spec, source, self.days.origin)
        if self.json:
            shown = preview_as_json(found, spec)
        elif self.how["retry_failed"] and not found.campaigns:
            shown = _nothing_to_retry(found.files)
        self._json_begun.set()
        await run_in_daemon_thread(partial(write_stdout, shown + "\n", as_data=self.json))
        return ExitCode.OK

    async def _pull(
        self,
        client: SeoRepClient,
        spec: PullSpec,
        target: Target | None,
        source: str,
        warnings: Sequence[str],
    ) -> ExitCode:
        console = self._console
        left: list[StagedPull | None] = []

        def say_what_is_resumed(staged: StagedPull) -> None:
            if not self.quiet:
                console.print(f"Resuming the pull of {moment(staged.started_at)}: {_stored(staged)} already.")

        try:
            async with ProgressDisplay(console, client, quiet=self.quiet) as display:
                tracker = ProgressTracker(display.show, say_what_is_resumed, left.append)
                if target is None:
                    summary = await stream_rows(client, spec, self.stdout_format, _write_rows, tracker)
                else:
                    summary = await run_export(client, spec, target, tracker, **self.how)
        except asyncio.CancelledError:
            if target is None:
                raise
            console.print(f"Interrupted; {_how_to_resume(left[0]) if left else 'nothing was fetched.'}")
            return ExitCode.INTERRUPTED
        except (ExportError, PullPausedError):
            if any(left):
                console.print(f"Stopped; {_how_to_resume(left[0])}")
            raise
        code = _code_of(summary, written=summary.rows > 0 if target is None else bool(summary.paths))
        problem = await self._write_summary(summary, code, warnings)
        if not summary.outcomes and not summary.requests and not self.quiet:
            console.print(Text(_nothing_to_retry(summary.paths)))
        elif not self.quiet:
            facts: Any = {"to_file": target is not None, "night": spec.snapshot_date, "origin": self.days.origin}
            show_summary(console, summary, source, retries=sum(client.stats.retries.values()), **facts)
        elif summary.failures:
            show_failures(console, summary)
        if problem is None:
            return code
        written = f"{_named(summary)} written, but the summary is not" if summary.paths else "nothing is written"
        show_error(f"{written}: {problem}")
        return code or ExitCode.UNWRITTEN

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


def _stored(staged: StagedPull) -> str:
    return f"{counted(staged.reports, 'report is', 'reports are')} stored"


def _how_to_resume(staged: StagedPull | None) -> str:
    if staged is None:
        return "no report is stored yet."
    return f"{_stored(staged)}.\nRepeat the command to resume, or add --restart to start over."


async def _write_rows(data: bytes) -> None:
    await run_in_daemon_thread(partial(write_stdout_bytes, data))
