"""The commands that compare the days of a database, draw their rankings, and answer agents."""

from __future__ import annotations

import io
import re
import sys
import webbrowser
from collections.abc import AsyncIterator, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import attrs

from seorep_async import history
from seorep_async.cli.connection import Connection, connect
from seorep_async.cli.engine_names import find_engine_names, known_engine_names
from seorep_async.cli.errors import ExitCode
from seorep_async.cli.formatting import format_objects
from seorep_async.cli.options import Service
from seorep_async.cli.output import (
    as_json,
    can_ask,
    messages,
    stdout_width,
    write,
    write_if_read,
)
from seorep_async.cli.progress import logged
from seorep_async.cli.running import in_daemon_thread, wait_for
from seorep_async.errors import ExportError, counted, one_line
from seorep_async.history import CampaignChanges, Change, Changes, CountedChanges
from seorep_async.history.change_file import (
    ChangeFile,
    engines_by_name,
    labels_by_engine,
    rename_engines,
)
from seorep_async.history.comparing import smallest_move_in_words
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
_WIDE_TERMINAL = 140
"""The width, in characters, from which `_COLUMNS_FOR_PEOPLE` are easy to read."""
_COLUMNS_IF_NARROW = (
    "company",
    "keyword",
    "engine",
    "before",
    "after",
    "moved",
    "kinds",
)
_COUNTS_FOR_PEOPLE = (
    "campaign_id",
    "company",
    "changes",
    "places",
    "rose",
    "fell",
    "found",
    "lost",
)


@attrs.frozen
class _Answer:
    """A comparison, and the rows to show.

    Attributes:
        result: the comparison itself, for its totals and its notes.
        name: the name of the rows in JSON.
        rows: the changes (with the engines' own names, if these are known), or the counts.
        model: the type of the rows.
        columns_for_people: the columns of a table; other formats have all columns.
        headline: the number of changes, in words, above the table.
    """

    result: Changes | CountedChanges
    name: str
    rows: Sequence[Any]
    model: type[Any]
    columns_for_people: Sequence[str]
    headline: str


def show_changes(
    database: str,
    *,
    by_campaign: bool,
    out: str | None,
    format: str,
    engines: str | None,
    exit_code: bool,
    limit: int | None,
    **choices: Any,
) -> ExitCode:
    """Show the changes between two days, or write them to a file; return the exit code."""
    # the library's own defaults apply to omitted options
    arguments = {name: value for name, value in choices.items() if value is not None}
    file = None if out is None else ChangeFile.of(out)
    is_for_people = format == "table"
    needs_names = is_for_people or "engine" in arguments
    names = known_engine_names(engines) if needs_names else None
    if names is not None and "engine" in arguments:
        by_name = engines_by_name(names)
        arguments["engine"] = [by_name.get(name.lower(), name) for name in arguments["engine"]]
    # a table on stdout includes the notes, so they are not logged as well
    with logged(messages(quiet=is_for_people and file is None)) as notes:
        if by_campaign:
            answer = _answer_with_counts(history.changes_by_campaign(database, **arguments), limit)
        else:
            changes = history.changes(database, limit=limit, **arguments)
            answer = _answer_with_changes(changes, names if is_for_people else None)
    if file is not None:
        messages().print(answer.headline)
        path = file.write(answer.rows, answer.model, answer.result)
        write_if_read(f"{path}\n")
    elif is_for_people:
        lines = [answer.headline, *[f"Note: {note}" for note in notes]]
        heading = "".join(f"{line}\n" for line in lines)
        rows = _rows_in_words(answer.rows) if answer.model is Change else answer.rows
        write_if_read(heading + format_objects(rows, answer.columns_for_people, format))
    elif format == "json":
        write_if_read(as_json(_json_facts(answer, notes)))
    else:
        all_columns = tuple(attrs.fields_dict(answer.model))
        write_if_read(format_objects(answer.rows, all_columns, format))
    # the total includes changes beyond --limit
    if exit_code and answer.result.total:
        return ExitCode.ALERT
    return ExitCode.OK


