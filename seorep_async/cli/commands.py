"""The options of the commands `pull`, `mcp`, `doctor` and `sandbox`, whose code is imported when they run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from seorep_async.cli.choosing import choosing_options, chosen_campaigns, chosen_days, feed_option, key_renewed_option
from seorep_async.cli.exit_codes import ExitCode, option_of
from seorep_async.cli.options import (
    SectionedCommand,
    SectionedOption,
    connection_options,
    day,
    given_to_sandbox,
    sandbox_options,
    whole_number,
)
from seorep_async.models import Feed

if TYPE_CHECKING:
    from seorep_async.sandbox import Sandbox

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


def _embedded(wanted: bool, options: Mapping[str, Any]) -> Sandbox | None:
    """Return the sandbox of a command's options, or None without `--sandbox`; then they are refused."""
    given = given_to_sandbox(options)
    if wanted:
        from seorep_async.cli.serving import build

        return build(given)
    if given:
        hint = " To choose campaigns, use --campaign." if "campaigns" in given else ""
        raise click.UsageError(f"{', '.join(map(option_of, given))}: only with --sandbox.{hint}")
    return None


@click.command(
    cls=SectionedCommand,
    params=[*choosing_options, *connection_options(), *sandbox_options(_WITH_SANDBOX)],
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
    "fetched without a failure, after their last day.",
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
def pull(now: dt.datetime, /, sandbox: bool, feeds: tuple[str, ...], out: str | None, **options: Any) -> ExitCode:
    """Pull the rankings of many campaigns into a file or a database.

    Set SEOREP_BASE_URL and SEOREP_API_KEY, or name a --profile; --sandbox needs neither.

    Fetched reports are staged beside the target. The target appears, or is replaced, only when it is complete. To
    resume an interrupted pull, repeat the command.

    With several feeds, each has its own file, such as rankings.keyword_rankings.csv, or its own table of a database.
    Totals, campaigns, keywords and failures are written to further files or tables.
    """
    embedded = _embedded(sandbox, options)
    days, campaigns = chosen_days(options, now), chosen_campaigns(options)
    wanted = tuple(feed for feed in Feed if feed.value in feeds)
    to_stdout = out == "-"
    _check_together(to_stdout, len(wanted), options)
    _check_months(to_stdout, len(days.windows), options)
    from seorep_async.cli.pull import PullJob
    from seorep_async.cli.terminal import stderr_console

    default_out = f"rankings-{wanted[0].value}.csv" if len(wanted) == 1 else "rankings.csv"
    target, notes = None if to_stdout else out or default_out, stderr_console(quiet=options["quiet"])
    return PullJob(wanted, days, campaigns, target, options, notes, embedded).run()


def _check_together(to_stdout: bool, feeds: int, options: Mapping[str, Any]) -> None:
    if options["restart"] and options["retry_failed"]:
        raise click.UsageError("--restart and --retry-failed can't be combined; give one of them.")
    if options["verbose"] and options["quiet"]:
        raise click.UsageError("--verbose and --quiet can't be combined; give one of them.")
    if not to_stdout:
        if options["stdout_format"] is not None:
            raise click.UsageError("--format: only with -o -; the ending of a file chooses its format.")
        return
    for name in ("work_dir", "force", "restart", "retry_failed", "skip_complete", "max_requests", "json"):
        if options[name]:
            raise click.UsageError(f"{option_of(name)}: not with -o -, as the rows go to stdout; name a file.")
    if feeds > 1:
        raise click.UsageError("several feeds can't be written to stdout together; name a file.")


def _check_months(to_stdout: bool, windows: int, options: Mapping[str, Any]) -> None:
    if to_stdout and windows > 1:
        raise click.UsageError("several months need a database (.duckdb) or a dataset (ending in /), not -o -.")
    if options["retry_failed"] and (options["skip_complete"] or windows > 1):
        raise click.UsageError("--retry-failed is for one pull; --skip-complete fetches what failed of several.")
    if options["max_requests"] and windows > 1 and not options["skip_complete"]:
        problem = "--max-requests with several months needs --skip-complete, or it would begin again each time"
        raise click.UsageError(f"{problem}.")


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


@click.command(cls=SectionedCommand, params=[*connection_options(), *sandbox_options(_WITH_SANDBOX)], epilog=_AGENTS)
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
    embedded = _embedded(sandbox, options)
    from seorep_async.cli.connection import connect
    from seorep_async.cli.serving import serve_agents
    from seorep_async.cli.signals import run_until_interrupted

    return run_until_interrupted(serve_agents(connect(options, embedded), history, account))


_PORT = SectionedOption(
    "--port", "Port to listen on; 0 for a free one.", "N", type=click.INT, default=8765, show_default=True
)
_API_KEY = SectionedOption("--api-key", "The key to accept.", default="sandbox", show_default=True)


@click.command(cls=SectionedCommand, params=[*connection_options(), *sandbox_options(_WITH_SANDBOX)])
@click.option("--sandbox", is_flag=True, help="Check an embedded sandbox instead of the service.")
@click.pass_obj
def doctor(now: dt.datetime, /, sandbox: bool, **options: Any) -> ExitCode:
    """Check the settings, the connection and the service's responses.

    It only reads: the list of campaigns, and one page of each feed.
    """
    embedded = _embedded(sandbox, options)
    from seorep_async.cli.doctor import check

    return check(options, embedded, now)


@click.command(cls=SectionedCommand, params=[_PORT, _API_KEY, *sandbox_options("Options")])
def sandbox(**options: Any) -> ExitCode:
    """Run the embedded service on this machine until Ctrl-C."""
    from seorep_async.cli.serving import serve

    return serve({name: value for name, value in options.items() if value not in (None, ())})
