"""Decoders compiled from the row models, for the hot path: they take the known shapes only, and refuse the rest.

A page goes through msgspec structs derived from the models, and through one generated function that copies each
struct into a model. A model is filled as an unfrozen draft with the same slots, whose class is then set: attrs' own
frozen constructor would cost more than all the rest. What is refused here goes to the reference converter, which
tells what is wrong with it; property tests hold the two equal.
"""

from __future__ import annotations

import datetime as dt
import types
import typing
from collections.abc import Callable
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

_EmptyArray = Annotated[tuple[int, ...], msgspec.Meta(max_length=0)]


class _Memo(dict[Any, Any]):
    """Values that were converted before: the same few dates, places and tags come in row after row, page after page.

    Args:
        convert: converts a value that was not seen.
    """

    LIMIT = 4096

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self._convert = convert

    def __missing__(self, key: Any) -> Any:
        if len(self) >= self.LIMIT:
            self.clear()
        value = self[key] = self._convert(key)
        return value


@attrs.frozen
class ExactPage(Generic[M]):
    """A page that held nothing unknown."""

    rows: tuple[M, ...]
    metadata: Any
    totals: Any
    totals_path: str


@attrs.frozen
class _Compiled(Generic[M]):
    struct: type[msgspec.Struct]
    decode: Callable[[bytes], Any]
    build: Callable[[list[Any]], tuple[M, ...]]


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
        self._expect_text = False

    @cached_property
    def _dates(self) -> _Compiled[M]:
        return self._compile(dates_as_text=False, exact=True)

    @cached_property
    def _dates_as_text(self) -> _Compiled[M]:
        return self._compile(dates_as_text=True, exact=True)

    @cached_property
    def _tolerant(self) -> _Compiled[M]:
        return self._compile(dates_as_text=True, exact=False)

    def _compile(self, *, dates_as_text: bool, exact: bool) -> _Compiled[M]:
        struct = _row_struct(self._model, self._names, dates_as_text=dates_as_text, exact=exact)
        return _Compiled(
            struct=struct,
            decode=msgspec.json.Decoder(_envelope_struct(struct)).decode,
            build=_builder(self._model, self._names, dates_as_text=dates_as_text, exact=exact),
        )

    def page(self, body: bytes) -> ExactPage[M] | None:
        """Decode a whole page in either shape, or return None if it is anything but exactly known.

        The way that took the last page is tried first, so that an account with older rows does not pay for a failed
        try on every page.
        """
        for dates_as_text in (self._expect_text, not self._expect_text):
            compiled = self._dates_as_text if dates_as_text else self._dates
            try:
                envelope = compiled.decode(body)
                data = envelope.data
                flat = type(data) is list
                if not flat and envelope.totals is not msgspec.UNSET:
                    return None  # totals in both places: one of them is an unknown field
                rows = compiled.build(data if flat else data.rows)
            except (ValueError, RecursionError):
                continue
            self._expect_text = dates_as_text
            totals = envelope.totals if flat else data.totals
            return ExactPage(
                rows=rows,
                metadata=envelope.metadata,
                totals=None if totals is msgspec.UNSET else totals,
                totals_path="totals" if flat else "data.totals",
            )
        return None

    def rows(self, rows: list[Any]) -> tuple[M, ...] | None:
        """Turn parsed rows into models, unknown fields kept in `extra`, or return None if any row is refused."""
        try:
            models = self._tolerant.build(msgspec.convert(rows, list[self._tolerant.struct]))  # type: ignore[name-defined]
        except ValueError:
            return None
        known = self._known
        for row, model in zip(rows, models, strict=True):
            if not row.keys() <= known:
                object.__setattr__(model, "extra", {name: row[name] for name in row if name not in known})
        return models


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
    for field in attrs.fields(model):
        if field.name not in names:
            continue
        kind = _wire_type(hints[field.name], dates_as_text=dates_as_text, exact=exact)
        absent = msgspec.Raw(b"null") if kind is msgspec.Raw else None
        fields.append((field.name, kind) if field.default is attrs.NOTHING else (field.name, kind, absent))
    return msgspec.defstruct("Row", fields, rename=names, forbid_unknown_fields=exact, gc=False)


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


def _builder(
    model: type[M], names: dict[str, str], *, dates_as_text: bool, exact: bool
) -> Callable[[list[Any]], tuple[M, ...]]:
    """Generate the function that turns structs into models, one assignment for each attribute."""
    hints = typing.get_type_hints(model)
    scope: dict[str, Any] = {
        "model": model,
        "Draft": type("Draft", (), {"__slots__": model.__slots__}),  # type: ignore[attr-defined]
        "no_extra": NO_EXTRA,
        "period": _period,
    }
    lines = []
    for field in attrs.fields(typing.cast("Any", model)):
        name, hint, source = field.name, hints[field.name], f"struct.{field.name}"
        part = _part_type(hint)
        if name == "extra":
            source = "no_extra"
        elif name == "date_precision":
            source = "precision"
        elif hint == dt.date:
            lines.append(f"on, precision = period({source})")
            source = "on"
        elif hint == dt.date | None and dates_as_text:
            scope["days"] = _days
            source = f"days[{source}]"
        elif hint == bool | None:
            scope["booleans"] = _booleans
            source = f"booleans[{source}]"
        elif part is not None:
            convert = _tags if hint == tuple[Tag, ...] else _part_maker(_optional_model(hint))
            scope[f"of_{name}"] = _Memo(_from_bytes(convert, part) if exact else convert)
            source = f"of_{name}[bytes({source})]" if exact else f"of_{name}[{source}]"
        lines.append(f"draft.{name} = {source}")
    source_code = "\n".join(
        [
            "def build(structs):",
            "    models = []",
            "    for struct in structs:",
            "        draft = Draft()",
            *(f"        {line}" for line in lines),
            "        draft.__class__ = model",
            "        models.append(draft)",
            "    return tuple(models)",
        ]
    )
    exec(compile(source_code, f"<compiled decoder of {model.__name__}>", "exec"), scope)  # noqa: S102  # our own text
    return typing.cast("Callable[[list[Any]], tuple[M, ...]]", scope["build"])


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
