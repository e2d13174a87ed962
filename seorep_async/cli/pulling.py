"""A pull once its options are parsed: one, or one for each month, run and reported."""

from __future__ import annotations

import asyncio
import os
import time
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
    began: float = attrs.field(factory=time.monotonic)

    async def run(self, connection: Connection) -> ExitCode:
        job = self.job
        async with connection.opened() as client:
            self.account = job.account or client.account
            if self.several and not job.dry_run:
                staged = await staged_pull(client, *self._window(), out=job.target, **self._asked)
                if staged is not None and not staged.ended:  # its reports are stored: it goes first
                    self.windows.sort(key=lambda one: one != (staged.start_date, staged.end_date))
            if job.skip_complete and await asyncio.to_thread(os.path.exists, job.target):
                complete = await asyncio.to_thread(self._complete, client)
                self.skipped = len(complete)
                self.windows = [one for one in self.windows if one not in complete]
            code = ExitCode.OK
            if job.dry_run and self.windows:
                await self._preview(client, connection.label)
            else:
                if not self.windows:
                    self.notes.print("Nothing to pull: every month is complete.")
                code = await self._report(await self._pull(client), client, connection.label)
            signals.ignore()
            return code

    def _window(self) -> tuple[list[int] | None, *Days]:
        """Return the campaigns and the days of the next pull, as the library takes them first."""
        return [one for several in self.job.campaign or () for one in several] or None, *self.windows[0]

    @property
    def _asked(self) -> Any:
        """The arguments of the library that say what is asked for, the same for each pull."""
        job = self.job
        return {
            "exclude": [one for several in job.exclude or () for one in several],
            "groups": job.group or (),
            "feeds": job.feeds,
            "account": self.account,
            "limit": job.page_size,
            "compare_previous_period": job.compare_previous_period or None,
            **{name: getattr(job, name) for name in ("filter", "snapshot_date", "excel")},
        }

    @property
    def _how(self) -> dict[str, Any]:
        """The arguments that say where to, and how."""
        names = ("restart", "retry_failed", "force")
        return {"out": self.job.target, **{name: getattr(self.job, name) for name in names}, **self._asked}

    def _complete(self, client: SeoRepClient) -> list[Days]:
        """Return the months that the database has complete, of these campaigns and with all feeds."""
        ids, first, last = self._window()
        asked = Request.of(client, ids, (first, last), self._asked)
        same: Any = {name: getattr(asked, name) for name in ("account", "selection", "compared")}
        found = complete_windows(self.job.target, **same)
        return [one for one in self.windows if all(found.get((*one, feed), (False,))[0] for feed in asked.feeds)]

    @property
    def _labels(self) -> dict[str, Any]:
        days = {"start_date": min(self.windows)[0], "end_date": max(self.windows)[1]} if self.windows else {}
        return {"feeds": self.job.feeds, **days, "account": self.account, "snapshot_date": self.job.snapshot_date}

    def facts_so_far(self) -> dict[str, Any]:
        """Return what is known of a run that failed."""
        return self._labels | ({"pulls": [summary.summary_facts(one) for one in self.done]} if self.several else {})

    async def _preview(self, client: SeoRepClient, source: str) -> None:
        """Show an estimate of each pull; the first may have staged reports, the further months are like the second."""
        job, labels, found = self.job, self._labels, dict[str, PullPreview]()
        how = self._how | ({"out": None} if job.to_stdout else {})
        while self.windows:
            alike = len(found) > 1 and not job.retry_failed
            known = [*found.values()][-1] if alike else await preview(client, *self._window(), **how)
            found[f"{self.windows.pop(0)[0]:%Y-%m}"] = known
            if not known.campaigns and not job.retry_failed:
                raise NoCampaignsError
        facts = summary.preview_facts(found, labels, self.skipped)
        await self._write(as_json(facts) if job.json else summary.preview_in_words(facts, source))

    async def _pull(self, client: SeoRepClient) -> ExitCode:
        """Pull what is left, and return the exit code; what ends a single pull is raised."""
        display, several = ProgressDisplay(self.notes, client), self.several
        try:
            async with display.shown():
                while self.windows:
                    place = f"{len(self.done) + 1} of {len(self.done) + len(self.windows)}"
                    display.label = f"{self.windows[0][0]:%Y-%m}, {place}: " if several else ""
                    self.done.append(await self._pull_one(client, display))
                    del self.windows[0]
        except PullPausedError:
            if not several:
                raise
            sent = counted(client.stats.attempts, "request")
            self.notes.print(f"Paused at --max-requests, after {sent}; {self._left}. Repeat the command to go on.")
            return ExitCode.UNAVAILABLE
        except asyncio.CancelledError:
            if self.job.to_stdout:
                raise
            at = f"; {self._left}" if several else display.place
            messages().print(f"Interrupted{at}.\nRepeat the command to resume, or add --restart to start over.")
            return ExitCode.INTERRUPTED
        except SeoRepError:
            if several:
                messages().print(f"Stopped; {self._left}.")
            raise
        return summary.code_of_pulls(self.done)

    async def _pull_one(self, client: SeoRepClient, display: ProgressDisplay) -> PullSummary:
        job = self.job

        def show(state: PullProgress) -> None:
            if state.total == 0 and state.stage is Stage.LISTING:
                raise NoCampaignsError
            display.show(state)

        if job.to_stdout:
            how: Any = {"write": _write_rows, "format": job.format or "csv", "on_progress": show, **self._asked}
            found = await stream(client, *self._window(), **how)
            if not found.campaigns:
                raise NoCampaignsError
            return found
        left = None if job.max_requests is None else job.max_requests - client.stats.attempts
        if left is not None and left <= 0:
            raise PullPausedError("stopped at --max-requests")
        return await pull_to(client, *self._window(), max_requests=left, on_progress=show, **self._how)

    @property
    def _left(self) -> str:
        return f"{counted(len(self.windows), 'month is', 'months are')} left"

    async def _report(self, code: ExitCode, client: SeoRepClient, source: str) -> ExitCode:
        """Report what was pulled; if stdout can't be written, the target is there all the same."""
        job, problem, seconds = self.job, None, time.monotonic() - self.began
        done = summary.Run(self.done, source, client.stats, seconds, self.skipped, job.to_stdout)
        if self.done and not self.several:
            facts = summary.summary_facts(self.done[0], self.warnings)
        elif self.several or code is ExitCode.OK:
            facts = summary.months_facts(done, [f"{days[0]:%Y-%m}" for days in self.windows], code, self.warnings)
        else:
            facts = summary.failure_facts(KeyboardInterrupt(), self._labels)
        try:
            if job.json:
                await self._write(as_json(facts))
        except ExportError as error:
            problem = error
        except (asyncio.CancelledError, click.exceptions.Exit):  # a closed stdout is no error: the export succeeded
            pass
        summary.show_failures(messages(), self.done)
        if self.done:
            summary.show_summary(self.notes, done)
        return (code or failed(problem)) if problem is not None else code

    async def _write(self, text: str) -> None:
        self.reported = True
        await in_daemon_thread(partial(write, text))


async def _write_rows(data: bytes) -> None:
    await in_daemon_thread(partial(write_bytes, data))
