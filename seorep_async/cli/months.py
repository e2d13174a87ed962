"""A pull for each month, one after the other into one database or dataset, and reported together."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli.exit_codes import ExitCode, counted
from seorep_async.cli.progress import ProgressDisplay
from seorep_async.cli.summary import code_of, failures_in_words, in_lines, print_facts, summary_facts
from seorep_async.cli.terminal import as_json, duration, named, print_hanging
from seorep_async.client import SeoRepClient
from seorep_async.errors import PullPausedError, one_line
from seorep_async.history import complete_windows
from seorep_async.old_export import PullSummary
from seorep_async.old_export.preview import preview, staged_pull
from seorep_async.old_export.progress import ProgressTracker
from seorep_async.old_export.pull_to import check_target, run_export
from seorep_async.old_export.spec import PullSpec
from seorep_async.old_export.targets import Target

_NAMED = 3


@attrs.define
class Months:
    """The pulls, of which only the days and the feeds differ.

    Attributes:
        specs: of the pulls that are left, in their order.
        skipped: feeds of months that are complete.
        summaries: of the finished pulls.
        paused: whether it stopped at its limit of requests.
    """

    client: SeoRepClient
    specs: list[PullSpec]
    target: Target
    skipped: int = 0
    summaries: list[PullSummary] = attrs.field(factory=list)
    paused: bool = False

    def prepare(self, *, skip_complete: bool, restart: bool, storage_options: Mapping[str, Any] | None = None) -> None:
        """Leave out what is complete; begin with the month of an interrupted run, then those pulled longest ago."""
        target, first = self.target, self.specs[0]
        if not target.accumulates:
            need = "several months, or --skip-complete, need a database (.duckdb) or a dataset (a name that ends in /)"
            raise click.UsageError(f"-o: {need}.")
        if skip_complete and target.exists():
            # what another account under this name fetched is not complete
            check_target(target, first, lambda: None, restart=restart)
            labels: Any = {"account": first.account, "selection": first.selection, "compared": first.compares}
            pulled = complete_windows(target.label, **labels)
            never = False, dt.datetime.min
            missing = []
            for one in self.specs:
                feeds = tuple(feed for feed in one.feeds if not pulled.get((*one.window, feed), never)[0])
                self.skipped += len(one.feeds) - len(feeds)
                if feeds:
                    missing.append(attrs.evolve(one, feeds=feeds))
            self.specs = missing
            # a report that always fails must not keep other months back
            self.specs.sort(key=lambda one: min(pulled.get((*one.window, feed), never)[1] for feed in one.feeds))
        if (staged := staged_pull(target)) is not None:
            self.specs.sort(key=lambda one: one.window != (staged.start_date, staged.end_date))

    def _target_of(self, spec: PullSpec) -> Target:
        return attrs.evolve(self.target, feeds=spec.feeds)

    async def preview(self) -> list[tuple[PullSpec, int]]:
        """Return an estimate of the requests of each pull; months of the same feeds are estimated from one."""
        known: dict[object, int] = {}
        found = []
        for number, spec in enumerate(self.specs):
            alike = spec.feeds if number else None  # the first may have staged reports
            if alike not in known:
                known[alike] = (await preview(self.client, spec, self._target_of(spec))).requests
            found.append((spec, known[alike]))
        return found

    async def run(self, display: ProgressDisplay, restart: bool, max_requests: int | None) -> None:
        """Run the pulls; raises as `pull_to`, but for its limit of requests."""
        for number, spec in enumerate(self.specs, 1):
            left = None if max_requests is None else max_requests - self.client.stats.attempts
            if left is not None and left <= 0:
                self.paused = True
                return
            display.label = f"{_month(spec)}, {number} of {len(self.specs)}: "
            how: Any = {"restart": restart, "max_requests": left}
            try:
                tracker = ProgressTracker(display.show)
                self.summaries.append(await run_export(self.client, spec, self._target_of(spec), tracker, **how))
            except PullPausedError:
                self.paused = True
                return

    @property
    def finished(self) -> str:
        """How many pulls are finished, in words."""
        return f"{len(self.summaries)} of {counted(len(self.specs), 'month is', 'months are')} finished"

    @property
    def code(self) -> ExitCode:
        if self.paused:
            return ExitCode.UNAVAILABLE
        failures = [failure for one in self.summaries for failure in one.failures]
        return code_of(failures, written=any(one.paths for one in self.summaries))


def _month(one: PullSpec | PullSummary) -> str:
    return f"{one.start_date:%Y-%m}" if one.start_date.day == 1 else one.start_date.isoformat()


def show_failures_of_months(console: Console, months: Months) -> None:
    for one in months.summaries:
        for line in failures_in_words(one.failures, several=len(one.feeds) > 1):
            print_hanging(console, Text(f"{_month(one)}: {line}", style="red"), 4)


def _skipped(feeds: int) -> tuple[str, str]:
    return "Skipped", f"{counted(feeds, 'feed')} of months, complete already"


def show_months(console: Console, months: Months, source: str) -> None:
    pulls = months.summaries
    if not months.specs:
        console.print("Nothing to pull: every month is complete.")
        return
    title = f"Pulled {counted(len(pulls), 'month')}"
    console.print(Text.assemble((title, "bold"), f" from {one_line(source)}"))
    facts = []
    if failed := sum(not one.ok for one in pulls):
        facts.append(("Months", f"{counted(failed, 'has', 'have')} failures; --skip-complete fetches them"))
    if months.skipped:
        facts.append(_skipped(months.skipped))
    facts.append(("Rows", f"{sum(one.rows for one in pulls):,}"))
    facts.append(("Requests", f"{months.client.stats.attempts:,}"))
    facts.append(("Time", duration(sum(one.seconds for one in pulls))))
    paths = dict.fromkeys(path for one in pulls for path in one.paths)
    facts += [("" if number else "File", one_line(str(path))) for number, path in enumerate([*paths][:_NAMED])]
    print_facts(console, facts)
    if months.paused:
        left = counted(len(months.specs) - len(pulls), "month is", "months are")
        console.print(f"Paused at --max-requests; {left} left. Repeat the command to go on.")


def months_facts(months: Months, warnings: Sequence[str]) -> dict[str, Any]:
    pulls = months.summaries
    return {
        "ok": months.code is ExitCode.OK,
        "exit_code": int(months.code),
        "paused": months.paused,
        "months_left": [_month(spec) for spec in months.specs[len(pulls) :]],
        "feeds_skipped": months.skipped,
        "requests": months.client.stats.attempts,
        "rows": sum(one.rows for one in pulls),
        "failures": sum(len(one.failures) for one in pulls),
        "warnings": list(warnings),
        "pulls": [summary_facts(one, code_of(one.failures, written=bool(one.paths))) for one in pulls],
    }


def preview_of_months(found: Sequence[tuple[PullSpec, int]], skipped: int, source: str, *, in_json: bool) -> str:
    """Return the estimates of several months, for a person to read or as JSON."""
    requests = sum(count for _, count in found)
    if in_json:
        months = [named(one, "start_date end_date") | {"requests": count} for one, count in found]
        return as_json({"dry_run": True, "feeds_skipped": skipped, "requests": requests, "months": months})
    facts = [(_month(one), f"about {counted(count, 'request')}") for one, count in found]
    facts += [_skipped(skipped)] if skipped else []
    facts.append(("Together", f"about {counted(requests, 'request')}"))
    return in_lines(f"Would pull {counted(len(found), 'month')} from {one_line(source)}", facts)
