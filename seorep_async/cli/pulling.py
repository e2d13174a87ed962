"""Run and report a pull with parsed options, or one pull for each month."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import click
from rich.console import Console

from seorep_async.cli import signals, summary
from seorep_async.cli.connection import Connection, connect
from seorep_async.cli.engine_names import find_engine_names, known_engine_names
from seorep_async.cli.errors import ExitCode, UsageError, option_of
from seorep_async.cli.options import Service
from seorep_async.cli.output import as_json, failed, messages, write
from seorep_async.cli.progress import logged, show_progress
from seorep_async.cli.pull import PullArguments, Window
from seorep_async.cli.running import in_daemon_thread, wait_for
from seorep_async.cli.summary import PullRun, month_of
from seorep_async.errors import ExportError, PullPausedError, SeoRepError
from seorep_async.export import (
    OnProgress,
    PullPreview,
    PullProgress,
    PullSummary,
    Stage,
    preview,
    pull_to,
    stream,
)
from seorep_async.export.database import Database, KnownAccount
from seorep_async.export.opening import opened_target
from seorep_async.export.request import ExportOptions, ExportRequest
from seorep_async.export.staging import Opening, StagedPull
from seorep_async.history.source import PulledWindow, pulled_windows
from seorep_async.models import Feed

_CONTENTS = (
    "feeds",
    "groups",
    "filter",
    "exclude",
    "compare_previous_period",
    "snapshot_date",
)
"""The options that say what an export contains."""
_ESTIMATED_MONTHS = 2
"""The number of months to estimate. Later months are like the second, so they get its estimate."""


class NoCampaignsError(UsageError):
    """A pull found no campaign."""

    exit_code = ExitCode.EMPTY

    def __init__(self, arguments: PullArguments) -> None:
        names = [name for name in ("groups", "filter", "exclude") if getattr(arguments, name)]
        problem = "this account has no campaign"
        if names:
            problem = f"no campaign matches {' and '.join(map(option_of, names))}"
        super().__init__(f"{problem}: nothing is written")


def run(arguments: PullArguments, windows: Sequence[Window], service: Service) -> ExitCode:
    """Pull, report, and return the exit code."""
    console = messages(quiet=arguments.quiet)
    # warnings are printed even with --quiet
    log_console = messages() if arguments.quiet else console
    with logged(log_console, verbose=arguments.verbose) as warnings:
        engine_names = None
        if arguments.is_workbook:
            # a sandbox needs no profile
            find = find_engine_names if service.embedded is None else known_engine_names
            engine_names = find(arguments.engines, service.profile)
        running = _run(arguments, windows, connect(service), console, warnings, engine_names)
        return wait_for(running)


async def _run(
    arguments: PullArguments,
    windows: Sequence[Window],
    connection: Connection,
    console: Console,
    warnings: Sequence[str],
    engine_names: tuple[str, str] | None,
) -> ExitCode:
    """Preview or pull with an open client, report, and return the exit code."""
    async with connection.opened(**arguments.settings) as client:
        pull_run = PullRun(
            arguments=arguments,
            client=client,
            source=connection.label,
            # several months share one target
            target=arguments.target(windows[0]),
            options=_export_options(arguments),
            engine_names=engine_names,
            by_month=len(windows) > 1,
            night=arguments.snapshot_date or client.now().date(),
            windows=windows,
            warnings=warnings,
        )
        if pull_run.by_month or arguments.skip_complete:
            await _skip_complete_months(pull_run)
        if arguments.dry_run and pull_run.windows:
            previews = await _preview_each(pull_run)
            facts = summary.facts_of_previews(pull_run, previews)
            text = summary.preview_in_words(facts, connection.label)
            await in_daemon_thread(write, as_json(facts) if arguments.json else text)
            code = ExitCode.OK
        else:
            await _pull_each(pull_run, console)
            code = await _report(pull_run, console)
        # no signal may change the exit code while connections are closed
        signals.ignore()
        return code


def _export_options(arguments: PullArguments) -> ExportOptions:
    """Return the library's arguments that say what an export contains."""
    options: Any = {
        name: getattr(arguments, name) for name in _CONTENTS if getattr(arguments, name)
    }
    # without a name, the database may still have one for the account
    options["account"] = arguments.account
    return cast(ExportOptions, options)


# --- Which months


async def _skip_complete_months(run: PullRun) -> None:
    """Skip complete months, and sort the others. An unfinished month comes first, then new ones.

    Months with failures come last; the month pulled longest ago is the first of them. Otherwise, a
    campaign that always fails would use up the requests of each night.
    """
    request, staged, accounts = await _look_at_target(run)
    run.options["account"] = request.account
    unfinished = None
    if staged is not None and not staged.ended:
        unfinished = (staged.start_date, staged.end_date)
    pulled: Mapping[tuple[dt.date, dt.date, Feed], PulledWindow] = {}
    # The order of months matters only if complete ones are left out. An empty file, or a database
    # of a person's own tables, can't be read as a history, but has no complete month either.
    if run.arguments.skip_complete and request.account in accounts:
        read = partial(pulled_windows, run.target, request.account, request.selection)
        pulled = await asyncio.to_thread(read, compared=request.compared)
    left = []
    started_at = {}
    for window in run.windows:
        pulled_feeds = [
            pulled[*window, feed] for feed in request.feeds if (*window, feed) in pulled
        ]
        has_every_feed = len(pulled_feeds) == len(request.feeds)
        # a month that was never pulled comes before all others
        started_at[window] = dt.datetime.min
        if has_every_feed:
            started_at[window] = min(feed.started_at for feed in pulled_feeds)
        is_complete = has_every_feed and all(feed.is_complete for feed in pulled_feeds)
        # a month that was started over must be finished, although an earlier pull was complete
        if is_complete and window != unfinished:
            run.months_skipped += 1
            run.lacking += [feed for feed in pulled_feeds if feed.failed_reports]
        else:
            left.append(window)
    # A pull gives this warning itself, but no window is left to pull.
    if not left:
        accounts[request.account].warn_of_other_options(request)
    run.windows = sorted(left, key=lambda days: (days != unfinished, started_at[days]))


