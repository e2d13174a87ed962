"""`seorep columns`: the meaning of the columns of every table."""

from __future__ import annotations

import json
import shutil
import textwrap
from typing import Any

import attrs
import click

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.options import SectionedCommand
from seorep_async.cli.resource_output import table_of_many
from seorep_async.cli.terminal import stdout_is_terminal, write_stdout
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import all_tables

_TABLES = {table.name: table for table in all_tables()}


@click.command(cls=SectionedCommand)
@click.argument("table", required=False, type=click.Choice(list(_TABLES)), metavar="[TABLE]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an object for each table.")
def columns(table: str | None, as_json: bool) -> ExitCode:
    """Explain the columns of the tables that a pull writes: of one table, or of all.

    A * marks the columns that together identify a row. The names and types are the same in every format.

    \b
    Tables:
      keyword_rankings  campaign_periods  keyword_periods  totals
      campaigns         keywords          failures         pulls
    """
    tables = [_TABLES[table]] if table is not None else list(_TABLES.values())
    if as_json:
        output = json.dumps([_described(one) for one in tables], ensure_ascii=False, indent=2) + "\n"
    else:
        shown = _as_paragraphs if stdout_is_terminal() else _as_table
        output = "\n".join(map(shown, tables))
    write_stdout(output, as_data=as_json)
    return ExitCode.OK


@attrs.frozen
class _Row:
    key: str
    column: str
    type: str
    meaning: str


def _as_table(table: Table) -> str:
    rows = [
        _Row("*" if column.name in table.key else "", column.name, column.type.value, column.description)
        for column in table.columns
    ]
    return f"{table.name}: {table.description}\n\n" + table_of_many(rows, ["key", "column", "type", "meaning"])


def _as_paragraphs(table: Table) -> str:
    """Return the columns as paragraphs: a table would leave a third of 80 columns to the meanings."""
    width = shutil.get_terminal_size().columns
    lines = [textwrap.fill(f"{table.name}: {table.description}", width), ""]
    for column in table.columns:
        lines.append(f"{'*' if column.name in table.key else ' '} {column.name} ({column.type.value})")
        indent = " " * 6
        lines.append(textwrap.fill(column.description, width, initial_indent=indent, subsequent_indent=indent))
    return "".join(f"{line}\n" for line in lines)


def _described(table: Table) -> dict[str, Any]:
    return {
        "table": table.name,
        "description": table.description,
        "key": list(table.key),
        "columns": [
            {
                "name": column.name,
                "type": column.type.value,
                "nullable": column.nullable,
                "description": column.description,
            }
            for column in table.columns
        ],
    }
