"""A pull once its options are parsed: one, or one for each month, run and reported."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from functools import partial
from typing import Any

import attrs
import click
from rich.console import Console

from seorep_async.cli import signals, summary
from seorep_async.cli.errors import failed
from seorep_async.cli.exit_codes import ExitCode, UsageError
from seorep_async.cli.options import Service
from seorep_async.cli.output import as_json, counted, messages, write, write_bytes
from seorep_async.cli.profiles import Connection, connect
from seorep_async.cli.progress import ProgressDisplay, logged
from seorep_async.cli.pull import Days, Job
from seorep_async.cli.running import in_daemon_thread, wait_for
from seorep_async.client import SeoRepClient
from seorep_async.errors import ExportError, PullPausedError, SeoRepError
from seorep_async.export import PullPreview, PullProgress, PullSummary, Stage, preview, pull_to, stream
from seorep_async.export.pull_to import staged_pull
from seorep_async.export.request import Request
from seorep_async.history import complete_windows


def run(job: Job, windows: list[Days], service: Service) -> ExitCode:
    """Pull, and report on stderr; with `--json`, also on stdout, however it ends."""
    notes = messages(quiet=job.quiet)
    pulling = _Pulling(job, windows, notes, len(windows) > 1)
    try:
        with logged(messages() if job.quiet else notes, verbose=job.verbose) as pulling.warnings:
            return wait_for(pulling.run(connect(service)))
    except (click.exceptions.Exit, click.UsageError):  # the reader has enough; `app.run` reports wrong usage
        raise
    except (Exception, KeyboardInterrupt) as error:
        if job.json and not pulling.reported:
            summary.print_failure(error, **pulling.facts_so_far())
        raise


class NoCampaignsError(UsageError):
    """A pull found no campaign."""

    exit_code = ExitCode.EMPTY

    def __str__(self) -> str:
        return "there is no such campaign, or none at all: nothing is written"


@attrs.define
class _Pulling:
    """The pulls of a run.

    Attributes:
        windows: first and last day of the pulls that are left, in their order.
        skipped: how many months are complete.
        done: the summaries of the finished pulls.
        reported: whether stdout has its JSON.
        requests: how many the run has sent, those of a pull that was stopped included.
    """

    job: Job
    windows: list[Days]
    notes: Console
    several: bool
    warnings: list[str] = attrs.field(factory=list)
    skipped: int = 0
    done: list[PullSummary] = attrs.field(factory=list)
    account: str | None = None
    reported: bool = False
    requests: int = 0

    async def run(self, connection: Connection) -> ExitCode:
        job = self.job
        async with connection.opened() as client:
            self.account = job.account or client.account
            if self.several and not job.dry_run:
                staged = await staged_pull(client, *self._window(self.windows[0]), out=job.target, **self._arguments())
                if staged is not None and not staged.ended:  # its reports are stored: it goes first
                    self.windows.sort(key=lambda one: one != (staged.start_date, staged.end_date))
            if job.skip_complete and await asyncio.to_thread(os.path.exists, job.target):
                complete = await asyncio.to_thread(self._complete, client)
                self.skipped = len(complete)
                self.windows = [one for one in self.windows if one not in complete]
            if not self.windows:
                self.notes.print("Nothing to pull: every month is complete.")
                code = await self._report(ExitCode.OK, connection.label)
            elif job.dry_run:
                code = await self._preview(client, connection.label)
            else:
                code = await self._pull(client, connection.label)
            signals.finished(code)
            return code

    def _window(self, window: Days) -> tuple[list[int] | None, dt.date, dt.date]:
        """Return the campaigns and the days of one pull, as the library takes them first."""
        return [one for several in self.job.campaign or () for one in several] or None, *window

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of the library that are the same for each pull."""
        job = self.job
        options = {"compare_previous_period": job.compare_previous_period or None, "limit": job.page_size}
        return {
            "exclude": [one for several in job.exclude or () for one in several],
            "groups": job.group or (),
            "filter": job.filter,
            "feeds": job.feeds,
            "account": self.account,
            "snapshot_date": job.snapshot_date,
            "excel": job.excel,
            **{name: value for name, value in options.items() if value is not None},
        }

    def _complete(self, client: SeoRepClient) -> list[Days]:
        """Return the months that the database has complete, of these campaigns and with all feeds."""
        job = self.job
        chosen: Any = {name: self._arguments()[name] for name in ("feeds", "groups", "filter", "exclude", "account")}
        ids, first, last = self._window(self.windows[0])
        asked = Request.of(client, ids, (first, last), chosen)
        how: Any = {"selection": asked.selection, "compared": job.compare_previous_period}
        found = complete_windows(job.target, account=asked.account, **how)
        return [one for one in self.windows if all(found.get((*one, feed), (False,))[0] for feed in asked.feeds)]

    @property
    def _labels(self) -> dict[str, Any]:
        days = {"start_date": min(self.windows)[0], "end_date": max(self.windows)[1]} if self.windows else {}
        return {"feeds": self.job.feeds, **days, "account": self.account, "snapshot_date": self.job.snapshot_date}

    def facts_so_far(self) -> dict[str, Any]:
        """Return what is known of a run that failed."""
        return self._labels | ({"pulls": [summary.summary_facts(one) for one in self.done]} if self.several else {})

    async def _preview(self, client: SeoRepClient, source: str) -> ExitCode:
        """Show an estimate of each pull; the first may have staged reports, the further months are like the second."""
        job, found = self.job, dict[str, PullPreview]()
        how: Any = {
            "restart": job.restart,
            "retry_failed": job.retry_failed,
            "out": None if job.to_stdout else job.target,
        }
        how |= self._arguments()
        for window in self.windows:
            alike = len(found) > 1 and not job.retry_failed
            known = [*found.values()][-1] if alike else await preview(client, *self._window(window), **how)
            found[f"{window[0]:%Y-%m}"] = known
            if not known.campaigns and not job.retry_failed:
                raise NoCampaignsError
        facts = summary.preview_facts(found, self._labels, self.skipped)
        await self._write(as_json(facts) if job.json else summary.preview_in_words(found, facts, source))
        return ExitCode.OK

    async def _pull(self, client: SeoRepClient, source: str) -> ExitCode:
        display, several, code = ProgressDisplay(self.notes, client), self.several, None
        try:
            async with display.shown():
                while self.windows:
                    place = f"{len(self.done) + 1} of {len(self.done) + len(self.windows)}"
                    display.label = f"{self.windows[0][0]:%Y-%m}, {place}: " if several else ""
                    self.done.append(await self._pull_one(client, display))
                    if self.job.to_stdout and not self.done[-1].campaigns:
                        raise NoCampaignsError
                    del self.windows[0]
        except PullPausedError:
            if not several:
                raise
            code = ExitCode.UNAVAILABLE
            self.notes.print(f"Paused at --max-requests; {self._left}. Repeat the command to go on.")
        except asyncio.CancelledError:
            if self.job.to_stdout:
                raise
            code = ExitCode.INTERRUPTED
            at = f"; {self._left}" if several else display.place
            messages().print(f"Interrupted{at}.\nRepeat the command to resume, or add --restart to start over.")
        except SeoRepError:
            if several:
                messages().print(f"Stopped; {self._left}.")
            raise
        self.requests = client.stats.attempts
        return await self._report(summary.code_of_pulls(self.done) if code is None else code, source)

    async def _pull_one(self, client: SeoRepClient, display: ProgressDisplay) -> PullSummary:
        job = self.job

        def show(state: PullProgress) -> None:
            if state.total == 0 and state.stage is Stage.LISTING:
                raise NoCampaignsError
            display.show(state)

        arguments: Any = {**self._arguments(), "on_progress": show}
        if job.to_stdout:
            how: Any = {"write": _write_rows, "format": job.format or "csv", **arguments}
            return await stream(client, *self._window(self.windows[0]), **how)
        left = None if job.max_requests is None else job.max_requests - sum(one.requests for one in self.done)
        if left is not None and left <= 0:
            raise PullPausedError("stopped at --max-requests")
        arguments |= {"restart": job.restart, "retry_failed": job.retry_failed, "force": job.force}
        ids, first, last = self._window(self.windows[0])
        return await pull_to(client, ids, first, last, out=job.target, max_requests=left, **arguments)

    @property
    def _left(self) -> str:
        return f"{counted(len(self.windows), 'month is', 'months are')} left"

    async def _report(self, code: ExitCode, source: str) -> ExitCode:
        """Report what was pulled; if stdout can't be written, the target is there all the same."""
        job, problem = self.job, None
        self.reported = True
        try:
            if job.json and self.several:
                left = [f"{window[0]:%Y-%m}" for window in self.windows]
                known: Any = {"skipped": self.skipped, "requests": self.requests, "warnings": self.warnings}
                await self._write(as_json(summary.months_facts(self.done, left, code, **known)))
            elif job.json and self.done:
                await self._write(as_json(summary.summary_facts(self.done[0], self.warnings)))
            elif job.json:
                summary.print_failure(KeyboardInterrupt(), **self._labels)
        except ExportError as error:
            problem = error
        except (asyncio.CancelledError, click.exceptions.Exit):  # a closed stdout is no error: the export succeeded
            pass
        summary.show_failures(messages(), self.done)
        if self.done:
            summary.show_summary(self.notes, self.done, source, to_stdout=job.to_stdout, skipped=self.skipped)
        return (code or failed(problem)) if problem is not None else code

    async def _write(self, text: str) -> None:
        self.reported = True
        await in_daemon_thread(partial(write, text))


async def _write_rows(data: bytes) -> None:
    await in_daemon_thread(partial(write_bytes, data))
