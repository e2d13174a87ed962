"""Decoders compiled from the row models, for every variation that the reference converter accepts.

A chunk of a page becomes raw rows: msgspec structs with the model's fields under the wire's names. A generated function
converts their values, and makes each raw row a model by setting its class (`models/gc_untracked.py`). Refused rows go
to the reference converter, which names the path of the bad field; property tests hold the two equal.
"""

from __future__ import annotations

import datetime as dt
import enum
import functools
import re
import typing
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

import attrs
import msgspec

from seorep_async.models import SearchLanguage, SearchLocation, Tag
from seorep_async.models.gc_untracked import raw_row_struct
from seorep_async.normalisation.row_fields import FIELDS, SCOPE, RowField, object_field
from seorep_async.normalisation.row_text import RowText
from seorep_async.normalisation.wire_names import wire_names
from seorep_async.settings import EngineNames

M = TypeVar("M")

REFUSALS = (ValueError, RecursionError)
"""Errors for refused rows; those of msgspec are ValueErrors."""

_CHUNK, _LARGEST_CHUNK = 50, 800  # rows to read at once: after an odd row, and after plain pages
_STEP = 340 * 1024  # bytes of rows to read before others on the loop get their turn
_EXPECTED = 8  # unknown fields in a layout
_CACHED_LAYOUTS = 64

_INDEX = re.compile(r" - at `\$\[([0-9]+)\]")
_objects = msgspec.json.Decoder(list[dict[str, Any]]).decode


class _Values(enum.Enum):
    """The accepted values; the fewer, the faster."""

    CURRENT = enum.auto()
    """Documented values of current rows."""
    OLDER = enum.auto()
    """Any accepted date, and documented values of all else."""
    ACCEPTED = enum.auto()
    """Any accepted value."""

    def are_any(self, hint: Any) -> bool:
        """Return whether attributes of a type take any accepted value."""
        return self is _Values.ACCEPTED or (self is _Values.OLDER and hint in (dt.date, dt.date | None))


class _Layout(msgspec.Struct, frozen=True, eq=False):
    """One layout of rows: `decode` turns their text into raw rows, `convert` these into models, in place.

    It takes the unknown fields of these names, or ignores all if `unknown` is None.
    """

    values: _Values
    unknown: frozenset[str] | None
    decode: Callable[[bytes], list[Any]]
    convert: Callable[[list[Any]], None]


