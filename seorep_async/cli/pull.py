"""`seorep pull` once its options are parsed: one pull, or one for each month, run and reported."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli import summary as words
from seorep_async.cli.choosing import ChosenCampaigns, ChosenDays
from seorep_async.cli.connection import Connection, connect
from seorep_async.cli.exit_codes import ExitCode, show_error
from seorep_async.cli.months import Months, months_facts, preview_of_months, show_failures_of_months, show_months
from seorep_async.cli.progress import ProgressDisplay, shown_warnings, written_log
from seorep_async.cli.signals import exit_on_signal, run_in_daemon_thread, run_until_interrupted
from seorep_async.cli.terminal import as_json, print_hanging, stderr_console, write_stdout, write_stdout_bytes
from seorep_async.client import SeoRepClient
from seorep_async.errors import ExportError, PullPausedError, SeoRepError, one_line
from seorep_async.models import Feed
from seorep_async.old_export import CsvOptions, PullSummary
from seorep_async.old_export.formats import Format
from seorep_async.old_export.preview import preview
from seorep_async.old_export.progress import ProgressTracker, StagedPull
from seorep_async.old_export.pull_to import run_export, stream_rows
from seorep_async.old_export.spec import CampaignChoice, PullSpec
from seorep_async.old_export.storage import is_address
from seorep_async.old_export.targets import Target, target_of
from seorep_async.resources.rankings import FeedOptions

if TYPE_CHECKING:
    from seorep_async.sandbox import Sandbox


@attrs.define
class PullJob:
    """A pull with the command line's options.

    Attributes:
        out: the target, or None for stdout.
        options: the other options, by their names.
        notes: the console of what `--quiet` leaves out.
        sandbox: to pull from in place of the service.
    """

    feeds: tuple[Feed, ...]
    days: ChosenDays
    campaigns: ChosenCampaigns
    out: str | None
    options: Mapping[str, Any]
    notes: Console
    sandbox: Sandbox | None
    _console: Console = attrs.field(factory=stderr_console, repr=False)
    _json_begun: bool = attrs.field(default=False, init=False)

    def run(self) -> ExitCode:
        """Pull, and report on stderr; with `--json`, report also a complete failure on stdout."""
        options = self.options
        try:
            with written_log(self.notes, verbose=options["verbose"], file=options["log_file"]):
                code = run_until_interrupted(self._run(connect(options, self.sandbox)))
        except (click.exceptions.Exit, click.UsageError):  # `application.run` reports wrong usage
            raise
        except (Exception, KeyboardInterrupt) as error:
            self._write_failure(error)
            raise
        if code is ExitCode.INTERRUPTED:
            self._write_failure(KeyboardInterrupt())
        return code

    def _write_failure(self, error: BaseException) -> None:
        if self.options["json"] and not self._json_begun:
            labels = {name: self.options[name] for name in ("account", "snapshot_date")}
            words.print_failure(error, feeds=self.feeds, start_date=self.days.first, end_date=self.days.last, **labels)

    async def _run(self, connection: Connection) -> ExitCode:
        options = self.options
        place: Any = {"storage_options": connection.storage_options} if is_address(self.out) else {}
        async with connection.opened() as client:
            specs = self._specs(client, connection)
            for note in (*self.days.notes, *self.campaigns.notes):
                print_hanging(self.notes, Text(one_line(note)), 2)
            target = None
            if self.out is not None:
                how = {name: options[name] for name in ("force", "work_dir")}
                find_target = partial(target_of, self.out, self.feeds, account=specs[0].account)
                target = await asyncio.to_thread(find_target, **how, **place)
            if target is not None and (len(specs) > 1 or options["skip_complete"]):
                months = Months(client, specs, target)
                restart, skip_complete = options["restart"] and not options["dry_run"], options["skip_complete"]
                await asyncio.to_thread(months.prepare, skip_complete=skip_complete, restart=restart, **place)
                code = await self._pull_months(months, connection.label)
            elif options["dry_run"]:
                code = await self._preview(client, specs[0], target, connection.label)
            else:
                with shown_warnings() as warnings:
                    code = await self._pull(client, specs[0], target, connection.label, warnings)
            exit_on_signal(code)
            return code

    def _specs(self, client: SeoRepClient, connection: Connection) -> list[PullSpec]:
        options, chosen = self.options, self.campaigns
        feed_options = FeedOptions(
            limit=options["limit"], compare_previous_period=options["compare_previous_period"] or None
        )
        return [
            PullSpec.of(
                client,
                chosen.ids or None,
                *window,
                self.feeds,
                feed_options,
                account=connection.account if options["account"] is None else options["account"],
                service=connection.service,
                snapshot_date=options["snapshot_date"],
                key_renewed=options["key_renewed"],
                csv=CsvOptions(
                    line_end="\n" if options["csv_line_end"] == "lf" else "\r\n",
                    bom=options["csv_bom"],
                    guard=options["csv_guard"],
                ),
                choice=CampaignChoice(chosen.groups, chosen.filter, chosen.none_found),
            )
            for window in self.days.windows
        ]

    async def _write(self, text: str, *, as_data: bool = True) -> None:
        self._json_begun = True
        await run_in_daemon_thread(partial(write_stdout, f"{text}\n", as_data=as_data))

    async def _pull_months(self, months: Months, source: str) -> ExitCode:
        in_json = self.options["json"]
        if self.options["dry_run"]:
            shown = preview_of_months(await months.preview(), months.skipped, source, in_json=in_json)
            await self._write(shown, as_data=in_json)
            return ExitCode.OK
        with shown_warnings() as warnings:
            try:
                async with ProgressDisplay(self.notes, months.client) as display:
                    await months.run(display, self.options["restart"], self.options["max_requests"])
            except asyncio.CancelledError:
                self._console.print(f"Interrupted; {months.finished}. Repeat the command to resume.")
                return ExitCode.INTERRUPTED
            except SeoRepError:
                self._console.print(f"Stopped; {months.finished}.")
                raise
            if in_json:
                await self._write(as_json(months_facts(months, warnings)))
        show_failures_of_months(self._console, months)
        show_months(self.notes, months, source)
        return months.code

    async def _preview(self, client: SeoRepClient, spec: PullSpec, target: Target | None, source: str) -> ExitCode:
        in_json, how = self.options["json"], {name: self.options[name] for name in ("restart", "retry_failed")}
        found = await preview(client, spec, target, **how)
        if in_json:
            shown = words.preview_as_json(found, spec)
        elif how["retry_failed"] and not found.campaigns:
            shown = words.nothing_to_retry(found.files)
        else:
            shown = words.preview_in_words(found, spec, source, self.days.origin)
        await self._write(shown, as_data=in_json)
        return ExitCode.OK

    async def _pull(
        self, client: SeoRepClient, spec: PullSpec, target: Target | None, source: str, warnings: Sequence[str]
    ) -> ExitCode:
        console, notes = self._console, self.notes
        left: list[StagedPull | None] = []
        try:
            async with ProgressDisplay(notes, client) as display:
                tracker = ProgressTracker(display.show, partial(words.show_resumed, notes), left.append)
                if target is None:
                    kind = Format.JSON_LINES if self.options["stdout_format"] == "jsonl" else Format.CSV
                    summary = await stream_rows(client, spec, kind, _write_rows, tracker)
                else:
                    how = {name: self.options[name] for name in ("restart", "retry_failed", "max_requests")}
                    summary = await run_export(client, spec, target, tracker, **how)
        except asyncio.CancelledError:
            if target is None:
                raise
            console.print(f"Interrupted; {words.how_to_resume(left[0]) if left else 'nothing was fetched.'}")
            return ExitCode.INTERRUPTED
        except (ExportError, PullPausedError):
            if any(left):
                console.print(f"Stopped; {words.how_to_resume(left[0])}")
            raise
        code = words.code_of(summary.failures, written=summary.rows > 0 if target is None else bool(summary.paths))
        problem = await self._write_summary(summary, code, warnings)
        words.show_failures(console, summary)
        if not summary.outcomes and not summary.requests:
            notes.print(Text(words.nothing_to_retry(summary.paths)))
        else:
            facts: Any = {"to_file": target is not None, "night": spec.snapshot_date, "origin": self.days.origin}
            words.show_summary(notes, summary, source, **facts)
        if problem is None:
            return code
        show_error(f"{words.written_files(summary)}: {problem}")
        return code or ExitCode.UNWRITTEN

    async def _write_summary(self, summary: PullSummary, code: ExitCode, warnings: Sequence[str]) -> str | None:
        """Write the summary to stdout with `--json`; return the reason if that failed, or None.

        A closed stdout is not an error: the export succeeded.
        """
        try:
            if self.options["json"]:
                await self._write(as_json(words.summary_facts(summary, code, warnings)))
        except ExportError as error:
            return error.message
        except (asyncio.CancelledError, click.exceptions.Exit):
            pass
        return None


async def _write_rows(data: bytes) -> None:
    await run_in_daemon_thread(partial(write_stdout_bytes, data))
