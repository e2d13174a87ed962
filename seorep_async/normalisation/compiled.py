"""Decoders compiled from the row models, for the hot path: they take the known shapes only, and refuse the rest.

A page is decoded into drafts: msgspec structs derived from the models, with the same fields under the wire's names. A
generated function then brings their values into the models' form, and makes each draft a model by setting its class
(`models/compact.py`). What is refused here goes to the reference converter, which tells what is wrong with it; property
tests hold the two equal.
"""

from __future__ import annotations

import datetime as dt
import types
import typing
from collections.abc import Callable, Generator
from functools import cached_property, lru_cache
from typing import Annotated, Any, Generic, TypeVar

import attrs
import msgspec

from seorep_async.models import Tag
from seorep_async.models.extra import NO_EXTRA
from seorep_async.normalisation import values
from seorep_async.normalisation.names import wire_names
from seorep_async.settings import EngineNames

M = TypeVar("M")

_STEP = 512 * 1024  # bytes of rows

_EmptyArray = Annotated[tuple[int, ...], msgspec.Meta(max_length=0)]


class _Memo(dict[Any, Any]):
    """Values that were converted before: the same few dates, places and tags come in row after row, page after page.

    Args:
        convert: converts a value that was not seen.
    """

    LIMIT = 4096
    LARGEST = 1024
    """Characters of a key that is kept; long ones are rarely met again, and thousands of them fill the memory."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self._convert = convert

    def __missing__(self, key: Any) -> Any:
        value = self._convert(key)
        if _size(key) <= self.LARGEST:
            if len(self) >= self.LIMIT:
                self.clear()
            self[key] = value
        return value


def _size(key: Any) -> int:
    if isinstance(key, msgspec.Struct):
        key = msgspec.structs.astuple(key)
    if isinstance(key, tuple):
        return sum(map(_size, key))
    return len(key) if isinstance(key, bytes | str) else 0


@attrs.define
class ExactPage(Generic[M]):
    """A page that held nothing unknown."""

    rows: tuple[M, ...]
    metadata: Any
    totals: Any
    totals_path: str


@attrs.frozen
class _Compiled:
    struct: type[msgspec.Struct]
    decode: Callable[[bytes | memoryview], Any]
    decode_row: Callable[[msgspec.Raw], Any]
    settle: Callable[[list[Any]], None]


class CompiledRows(Generic[M]):
    """Decodes the rows of one feed.

    Args:
        model: the row's model.
        engine_names: the account's names for the engines.
    """

    def __init__(self, model: type[M], engine_names: EngineNames) -> None:
        self._model = model
        self._names = wire_names(model, engine_names)
        self._known = frozenset(self._names.values())
        self._dates_are_text = False

    @cached_property
    def _dates(self) -> _Compiled:
        return self._compile(dates_as_text=False, exact=True)

    @cached_property
    def _dates_as_text(self) -> _Compiled:
        return self._compile(dates_as_text=True, exact=True)

    @cached_property
    def _tolerant(self) -> _Compiled:
        return self._compile(dates_as_text=True, exact=False)

    @cached_property
    def _scan(self) -> Callable[[bytes | memoryview], Any]:
        return msgspec.json.Decoder(_envelope_struct(msgspec.Raw)).decode

    def _compile(self, *, dates_as_text: bool, exact: bool) -> _Compiled:
        struct = _row_struct(self._model, self._names, dates_as_text=dates_as_text, exact=exact)
        return _Compiled(
            struct=struct,
            decode=msgspec.json.Decoder(_envelope_struct(struct)).decode,
            decode_row=msgspec.json.Decoder(struct).decode,
            settle=_settler(self._model, dates_as_text=dates_as_text, exact=exact),
        )

    def page(self, body: bytes | memoryview) -> ExactPage[M] | None:
        """Decode a whole page in either shape, or return None if it is anything but exactly known.

        The way that took the last page is tried first, so that an account with older rows does not pay for a failed
        try on every page.
        """
        for compiled in self._exact_ways():
            try:
                envelope = compiled.decode(body)
                rows = _rows_of(envelope)
                compiled.settle(rows)
            except (ValueError, RecursionError):
                continue
            self._dates_are_text = compiled is self._dates_as_text
            return _page_of(envelope, rows)
        return None

    def page_in_steps(self, body: bytes | memoryview) -> Generator[None, None, ExactPage[M] | None]:
        """Decode a page as `page` does, but in steps of about a millisecond, after a first one that finds the rows.

        That takes half as long again, which a program that must not stall gladly pays for a huge page.
        """
        rows: list[M] = []
        try:
            envelope = self._scan(body)
            undecoded = _rows_of(envelope)
            step = 1 + _STEP * len(undecoded) // len(body)
            for start in range(0, len(undecoded), step):
                yield
                rows += self._some(undecoded[start : start + step])
        except (ValueError, RecursionError):
            return None
        return _page_of(envelope, rows)

    def _some(self, undecoded: list[msgspec.Raw]) -> list[M]:
        for compiled in self._exact_ways():
            try:
                rows: list[Any] = [compiled.decode_row(row) for row in undecoded]
                compiled.settle(rows)
            except ValueError as error:
                refusal = error
                continue
            self._dates_are_text = compiled is self._dates_as_text
            return rows
        raise refusal

    def _exact_ways(self) -> tuple[_Compiled, _Compiled]:
        if self._dates_are_text:
            return self._dates_as_text, self._dates
        return self._dates, self._dates_as_text

    def rows(self, rows: list[Any], otherwise: Callable[[int], M]) -> tuple[M, ...]:
        """Take parsed rows, unknown fields kept in `extra`.

        Args:
            rows: as they were parsed.
            otherwise: gives the model of a row that is refused here, by its place.
        """
        try:
            return tuple(self._converted(rows))
        except ValueError:
            return tuple(self._one_converted(row) or otherwise(place) for place, row in enumerate(rows))

    def _converted(self, rows: list[Any]) -> list[M]:
        drafts: list[Any] = msgspec.convert(rows, list[self._tolerant.struct])  # type: ignore[name-defined]
        known = self._known
        for row, draft in zip(rows, drafts, strict=True):
            if not row.keys() <= known:
                draft.extra = {name: row[name] for name in row if name not in known}
        self._tolerant.settle(drafts)
        return drafts

    def _one_converted(self, row: Any) -> M | None:
        try:
            return self._converted([row])[0]
        except ValueError:
            return None


def _page_of(envelope: Any, rows: list[M]) -> ExactPage[M]:
    flat = type(envelope.data) is list
    totals = envelope.totals if flat else envelope.data.totals
    return ExactPage(
        rows=tuple(rows),
        metadata=envelope.metadata,
        totals=None if totals is msgspec.UNSET else totals,
        totals_path="totals" if flat else "data.totals",
    )


def _rows_of(envelope: Any) -> list[Any]:
    data: Any = envelope.data
    if type(data) is list:
        return data
    if envelope.totals is not msgspec.UNSET:
        raise ValueError("totals in both places: one of them is an unknown field")
    rows: list[Any] = data.rows
    return rows


def _envelope_struct(row: Any) -> type[msgspec.Struct]:
    nested = msgspec.defstruct(
        "Data",
        [("rows", list[row]), ("totals", Any, msgspec.UNSET)],
        forbid_unknown_fields=True,
    )
    return msgspec.defstruct(
        "Envelope",
        [("data", nested | list[row]), ("metadata", Any, None), ("totals", Any, msgspec.UNSET)],
        forbid_unknown_fields=True,
    )


def _row_struct(model: type, names: dict[str, str], *, dates_as_text: bool, exact: bool) -> type[msgspec.Struct]:
    hints = typing.get_type_hints(model)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    settled: list[tuple[str, Any, Any]] = []
    for field in attrs.fields(model):
        if field.name not in names:
            settled.append((field.name, msgspec.UnsetType, NO_EXTRA if field.name == "extra" else msgspec.UNSET))
            continue
        kind = _wire_type(hints[field.name], dates_as_text=dates_as_text, exact=exact)
        absent = msgspec.Raw(b"null") if kind is msgspec.Raw else None
        fields.append((field.name, kind) if field.default is attrs.NOTHING else (field.name, kind, absent))
    unsent = {name: f" {name}" for name, *_ in settled}
    return msgspec.defstruct("Draft", [*fields, *settled], rename=names | unsent, forbid_unknown_fields=exact, gc=False)


def _wire_type(hint: Any, *, dates_as_text: bool, exact: bool) -> Any:
    if hint == dt.date | None and dates_as_text:
        return str | None
    if hint == dt.date:
        return str  # a period: a month or a day
    if hint == bool | None:
        return str | bool | None
    part = _part_type(hint)
    if part is not None:
        # bytes that were seen before need no decoding; a parsed row has no bytes any more
        return msgspec.Raw if exact else part
    return hint


def _part_type(hint: Any) -> Any:
    """Return the wire type of an attribute that holds other models, or None if it holds none."""
    if hint == tuple[Tag, ...]:
        return tuple[_part_struct(Tag), ...] | None  # type: ignore[misc]
    part = _optional_model(hint)
    return None if part is None else _part_struct(part) | _EmptyArray | None


def _optional_model(hint: Any) -> type | None:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        for argument in typing.get_args(hint):
            if attrs.has(argument):
                return typing.cast("type", argument)
    return None


def _part_struct(model: type) -> type[msgspec.Struct]:
    hints = typing.get_type_hints(model)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        (field.name, hints[field.name]) if field.default is attrs.NOTHING else (field.name, hints[field.name], None)
        for field in attrs.fields(model)
        if field.name != "extra"
    ]
    return msgspec.defstruct(model.__name__, fields, forbid_unknown_fields=True, frozen=True, gc=False)


def _settler(model: type, *, dates_as_text: bool, exact: bool) -> Callable[[list[Any]], None]:
    """Generate the function that makes drafts models: their values are brought into the form that the model has."""
    hints = typing.get_type_hints(model)
    scope: dict[str, Any] = {"model": model, "period": _period, "days": _days, "booleans": _booleans}
    before, lines = [], []
    for field in attrs.fields(typing.cast("Any", model)):
        name, hint, held = field.name, hints[field.name], f"draft.{field.name}"
        part = _part_type(hint)
        if hint == dt.date:
            lines.append(f"{held}, {held}_precision = period({held})")
        elif hint == dt.date | None and dates_as_text:
            lines.append(f"{held} = days[{held}]")
        elif hint == bool | None:
            lines.append(f"{held} = booleans[{held}]")
        elif part is not None:
            convert = _tags if hint == tuple[Tag, ...] else _part_maker(_optional_model(hint))
            scope[f"of_{name}"] = _Memo(_from_bytes(convert, part) if exact else convert)
            if exact:  # neighbours often hold the same: comparing takes half the time of looking up
                before.append(f"last_{name} = None")
                lines += [
                    f"if {held} != last_{name}:",
                    f"    last_{name} = {held}",
                    f"    {name} = of_{name}[bytes(last_{name})]",
                    f"{held} = {name}",
                ]
            else:
                lines.append(f"{held} = of_{name}[{held}]")
    lines.append("draft.__class__ = model")
    code = [
        "def settle(drafts):",
        *(f"    {line}" for line in before),
        "    for draft in drafts:",
        *(f"        {line}" for line in lines),
    ]
    exec(compile("\n".join(code), f"<compiled for {model.__name__}>", "exec"), scope)  # noqa: S102  # our own text
    return typing.cast("Callable[[list[Any]], None]", scope["settle"])


_period = lru_cache(maxsize=_Memo.LIMIT)(values.period)


def _whole_day(text: str | None) -> dt.date | None:
    if values.has_time_of_day(text):
        raise ValueError("a date with a time of day is kept in extra, which only the reference converter does")
    return values.date(text)


def _boolean(value: str | bool | None) -> bool | None:
    if value is None or values.is_boolean(value):
        return None if value is None else values.boolean(value)
    raise ValueError("other text is kept in extra, which only the reference converter does")


_days = _Memo(_whole_day)
_booleans = _Memo(_boolean)


def _from_bytes(convert: Callable[[Any], Any], part: Any) -> Callable[[bytes], Any]:
    decode = msgspec.json.Decoder(part).decode
    return lambda wire: convert(decode(wire))


def _tags(structs: tuple[msgspec.Struct, ...] | None) -> tuple[Tag, ...]:
    return tuple(Tag(*msgspec.structs.astuple(struct)) for struct in structs or ())


def _part_maker(model: Any) -> Callable[[Any], Any]:
    return lambda struct: model(*msgspec.structs.astuple(struct)) if struct else None
