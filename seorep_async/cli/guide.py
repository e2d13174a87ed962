"""`seorep guide` and `seorep columns`: the pages of the guide, and the meaning of every column."""

from __future__ import annotations

import textwrap

import attrs
from rich.console import Console
from rich.markdown import Markdown

from seorep_async import guides
from seorep_async.cli.errors import UsageError
from seorep_async.cli.output import as_json, on_terminal, stdout_width, write
from seorep_async.errors import suggestion
from seorep_async.tables.columns import Table
from seorep_async.tables.output_tables import all_tables

_WIDEST_PAGE = 120


def show_guide(name: str | None) -> None:
    """Show a page, or the list of pages."""
    pages = guides.pages()
    if name is None:
        lines = ["seorep guide NAME shows one of:"]
        for page_name, text in pages.items():
            title = text.partition("\n")[0].lstrip("# ")
            lines.append(f"  {page_name:<20}{title}")
        write("\n".join([*lines, ""]))
        return
    if name not in pages:
        names = ", ".join(pages)
        raise UsageError(
            f"there is no page {name!r}; choose from {names}.{suggestion(name, pages)}"
        )
    if on_terminal():
        Console(width=min(stdout_width(), _WIDEST_PAGE)).print(Markdown(pages[name]))
    else:
        write(pages[name])


def show_columns(name: str | None, *, is_json: bool) -> None:
    """Explain the columns of a table, or of every table."""
    tables = [table for table in all_tables() if name in (None, table.name)]
    if is_json:
        write(as_json([_facts_of_table(table) for table in tables]))
    else:
        write("".join(map(_table_in_words, tables)))


def _facts_of_table(table: Table) -> dict[str, object]:
    return {
        "table": table.name,
        "description": table.description,
        "key": table.key,
        "columns": [attrs.asdict(column) for column in table.columns],
    }


def _table_in_words(table: Table) -> str:
    """Return a table and its columns as lines, with a * before each column of the key."""
    lines = [f"{table.name}: {table.description}", ""]
    for column in table.columns:
        mark = "*" if column.name in table.key else " "
        lines.append(f"{mark} {column.name} ({column.type.value}): {column.description}")
    wrapped = [textwrap.fill(line, stdout_width(), subsequent_indent=" " * 6) for line in lines]
    return "\n".join([*wrapped, "", ""])
