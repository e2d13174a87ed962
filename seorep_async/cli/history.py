"""`seorep changes`, `report` and `mcp`: a database that pulls wrote, compared, drawn and served."""

from __future__ import annotations

import io
import sys
import webbrowser
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import attrs

from seorep_async import history
from seorep_async.cli.connection import Connection, connect
from seorep_async.cli.engine_names import find_engine_names
from seorep_async.cli.errors import ExitCode
from seorep_async.cli.formatting import format_objects
from seorep_async.cli.options import Service
from seorep_async.cli.output import as_json, can_ask, counted, messages, write
from seorep_async.cli.progress import logged
from seorep_async.cli.running import in_daemon_thread, wait_for
from seorep_async.errors import ConfigurationError, ExportError, one_line
from seorep_async.history import CampaignChanges, Change, Changes, CountedChanges
from seorep_async.history.change_file import ChangeFile, ChangeRow, engine_called, names_of_engines
from seorep_async.integrations.mcp import mcp_server
from seorep_async.tables.optional import require

_COLUMNS_FOR_PEOPLE = (
    "campaign_id",
    "company",
    "keyword_phrase",
    "location",
    "engine",
    "before",
    "after",
    "moved",
    "kinds",
)
_ALL_COLUMNS = tuple(field.name for field in attrs.fields(Change))
_COUNTS_FOR_PEOPLE = (
    "campaign_id",
    "company",
    "changes",
    "places",
    "rose",
    "fell",
    "found",
    "lost",
    "entered_top_10",
    "left_top_10",
)
_ALL_COUNTS = tuple(field.name for field in attrs.fields(CampaignChanges))


def show_changes(
    database: str,
    *,
    out: str | None,
    format: str,
    engines: str | None,
    exit_code: bool,
    **choices: Any,
) -> ExitCode:
    """Show the changes between two days, or write them to a file; return the exit code."""
    arguments = _arguments(choices, engines)
    file = None if out is None else ChangeFile.of(out)
    names = {}
    if format == "table":
        names = _names_in_changes(engines)
    # a table is for people, so it includes the account, the days and the notes
    is_table_on_stdout = format == "table" and file is None
    with logged(messages(quiet=is_table_on_stdout)) as notes:
        changes = history.changes(database, **arguments)
    if format == "table":
        rows = [ChangeRow.of(change, names) for change in changes]
        if file is None:
            lines = [_headline(changes), *[f"Note: {note}" for note in notes]]
            heading = "".join(f"{line}\n" for line in lines)
            write(heading + format_objects(rows, _COLUMNS_FOR_PEOPLE, format))
        else:
            messages().print(_headline(changes))
            write(f"{file.write(rows, ChangeRow)}\n")
    elif format == "json":
        write(as_json(_facts(changes, notes)))
    else:
        write(format_objects(changes, _ALL_COLUMNS, format))
    # includes changes beyond --limit
    if exit_code and changes.total:
        return ExitCode.CHANGED
    return ExitCode.OK


def _arguments(choices: Mapping[str, Any], engines: str | None) -> dict[str, Any]:
    """Return the library's arguments. Its own defaults hold for options that were left out."""
    arguments = {name: value for name, value in choices.items() if value is not None}
    if "engine" in arguments:
        engine_names = _known_engine_names(engines)
        arguments["engine"] = [engine_called(name, engine_names) for name in arguments["engine"]]
    return arguments


def _names_in_changes(engines: str | None) -> dict[str, str]:
    engine_names = _known_engine_names(engines)
    return {} if engine_names is None else names_of_engines(engine_names)


def _known_engine_names(
    engines: str | None = None, profile: str | None = None
) -> tuple[str, str] | None:
    """Return the names of the engines; None if nothing names them, or a profile can't be read."""
    try:
        return find_engine_names(engines, profile)
    except ConfigurationError:
        # a database needs no profile, and the environment may name the service
        return None