async def _look_at_target(
    run: PullRun,
) -> tuple[ExportRequest, StagedPull | None, Mapping[str, KnownAccount]]:
    """Return the request, the staged pull, and the accounts in the target.

    The request has the account's name in the target. With `--restart`, staged reports are removed.
    """
    arguments = run.arguments
    # removed now, because the run after a failure may omit --restart
    only_look = arguments.dry_run or not arguments.restart
    opening = Opening(run.target, restart=arguments.restart, only_look=only_look)
    window = run.windows[0]
    request = ExportRequest.of(run.client, arguments.campaign_ids, window, run.options)
    async with opened_target(run.client, request, opening) as opened:
        target = opened.target
        accounts = target.accounts if isinstance(target, Database) else {}
        return target.request, opened.staging.earlier_pull, accounts


# --- The dry run


async def _preview_each(run: PullRun) -> dict[str, PullPreview]:
    """Return an estimate of each pull, by the name of its month.

    The first pull may be partly staged. The pulls after the second are like the second.
    """
    arguments = run.arguments
    previews: dict[str, PullPreview] = {}
    last = None
    out = None if arguments.to_stdout else run.target
    for window in run.windows:
        is_alike = len(previews) >= _ESTIMATED_MONTHS
        if arguments.retry_failed:
            # Each month has its own failures, so each is estimated. But while an unfinished pull is
            # staged, failures can't be looked up, because that pull must come first.
            is_alike = last is not None and last.staged is not None and not last.staged.ended
        if last is None or not is_alike:
            last = await preview(
                run.client,
                arguments.campaign_ids,
                *window,
                out=out,
                **arguments.flags,
                **run.options,
            )
        # with --retry-failed, an estimate without campaigns means that none has failed
        if not last.campaigns and not arguments.retry_failed:
            raise NoCampaignsError(arguments)
        previews[month_of(window)] = last
        if not arguments.retry_failed:
            # staged reports belong only to the first month, so others need no look at the target
            out = None
    return previews


# --- The pull


async def _pull_each(run: PullRun, console: Console) -> None:
    """Pull the remaining windows one after another, until one ends the run early."""
    began = time.monotonic()
    try:
        async with show_progress(run.display, console, run.client):
            for number, window in enumerate(run.windows, 1):
                if run.by_month:
                    run.display.label = f"{month_of(window)}, {number} of {len(run.windows)}: "
                run.pulls.append(await _pull_one(run, window))
                if run.windows_left:
                    _raise_late_cancel()
    except asyncio.CancelledError:
        run.ended_by = KeyboardInterrupt()
    except (SeoRepError, NoCampaignsError) as error:
        run.ended_by = error
    run.seconds = time.monotonic() - began


def _raise_late_cancel() -> None:
    """Raise a cancellation that arrived while a month was written, because writing goes on."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _pull_one(run: PullRun, window: Window) -> PullSummary:
    """Pull one window into the target, or to stdout."""
    arguments = run.arguments

    def show(state: PullProgress) -> None:
        if state.total == 0 and state.stage is Stage.LISTING:
            raise NoCampaignsError(arguments)
        run.display.state = state

    if arguments.to_stdout:
        return await _stream(run, window, show)
    requests_left = None
    if arguments.max_requests is not None:
        # the budget is for the whole run, so earlier months have used a part of it
        requests_left = arguments.max_requests - run.stats.attempts
        if requests_left <= 0:
            raise PullPausedError("stopped at --max-requests")
    return await pull_to(
        run.client,
        arguments.campaign_ids,
        *window,
        out=run.target,
        max_requests=requests_left,
        engine_names=run.engine_names,
        on_progress=show,
        **arguments.flags,
        **run.options,
    )


async def _stream(run: PullRun, window: Window, show: OnProgress) -> PullSummary:
    """Write the rows of one window to stdout as they arrive."""

    async def write_part(data: bytes) -> None:
        # a slow reader must not delay the requests
        await in_daemon_thread(write, data.decode())

    format: Any = run.arguments.format or "csv"
    pulled = await stream(
        run.client,
        run.arguments.campaign_ids,
        *window,
        write=write_part,
        format=format,
        on_progress=show,
        **run.options,
    )
    # the header was written, but no campaign was found
    if not pulled.campaigns:
        raise NoCampaignsError(run.arguments)
    return pulled


# --- The report


async def _report(run: PullRun, console: Console) -> ExitCode:
    """Report a run in words on stderr, and on request as JSON on stdout.

    If stdout can't be written, the target is still complete.
    """
    code = run.code
    error = run.ended_by
    summary.show_early_end(run, console)
    if run.arguments.json:
        try:
            await in_daemon_thread(write, as_json(summary.facts_of(run)))
        except ExportError as unwritten:
            # the exit code of a failed pull says more than this error
            code = code or failed(unwritten)
        except (asyncio.CancelledError, click.exceptions.Exit):
            pass  # the reader has stopped, but the export succeeded, so this is not an error
    # months that were pulled before the error are in the database, so they are reported
    summary.show_failures(run)
    if run.pulls or not run.windows_left:
        summary.show_summary(run, console)
    was_paused_between_months = isinstance(error, PullPausedError) and run.by_month
    if isinstance(error, Exception) and not was_paused_between_months:
        code = failed(error)
    if run.arguments.summary_line:
        messages().print(summary.closing_line(run, code))
    return code
