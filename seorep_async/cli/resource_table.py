"""Tables for people: many objects as lines under a header, one object as lines of field and value."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from seorep_async.cli.resource_values import EXTRA, as_json, text_of, values_of
from seorep_async.cli.screen import printable

_GAP = "  "
_NOTHING = "-"
_NARROWEST = 3


def many_as_table(items: Sequence[Any], columns: Sequence[str], width: int | None) -> Iterator[str]:
    """Give a header and a line for each object.

    Args:
        items: the objects.
        columns: which fields.
        width: cells that a line may take; what is too long is cut, the widest columns first. None for no end.
    """
    rows = [[_cell(getattr(item, name)) for name in columns] for item in items]
    widths = [max(map(cell_len, (name, *(row[place] for row in rows)))) for place, name in enumerate(columns)]
    if width is not None:
        _narrow(widths, width - len(_GAP) * (len(columns) - 1))
    numeric = [{type(getattr(item, name)) for item in items} - {type(None)} == {int} for name in columns]
    for cells in (columns, *rows):
        yield _GAP.join(map(_fitted, cells, widths, numeric)).rstrip()


def one_as_table(one: Any, columns: Sequence[str], *, whole: bool) -> Iterator[Text]:
    """Give a line for each field of an object: its name and its value, however long.

    Args:
        one: the object.
        columns: which fields.
        whole: also those that have no value.
    """
    values: dict[str, Any] = {name: getattr(one, name) for name in columns if name != EXTRA}
    if EXTRA in columns:
        values |= values_of(one, [EXTRA])
    shown = {printable(name): _cell(value) for name, value in values.items() if whole or value is not None}
    width = max(map(cell_len, shown), default=0)
    for name, cell in shown.items():
        yield Text.assemble((set_cell_size(name, width), "dim"), _GAP, cell)


def _cell(value: object) -> str:
    if value is None:
        return _NOTHING
    if isinstance(value, dt.datetime):
        return value.isoformat(" ")
    return printable(text_of(value) if isinstance(value, str | dt.date) else as_json(value) if value != {} else "")


def _narrow(widths: list[int], most: int) -> None:
    """Take cells from the widest columns until the sum is not over `most`, so that ids stay whole."""
    widths[:] = [min(width, max(most, _NARROWEST)) for width in widths]
    while sum(widths) > most and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1


def _fitted(cell: str, width: int, right: bool) -> str:
    space = width - cell_len(cell)
    if space < 0:
        return set_cell_size(cell, width - 1) + "…"
    return " " * space + cell if right else cell + " " * space
