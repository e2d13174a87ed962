"""All commands except `pull` and the lists: their options and help.

Each runs a function of another module, which is imported when the command runs.
"""

from __future__ import annotations

import datetime as dt
import functools
from typing import Any

import click

from seorep_async.cli.options import (
    Service,
    campaign_id,
    command,
    complete_file,
    count,
    day_or_month,
    format_options,
    import_object,
    name_and_value,
    not_empty,
    option,
    service_options,
)

_ENGINES = option(
    "--engines",
    metavar="NAMES",
    type=not_empty,
    help="Names of engine A and engine B, such as 'Google, Bing'. The URLs in "
    "engine_a_serp_url show which engine is A.  "
    "[default: SEOREP_REPORT_ENGINES, or the profile's report_engines]",
)
_date_option = functools.partial(option, metavar="DATE", type=day_or_month)
_number_option = functools.partial(option, metavar="N", show_default=True)
_ACCOUNT = option(
    "--account", metavar="NAME", help="Name of the account, if the database has several."
)
TABLES = (
    "keyword_rankings",
    "campaign_periods",
    "keyword_periods",
    "totals",
    "campaigns",
    "keywords",
    "failures",
    "pulls",
)
"""The tables that a pull writes."""
KINDS = (
    "new",
    "removed",
    "found",
    "lost",
    "entered_top_3",
    "entered_top_10",
    "entered_top_20",
    "left_top_3",
    "left_top_10",
    "left_top_20",
    "rose",
    "fell",
)
"""The kinds of change."""


@command(
    "Ask for an address and a key, try them, and store them as a profile.\n\n"
    "Without a NAME, the profile is called default. seorep and SeoRepClient() in Python use the "
    "profile default unless another profile, an address or a key is given."
)
@click.argument("name", required=False, metavar="[NAME]")
def login(name: str | None) -> None:
    import_object("login", "log_in")(name)


@command(
    "Explain the columns of one table that a pull writes, or of all tables.\n\n"
    "A * marks the columns that together identify a row. Names and types are the same in every "
    "format."
)
@click.argument("table", required=False, type=click.Choice(TABLES), metavar="[TABLE]")
@option("--json", is_flag=True, help="Print the tables as JSON; an error is also JSON.")
def columns(table: str | None, json: bool) -> None:
    import_object("guide", "show_columns")(table, is_json=json)


@command("Show a page of the guide, or the list of its pages.")
@click.argument("name", required=False, metavar="[NAME]")
def guide(name: str | None) -> None:
    import_object("guide", "show_guide")(name)


