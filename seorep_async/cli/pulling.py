"""A pull once its options are parsed: one, or one for each month, run and reported."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import time
from contextlib import suppress
from itertools import chain
from typing import Any

import attrs
import click

from seorep_async.cli import signals, summary
from seorep_async.cli.connection import Connection, connect
from seorep_async.cli.errors import ExitCode, UsageError, option_of
from seorep_async.cli.options import Service
from seorep_async.cli.output import as_json, counted, failed, messages, write
from seorep_async.cli.progress import Display, logged, shown
from seorep_async.cli.pull import Days, Job
from seorep_async.cli.running import in_daemon_thread, wait_for
from seorep_async.errors import ExportError, PullPausedError, SeoRepError
from seorep_async.export import (
    PullPreview,
    PullProgress,
    PullSummary,
    Stage,
    preview,
    pull_to,
    stream,
)
from seorep_async.export.pull_to import at_target
from seorep_async.export.request import ExportRequest
from seorep_async.history import complete_windows

_ASKED = ("feeds", "groups", "filter", "limit", "compare_previous_period", "snapshot_date", "excel")
_HOW = ("restart", "retry_failed", "force")


class NoCampaignsError(UsageError):
    """A pull found no campaign."""

    exit_code = ExitCode.EMPTY

    def __init__(self, job: Job) -> None:
        given = [option_of(name) for name in ("groups", "filter", "exclude") if getattr(job, name)]
        problem = (
            f"no campaign matches {' and '.join(given)}"
            if given
            else "this account has no campaign"
        )
        super().__init__(f"{problem}: nothing is written")


def run(job: Job, windows: list[Days], service: Service) -> ExitCode:
    """Pull, and report on stderr; with `--json`, also on stdout, however it ends."""
    pulling = _Pulling(job, windows, len(windows) > 1, messages(quiet=job.quiet))
    try:
        with logged(
            messages() if job.quiet else pulling.notes, verbose=job.verbose
        ) as pulling.warnings:
            return wait_for(pulling.run(connect(service)))
    except (
        click.exceptions.Exit,
        click.UsageError,
    ):  # the reader has enough; `app.run` reports wrong usage
        raise
    except (Exception, KeyboardInterrupt) as error:
        if job.json and not pulling.reported:
            print_failure(error, pulling)
        raise


def print_failure(error: BaseException, run: summary.Run | None = None) -> None:
    """Print the facts of a run that an error ended as JSON."""
    with suppress(ExportError, click.exceptions.Exit):  # the failure itself counts
        write(as_json(summary.facts_of_failure(error, run)))


@attrs.define
class _Pulling(summary.Run):
    """Pulls what is left of a run, of the campaigns `ids`; `reported` says whether stdout has its JSON."""

    ids: list[int] | None = None
    reported: bool = False

    async def run(self, connection: Connection) -> ExitCode:
        job, self.source = self.job, connection.label
        self.ids = [*chain.from_iterable(job.campaign or ())] or None
        async with connection.opened() as self.client:
            self.account = job.account or self.client.account
            unfinished: Days | None = None
            if self.several and not job.restart:
                asked = self._asked(), self._arguments()
                async with at_target(job.target, *asked, only_look=True) as (_, _, staging):
                    if (staged := staging.found) is not None and not staged.ended:
                        unfinished = staged.start_date, staged.end_date
            pulled = await asyncio.to_thread(self._pulled) if job.skip_complete else {}
            pulled.pop(unfinished, None)
            self.skipped = sum(is_complete for is_complete, _ in pulled.values())
            self.left = [one for one in self.left if not pulled.get(one, (False,))[0]]
            # the longest ago before others, or a campaign that always fails would use up the requests of each night
            self.left.sort(key=lambda one: (one != unfinished, one in pulled, *pulled.get(one, ())))
            if not self.left:
                self.notes.print("Nothing to pull: every month is complete.")
            self.began = time.monotonic()
            preview = job.dry_run and self.left
            code = await self._preview() if preview else await self._report(await self._pull())
            signals.ignore()
            return code

    def _arguments(self, *more: str) -> Any:
        """Return the arguments of the library that are the same for each pull: what is asked for, and `more`."""
        given = {name: value for name in (*_ASKED, *more) if (value := getattr(self.job, name))}
        return given | {
            "exclude": [*chain.from_iterable(self.job.exclude or ())],
            "account": self.account,
        }

    def _asked(self) -> ExportRequest:
        return ExportRequest.of(self.client, self.ids, self.left[0], self._arguments())

    def _pulled(self) -> dict[Days | None, tuple[bool, dt.datetime]]:
        """Return the months that the database has of these campaigns and feeds → whether all is complete, and when."""
        asked = self._asked()
        same: Any = {name: getattr(asked, name) for name in ("account", "selection", "compared")}
        found = complete_windows(self.job.target, **same) if os.path.exists(self.job.target) else {}
        have = {one: [found.get((*one, feed)) for feed in asked.feeds] for one in self.left}
        return {one: min(filter(None, each)) for one, each in have.items() if all(each)}

    async def _preview(self) -> ExitCode:
        """Show an estimate of each pull; of months, the first may be staged, and those after the second are alike."""
        job, found, unfinished = self.job, dict[str, PullPreview](), False
        how = self._arguments(*_HOW) | {"out": None if job.to_stdout else job.target}
        for days in self.left:
            alike = unfinished if job.retry_failed else len(found) > 1
            one = (
                [*found.values()][-1]
                if alike
                else await preview(self.client, self.ids, *days, **how)
            )
            found[summary.month_of(days)] = one
            if not one.campaigns and not job.retry_failed:
                raise NoCampaignsError(job)
            unfinished = one.staged is not None and not one.staged.ended
            how["out"] = how["out"] if job.retry_failed else None
        facts = summary.facts_of_previews(found, self)
        await self._write(
            as_json(facts) if job.json else summary.preview_in_words(facts, self.source)
        )
        return ExitCode.OK

    async def _pull(self) -> ExitCode:
        """Pull what is left, and return the exit code; what ends a single pull is raised."""
        display, several = Display(), self.several
        try:
            async with shown(display, self.notes, self.client):
                while self.left:
                    place = f"{len(self.done) + 1} of {len(self.done) + len(self.left)}"
                    display.label = (
                        f"{summary.month_of(self.left[0])}, {place}: " if several else ""
                    )
                    self.done.append(await self._pull_one(display))
                    del self.left[0]
                    if (
                        self.left
                        and (task := asyncio.current_task()) is not None
                        and task.cancelling()
                    ):
                        raise asyncio.CancelledError  # it came while that month was being written
        except PullPausedError:
            if not several:
                raise
            sent = f"{counted(self.client.stats.attempts, 'request')}{display.place}; {self._still}"
            self.notes.print(
                f"Paused at --max-requests, after {sent}. Repeat the command to go on."
            )
            return ExitCode.UNAVAILABLE
        except asyncio.CancelledError:
            if self.job.to_stdout:
                raise
            at = f"; {self._still}" if several else display.place
            messages().print(
                f"Interrupted{at}.\nRepeat the command to resume, or add --restart to start over."
            )
            return ExitCode.INTERRUPTED
        except SeoRepError:
            if several:
                messages().print(f"Stopped; {self._still}.")
            raise
        return summary.code_of_pulls(self.done)

    async def _pull_one(self, display: Display) -> PullSummary:
        job = self.job

        def show(state: PullProgress) -> None:
            if state.total == 0 and state.stage is Stage.LISTING:
                raise NoCampaignsError(job)
            display.state = state

        what, how = (
            (self.client, self.ids, *self.left[0]),
            self._arguments(*_HOW) | {"on_progress": show},
        )
        if job.to_stdout:
            how |= {
                "write": lambda data: in_daemon_thread(write, data.decode()),
                "format": job.format or "csv",
            }
            found = await stream(*what, **how)
            if not found.campaigns:
                raise NoCampaignsError(job)
            return found
        most = None if job.max_requests is None else job.max_requests - self.client.stats.attempts
        if most is not None and most <= 0:
            raise PullPausedError("stopped at --max-requests")
        return await pull_to(*what, out=job.target, max_requests=most, **how)

    @property
    def _still(self) -> str:
        return f"{counted(len(self.left), 'month is', 'months are')} left"

    async def _report(self, code: ExitCode) -> ExitCode:
        """Report what was pulled; if stdout can't be written, the target is there all the same."""
        try:
            if self.job.json:
                await self._write(as_json(summary.facts_of(self, code)))
        except ExportError as error:
            code = code or failed(error)
        except (
            asyncio.CancelledError,
            click.exceptions.Exit,
        ):  # a closed stdout is no error: the export succeeded
            pass
        summary.show_failures(self.done)
        if self.done:
            summary.show_summary(self)
        return code

    async def _write(self, text: str) -> None:
        self.reported = True
        await in_daemon_thread(write, text)
