"""Decoders compiled from the row models, for every variation that the reference converter accepts.

A whole page is one typed decode of msgspec's: its rows become raw rows, structs with the model's fields under the
wire's names. A function generated from the table `FIELDS` converts their values, and makes each raw row a model by
setting its class (`models/gc_untracked.py`). The reference converter names the path of a bad field; property tests hold
the two equal.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
import typing
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import astuple

from seorep_async.models import Page, RankingTotals, SearchLanguage, SearchLocation, Tag
from seorep_async.models.gc_untracked import raw_row_struct
from seorep_async.normalisation import values
from seorep_async.normalisation.wire_names import wire_names
from seorep_async.plain_values import field_types
from seorep_async.settings import EngineNames

M = TypeVar("M")
_Hints: TypeAlias = tuple[Any, ...]

REFUSALS = (ValueError, RecursionError)
"""Errors for refused pages and rows; those of msgspec are ValueErrors."""

_NESTED = re.compile(rb'"data"[ \t\n\r]*:[ \t\n\r]*\{')
_BEGINNING = 16 * 1024  # bytes of a page in which to look for its shape
_REFUSED_FIELD = re.compile(
    r"\]\.(\w+)`$"
)  # in msgspec's `… - at `$.data.rows[3].lastResultsDate``
_objects = msgspec.json.Decoder(list[dict[str, Any]]).decode

_LONGEST_KEY = 1024
"""Characters of a key to store; long ones rarely recur, and thousands of them fill the memory."""

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)] | None


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
    return (
        f"{indent}try: {targets} = {{seen}}[{key}]",
        f"{indent}except KeyError: {targets} = {{learn}}({key})",
    )


_INTEGER_LINES = ("if type({field}) is str:", *_look_up("{field}", "{field}", indent="    "))
_EXTRA_LINES = (
    *_look_up("{field}", "{field}, inexact"),
    "if inexact is not None: extra[{name}] = inexact",
)
_PERIOD_LINES = (
    *_look_up("{field}", "{field}, precision"),
    'if precision != "month": {field}_precision = precision',  # the default
)
_OBJECT_LINES = (
    "if {field} != {last}:",  # neighbours often hold the same; this takes a sixth of the time of a look-up
    "    {last} = {field}",
    "    key = empty + {last}",  # a raw value has no hash; adding copies it faster than `bytes` does
    "    try: {value} = {seen}[key]",
    "    except KeyError:",
    "        {value} = {learn}(key)",
    "        if key not in {seen}: {last} = None",
    "{field} = {value}",
)

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
    dt.date | None: RowField(
        dt.date | None, str | None, (), _EXTRA_LINES, convert=values.day, limit=16 * 1024
    ),
    dt.date: RowField(str, str, _PERIOD_LINES, _PERIOD_LINES, convert=values.period),
}
"""How to read attributes of each type, but for other models."""


def _has_no_extra(found: Any) -> bool:
    return not any(one.extra for one in (found if isinstance(found, tuple) else (found,)) if one)


class _Metadata(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An envelope's `metadata` as documented (the service's reference, section 1)."""

    total_pages: _Count = None
    total_records: _Count = None
    version: bool | None = None