def _answer_with_changes(changes: Changes, engine_names: tuple[str, str] | None) -> _Answer:
    """Return the changes to show.

    The `rows` are shown, with the engines' own names if these are known. The `result` has the
    totals and the notes, and keeps the library's names (`engine_a`, `engine_a_mobile`, …).
    """
    rows: Sequence[Any] = changes
    if engine_names is not None:
        rows = rename_engines(changes, labels_by_engine(engine_names))
    is_wide = stdout_width() >= _WIDE_TERMINAL
    return _Answer(
        result=changes,
        name="changes",
        rows=rows,
        model=Change,
        columns_for_people=_COLUMNS_FOR_PEOPLE if is_wide else _COLUMNS_IF_NARROW,
        headline=_headline(changes),
    )


def _answer_with_counts(counts: CountedChanges, limit: int | None) -> _Answer:
    """Return the counts to show: those of the first `limit` campaigns."""
    campaigns = counted(len(counts.campaigns), "campaign") + smallest_move_in_words(counts.moved)
    return _Answer(
        result=counts,
        name="campaigns",
        rows=counts.campaigns[:limit],
        model=CampaignChanges,
        columns_for_people=_COUNTS_FOR_PEOPLE,
        headline=f"{_total_in_words(counts)} in {campaigns}; places: + means better",
    )


def _rows_in_words(changes: Iterable[Change]) -> list[SimpleNamespace]:
    """Return changes with their kinds in words, such as `lost, left top 3, 10, 20`."""
    rows = []
    for change in changes:
        values = {name: getattr(change, name) for name in _COLUMNS_FOR_PEOPLE}
        # the header of this column is shorter on a narrow terminal
        values["keyword"] = change.keyword_phrase
        kinds = ", ".join(change.kinds).replace("_", " ")
        values["kinds"] = re.sub(r"(?<=\d), (entered|left) top", ",", kinds)
        rows.append(SimpleNamespace(**values))
    return rows


def _json_facts(answer: _Answer, notes: Sequence[str]) -> dict[str, Any]:
    """Return a comparison as an object for JSON."""
    result = answer.result
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
        answer.name: [attrs.asdict(row) for row in answer.rows],
    }


def _headline(changes: Changes) -> str:
    """Return the line above a table of changes."""
    headline = _total_in_words(changes)
    if len(changes) < changes.total:
        headline = f"{headline}, {len(changes):,} of them shown"
    headline += smallest_move_in_words(changes.moved)
    if any(change.before and change.after for change in changes):
        headline = f"{headline}; moved: + means better"
    return headline


def _total_in_words(result: Changes | CountedChanges) -> str:
    total = counted(result.total, "change") if result.total else "no changes"
    return f"{one_line(result.account)}, {result.before} to {result.after}: {total}"


def write_report(
    database: str,
    *,
    engines: str | None,
    opens: bool,
    is_json: bool,
    **choices: Any,
) -> None:
    """Make a page, write its path, and show it in a browser if requested."""
    engine_names = find_engine_names(engines)
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
    engine_names = known_engine_names(profile=service.profile)
    wait_for(_serve_on_stdio(connection, database, account, engine_names))


async def _serve_on_stdio(
    connection: Connection,
    database: str,
    account: str | None,
    engine_names: tuple[str, str] | None,
) -> None:
    """Answer an agent's client over stdin and stdout until it ends."""
    stdio = require("mcp.server.stdio")
    async with connection.opened() as client:
        server = mcp_server(client, database, account=account, engine_names=engine_names)
        if can_ask():
            messages().print(
                "This command is meant to be started by an agent's client, which talks to it over "
                "stdin and stdout. Ctrl-C ends it."
            )
        try:
            async with stdio.stdio_server(stdin=_lines_of_stdin()) as (reader, writer):
                await server.run(reader, writer, server.create_initialization_options())
        except* BrokenPipeError:
            pass  # the agent's client has ended


async def _lines_of_stdin() -> AsyncIterator[str]:
    """Yield the lines of stdin.

    A signal can end the wait for a line. The SDK's own reader would keep the process alive until
    the next line.
    """
    if sys.stdin is None:
        return
    # not sys.stdin: Python aborts at exit if an abandoned thread holds its lock
    stdin = io.BufferedReader(io.FileIO(0, closefd=False))
    while line := await in_daemon_thread(stdin.readline):
        yield line.decode("utf-8", "replace")
