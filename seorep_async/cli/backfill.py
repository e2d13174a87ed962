"""`seorep pull` of several months: one pull after the other into one database or dataset, reported as one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.humanise import counted, duration
from seorep_async.cli.summary import failures_in_words, summary_facts
from seorep_async.cli.terminal import print_hanging
from seorep_async.client import SeoRepClient
from seorep_async.errors import PullPausedError, one_line
from seorep_async.export import PullSummary
from seorep_async.export.preview import preview, staged_pull
from seorep_async.export.progress import ProgressTracker
from seorep_async.export.pull_to import run_export
from seorep_async.export.spec import PullSpec
from seorep_async.export.targets import Target
from seorep_async.history.completeness import complete_feeds

_NAMED = 3
FindTarget = Callable[[PullSpec], Target]
"""Finds the target of one of the pulls; called in a thread."""


@attrs.define
class Backfill:
    """Several pulls into one target.

    Attributes:
        specs: of the pulls that are left, in their order.
        skipped: pulls, or feeds of them, that are complete.
        summaries: of the finished pulls.
        requests: sent so far.
        paused: whether it stopped at its limit of requests.
    """

    specs: list[PullSpec]
    find_target: FindTarget
    skipped: int = 0
    summaries: list[PullSummary] = attrs.field(factory=list)
    requests: int = 0
    paused: bool = False

    def prepare(self, *, skip_complete: bool, storage_options: Mapping[str, Any] | None = None) -> None:
        """Leave out what is complete, and begin with the month that an interrupted run has staged."""
        target, (first, *_) = self.find_target(self.specs[0]), self.specs
        if not target.accumulates:
            problem = (
                "several months, or --skip-complete, need a database (.duckdb) or a dataset (a name that ends in /)"
            )
            raise click.UsageError(f"-o {target.label}: {problem}.")
        if skip_complete and target.exists():
            target.check(first, lambda: None)  # what another account under this name fetched is not complete
            labels: Any = {"account": first.account, "selection": first.selection, "compared": first.compares}
            done = complete_feeds(target.label, storage_options=storage_options, **labels)
            missing = [
                attrs.evolve(one, feeds=tuple(feed for feed in one.feeds if (*one.window, feed) not in done))
                for one in self.specs
            ]
            self.skipped = sum(len(one.feeds) for one in self.specs) - sum(len(one.feeds) for one in missing)
            self.specs = [one for one in missing if one.feeds]
        staged = staged_pull(target)
        if staged is not None:
            days = staged.start_date, staged.end_date
            self.specs.sort(key=lambda one: (one.start_date.isoformat(), one.end_date.isoformat()) != days)

    async def run(
        self, client: SeoRepClient, tracker: Callable[[str], ProgressTracker], how: Mapping[str, Any]
    ) -> None:
        """Run the pulls; raises as `pull_to`, but for its limit of requests."""
        before = client.stats.attempts
        for number, spec in enumerate(self.specs, 1):
            left = how["max_requests"] and how["max_requests"] - self.requests
            if left is not None and left <= 0:
                self.paused = True
                return
            label = f"{_month(spec)}, {number} of {len(self.specs)}: "
            restart = how["restart"] and number == 1
            target = await asyncio.to_thread(self.find_target, spec)
            try:
                summary = await run_export(client, spec, target, tracker(label), restart=restart, max_requests=left)
            except PullPausedError:
                self.paused = True
                return
            finally:
                self.requests = client.stats.attempts - before
            self.summaries.append(summary)

    @property
    def finished(self) -> str:
        """How many pulls are finished, in words."""
        count = len(self.summaries)
        return f"{count} of {counted(len(self.specs), 'month is', 'months are')} finished"

    @property
    def code(self) -> ExitCode:
        """The exit code of all."""
        if self.paused:
            return ExitCode.UNAVAILABLE
        return ExitCode.OK if all(summary.ok for summary in self.summaries) else ExitCode.PARTIAL

    def as_json(self, warnings: Sequence[str]) -> str:
        """Return it as one JSON object, for a program to read."""
        facts = {
            "ok": self.code is ExitCode.OK,
            "exit_code": int(self.code),
            "paused": self.paused,
            "months_left": [_month(spec) for spec in self.specs[len(self.summaries) :]],
            "feeds_skipped": self.skipped,
            "requests": self.requests,
            "rows": sum(summary.rows for summary in self.summaries),
            "failures": sum(len(summary.failures) for summary in self.summaries),
            "warnings": list(warnings),
            "pulls": [summary_facts(one, ExitCode.OK if one.ok else ExitCode.PARTIAL) for one in self.summaries],
        }
        return json.dumps(facts, ensure_ascii=False, indent=2)

    def show(self, console: Console, source: str, *, quiet: bool) -> None:
        """Print the failures, and then a summary."""
        for summary in self.summaries:
            for line in failures_in_words(summary.failures, several=len(summary.feeds) > 1):
                print_hanging(console, Text(f"{_month(summary)}: {line}", style="red"), 4)
        if quiet:
            return
        pulls = self.summaries
        if not self.specs:
            console.print(f"Nothing to pull: {counted(self.skipped, 'feed', 'feeds')} of months, complete already.")
            return
        console.print(
            Text.assemble((f"Pulled {counted(len(pulls), 'month', 'months')}", "bold"), f" from {one_line(source)}")
        )
        facts = [("Rows", f"{sum(one.rows for one in pulls):,}"), ("Requests", f"{self.requests:,}")]
        facts.append(("Time", duration(sum(one.seconds for one in pulls))))
        if self.skipped:
            facts.insert(0, ("Skipped", f"{counted(self.skipped, 'feed', 'feeds')} of months, complete already"))
        if failed := sum(not one.ok for one in pulls):
            facts.insert(0, ("Months", f"{counted(failed, 'has', 'have')} failures; --skip-complete fetches them"))
        paths = dict.fromkeys(path for one in pulls for path in one.paths)
        facts += [("" if number else "File", one_line(str(path))) for number, path in enumerate([*paths][:_NAMED])]
        for label, value in facts:
            print_hanging(console, Text.assemble((f"  {label:<11}", "dim"), value), 13)
        left = len(self.specs) - len(pulls)
        if self.paused:
            months = counted(left, "month is", "months are")
            console.print(f"Paused at --max-requests; {months} left. Repeat the command to go on.")

    async def preview(self, client: SeoRepClient) -> list[tuple[PullSpec, int]]:
        """Return an estimate of the requests of each pull; months of the same feeds are estimated from one."""
        known: dict[object, int] = {}
        found = []
        for number, spec in enumerate(self.specs):
            alike = spec.feeds if number else None  # the first may have staged reports
            if alike not in known:
                known[alike] = (await preview(client, spec, await asyncio.to_thread(self.find_target, spec))).requests
            found.append((spec, known[alike]))
        return found


def months_in_words(found: Sequence[tuple[PullSpec, int]], source: str, skipped: int, *, as_json: bool) -> str:
    """Return the estimates of all pulls, for a person to read or as JSON."""
    requests = sum(count for _, count in found)
    if as_json:
        months = [
            {"start_date": f"{one.start_date}", "end_date": f"{one.end_date}", "requests": count}
            for one, count in found
        ]
        facts = {"dry_run": True, "feeds_skipped": skipped, "requests": requests, "months": months}
        return json.dumps(facts, ensure_ascii=False, indent=2)
    lines = [f"Would pull {counted(len(found), 'month', 'months')} from {one_line(source)}"]
    lines += [f"  {_month(one)}    about {counted(count, 'request', 'requests')}" for one, count in found]
    lines += [f"  Skipped    {counted(skipped, 'feed', 'feeds')} of months, complete already"] if skipped else []
    return "\n".join([*lines, f"  Together   about {counted(requests, 'request', 'requests')}"])


def _month(one: PullSpec | PullSummary) -> str:
    return f"{one.start_date:%Y-%m}" if one.start_date.day == 1 else one.start_date.isoformat()
