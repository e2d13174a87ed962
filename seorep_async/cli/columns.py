"""`seorep columns`: the meaning of the columns of every table."""

from __future__ import annotations

import json
import shutil
import textwrap
from typing import Any

import click

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.options import SectionedCommand
from seorep_async.cli.terminal import stdout_is_terminal, write_stdout
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import all_tables

_NO_WRAPPING = 1_000_000
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
        width = shutil.get_terminal_size().columns if stdout_is_terminal() else _NO_WRAPPING
        output = "\n".join(_in_words(one, width) for one in tables)
    write_stdout(output, as_data=as_json)
    return ExitCode.OK


def _in_words(table: Table, width: int) -> str:
    """Return a paragraph for the table, and one for each column."""
    paragraphs = [f"{table.name}: {table.description}", ""]
    for column in table.columns:
        mark = "*" if column.name in table.key else " "
        paragraphs.append(f"{mark} {column.name} ({column.type.value}): {column.description}")
    return "".join(textwrap.fill(one, width, subsequent_indent=" " * 6) + "\n" for one in paragraphs)


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
