"""Tables as CSV: RFC 4180, UTF-8, the same bytes for the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from json.encoder import encode_basestring
from typing import Any

from seorep_async.models import Tag
from seorep_async.tables.columns import ColumnType, Table, Values
from seorep_async.tables.json_strings import as_json, plain_tags


def header(table: Table) -> bytes:
    """Return the line of the columns' names."""
    return (",".join(column.name for column in table.columns) + "\r\n").encode()


def rows_as_csv(table: Table, rows: Iterable[Values]) -> bytes:
    """Return rows as lines; see `columns_as_csv`."""
    return columns_as_csv(table, list(zip(*rows, strict=True)))


def columns_as_csv(table: Table, columns: Sequence[Sequence[Any]]) -> bytes:
    """Return columns of values as lines.

    Numbers, texts and dates (ISO) stand as they are, booleans as `true` and `false`, tags and unknown fields as JSON;
    None and no unknown fields are empty cells.

    Raises:
        ValueError: a text is not valid Unicode.
    """
    if not columns or not columns[0]:
        return b""
    texts = [_TEXTS[column.type](values) for column, values in zip(table.columns, columns, strict=True)]
    # joined by columns and not by `csv.writer`, which takes twice as long
    lines = "\r\n".join(map(",".join, zip(*texts, strict=True)))
    return f"{lines}\r\n".encode()


def _numbers(values: Sequence[Any]) -> list[str]:
    return ["" if value is None else str(value) for value in values]


def _dates(values: Sequence[Any]) -> list[str]:
    texts = {value: "" if value is None else str(value) for value in set(values)}  # they are few, and come often
    return [texts[value] for value in values]


def _booleans(values: Sequence[Any]) -> list[str]:
    return ["" if value is None else "true" if value else "false" for value in values]


def _quoted(values: Sequence[str | None]) -> list[str]:
    texts = [value or "" for value in values]
    if not _needs_quotes("".join(texts)):
        return texts
    return ['"' + text.replace('"', '""') + '"' if _needs_quotes(text) else text for text in texts]


def _needs_quotes(text: str) -> bool:
    return "," in text or '"' in text or "\n" in text or "\r" in text


def _tag_list(tags: tuple[Tag, ...]) -> str:
    if any(tag.extra for tag in tags):
        return as_json(plain_tags(tags))
    # the same text, six times as fast: there are tags in every row
    return "[" + ", ".join([f'{{"id": {tag.id}, "label": {encode_basestring(tag.label)}}}' for tag in tags]) + "]"


def _tags(values: Sequence[Any]) -> list[str]:
    return _quoted([_tag_list(tags) for tags in values])


def _fields(values: Sequence[Any]) -> list[str]:
    return _quoted([as_json(fields) if fields else "" for fields in values])


_TEXTS: dict[ColumnType, Callable[[Sequence[Any]], list[str]]] = {
    ColumnType.INTEGER: _numbers,
    ColumnType.NUMBER: _numbers,
    ColumnType.STRING: _quoted,
    ColumnType.BOOLEAN: _booleans,
    ColumnType.DATE: _dates,
    ColumnType.TAGS: _tags,
    ColumnType.FIELDS: _fields,
}
