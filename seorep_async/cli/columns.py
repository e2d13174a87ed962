"""`seorep columns`: the meaning of the columns of every table."""

from __future__ import annotations

import textwrap
from typing import Any

import click

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.options import SectionedCommand
from seorep_async.cli.terminal import as_json, named, stdout_width, write_stdout
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import all_tables

_TABLES = {table.name: table for table in all_tables()}


@click.command(cls=SectionedCommand)
@click.argument("table", required=False, type=click.Choice(list(_TABLES)), metavar="[TABLE]")
@click.option("--json", "in_json", is_flag=True, help="Print JSON: an object for each table.")
def columns(table: str | None, in_json: bool) -> ExitCode:
    """Explain the columns of the tables that a pull writes: of one table, or of all.

    A * marks the columns that together identify a row. The names and types are the same in every format.

    \b
    Tables:
      keyword_rankings  campaign_periods  keyword_periods  totals
      campaigns         keywords          failures         pulls
    """
    tables = [_TABLES[table]] if table is not None else list(_TABLES.values())
    if in_json:
        output = as_json([_described(one) for one in tables]) + "\n"
    else:
        output = "\n".join(_in_words(one, stdout_width()) for one in tables)
    write_stdout(output, as_data=in_json)
    return ExitCode.OK


def _in_words(table: Table, width: int) -> str:
    """Return a paragraph for the table, and one for each column."""
    paragraphs = [f"{table.name}: {table.description}", ""]
    for column in table.columns:
        mark = "*" if column.name in table.key else " "
        paragraphs.append(f"{mark} {column.name} ({column.type.value}): {column.description}")
    return "".join(textwrap.fill(one, width, subsequent_indent=" " * 6) + "\n" for one in paragraphs)


def _described(table: Table) -> dict[str, Any]:
    columns = [named(column, "name type nullable description") for column in table.columns]
    return {"table": table.name, **named(table, "description key"), "columns": columns}
