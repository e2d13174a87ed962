"""`seorep guide` and `seorep columns`: the pages of the guide, and the meaning of the columns of every table."""

from __future__ import annotations

import textwrap
from types import SimpleNamespace
from typing import Literal

import attrs
from rich.console import Console
from rich.markdown import Markdown

from seorep_async import guides
from seorep_async.cli.errors import UsageError, near
from seorep_async.cli.options import Output
from seorep_async.cli.output import as_json, formatted, on_terminal, stdout_width, write
from seorep_async.tables.output_tables import all_tables

_TABLES = {table.name: table for table in all_tables()}


def guide(name: str | None = None, /) -> None:
    """Show a page of the guide, or the list of its pages."""
    pages = guides.pages()
    if name is None:
        write("seorep guide NAME shows one of:\n")
        write(
            "".join(
                f"  {one:<20}{text.partition(chr(10))[0].lstrip('# ')}\n"
                for one, text in pages.items()
            )
        )
    elif name not in pages:
        raise UsageError(
            f"there is no page {name!r}; there are: {', '.join(pages)}.{near(name, pages)}"
        )
    elif on_terminal():
        Console(width=min(stdout_width(), 120)).print(Markdown(pages[name]))
    else:
        write(pages[name])


def columns(table: Literal[*_TABLES] | None = None, /, *, output: Output = Output()) -> None:  # type: ignore[valid-type]
    """Explain the columns of the tables that a pull writes: of one table, or of all.

    A * marks the columns that together identify a row. Names and types are the same in every format.
    """
    chosen = [one for one in _TABLES.values() if table in (None, one.name)]
    if output.kind == "json":
        write(as_json([{"table": one.name, **attrs.asdict(one)} for one in chosen]))
    elif output.kind != "table":
        rows = [
            SimpleNamespace(table=one.name, **attrs.asdict(column))
            for one in chosen
            for column in one.columns
        ]
        write(formatted(rows, ("table", "name", "type", "nullable", "description"), output.kind))
    else:
        for one in chosen:
            lines = [f"{one.name}: {one.description}", ""]
            for column in one.columns:
                mark = "*" if column.name in one.key else " "
                lines.append(f"{mark} {column.name} ({column.type.value}): {column.description}")
            wrapped = (
                textwrap.fill(line, stdout_width(), subsequent_indent=" " * 6) for line in lines
            )
            write("\n".join([*wrapped, "", ""]))
