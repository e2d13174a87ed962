"""What `seorep pull` does once its options are understood."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import sys
from pathlib import Path

import attrs
import click
from rich.console import Console

from seorep_async.cli.exit_codes import ExitCode, exit_code_of
from seorep_async.cli.progress import ProgressDisplay
from seorep_async.cli.screen import printable, screen
from seorep_async.cli.summary import as_json, show_failures, show_summary
from seorep_async.client import SeoRepClient
from seorep_async.export import ExportError, PullSummary
from seorep_async.export.formats import Format
from seorep_async.export.order import Order, order_of
from seorep_async.export.preview import PullPreview, kept_work, preview
from seorep_async.export.pull_to import carry_out
from seorep_async.export.stream import stream
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
        json: give the summary as JSON, on stdout.
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
            order = order_of(client, self.campaigns, self.first, self.last, self.feeds, self.options, service)
            target = None if self.out is None else await asyncio.to_thread(target_of, self.out, order.feeds)
            if self.dry_run:
                _show_preview(await preview(client, order, target), order, source)
                return ExitCode.OK
            if target is None:
                return await self._to_stdout(client, order, console, source)
            return await self._to_target(client, order, target, console, source)

    async def _to_target(
        self, client: SeoRepClient, order: Order, target: Target, console: Console, source: str
    ) -> ExitCode:
        kept = None if self.restart else kept_work(target)
        if kept is not None and (self.retry_failed or not kept.ended) and not self.quiet:
            console.print(f"Going on with the pull begun {_moment(kept.begun)}: {kept.reports:,} reports are there.")
        try:
            async with ProgressDisplay(console, client, quiet=self.quiet) as display:
                summary = await carry_out(
                    client, order, target, display.show, restart=self.restart, retry_failed=self.retry_failed
                )
        except asyncio.CancelledError:
            console.print(f"Interrupted; {_how_to_go_on(target)}")
            return ExitCode.INTERRUPTED
        except ExportError:
            if kept_work(target) is not None:
                console.print(f"Stopped; {_how_to_go_on(target)}")
            raise
        code = ExitCode.OK if summary.ok else ExitCode.PARTIAL
        if not summary.paths and summary.failures:
            code = exit_code_of(summary.failures[0].error)
        self._tell(client, console, summary, code, source, to_file=True)
        return code

    async def _to_stdout(self, client: SeoRepClient, order: Order, console: Console, source: str) -> ExitCode:
        async def write(data: bytes) -> None:
            # in a thread: who reads may be slow, and answers must not time out meanwhile
            await asyncio.to_thread(_write, data)

        try:
            async with ProgressDisplay(console, client, quiet=self.quiet) as display:
                summary = await stream(client, order, self.stdout_format, write, display.show)
        except BrokenPipeError:
            # who reads has had enough; Python must not try to flush to it at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return ExitCode.INTERRUPTED
        code = ExitCode.OK if summary.ok else ExitCode.PARTIAL
        if summary.failures and not summary.rows:
            code = exit_code_of(summary.failures[0].error)
        self._tell(client, console, summary, code, source, to_file=False)
        return code

    def _tell(
        self,
        client: SeoRepClient,
        console: Console,
        summary: PullSummary,
        code: ExitCode,
        source: str,
        *,
        to_file: bool,
    ) -> None:
        if self.json:
            click.echo(as_json(summary, code))
        if not self.quiet:
            retries = sum(client.stats.retries.values())
            show_summary(console, summary, source, retries=retries, to_file=to_file)
        elif summary.failures:
            show_failures(console, summary)


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _how_to_go_on(target: Target) -> str:
    kept = kept_work(target)
    if kept is None:
        return "nothing came yet, and nothing is left behind."
    return f"{kept.reports:,} reports are kept. Run the same command again to go on, or with --restart to begin anew."


def _moment(iso: str) -> str:
    return printable(dt.datetime.fromisoformat(iso).strftime("%Y-%m-%d %H:%M"))


def _show_preview(found: PullPreview, order: Order, source: str) -> None:
    days = f"{order.start_date} to {order.end_date}"
    lines = [
        f"Would pull {', '.join(feed.value for feed in order.feeds)}, {days}, from {printable(source)}",
        f"  Campaigns  {found.campaigns:,}",
        f"  Requests   about {found.requests:,}, judged by the first campaign",
    ]
    lines += [f"  File       {printable(str(file))}" for file in found.files]
    if found.kept is not None:
        state = "ended with failures" if found.kept.ended else "was cut off"
        lines.append(
            f"  Kept       {found.kept.reports:,} reports of a pull that {state}, begun {_moment(found.kept.begun)}"
        )
    click.echo("\n".join(lines))