@command(
    "Show the keywords whose rank changed between two days.\n\n"
    "The largest changes come first; a keyword counts once in each engine. DATABASE is a .duckdb "
    "file that seorep pull wrote. Days are ranking days: the ranking day of a pull is the last day "
    "of its window, or the day of the pull if that is earlier. A rank of 0 and a missing rank "
    "count as not ranked. Campaigns that lack a report for either day are left out and listed.",
    examples="""\
  seorep changes rankings.duckdb --kind fell --limit 20
  seorep changes rankings.duckdb --month last --kind fell -o fell.xlsx
  seorep changes rankings.duckdb --kind fell --kind lost --by-campaign
  seorep changes rankings.duckdb --kind fell --exit-code > fell.txt
  test $? = 10 && mail -s "Ranks fell" me@example.com < fell.txt""",
)
@click.argument(
    "databases",
    type=not_empty,
    nargs=-1,
    required=True,
    metavar="DATABASE",
    shell_complete=complete_file,
)
@option(
    "-o",
    "--out",
    metavar="FILE",
    shell_complete=complete_file,
    type=not_empty,
    help="Write the changes, or their counts by campaign, to a file that ends in .xlsx (Excel) or "
    ".csv.",
)
@_ACCOUNT
@_date_option(
    "--from",
    "before",
    help="Earlier ranking day; a month stands for its last ranking day.  "
    "[default: the last day before --to that was pulled for most campaigns; if --to is a month, "
    "the last ranking day of the month before]",
)
@_date_option(
    "--to",
    "after",
    help="Later ranking day, or a month.  [default: the last day that was pulled for most "
    "campaigns]",
)
@option(
    "--month",
    metavar="MONTH",
    type=not_empty,
    help="Compare the last calendar day of a month, such as 2023-03, with that of the month "
    "before; `last` means last month.",
)
@option(
    "--campaign",
    metavar="ID",
    type=campaign_id,
    help="Compare one campaign. The days are chosen from those on which it has rankings. "
    "To find ids, use --by-campaign.  [default: all campaigns]",
)
@option(
    "--group",
    metavar="TITLE",
    type=not_empty,
    help="Compare the campaigns of a group; case does not matter. The days are chosen from those "
    "on which they have rankings.",
)
@option(
    "--kind",
    metavar="KIND",
    multiple=True,
    # rose and fell come first, because most people mean them
    type=click.Choice(("rose", "fell", *KINDS[:-2]), case_sensitive=False),
    help="Show one kind of change: rose, fell (ranked on both days); found, lost (ranked on "
    "only one of them); entered_top_N, left_top_N (N is 3, 10 or 20); new, removed (keyword in "
    "only one of the reports); repeatable.",
)
@option(
    "--engine",
    metavar="ENGINE",
    multiple=True,
    help="Compare one engine: engine_a, engine_a_mobile, engine_a_places or engine_b, or a name "
    "made from --engines, such as 'Google mobile'; repeatable.  [default: all]",
)
@option(
    "--by-campaign",
    is_flag=True,
    help="Count the changes of each campaign instead of listing keywords. Campaigns "
    "that gained or lost the most places come first.",
)
@option(
    "--limit",
    metavar="N",
    type=count,
    help="Show only the N largest changes, or with --by-campaign the first N campaigns. A missing "
    "rank counts as 101.  [default: all]",
)
@option(
    "--moved",
    metavar="N",
    type=count,
    help="Smallest move, in places, that is reported as rose or fell.  [default: 3]",
)
@option(
    "--exit-code",
    is_flag=True,
    help="Exit with 10 if there is a change, for alerts; changes beyond --limit count as well.",
)
@_ENGINES
@format_options
def changes(
    databases: tuple[str, ...],
    before: dt.date | str | None,
    after: dt.date | str | None,
    month: str | None,
    format: str,
    kind: tuple[str, ...],
    engine: tuple[str, ...],
    **choices: Any,
) -> int:
    database, *further_databases = databases
    # people try to compare the files of two months
    if further_databases:
        raise click.UsageError(
            "changes compares two days of one database: pull both into it, for example with "
            "seorep pull -o rankings.duckdb --month 2023-02..2023-03, and name only that file."
        )
    if choices["out"] is not None and format != "table":
        raise click.UsageError(
            "-o can't be combined with --format or --json: the ending of a file chooses its format."
        )
    if month is not None:
        before, after = _days_of(month, before, after)
    choices |= {"before": before, "after": after, "kind": kind or None, "engine": engine or None}
    show_changes = import_object("history", "show_changes")
    return int(show_changes(database, format=format, **choices))


def _days_of(month: str, *days: dt.date | str | None) -> tuple[dt.date, dt.date]:
    """Return the last day of the month before `month`, and the last day of `month`.

    Refuse `--from` and `--to`.
    """
    if any(days):
        raise click.UsageError("--month can't be combined with --from or --to.")
    if ".." in month:
        raise click.UsageError(
            "--month takes one month here; for a longer time, use --from and --to."
        )
    # `app.py` passes today's date as the context's object
    today = click.get_current_context().obj
    before, after = import_object("pull", "last_days_of_months")(month, today)
    return before, after


