"""The options of the commands `pull`, `mcp`, `doctor` and `sandbox`, whose code is imported when they run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from seorep_async.cli.choosing import (
    CHOOSING_NAMES,
    choosing_options,
    chosen_campaigns,
    chosen_days,
    feed_option,
    key_renewed_option,
)
from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.options import (
    CONNECTION_NAMES,
    SectionedCommand,
    SectionedOption,
    connection_options,
    day,
    whole_number,
)
from seorep_async.models import Feed

if TYPE_CHECKING:
    from seorep_async.export import CsvOptions
    from seorep_async.sandbox import Sandbox

_STDOUT = "-"
_ACCOUNT_HELP = "Name of the account in every row.  [default: the profile's, or the host]"
_WITH_SANDBOX = "Options with --sandbox"
_EXAMPLES = """\
\b
Examples:
  seorep pull --sandbox
  seorep pull -o rankings.parquet --from 2023-01-01 --to 2023-03-31
  seorep pull -o retail.duckdb --group Retail --month-to-date
  seorep pull --campaigns-from ids.txt --last 30d
  seorep pull -o rankings.duckdb --feed campaign --feed keyword-by-date
  seorep pull -o - --quiet | head

\b
Rehearse a failure, its exit code, and a retry:
  seorep pull --sandbox --forbidden 3; echo $?
  seorep pull --sandbox --retry-failed"""


_PULL_OPTIONS = (
    *("csv_line_end", "csv_bom", "csv_guard"),
    *("work_dir", "force", "restart", "retry_failed", "skip_complete", "max_requests", "dry_run", "json", "quiet"),
    *("verbose", "log_file"),
    *("limit", "compare_previous_period", "account", "snapshot_date", "key_renewed"),
)
SANDBOX_DEFAULTS: dict[str, object] = {"campaigns": 20, "keywords": 50, "shape": "nested", "rows": "current", "seed": 1}
"""The sandbox's own defaults, for help, which need not wait for the sandbox; a test compares them."""


def _sandbox_options(section: str) -> list[click.Parameter]:
    def option(name: str, help: str, type: object = None, metavar: str | None = None, **more: Any) -> click.Parameter:
        # no default of its own, as it matters whether an option was given
        default = SANDBOX_DEFAULTS.get(name.removeprefix("--"))
        words = help if default is None else f"{help}  [default: {default}]"
        return SectionedOption(name, help=words, type=type, metavar=metavar, section=section, **more)

    return [
        option("--campaigns", "Number of campaigns; their ids are 1 to N.", click.INT, "N"),
        option("--keywords", "Number of keywords in each campaign.", click.INT, "N"),
        option(
            "--shape",
            "Shape of the feeds' responses: nested, flat or mixed.",
            click.Choice(["nested", "flat", "mixed"]),
            "SHAPE",
        ),
        option(
            "--rows",
            "Format of the rows: current, older or mixed.",
            click.Choice(["current", "older", "mixed"]),
            "ROWS",
        ),
        option("--seed", "The same seed gives the same data.", click.INT, "N"),
        option("--latency", "Minimum time of each response.", click.FLOAT, "SECONDS"),
        option(
            "--rate-limit",
            "Refuse requests over a limit: 20/s, 100/10s or at-once=8. Add options after commas: fixed-window, "
            "sliding-window, burst=40, status=503, retry-after=seconds.",
            metavar="LIMIT",
        ),
        option("--faults", "Faults to inject, such as resets=2%,500s=3%.", metavar="SHARES"),
        option("--failing", "Always respond with 500 for this campaign; repeatable.", click.INT, "ID", multiple=True),
        option("--forbidden", "Always respond with 403 for this campaign; repeatable.", click.INT, "ID", multiple=True),
    ]


def _sandbox(wanted: bool, given: Mapping[str, Any]) -> Sandbox | None:
    """Return the sandbox of the given options, or None if it is not wanted."""
    if wanted:
        from seorep_async.cli.embedded import build

        return build(given)
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        hint = " To choose campaigns, use --campaign." if "campaigns" in given else ""
        raise click.UsageError(f"{names}: only with --sandbox.{hint}")
    return None


