"""Rows as a small HTML table, for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from seorep_async.tables.columns import Values

_LONGEST_CELL = 80


def html_table(caption: str, names: Sequence[str], rows: Sequence[Values]) -> str:
    """Return rows as an HTML table without the columns that are empty in all of them."""
    shown = [place for place, _ in enumerate(names) if any(row[place] not in (None, (), {}) for row in rows)]
    head = _cells("th", (names[place] for place in shown))
    body = "".join(f"<tr>{_cells('td', (_shortened(row[place]) for place in shown))}</tr>" for row in rows)
    return (
        f"<table><caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cells(element: str, strings: Iterable[str]) -> str:
    return "".join(f"<{element}>{html.escape(string)}</{element}>" for string in strings)


def _shortened(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ", ".join(tag.label for tag in value)
    string = str(value)
    return string if len(string) <= _LONGEST_CELL else f"{string[:_LONGEST_CELL]}…"