class _Metric(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    value: int | float | None


_CURRENT, _OLDER, _ACCEPTED = (), (dt.date, dt.date | None), tuple(FIELDS)
"""The types whose attributes take any accepted value, and not only documented ones of current rows: few are fast."""


class _Memo(msgspec.Struct):
    """The converted values of a field: the same few dates, places and tags recur row after row, page after page."""

    field: RowField
    seen: dict[Any, Any] = {}

    def learn(self, key: Any) -> Any:
        """Convert a new value."""
        field = self.field
        value = field.convert(key)
        if (not isinstance(key, bytes | str) or len(key) <= _LONGEST_KEY) and field.lasting(value):
            if len(self.seen) >= field.limit:
                self.seen.clear()
            self.seen[key] = value
        return value


class _Layout(msgspec.Struct, frozen=True, eq=False):
    """One set of fields and values: decoders of both shapes of a page and of an array, and the conversion to models."""

    nested: Callable[[bytes], Any]
    flat: Callable[[bytes], Any]
    array: Callable[[bytes], list[Any]]
    convert: Callable[[list[Any]], None]


class CompiledRows(Generic[M]):
    """Reads the rows of one gc-untracked model, each set of values compiled when first used."""

    def __init__(self, model: type[M], engine_names: EngineNames) -> None:
        self._model = model
        self._names = wire_names(model, engine_names)
        self._known = frozenset(self._names.values())
        self._engine_names = engine_names
        self._memo = functools.cache(_Memo)
        self._layout = functools.cache(self._compiled)
        self._current = self._layout(_CURRENT)

    def read_page(self, body: bytes, number: int, refusal: Exception | None = None) -> Page[M]:
        """Read a page of current rows, or of what their refusal asks for, or raise one of `REFUSALS`."""
        layout = self._layout(self._taken_after(refusal)) if refusal else self._current
        page, feed = _read(body, layout)
        layout.convert(feed.rows)
        metadata, totals = (
            page.metadata or _Metadata(),
            _totals(feed.totals) if feed.totals else None,
        )
        return Page(
            tuple(feed.rows),
            number,
            metadata.total_pages,
            metadata.total_records,
            totals,
            metadata.version,
        )

    def read_array(self, array: bytes) -> list[M]:
        """Read an array of rows, or raise one of `REFUSALS`; the reference converter knows the reason."""
        try:
            rows = self._current.array(array)
            self._current.convert(rows)
        except REFUSALS:
            return self.read_objects(
                array, _objects(array), lambda array, layout: layout.array(array)
            )[0]
        return rows

    def read_objects(
        self,
        body: bytes,
        objects: Sequence[Any],
        read: Callable[[bytes, _Layout], list[Any]] = lambda *of: _read(*of)[1].rows,
    ) -> tuple[list[M], set[str]]:
        """Read rows with fields that the reference does not name, and return these names, too.

        The `objects` are the parsed rows of the page, or of what else `read` takes them from.
        """
        layout = self._layout(_CURRENT, strict=False)
        try:
            rows = read(body, layout)
        except REFUSALS:
            layout = self._layout(_ACCEPTED, strict=False)
            rows = read(body, layout)
        last: list[str] = []
        unknown: list[str] = []
        every: set[str] = set()
        for row, wire in zip(rows, objects, strict=True):
            if (names := [*wire]) != last:  # most rows have the same fields
                last, unknown = names, [name for name in names if name not in self._known]
                every.update(unknown)
            if unknown:
                row.extra = extra = {}
                for name in unknown:  # in half the time of a comprehension
                    extra[name] = wire[name]
        layout.convert(rows)
        return rows, every

    def _taken_after(self, refusal: Exception) -> _Hints:
        found = _REFUSED_FIELD.search(str(refusal))
        older = found and any(
            hint in _OLDER and self._names[name] == found[1] for name, hint, _ in self._fields
        )
        return _OLDER if older else _ACCEPTED

    @cached_property
    def _fields(self) -> list[tuple[str, Any, RowField]]:
        """The name, type and field of each attribute on the wire."""
        hints = field_types(self._model)
        return [
            (name, hints[name], FIELDS.get(hints[name]) or _field_of_objects(hints[name]))
            for name in self._names
        ]

    @cached_property
    def _totals_type(self) -> Any:
        names = wire_names(RankingTotals, self._engine_names)
        fields = [(name, _Metric | None, None) for name in names]
        struct = msgspec.defstruct(
            "Totals", fields, rename=names, forbid_unknown_fields=True, gc=False
        )
        return struct | bool | None

    def _compiled(self, taken: _Hints, *, strict: bool = True) -> _Layout:
        types = {
            name: field.accepted if hint in taken else field.documented
            for name, hint, field in self._fields
        }
        row = raw_row_struct(self._model, types, self._names, strict=strict)
        rows: Any = list[row]  # type: ignore[valid-type]  # made as we run
        make = functools.partial(msgspec.defstruct, forbid_unknown_fields=strict, gc=False)
        beside: list[Any] = [("metadata", _Metadata | None, None)] if strict else []
        totals: list[Any] = [("totals", self._totals_type, None)] if strict else []
        nested = make("Nested", [("data", make("Data", [("rows", rows), *totals])), *beside])
        flat = make("Flat", [("rows", rows), *totals, *beside], rename={"rows": "data"})
        return _Layout(
            nested=msgspec.json.Decoder(nested).decode,
            flat=msgspec.json.Decoder(flat).decode,
            array=msgspec.json.Decoder(rows).decode,
            convert=self._converter(taken),
        )

    def _converter(self, taken: _Hints) -> Callable[[list[Any]], None]:
        """Generate the function that turns raw rows into models."""
        scope: dict[str, Any] = {"model": self._model, "empty": b""}
        scope["documented_booleans"] = {"true": True, "false": False, None: None}
        before: list[str] = []
        within: list[str] = []
        for name, hint, field in self._fields:
            words = {word: f"{word}_{name}" for word in ("seen", "learn", "last", "value")}
            words |= {"field": f"row.{name}", "name": repr(self._names[name])}
            scope |= {
                words["seen"]: self._memo(field).seen,
                words["learn"]: self._memo(field).learn,
            }
            before += [line.format(**words) for line in field.first_lines]
            lines = field.accepted_lines if hint in taken else field.documented_lines
            within += [line.format(**words) for line in lines]
        if any("extra[" in line for line in within):
            within = ["extra = {}", *within, "if extra: row.extra = {**row.extra, **extra}"]
        code = [
            "def convert(rows):",
            *(f"    {line}" for line in before),
            "    for row in rows:",
            *(f"        {line}" for line in (*within, "row.__class__ = model")),
        ]
        exec(compile("\n".join(code), f"<compiled for {self._model.__name__}>", "exec"), scope)  # noqa: S102  # the lines are those of `FIELDS`
        return typing.cast("Callable[[list[Any]], None]", scope["convert"])


def _read(body: bytes, layout: _Layout) -> tuple[Any, Any]:
    """Read a page of either shape; return what holds the metadata, and what holds rows and totals."""
    if _NESTED.search(body, 0, _BEGINNING):
        return (page := layout.nested(body)), page.data
    return (page := layout.flat(body)), page


def _totals(found: Any) -> RankingTotals:
    """Return the totals of a page; `true`, and totals without any metric, are for the reference converter."""
    metrics = () if found is True else astuple(found)
    if not any(metrics):
        raise ValueError("no metric")
    return RankingTotals(*(metric and metric.value for metric in metrics))


def _field_of_objects(hint: Any) -> RowField:
    """Return how to read other models: as bytes, so that known objects need no decoding."""
    model = next(
        (one for one in typing.get_args(hint) if one in (Tag, SearchLocation, SearchLanguage)), None
    )
    if model is None:
        raise TypeError(f"`FIELDS` does not say how to read {hint}")
    rows = CompiledRows[Any](model, EngineNames())

    def convert(wire: bytes) -> Any:
        if model is Tag:
            return () if wire == b"null" else tuple(rows.read_array(wire))
        try:
            return rows.read_array(b"[%b]" % wire)[0]
        except REFUSALS:
            if values.is_no_object(msgspec.json.decode(wire)):
                return None
            raise

    first, lasting = ("{last} = None",), _has_no_extra
    return RowField(
        msgspec.Raw, msgspec.Raw, _OBJECT_LINES, _OBJECT_LINES, first, convert, lasting=lasting
    )