def _named_sandbox(given: Mapping[str, Any]) -> str:
    """Return a name for its data, the same with other faults or none, so that a pull resumes as after a recovery."""
    return " ".join(["the sandbox", *(f"--{name} {given[name]}" for name in SANDBOX_DEFAULTS if name in given)])


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, without those of the connection."""
    given = {name: value for name, value in options.items() if value not in (None, ())}
    return {name: value for name, value in given.items() if name not in CONNECTION_NAMES}


@click.command(
    cls=SectionedCommand,
    params=[*choosing_options(), *connection_options(), *_sandbox_options(_WITH_SANDBOX)],
    epilog=_EXAMPLES,
)
@click.option("--sandbox", is_flag=True, help="Pull from an embedded sandbox instead of the service.")
@feed_option
@click.option(
    "-o",
    "--out",
    type=click.Path(),
    help="Target: a file that ends in .csv, .jsonl, .parquet or .duckdb; a folder/ for a dataset; either of them under "
    "s3://, gs:// or az:// (not .duckdb); or - for stdout.  [default: rankings-FEED.csv]",
)
@click.option(
    "--format",
    "stdout_format",
    type=click.Choice(["csv", "jsonl"]),
    help="Format on stdout.  [default: csv]",
)
@click.option("--csv-line-end", type=click.Choice(["crlf", "lf"]), help="Line ends of CSV.  [default: crlf]")
@click.option("--csv-bom", is_flag=True, help="Begin CSV with a byte order mark, so that Excel reads UTF-8.")
@click.option("--csv-guard", is_flag=True, help="Put ' before CSV cells that Excel would run as formulas.")
@click.option("--work-dir", metavar="FOLDER", help="Folder to stage the reports in.  [default: beside -o]")
@click.option("--force", is_flag=True, help="Replace files that no pull wrote.")
@click.option("--restart", is_flag=True, help="Start over instead of resuming an interrupted pull.")
@click.option("--retry-failed", is_flag=True, help="Fetch only the reports that failed last time.")
@click.option(
    "--skip-complete",
    is_flag=True,
    help="Leave out dates and feeds that an earlier pull of the same campaigns into this database or dataset has "
    "fetched without a failure.",
)
@click.option(
    "--max-requests",
    type=whole_number,
    metavar="N",
    help="Stop after N requests, keep what is fetched, and exit with 5; the same command goes on.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing; show what would be fetched, and in how many requests.")
@click.option("--json", is_flag=True, help="Print the summary, or the dry run, as JSON on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors, failures and warnings.")
@click.option("-v", "--verbose", is_flag=True, help="Show retries and found limits as they happen.")
@click.option("--log-file", metavar="FILE", help="Append retries and found limits to a file, as JSON lines.")
@click.option("--compare-previous-period", is_flag=True, help="Request changes from the previous period, too.")
@click.option("--limit", type=whole_number, metavar="N", help="Records per page.  [default: the service's]")
@click.option("--account", metavar="NAME", help=_ACCOUNT_HELP)
@click.option(
    "--snapshot-date",
    type=day,
    metavar="DATE",
    help="Snapshot date in every row.  [default: the UTC day on which the pull begins]",
)
@key_renewed_option
@click.pass_obj
def pull(
    now: dt.datetime,
    /,
    sandbox: bool,
    feeds: tuple[str, ...],
    out: str | None,
    stdout_format: str | None,
    **options: Any,
) -> ExitCode:
    """Pull the rankings of many campaigns into a file or a database.

    Set SEOREP_BASE_URL and SEOREP_API_KEY, or name a --profile; --sandbox needs neither.

    Fetched reports are staged beside the target. The target appears, or is replaced, only when it is complete. To
    resume an interrupted pull, repeat the command.

    With several feeds, each has its own file, such as rankings.keyword_rankings.csv, or its own table of a database.
    Totals, campaigns, keywords and failures are written to further files or tables.
    """
    own = {name: options.pop(name) for name in _PULL_OPTIONS}
    choosing = {name: options.pop(name) for name in CHOOSING_NAMES}
    given = _given(options)
    embedded = _sandbox(sandbox, given)
    days, campaigns = chosen_days(choosing, now), chosen_campaigns(choosing)
    wanted = tuple(feed for feed in Feed if feed.value in feeds)
    to_stdout = out == _STDOUT
    _check_together(to_stdout, stdout_format, own, len(wanted))
    _check_months(own, len(days.windows), to_stdout)
    from seorep_async.cli.connection import connect, sandbox_settings
    from seorep_async.cli.pull import PullJob
    from seorep_async.export.formats import Format
    from seorep_async.resources.rankings import FeedOptions

    default_out = f"rankings-{wanted[0].value}.csv" if len(wanted) == 1 else "rankings.csv"
    limit, compare = own.pop("limit"), own.pop("compare_previous_period") or None
    job = PullJob(
        feeds=wanted,
        days=days,
        campaigns=campaigns,
        out=None if to_stdout else out or default_out,
        labels=_taken(own, "account", "snapshot_date", "key_renewed") | {"csv": _csv_options(own)},
        place=_taken(own, "work_dir", "force"),
        how=_taken(own, "restart", "retry_failed", "max_requests"),
        stdout_format=Format.JSON_LINES if stdout_format == "jsonl" else Format.CSV,
        options=FeedOptions(limit=limit, compare_previous_period=compare),
        **own,
    )
    if embedded is not None:
        return job.reported(lambda: job.of_sandbox(embedded, sandbox_settings(options), _named_sandbox(given)))
    return job.reported(lambda: job.of_service(connect(options, "try --sandbox")))


def _check_months(own: Mapping[str, Any], windows: int, to_stdout: bool) -> None:
    if to_stdout and windows > 1:
        raise click.UsageError("several months need a database (.duckdb) or a dataset (ending in /), not -o -.")
    if own["retry_failed"] and (own["skip_complete"] or windows > 1):
        raise click.UsageError("--retry-failed is for one pull; --skip-complete fetches what failed of several.")
    if own["max_requests"] and windows > 1 and not own["skip_complete"]:
        problem = "--max-requests with several months needs --skip-complete, or it would begin again each time"
        raise click.UsageError(f"{problem}.")


def _taken(options: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: options.pop(name) for name in names}


def _csv_options(own: dict[str, Any]) -> CsvOptions:
    from seorep_async.export import CsvOptions

    line_end, bom, guard = _taken(own, "csv_line_end", "csv_bom", "csv_guard").values()
    return CsvOptions(line_end="\n" if line_end == "lf" else "\r\n", bom=bom, guard=guard)


def _check_together(to_stdout: bool, stdout_format: str | None, own: Mapping[str, Any], feeds: int) -> None:
    if own["restart"] and own["retry_failed"]:
        raise click.UsageError("--restart and --retry-failed can't be combined; give one of them.")
    if own["verbose"] and own["quiet"]:
        raise click.UsageError("--verbose and --quiet can't be combined; give one of them.")
    if not to_stdout:
        if stdout_format is not None:
            raise click.UsageError("--format: only with -o -; the ending of a file chooses its format.")
        return
    for name in ("work_dir", "force", "restart", "retry_failed", "skip_complete", "max_requests", "json"):
        if own[name]:
            raise click.UsageError(f"--{name.replace('_', '-')}: not with -o -, as the rows go to stdout; name a file.")
    if feeds > 1:
        raise click.UsageError("several feeds can't be written to stdout together; name a file.")


_AGENTS = """\
\b
In the configuration of an agent's client:
  {"mcpServers": {"seorep": {
    "command": "/srv/seo/.venv/bin/seorep",
    "args": ["mcp", "--history", "/srv/seo/rankings.duckdb",
             "--profile", "acme"]}}}

