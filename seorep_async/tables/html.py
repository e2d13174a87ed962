"""Rows as a small HTML table for notebooks, in their colours and fonts."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from seorep_async.tables.columns import Column, ColumnType, Values

SHOWN_ROWS = 10
_LONGEST_CELL = 40
_FIRST = re.compile(r"keyword_phrase|date|\w+_ranking(_change)?")
_EMPTY: tuple[object, ...] = (None, (), {})
_NUMBERS = (ColumnType.INTEGER, ColumnType.NUMBER)
# the caption stays visible while the table scrolls sideways; names break at underscores, as columns are narrow
_TABLE = (
    '<div>{caption}</div><div style="overflow-x:auto"><table style="margin-left:0">'
    "<thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot}</table></div>"
)
_HEAD = '<th style="white-space:normal;vertical-align:bottom;text-align:{side}">{name}</th>'
_BREAK = re.compile(r"_(?=[a-z]{2})")


def html_table(
    caption: str,
    columns: Sequence[Column],
    rows: Iterable[Values],
    total: int,
    totals: Mapping[str, Any] | None = None,
) -> str:
    """Return the first rows as an HTML table: phrase or date, ranks and changes first, without empty columns.

    The caption gets the number of rows, `total`; `totals`, by the names of columns, become the last line.
    """
    shown = list(islice(rows, SHOWN_ROWS))
    footer = {name: value for name, value in (totals or {}).items() if value not in _EMPTY}
    caption += f": {total:,} {'row' if total == 1 else 'rows'}"
    caption += f", the first {len(shown)} shown" * (len(shown) < total) + (
        ", and totals" if footer else ""
    )
    every = ((column, [row[place] for row in shown]) for place, column in enumerate(columns))
    kept = [
        one
        for one in every
        if one[0].name in footer or any(value not in _EMPTY for value in one[1])
    ]
    kept.sort(key=lambda one: _FIRST.fullmatch(one[0].name) is None)
    sides = ["right" if column.type in _NUMBERS else "left" for column, _ in kept]
    names = [_BREAK.sub("_<wbr>", html.escape(column.name)) for column, _ in kept]
    head = "".join(
        _HEAD.format(side=side, name=name) for name, side in zip(names, sides, strict=True)
    )
    cells = zip(*(values for _, values in kept), strict=True)
    body = "".join(f"<tr>{_cells('td', row, sides)}</tr>" for row in cells)
    last = [
        footer.get(column.name, "totals" if number == 0 else None)
        for number, (column, _) in enumerate(kept)
    ]
    foot = f"<tfoot><tr>{_cells('th', last, sides)}</tr></tfoot>" if footer else ""
    return _TABLE.format(caption=html.escape(caption), head=head, body=body, foot=foot)


def _cells(element: str, values: Sequence[object], sides: Sequence[str]) -> str:
    return "".join(map(partial(_cell, element), values, sides))


def _cell(element: str, value: object, side: str) -> str:
    if isinstance(value, tuple):
        value = ", ".join(str(getattr(one, "label", one)) for one in value)  # tags, or strings
    string = "" if value is None else str(value)
    title = ""
    if len(string) > _LONGEST_CELL:
        title, string = f' title="{html.escape(string)}"', f"{string[: _LONGEST_CELL - 1]}…"
    return f'<{element} style="text-align:{side};white-space:nowrap"{title}>{html.escape(string)}</{element}>'
