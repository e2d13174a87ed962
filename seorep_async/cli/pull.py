"""`seorep pull`: rankings of many campaigns into files, a database or a pipe."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from seorep_async.cli.dates import dates_to_pull
from seorep_async.cli.exit_codes import EXIT_CODES_HELP, ExitCode
from seorep_async.cli.interruption import run_until_interrupted
from seorep_async.cli.job import Job
from seorep_async.cli.sandbox_options import SandboxOption, given, make_sandbox, sandbox_options
from seorep_async.client import SeoRepClient
from seorep_async.export.formats import Format
from seorep_async.models import Feed
from seorep_async.resources.rankings import FeedOptions
from seorep_async.settings import Settings

_DAY = click.DateTime(["%Y-%m-%d"])
_STDOUT = Path("-")
_EXAMPLES = """\
\b
Examples:
  seorep pull --sandbox
  seorep pull -o rankings.parquet --from 2023-01-01 --to 2023-03-31
  seorep pull -o rankings.duckdb --feed campaign --feed keyword-by-date
  seorep pull -o - --quiet | head

"""


class _PullCommand(click.Command):
    """Shows the options of the sandbox in a section of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = self.get_params(ctx)
        for title, of_sandbox in (("Options", False), ("Options with --sandbox", True)):
            shown = (o.get_help_record(ctx) for o in options if isinstance(o, SandboxOption) is of_sandbox)
            with formatter.section(title):
                formatter.write_dl([record for record in shown if record is not None])


@click.command(cls=_PullCommand, params=sandbox_options(), epilog=_EXAMPLES + EXIT_CODES_HELP)
@click.option("--sandbox", is_flag=True, help="Pull from an embedded sandbox instead of the service.")
@click.option(
    "--feed",
    "feeds",
    type=click.Choice([feed.value for feed in Feed]),
    multiple=True,
    default=[Feed.CAMPAIGN.value],
    show_default=True,
    help="One row for each keyword, for each date of a campaign, or for each date of each keyword; repeatable.",
)
@click.option("--from", "first", type=_DAY, metavar="DATE", help="First day.  [default: the last three full months]")
@click.option("--to", "last", type=_DAY, metavar="DATE", help="Last day.  [default: the end of last month]")
@click.option(
    "--campaign",
    "campaigns_wanted",
    type=click.INT,
    multiple=True,
    metavar="ID",
    help="Campaign to pull; repeatable.  [default: every campaign of the account]",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Where to: a name that ends in .csv, .jsonl, .parquet or .duckdb, or - for stdout.  "
    "[default: rankings-FEED.csv, here]",
)
@click.option(
    "--format",
    "stdout_format",
    type=click.Choice(["csv", "jsonl"]),
    help="What to write to stdout.  [default: csv]",
)
@click.option("--restart", is_flag=True, help="Begin anew instead of going on with a pull that was cut off.")
@click.option("--retry-failed", is_flag=True, help="Ask only for what had failed when the last pull ended.")
@click.option("--dry-run", is_flag=True, help="Tell what would still be asked, and how many requests that takes.")
@click.option("--json", "as_json", is_flag=True, help="Give the summary, or what a dry run tells, as JSON on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="Tell nothing but errors and what failed.")
@click.option("--compare-previous-period", is_flag=True, help="Ask for the changes from the previous period.")
@click.option("--limit", type=click.INT, metavar="N", help="Records a page.  [default: the service's]")
@click.option(
    "--max-concurrency",
    type=click.INT,
    default=Settings().max_concurrency,
    show_default=True,
    metavar="N",
    help="Requests in flight at once.",
)
@click.pass_obj
def pull(
    today: dt.date,
    /,
    sandbox: bool,
    feeds: tuple[str, ...],
    first: dt.datetime | None,
    last: dt.datetime | None,
    campaigns_wanted: tuple[int, ...],
    out: Path | None,
    stdout_format: str | None,
    restart: bool,
    retry_failed: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    compare_previous_period: bool,
    limit: int | None,
    max_concurrency: int,
    **options: Any,
) -> ExitCode:
    """Pull the rankings of many campaigns into a file, a database or a pipe.

    SEOREP_BASE_URL and SEOREP_API_KEY say from where; with --sandbox neither is needed. What comes is kept beside the
    target, which appears when it is whole; one that was there before stays until then. Cut off at any point, the same
    command goes on where it was.

    Several feeds go into several files, such as rankings.campaign.csv, or into one database.
    """
    if not sandbox and (misplaced := given(options)):
        raise click.UsageError(f"{', '.join(f'--{name}' for name in misplaced)}: only together with --sandbox.")
    start, end = dates_to_pull(first and first.date(), last and last.date(), today)
    if end < start:
        default = "" if last else ", the end of last month; give --to as well"
        raise click.UsageError(f"--from {start} is after --to {end}{default}.")
    wanted = tuple(feed for feed in Feed if feed.value in feeds)
    to_stdout = out == _STDOUT
    _check_together(to_stdout, stdout_format, restart, retry_failed, as_json, len(wanted))
    job = Job(
        feeds=wanted,
        first=start,
        last=end,
        campaigns=campaigns_wanted or None,
        out=None
        if to_stdout
        else out or Path(f"rankings-{wanted[0].value}.csv" if len(wanted) == 1 else "rankings.csv"),
        stdout_format=Format.JSON_LINES if stdout_format == "jsonl" else Format.CSV,
        settings=Settings(max_concurrency=max_concurrency),
        options=FeedOptions(limit=limit, compare_previous_period=compare_previous_period or None),
        restart=restart,
        retry_failed=retry_failed,
        quiet=quiet,
        json=as_json,
        dry_run=dry_run,
    )
    return run_until_interrupted(_from_sandbox(job, options) if sandbox else _from_service(job))


def _check_together(
    to_stdout: bool, stdout_format: str | None, restart: bool, retry_failed: bool, as_json: bool, feeds: int
) -> None:
    if restart and retry_failed:
        raise click.UsageError("--restart and --retry-failed: begin anew, or go on; not both.")
    if not to_stdout:
        if stdout_format is not None:
            raise click.UsageError("--format: only together with -o -; a file's ending says what it is written as.")
        return
    for wrong, name in ((restart, "--restart"), (retry_failed, "--retry-failed"), (as_json, "--json")):
        if wrong:
            raise click.UsageError(f"{name}: not together with -o -, as stdout takes the rows; name a file.")
    if feeds > 1:
        raise click.UsageError("several feeds can't go to stdout together; name a file.")


async def _from_service(job: Job) -> ExitCode:
    missing = [name for name in ("SEOREP_BASE_URL", "SEOREP_API_KEY") if not os.environ.get(name)]
    if missing:
        raise click.UsageError(f"{' and '.join(missing)} must be set in the environment; or try it with --sandbox.")
    return await job.run(SeoRepClient(settings=job.settings), os.environ["SEOREP_BASE_URL"])


async def _from_sandbox(job: Job, options: Mapping[str, Any]) -> ExitCode:
    async with make_sandbox(options) as sandbox:
        client = SeoRepClient(sandbox.base_url, sandbox.api_key, settings=job.settings)
        # its port is another one each time, and its data the same
        service = f"the sandbox {sorted(given(options).items())}"
        return await job.run(client, f"the sandbox (seed {sandbox.seed})", service)
