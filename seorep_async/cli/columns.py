"""`seorep columns`: the meaning of the columns of every table."""

from __future__ import annotations

import textwrap
from typing import Literal

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.options import Output
from seorep_async.cli.output import as_json, formatted, stdout_width, write
from seorep_async.tables.declared import all_tables

_TABLES = {table.name: table for table in all_tables()}
_FIELDS = ("name", "type", "nullable", "description")


def columns(table: Literal[*_TABLES] | None = None, /, *, output: Output = Output()) -> int:  # type: ignore[valid-type]
    """Explain the columns of the tables that a pull writes: of one table, or of all.

    A * marks the columns that together identify a row. Names and types are the same in every format.
    """
    chosen = [_TABLES[table]] if table else [*_TABLES.values()]
    if output.kind == "json":
        facts = [
            {
                "table": one.name,
                "description": one.description,
                "key": one.key,
                "columns": [{name: getattr(column, name) for name in _FIELDS} for column in one.columns],
            }
            for one in chosen
        ]
        write(as_json(facts))
    elif output.kind != "table":
        write(formatted([column for one in chosen for column in one.columns], _FIELDS, output.kind))
    else:
        width = stdout_width()
        for one in chosen:
            lines = [f"{one.name}: {one.description}", ""]
            for column in one.columns:
                mark = "*" if column.name in one.key else " "
                lines.append(f"{mark} {column.name} ({column.type.value}): {column.description}")
            wrapped = (textwrap.fill(line, width, subsequent_indent=" " * 6, break_on_hyphens=False) for line in lines)
            write("\n".join(wrapped) + "\n\n" * (one is not chosen[-1]) + "\n" * (one is chosen[-1]))
    return ExitCode.OK
