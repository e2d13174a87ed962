"""`seorep changes`, `report` and `mcp`: a database that pulls wrote, compared, drawn, and served to agents."""

from __future__ import annotations

import io
import sys
import webbrowser
from collections.abc import AsyncIterator
from typing import Annotated, Any

import attrs

from seorep_async import history
from seorep_async.cli.connection import Connection, connect
from seorep_async.cli.options import Command, Opt, Output, Service, command, one_of
from seorep_async.cli.output import can_ask, counted, formatted, messages, write
from seorep_async.cli.progress import logged
from seorep_async.cli.running import in_daemon_thread, wait_for
from seorep_async.errors import ExportError
from seorep_async.history.comparing import KINDS
from seorep_async.integrations.mcp import mcp_server
from seorep_async.profiles import report_engines
from seorep_async.tables.optional import require

_TABLE = (
    "campaign_id",
    "company",
    "keyword_phrase",
    "location",
    "engine",
    "before",
    "after",
    "kinds",
)
_OWN = {
    "account": Opt(metavar="NAME"),
    "before": Opt("--from"),
    "after": Opt("--to"),
    "start_date": Opt("--from"),
    "end_date": Opt("--to"),
    "campaign": Opt(metavar="ID"),
    "group": Opt(metavar="TITLE"),
    "kind": Opt(metavar="KIND", read=one_of(KINDS)),
    "out": Opt("-o --out", metavar="FILE"),
}


def _changes(database: str, /, *, output: Output = Output(), **asked: Any) -> None:
    """Show which keywords rose, fell, are new, lost or found between two days, the biggest changes first.

    DATABASE is a .duckdb file that pulls wrote. A day is the one that ranks speak of: the last day of a pull's window,
    or the day of the pull if that is earlier. A rank of 0 or none is "not ranked". Campaigns without a report of both
    days are left out, and named.

    Examples:
      seorep changes rankings.duckdb --kind fell --limit 20
      seorep changes rankings.duckdb --from 2023-03-01 --format csv > fell.csv
    """
    with logged():
        found = history.changes(
            database, **{name: value for name, value in asked.items() if value is not None}
        )
    if output.kind == "table":
        shown = f", {len(found):,} of them shown" if len(found) < found.total else ""
        total = counted(found.total, "change") if found.total else "no changes"
        messages().print(f"{found.account}, {found.before} to {found.after}: {total}{shown}")
    columns = (
        _TABLE if output.kind == "table" else [field.name for field in attrs.fields(history.Change)]
    )
    write(formatted(found, columns, output.kind))


def _report(
    database: str,
    /,
    *,
    profile: Annotated[str | None, Opt(metavar="NAME")] = None,
    open: bool = False,
    **asked: Any,
) -> None:
    """Make a page to look at from the days of a database: one file that loads nothing and runs no script.

    DATABASE is a .duckdb file that pulls wrote.

    Args:
        profile: Profile whose report_engines name the search engines.  [default: SEOREP_REPORT_ENGINES, then SEOREP_PROFILE]
        open: Show the page in a browser.

    Examples:
      seorep report rankings.duckdb -o acme.html --open
      seorep report rankings.duckdb --group Retail --from 2023-01-01 -o q1.html
    """
    engines = report_engines(profile)
    if engines is not None:
        asked["engine_names"] = engines
    with logged():
        page = history.report(database, **asked)
    write(f"{page}\n")
    if open:
        webbrowser.open(page.resolve().as_uri())


def mcp(*, history: str, account: str | None = None, service: Service = Service()) -> None:
    """Serve the history and the service to agents (MCP).

    It speaks the Model Context Protocol on stdin and stdout until stdin ends; an agent's client starts it. `seorep
    guide agents` shows the configuration of such a client, and the tools.

    Args:
        history: Database (.duckdb) that pulls write; it need not exist yet.
        account: Name of the account in every row.  [default: the profile's, or the host]
    """
    if sys.stdout is None:
        raise ExportError("can't write to stdout: it is closed")
    wait_for(_serve_agents(connect(service), history, account))


async def _serve_agents(connection: Connection, history: str, account: str | None) -> None:
    stdio = require("mcp.server.stdio")
    async with connection.opened() as client:
        server = mcp_server(client, history, account=account)
        if can_ask():
            messages().print(
                "An agent's client starts this command, and talks to it. Ctrl-C ends it."
            )
        try:
            async with stdio.stdio_server(stdin=_lines()) as (reader, writer):
                await server.run(reader, writer, server.create_initialization_options())
        except* BrokenPipeError:
            pass  # the agent's client has ended


async def _lines() -> AsyncIterator[str]:
    """Yield the lines of stdin. The SDK's own reader would not let a signal end the process before the next line."""
    if sys.stdin is not None:  # its lock, held by the thread of a read, would be fatal at exit
        stdin = io.BufferedReader(io.FileIO(0, closefd=False))
        while line := await in_daemon_thread(stdin.readline):
            yield line.decode("utf-8", "replace")


changes: Command = command(_changes, history.changes, own=_OWN)
report: Command = command(_report, history.report, skip={"engine_names"}, own=_OWN)