\b
The tools are campaigns and rankings, from the service; changes and history
(SQL that only reads), from the history; and pull into it. No tool changes the
account.
help(seorep_async.integrations) says more. Agents with a shell need no MCP:
python -c 'help("seorep_async.cli")' is their page."""


@click.command(cls=SectionedCommand, params=[*connection_options(), *_sandbox_options(_WITH_SANDBOX)], epilog=_AGENTS)
@click.option(
    "--history",
    required=True,
    help="Database (.duckdb) or dataset (folder/) that pulls write; it need not exist yet.",
)
@click.option("--account", metavar="NAME", help=_ACCOUNT_HELP)
@click.option("--sandbox", is_flag=True, help="Serve an embedded sandbox instead of the service.")
def mcp(history: str, account: str | None, sandbox: bool, **options: Any) -> ExitCode:
    """Serve the history and the service to agents (MCP).

    It speaks the Model Context Protocol on stdin and stdout until stdin ends; an agent's client starts it.
    """
    given = _given(options)
    embedded = _sandbox(sandbox, given)
    from seorep_async.cli.agents import serve_sandbox, serve_service
    from seorep_async.cli.connection import connect, sandbox_settings

    if embedded is not None:
        return serve_sandbox(embedded, sandbox_settings(options), _named_sandbox(given), history, account)
    return serve_service(connect(options, "try --sandbox"), history, account)


_PORT = SectionedOption(
    "--port", type=click.INT, default=8765, show_default=True, metavar="N", help="Port to listen on; 0 for a free one."
)
_API_KEY = SectionedOption("--api-key", default="sandbox", show_default=True, help="The key to accept.")


@click.command(cls=SectionedCommand, params=[*connection_options(), *_sandbox_options(_WITH_SANDBOX)])
@click.option("--sandbox", is_flag=True, help="Check an embedded sandbox instead of the service.")
@click.pass_obj
def doctor(now: dt.datetime, /, sandbox: bool, **options: Any) -> ExitCode:
    """Check the settings, the connection and the service's responses.

    It only reads: the list of campaigns, and one page of each feed.
    """
    embedded = _sandbox(sandbox, _given(options))
    from seorep_async.cli.connection import connect, sandbox_settings
    from seorep_async.cli.doctor import check_sandbox, check_service

    if embedded is not None:
        return check_sandbox(embedded, sandbox_settings(options), now)
    return check_service(lambda: connect(options, "try --sandbox"), now)


@click.command(cls=SectionedCommand, params=[_PORT, _API_KEY, *_sandbox_options("Options")])
def sandbox(**options: Any) -> ExitCode:
    """Run the embedded service on this machine until Ctrl-C."""
    from seorep_async.cli.embedded import serve

    return serve(_given(options))