def show_counts(
    database: str,
    *,
    out: str | None,
    format: str,
    engines: str | None,
    exit_code: bool,
    limit: int | None,
    **choices: Any,
) -> ExitCode:
    """Show the number of changes of each campaign, or write them; return the exit code."""
    arguments = _arguments(choices, engines)
    file = None if out is None else ChangeFile.of(out)
    is_table_on_stdout = format == "table" and file is None
    with logged(messages(quiet=is_table_on_stdout)) as notes:
        counts = history.changes_by_campaign(database, **arguments)
    campaigns = counts.campaigns[:limit]
    if file is not None:
        messages().print(_headline_of_counts(counts))
        write(f"{file.write(campaigns, CampaignChanges)}\n")
    elif format == "table":
        lines = [_headline_of_counts(counts), *[f"Note: {note}" for note in notes]]
        heading = "".join(f"{line}\n" for line in lines)
        write(heading + format_objects(campaigns, _COUNTS_FOR_PEOPLE, format))
    elif format == "json":
        facts = _common_facts(counts, notes)
        write(as_json({**facts, "campaigns": [attrs.asdict(campaign) for campaign in campaigns]}))
    else:
        write(format_objects(campaigns, _ALL_COUNTS, format))
    if exit_code and counts.total:
        return ExitCode.CHANGED
    return ExitCode.OK


def _facts(changes: Changes, notes: Sequence[str]) -> dict[str, Any]:
    facts = _common_facts(changes, notes)
    return {**facts, "changes": [attrs.asdict(change) for change in changes]}


def _common_facts(result: Changes | CountedChanges, notes: Sequence[str]) -> dict[str, Any]:
    return {
        "account": result.account,
        "before": result.before,
        "after": result.after,
        "total": result.total,
        "notes": list(notes),
        "left_out": [
            {"campaign_id": campaign_id, "reason": reason}
            for campaign_id, reason in result.left_out.items()
        ],
    }


def _headline_of_counts(counts: CountedChanges) -> str:
    total = counted(counts.total, "change") if counts.total else "no changes"
    days = f"{one_line(counts.account)}, {counts.before} to {counts.after}"
    campaigns = counted(len(counts.campaigns), "campaign")
    return f"{days}: {total} in {campaigns}; places: + is better"


def _headline(changes: Changes) -> str:
    total = counted(changes.total, "change") if changes.total else "no changes"
    days = f"{one_line(changes.account)}, {changes.before} to {changes.after}"
    if len(changes) < changes.total:
        total = f"{total}, {len(changes):,} of them shown"
    if any(change.before and change.after for change in changes):
        total = f"{total}; moved: + is better"
    return f"{days}: {total}"


def write_report(
    database: str,
    *,
    profile: str | None,
    engines: str | None,
    opens: bool,
    is_json: bool,
    **choices: Any,
) -> None:
    """Make a page, write its path, and show it in a browser if that is asked."""
    engine_names = find_engine_names(engines, profile)
    if engine_names is not None:
        choices["engine_names"] = engine_names
    with logged():
        page = history.report(database, **choices)
    if is_json:
        write(as_json({"file": str(page), "bytes": page.stat().st_size}))
    else:
        write(f"{page}\n")
    if opens:
        webbrowser.open(page.resolve().as_uri())


def serve_agents(service: Service, *, database: str, account: str | None) -> None:
    """Serve a database and the service over MCP until stdin ends."""
    if sys.stdout is None:
        raise ExportError("can't write to stdout: it is closed")
    connection = connect(service)
    engine_names = _known_engine_names(profile=service.profile)
    wait_for(_serve_agents(connection, database, account, engine_names))


async def _serve_agents(
    connection: Connection,
    database: str,
    account: str | None,
    engine_names: tuple[str, str] | None,
) -> None:
    stdio = require("mcp.server.stdio")
    async with connection.opened() as client:
        server = mcp_server(client, database, account=account, engine_names=engine_names)
        if can_ask():
            messages().print(
                "An agent's client starts this command, and talks to it. Ctrl-C ends it."
            )
        try:
            async with stdio.stdio_server(stdin=_lines_of_stdin()) as (reader, writer):
                await server.run(reader, writer, server.create_initialization_options())
        except* BrokenPipeError:
            pass  # the agent's client has ended


async def _lines_of_stdin() -> AsyncIterator[str]:
    """Yield the lines of stdin.

    A signal can end the wait for one; the SDK's own reader would not let the process end before the
    next line.
    """
    if sys.stdin is None:
        return
    # a reader of our own, because the lock of sys.stdin, held by an abandoned thread, is fatal at
    # exit
    stdin = io.BufferedReader(io.FileIO(0, closefd=False))
    while line := await in_daemon_thread(stdin.readline):
        yield line.decode("utf-8", "replace")
