"""A small HTML table of rows for notebooks. It uses the notebook's colours and fonts."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import attrs

from seorep_async.errors import counted
from seorep_async.tables.columns import Column, ColumnType, Values

SHOWN_ROWS = 10
_LONGEST_CELL = 40
_IMPORTANT = re.compile(r"keyword_phrase|date|before|after|\w+_ranking(_change)?")
_EMPTY: tuple[object, ...] = (None, (), {})
_NUMBERS = (ColumnType.INTEGER, ColumnType.NUMBER)
# The caption stays visible while the table scrolls sideways.
_TABLE = (
    '<div>{caption}</div><div style="overflow-x:auto"><table style="margin-left:0">'
    "<thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot}</table></div>"
)
_HEAD = '<th style="white-space:normal;vertical-align:bottom;text-align:{side}">{name}</th>'
_CELL = '<{element} style="text-align:{side};white-space:nowrap"{title}>{text}</{element}>'
# Columns are narrow, so names break at underscores.
_BREAK = re.compile(r"_(?=[a-z]{2})")


@attrs.frozen
class _HtmlColumn:
    """A column of the table, with its total. `side` aligns its text: `left` or `right`."""

    name: str
    side: str
    values: Sequence[object]
    total: object

    @property
    def is_empty(self) -> bool:
        return self.total is None and all(value in _EMPTY for value in self.values)

    @property
    def order(self) -> int:
        """The place among other columns. Important columns come first, constant ones last."""
        if is_important(self.name):
            return 0
        # a single row doesn't show whether a column is constant
        if len(self.values) > 1 and self.values.count(self.values[0]) == len(self.values):
            return 2
        return 1


def is_important(column_name: str) -> bool:
    """Return whether people look first at a column, such as a phrase, a rank or a change."""
    return _IMPORTANT.fullmatch(column_name) is not None


def html_table(
    caption: str,
    columns: Sequence[Column],
    rows: Iterable[Values],
    row_count: int,
    totals: Mapping[str, Any] | None = None,
    *,
    first: Sequence[str] = (),
) -> str:
    """Return the first rows as an HTML table without empty columns.

    The phrase or the date comes first, with the ranks and changes. Columns with the same value in
    all shown rows come last.

    Args:
        caption: the heading. The number of rows is added to it.
        columns: the columns of the rows.
        rows: all rows, or at least the first ones.
        row_count: the number of all rows.
        totals: the report's totals by the names of their columns, for the totals row.
        first: the names of columns that come before all others.
    """
    first_rows = list(islice(rows, SHOWN_ROWS))
    totals_row = {name: value for name, value in (totals or {}).items() if value not in _EMPTY}
    html_columns = _columns_with_values(columns, first_rows, totals_row)
    # -1 puts the columns in `first` before all others
    html_columns.sort(key=lambda column: -1 if column.name in first else column.order)
    full_caption = _with_numbers(caption, len(first_rows), row_count, has_totals=bool(totals_row))
    values_of_rows = zip(*(column.values for column in html_columns), strict=True)
    return _TABLE.format(
        caption=html.escape(full_caption),
        head="".join(map(_head_cell, html_columns)),
        body="".join(_row("td", html_columns, values) for values in values_of_rows),
        foot=_foot(html_columns) if totals_row else "",
    )


def _columns_with_values(
    columns: Sequence[Column], rows: Sequence[Values], totals: Mapping[str, Any]
) -> list[_HtmlColumn]:
    """Return the columns that have a value in a row or a total."""
    html_columns = []
    for index, column in enumerate(columns):
        side = "right" if column.type in _NUMBERS else "left"
        values = [row[index] for row in rows]
        html_column = _HtmlColumn(column.name, side, values, totals.get(column.name))
        if not html_column.is_empty:
            html_columns.append(html_column)
    return html_columns


def _foot(columns: Sequence[_HtmlColumn]) -> str:
    """Return the totals row."""
    cells = [column.total for column in columns]
    # "totals" labels the row, unless the first column has a total
    if cells and cells[0] is None:
        cells[0] = "totals"
    return f"<tfoot>{_row('th', columns, cells)}</tfoot>"


def _head_cell(column: _HtmlColumn) -> str:
    name = _BREAK.sub("_<wbr>", html.escape(column.name))
    return _HEAD.format(side=column.side, name=name)


def _with_numbers(caption: str, shown_count: int, row_count: int, *, has_totals: bool) -> str:
    """Add to a caption how many rows there are, and how many of them are shown."""
    words = f"{caption}: {counted(row_count, 'row')}"
    if shown_count < row_count:
        words += f", the first {shown_count} shown"
    if has_totals:
        words += ", and totals"
    return words


def _row(element: str, columns: Sequence[_HtmlColumn], values: Sequence[object]) -> str:
    cells = []
    for column, value in zip(columns, values, strict=True):
        cells.append(_cell(element, value, column.side))
    return f"<tr>{''.join(cells)}</tr>"


def _cell(element: str, value: object, side: str) -> str:
    """Return a cell as HTML. A long text is cut, and its title has all of it."""
    if value is None:
        text = ""
    elif isinstance(value, tuple):
        # tags appear as their labels, strings unchanged
        text = ", ".join(str(getattr(item, "label", item)) for item in value)
    else:
        text = str(value)
    title = ""
    if len(text) > _LONGEST_CELL:
        title = f' title="{html.escape(text)}"'
        text = f"{text[: _LONGEST_CELL - 1]}…"
    return _CELL.format(element=element, side=side, title=title, text=html.escape(text))