@command(
    "Draw the rankings of a database as a web page.\n\n"
    "DATABASE is a .duckdb file that seorep pull wrote. The page is one file; it loads nothing and "
    "runs no scripts.",
    examples="""\
  seorep report rankings.duckdb -o acme.html --open
  seorep report rankings.duckdb --month last -o march.html
  seorep report rankings.duckdb --group Retail --from 2023-01-01 -o q1.html""",
)
@click.argument("database", type=not_empty, shell_complete=complete_file)
@option(
    "-o",
    "--out",
    metavar="FILE",
    shell_complete=complete_file,
    required=True,
    help="HTML file to write; its name ends in .html. An existing file is replaced only if seorep "
    "report wrote it.",
)
@_ACCOUNT
@option(
    "--campaign",
    metavar="ID",
    type=campaign_id,
    help="Draw one campaign. To find ids, use --by-campaign of seorep changes.  "
    "[default: all campaigns]",
)
@option("--group", metavar="TITLE", help="Draw the campaigns of a group; case does not matter.")
@_date_option(
    "--from",
    "start_date",
    help="First day to draw, or a month.  [default: the first in the database]",
)
@_date_option(
    "--to",
    "end_date",
    help="Last day to draw, or a month.  [default: the last day that was pulled for most "
    "campaigns]",
)
@option(
    "--month",
    metavar="MONTH",
    type=not_empty,
    help="Draw a month, such as 2023-03, beginning with the last day of the month before; `last` "
    "means last month.",
)
@option(
    "--title",
    metavar="TEXT",
    help="Title of the page.  [default: the name of the campaign, the group or the account]",
)
@_ENGINES
@option("--open", "opens", is_flag=True, help="Show the page in a browser.")
@option("--json", is_flag=True, help="Print the file and its size, or the error, as JSON.")
def report(
    database: str,
    start_date: dt.date | str | None,
    end_date: dt.date | str | None,
    month: str | None,
    opens: bool,
    json: bool,
    **choices: Any,
) -> None:
    if month is not None:
        start_date, end_date = _days_of(month, start_date, end_date)
    choices |= {"start_date": start_date, "end_date": end_date}
    import_object("history", "write_report")(database, opens=opens, is_json=json, **choices)


@command(
    "Check settings, connection, responses, and the target of a pull.\n\n"
    "It changes nothing: it reads the list of campaigns, one page of each feed, and the target.",
    examples="""\
  seorep doctor
  seorep doctor -o rankings.duckdb --exit-code --json    # for a monitor""",
)
@option(
    "-o",
    "--out",
    metavar="FILE",
    shell_complete=complete_file,
    type=not_empty,
    help="Also check this target: free space, the versions of the libraries that it needs, and "
    "whether it is open elsewhere.",
)
@option(
    "--account",
    metavar="NAME",
    type=not_empty,
    help="Check the target as a pull with this --account would, and report only this account's "
    "nights (days with a pull).  [default: all accounts]",
)
@option(
    "--exit-code",
    is_flag=True,
    help="For monitors: exit with 10 if no night is found, or if a night of the last 7 days is "
    "missing or lacks reports that a retry may fetch.",
)
@option("--json", is_flag=True, help="Print the checks as JSON on stdout.")
@service_options
def doctor(
    out: str | None, account: str | None, exit_code: bool, json: bool, service: Service
) -> int:
    if out is None and (account is not None or exit_code):
        raise click.UsageError("--account and --exit-code concern a database; name it with -o.")
    check = import_object("doctor", "check")
    return int(check(service, out=out, account=account, exit_code=exit_code, as_json=json))


@command(
    "Send any request, such as one that changes the account.\n\n"
    "The response is printed as JSON. GET and DELETE send the parameters in the query; other "
    "methods send them as the setting request_encoding says, by default as a form in the body. A "
    "name that is repeated is sent as an array. A value of @- is read from stdin, which "
    "keeps passwords off the command line. The response to GET must be a JSON object with the "
    "field `data`. The response to any other method must be a JSON object or empty.",
    examples="""\
  seorep api GET /v3/campaigns limit=2
  seorep api POST /v3/campaigns url=https://bakery.example company=Bakery
  seorep api PUT /v3/campaigns/7 group_title=Retail
  seorep api DELETE /v3/backlinks/700001 --yes""",
)
@click.argument("method")
@click.argument("path")
@click.argument("parameters", nargs=-1, type=name_and_value, metavar="[NAME=VALUE...]")
@option("-y", "--yes", is_flag=True, help="Do not ask for confirmation of a DELETE.")
@option("--json", is_flag=True, help="Also print an error as JSON; a response is always JSON.")
@service_options
def api(
    method: str,
    path: str,
    parameters: tuple[tuple[str, str], ...],
    yes: bool,
    json: bool,
    service: Service,
) -> None:
    # `json` is not passed on: `app` has read it before the options were parsed
    import_object("calls", "send_any")(
        service, method=method, path=path, parameters=parameters, yes=yes
    )