class CompiledRows(Generic[M]):
    """Reads the rows of one gc-untracked model."""

    def __init__(self, model: type[M], engine_names: EngineNames) -> None:
        self._model = model
        self._names = wire_names(model, engine_names)
        self._known = frozenset(self._names.values())
        self._cache: dict[tuple[int, frozenset[str] | None], _Layout] = {}
        self._chunk = _CHUNK

    def read(self, array: bytes) -> list[M]:
        """Read the text of an array of rows, or raise one of `REFUSALS`; the reference converter knows the reason."""
        return self._read_first(array, (self._layouts[0], self._layouts[-1]))[0]

    def read_current(self, array: bytes) -> list[M]:
        """Read the text of an array of current rows, or raise as `read` does."""
        return self._read(array, self._layouts[0])

    def read_in_steps(self, row_text: RowText) -> Generator[None, None, list[M]]:
        """Read the rows of a page as `read` does, in steps of less than a millisecond.

        So that an odd row slows down few others, a chunk ends before it, and chunks are small after it, also in the
        next page. The layout of current rows is tried first, then that of the last odd row.
        """
        rows: list[M] = []
        layouts = self._layouts[:1]
        unknown_seen: frozenset[str] = frozenset()  # unknown fields in the last odd part
        start = stepped = row_text.start
        row = row_text.chunk(start, 1)[0] - start
        most = size = min(row * self._chunk, _STEP // 2)
        small = min(row * _CHUNK, most)
        self._chunk = min(2 * self._chunk, _LARGEST_CHUNK)
        while start < row_text.end:
            end, following = row_text.chunk(start, size)
            if end - stepped > _STEP:
                yield
                stepped = start
            array = row_text.array(start, end)
            try:
                found, layout = self._read_first(array, layouts)
                size = min(2 * size, most)
            except REFUSALS as error:
                most, self._chunk = small, _CHUNK
                if size > 1:
                    size = min(row_text.size_before(_refused_row(error), array) or size // 2, size - 1)
                    continue
                found, layout = self._read_first(array, self._layouts[1:])
                layouts, size = [layouts[0], layout], small
            if layout.unknown is None:
                unknown_seen, before = self._unknown_in(found), unknown_seen
                if unknown_seen == before and len(unknown_seen) <= _EXPECTED:
                    layouts = [layouts[0], self._expecting(layout, unknown_seen)]
            rows += found
            start = following
        return rows

    def _unknown_in(self, rows: Iterable[Any]) -> frozenset[str]:
        return frozenset[str]().union(*(row.extra for row in rows)) - self._known

    def _expecting(self, layout: _Layout, unknown: frozenset[str]) -> _Layout:
        """Return a faster layout for rows with these unknown fields."""
        try:
            return self._layout(layout.values, unknown)
        except ValueError:  # no struct has such names, as with quotes
            return layout

    @cached_property
    def _layouts(self) -> list[_Layout]:
        return [self._layout(taken, unknown) for unknown in (frozenset[str](), None) for taken in _Values]

    def _read_first(self, array: bytes, layouts: Sequence[_Layout]) -> tuple[list[M], _Layout]:
        """Read rows by the first layout that takes them."""
        for layout in layouts[:-1]:
            try:
                return self._read(array, layout), layout
            except REFUSALS:
                continue
        return self._read(array, layouts[-1]), layouts[-1]

    def _read(self, array: bytes, layout: _Layout) -> list[M]:
        rows = layout.decode(array)
        if layout.unknown is None:
            self._store_unknown(rows, _objects(array))
        layout.convert(rows)
        return rows

    def _store_unknown(self, rows: list[Any], objects: list[dict[str, Any]]) -> None:
        for row, wire in zip(rows, objects, strict=True):
            if not self._known.issuperset(wire):
                row.extra = {name: wire[name] for name in wire if name not in self._known}

    def _layout(self, taken: _Values, unknown: frozenset[str] | None) -> _Layout:
        key = taken.value, unknown
        if key not in self._cache:
            if len(self._cache) >= _CACHED_LAYOUTS:
                self._cache.clear()
            self._cache[key] = self._compiled(taken, unknown)
        return self._cache[key]

    @cached_property
    def _fields(self) -> list[tuple[str, Any, RowField]]:
        """The name, type and field of each attribute on the wire."""
        hints = typing.get_type_hints(self._model)
        return [(name, hints[name], FIELDS.get(hints[name]) or _field_of_objects(hints[name])) for name in self._names]

    def _compiled(self, taken: _Values, unknown: frozenset[str] | None) -> _Layout:
        types = {
            name: field.accepted if taken.are_any(hint) else field.documented for name, hint, field in self._fields
        }
        row = raw_row_struct(self._model, types, self._names, unknown=None if unknown is None else sorted(unknown))
        decode = msgspec.json.Decoder(list[row]).decode  # type: ignore[valid-type]  # made as we run
        return _Layout(taken, unknown, decode, self._converter(taken, sorted(unknown or ())))

    def _converter(self, taken: _Values, unknown: list[str]) -> Callable[[list[Any]], None]:
        """Generate the function that turns raw rows into models."""
        scope: dict[str, Any] = {"model": self._model, **SCOPE}
        before: list[str] = []
        within = [
            f"if row.unknown_{n} is not UNSET: extra[{name!r}] = row.unknown_{n}" for n, name in enumerate(unknown)
        ]
        for name, hint, field in self._fields:
            words = {
                "field": f"row.{name}",
                "name": repr(self._names[name]),
                "seen": f"seen_{name}",
                "learn": f"learn_{name}",
                "last": f"last_{name}",
                "value": f"value_{name}",
            }
            if field.memo is not None:
                scope |= {words["seen"]: field.memo.seen, words["learn"]: field.memo.learn}
            before += [line.format(**words) for line in field.first_lines]
            lines = field.accepted_lines if taken.are_any(hint) else field.documented_lines
            within += [line.format(**words) for line in lines]
        if any("extra[" in line for line in within):
            within = ["extra = {}", *within, "if extra: row.extra = {**row.extra, **extra}"]
        if unknown:  # the raw row has more fields than the model
            values = ", ".join(f"row.{field.name}" for field in attrs.fields(typing.cast("Any", self._model)))
            within.append(f"rows[index] = model({values})")
        else:
            within.append("row.__class__ = model")
        code = [
            "def convert(rows):",
            *(f"    {line}" for line in before),
            "    for index, row in enumerate(rows):" if unknown else "    for row in rows:",
            *(f"        {line}" for line in within),
        ]
        name = f"<compiled for {self._model.__name__}>"
        exec(compile("\n".join(code), name, "exec"), scope)  # noqa: S102  # the lines are those of `row_fields`
        return typing.cast("Callable[[list[Any]], None]", scope["convert"])


def _refused_row(error: Exception) -> int | None:
    """Return the index of the row that msgspec refuses, if it names one."""
    found = _INDEX.search(str(error))
    return int(found[1]) if found else None


def _field_of_objects(hint: Any) -> RowField:
    if hint == tuple[Tag, ...]:
        tags = CompiledRows(Tag, EngineNames())
        return object_field(lambda wire: () if wire == b"null" else tuple(tags.read(wire)))
    (model,) = (model for model in (SearchLocation, SearchLanguage) if hint == model | None)
    return object_field(functools.partial(_optional_object, CompiledRows[Any](model, EngineNames())))


def _optional_object(rows: CompiledRows[Any], wire: bytes) -> Any:
    try:
        return rows.read(b"[%b]" % wire)[0]
    except REFUSALS:
        if msgspec.json.decode(wire) in (None, [], {}):  # an empty map may be sent as an empty array
            return None
        raise
