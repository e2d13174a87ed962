"""The table from which `compiled_rows` generates its code: how to read attributes of each type from the wire."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from seorep_async.normalisation import values


class RowField(msgspec.Struct, frozen=True, eq=False):
    """How to read attributes of one type from the wire: documented values of current rows, or all accepted values.

    In the lines of code, `{field}` is the raw row's field, and `{name}` its name on the wire; `{seen}` holds up to
    `limit` values that `{learn}` has converted, `{last}` and `{value}` are variables of the field. Lines for accepted
    values put into `extra` the values that the model can't hold; `first_lines` stand before the loop over the rows.
    Values that are not `lasting`, as their user can change them, are not held.
    """

    documented: Any
    accepted: Any
    documented_lines: tuple[str, ...] = ()
    accepted_lines: tuple[str, ...] = ()
    first_lines: tuple[str, ...] = ()
    convert: Callable[[Any], Any] = lambda value: value
    limit: int = 4096
    lasting: Callable[[Any], bool] = lambda _: True


def _look_up(key: str, targets: str, indent: str = "") -> tuple[str, ...]:
    """Return the lines of a look-up in a plain dict, which takes two thirds of the time of a subclass."""
    return (f"{indent}try: {targets} = {{seen}}[{key}]", f"{indent}except KeyError: {targets} = {{learn}}({key})")


_INTEGER_LINES = ("if type({field}) is str:", *_look_up("{field}", "{field}", indent="    "))
_EXTRA_LINES = (*_look_up("{field}", "{field}, inexact"), "if inexact is not None: extra[{name}] = inexact")
_PERIOD_LINES = (
    *_look_up("{field}", "{field}, precision"),
    'if precision != "month": {field}_precision = precision',  # the default
)

SCOPE: dict[str, Any] = {"documented_booleans": {"true": True, "false": False, None: None}, "empty": b""}
"""Names in the lines that belong to no field."""

FIELDS: dict[Any, RowField] = {
    int: RowField(int, int | str, (), _INTEGER_LINES, convert=values.integer),
    int | None: RowField(int | None, int | str | None, (), _INTEGER_LINES, convert=values.integer),
    str: RowField(str, str),
    str | None: RowField(str | None, str | None),
    bool | None: RowField(
        documented=Literal["true", "false"] | None,
        accepted=str | bool | None,
        documented_lines=("{field} = documented_booleans[{field}]",),
        accepted_lines=_EXTRA_LINES,
        convert=values.flag,
    ),
    dt.date | None: RowField(dt.date | None, str | None, (), _EXTRA_LINES, convert=values.day, limit=16 * 1024),
    dt.date: RowField(str, str, _PERIOD_LINES, _PERIOD_LINES, convert=values.period),
}
"""How to read attributes of each type, but for other models."""


def object_field(convert: Callable[[bytes], Any]) -> RowField:
    """Return how to read other models: as bytes, so that known objects need no decoding.

    Neighbours often hold the same object; a comparison takes a sixth of the time of a look-up. Objects with unknown
    fields, which their user can change, are made for each row.
    """
    lines = (
        "if {field} != {last}:",
        "    {last} = {field}",
        "    key = empty + {last}",  # a raw value has no hash; adding copies it faster than `bytes` does
        "    try: {value} = {seen}[key]",
        "    except KeyError:",
        "        {value} = {learn}(key)",
        "        if key not in {seen}: {last} = None",
        "{field} = {value}",
    )
    return RowField(msgspec.Raw, msgspec.Raw, lines, lines, ("{last} = None",), convert, lasting=_has_no_extra)


def _has_no_extra(found: Any) -> bool:
    return not any(one.extra for one in (found if isinstance(found, tuple) else (found,)) if one)