@command(
    "Let agents use the history and the service over MCP.\n\n"
    "An agent's client starts this command, and talks to it over the Model Context Protocol on "
    "stdin and stdout. seorep guide agents explains the tools, and how to configure the client."
)
@option(
    "--history",
    metavar="FILE",
    shell_complete=complete_file,
    required=True,
    help="Database to query and to pull into, a .duckdb file; it need not exist yet.",
)
@option(
    "--account",
    metavar="NAME",
    help="Name of the account in the database.  [default: the profile's account, or else the "
    "service's host]",
)
@service_options
def mcp(history: str, account: str | None, service: Service) -> None:
    import_object("history", "serve_agents")(service, database=history, account=account)


@command("Run a stand-in for the service on this machine until Ctrl-C.")
@_number_option(
    "--campaigns",
    default="20",
    help="Campaigns that the account starts with; their ids are 1 to N.",
)
@_number_option(
    "--keywords",
    default="50",
    help="Keywords of each campaign; their ids begin at the campaign's id x 100,000 + 1.",
)
@_number_option(
    "--users",
    default="5",
    help="Users that the account starts with; their ids are 1 to N.",
)
@_number_option(
    "--backlinks",
    default="3",
    help="Backlinks that each campaign starts with; their ids also begin at the campaign's id x "
    "100,000 + 1.",
)
@_number_option(
    "--seed",
    default="1",
    help="Any integer; the same seed always gives the same account, whatever the shape.",
)
@option(
    "--shape",
    type=click.Choice(("nested", "flat", "mixed")),
    default="nested",
    show_default=True,
    help="Shape of the feeds' responses: nested (rows in data.rows), flat (in data), or "
    "mixed (each campaign or keyword has its own).",
)
@option(
    "--rows",
    type=click.Choice(("current", "older", "mixed")),
    default="current",
    show_default=True,
    help="Format of the feeds' rows: current, older, or mixed (each campaign or keyword has its "
    "own).",
)
@option("--daily", is_flag=True, help="Change ranks daily instead of monthly.")
@option("--latency", metavar="SECONDS", help="Shortest time that a response takes, in seconds.")
@option(
    "--rate-limit",
    metavar="TEXT",
    help="Limit above which requests are refused: 20/s, 100/10s or at-once=8. Options follow after "
    "commas: fixed-window, sliding-window, burst=40, status=503, retry-after=seconds.",
)
@option(
    "--failing",
    metavar="IDS",
    help="Ids of campaigns whose requests always get a 500, or the status after a colon, such "
    "as 3:404.",
)
@option(
    "--forbidden",
    metavar="IDS",
    help="Ids of campaigns that the key may not see: their requests always get a 403.",
)
@option(
    "--faults",
    metavar="TEXT",
    help="Shares of requests that fail, such as resets=5%,500s=5%,cut=2%.",
)
@_number_option(
    "--default-limit",
    default="25",
    help="Records per page if the request has no limit.",
)
@_number_option(
    "--max-limit",
    default="500",
    help="Largest number of records per page.",
)
@option(
    "--api-key",
    metavar="TEXT",
    default="sandbox",
    show_default=True,
    help="The accepted key; any other key gets a 403.",
)
@option(
    "--host", metavar="TEXT", default="127.0.0.1", show_default=True, help="Address to listen on."
)
@_number_option(
    "--port",
    default="8765",
    help="Port to listen on; 0 for any free port.",
)
def sandbox(**options: str | bool | None) -> int:
    return int(import_object("sandbox", "serve")(options))
