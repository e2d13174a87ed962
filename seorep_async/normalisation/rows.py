"""Rows of the ranking feeds, from JSON to models, without the reference converter.

msgspec reads rows into raw rows: structs with the fields of a model, but with the names and types
of the wire. Then plain code converts the values that msgspec can't convert. There are three
readings:

1. A page of current rows, the hot path: one typed decode, after which raw rows become models.
2. A page whose rows are all like its first one, such as older rows or rows with integers as
   strings: one typed decode with the first types that accept this row, and a new model for each raw
   row. The types have fields for unknown names that slices of earlier pages had, so each row may
   have any of these.
3. Any other page: its rows arrive as JSON, a slice at a time. A slice is read as current rows, or
   else with the types of odd rows. If both fail because of unknown fields, it is read with types
   that ignore them, and its JSON is parsed once more to collect them.

The reference converter reads rows that all three refuse, and names the bad field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET
from msgspec.json import Decoder as JsonDecoder
from msgspec.structs import astuple

from seorep_async.models import (
    KeywordRanking,
    Page,
    RankingTotals,
    SearchLanguage,
    SearchLocation,
    Tag,
)
from seorep_async.models.gc_untracked import raw_row_struct, turn_into_models
from seorep_async.normalisation import values
from seorep_async.normalisation.envelope import Metadata, Subject, refuse_another_subject
from seorep_async.normalisation.row_values import (
    DayMemo,
    Memo,
    PeriodValues,
    RankingValues,
)
from seorep_async.normalisation.wire_names import wire_names
from seorep_async.plain_values import UNFROZEN, field_types
from seorep_async.settings import EngineNames

M = TypeVar("M")


REFUSALS = (ValueError, RecursionError, OverflowError)
"""The errors for refused pages and rows. msgspec's errors are ValueErrors."""

CURRENT = {
    int: int,
    int | None: int | None,
    str: str,
    str | None: str | None,
    bool | None: Literal["true", "false"] | None,
    UNFROZEN.date | None: UNFROZEN.date | None,
    UNFROZEN.date: str,
    SearchLocation | None: msgspec.Raw,
    SearchLanguage | None: msgspec.Raw,
    tuple[Tag, ...]: msgspec.Raw,
}
"""The types on the wire in current rows, by the type of the attribute."""

OLDER = CURRENT | {bool | None: bool | str | None, UNFROZEN.date | None: str | None}
"""The types in older rows: dates have a time of day, and flags may be any string."""

_NO_NUMBER = msgspec.Meta(ge=1, le=0)  # a constraint that no number meets
_MOST = 10**18 - 1  # longer strings are no integers
_WHOLE = Annotated[int, msgspec.Meta(ge=-_MOST, le=_MOST)] | Annotated[float, _NO_NUMBER]

ODD = OLDER | {
    int: _WHOLE,
    int | None: _WHOLE | None,
    bool | None: OLDER[bool | None] | Annotated[int, _NO_NUMBER],
}
"""The types in odd rows: integers may be strings as well, so they are decoded without `strict`.

Without it, msgspec would also read 1.0, "1.0" and "1e3" as integers, and 1 as true. So these types
have a float in place of an integer, and an integer in place of a flag, that no number meets.
"""

_ESCAPED_LETTER = re.compile(rb"\\u00([46][ce]|[57]5)")
"""An escaped letter of "null" or "NULL". Encoders don't escape letters, but JSON allows it."""

_FORMATS: dict[str, Any] = {"current": CURRENT, "older": OLDER, "odd": ODD}
"""The types of each format of rows, from the narrowest to the widest."""

_MOST_NAMES = 32
"""The maximum number of unknown names that get fields. A new name needs new types, and making them
takes as long as reading 500 rows. So names that differ in each row must not get fields.
"""
_MAY_BE_FIELD = re.compile(r"\w[\w.-]{0,63}")
"""The form of names that may get fields. Types are kept, so long names would fill the memory."""

_ABSENT = msgspec.Raw(b"null")
"""The JSON of a part that the envelope lacks. Its identity distinguishes it from a null."""

_read_metadata = JsonDecoder(Metadata | None).decode


class _Metric(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    value: int | float | None


class _FirstRow(Exception):
    """Ends the decoding of a page at its first row, which is the argument."""


class RowReader(Generic[M]):
    """Reads the rows of one feed."""

    def __init__(self, model: type[M], engine_names: EngineNames) -> None:
        self._model = model
        self._types = field_types(model)
        self._names = wire_names(model, engine_names)
        self._read_totals = _totals_decoder(wire_names(RankingTotals, engine_names))
        self._values = RankingValues() if model is KeywordRanking else PeriodValues()
        # Decoders of current rows exist from the start. Others are made when a page needs them.
        self._decoder = lru_cache(8)(self._make_decoder)
        self._current_page = self._decoder(_envelope, "current")
        # Unknown names in slices of earlier pages. The types of other pages have a field for each.
        self._unknown_names: tuple[str, ...] = ()

    def read_page(self, body: bytes, number: int, subject: Subject) -> Page[M]:
        """Read a page whose rows are alike, or raise one of `REFUSALS`.

        Raises:
            DecodeError: a row is about another campaign or keyword.
        """
        # Nearly every page is read here, and `suppress` would take longer than reading a row.
        # Current rows have no unknown fields, so none can name another campaign, and no subject is
        # passed.
        try:
            return self._page(self._current_page(body), number, self._make_current)
        except REFUSALS:
            pass
        names = self._unknown_names
        row_format = self._format_of(_first_row_of(body), names)
        make_models = partial(self._make_models, row_format=row_format, unknown_names=names)
        envelope = self._decoder(_envelope, row_format, names)(body)
        return self._page(envelope, number, make_models, subject)

    def read_rows(self, json_rows: list[msgspec.Raw]) -> list[M]:
        """Read a slice of a page, whose rows may differ, or raise one of `REFUSALS`."""
        json = b"[" + b",".join(json_rows) + b"]"
        with suppress(*REFUSALS):
            return self._make_current(self._decoder(_list_of, "current")(json))
        # Odd rows include older rows.
        with suppress(*REFUSALS):
            return self._make_models(self._decoder(_list_of, "odd")(json))
        # Both readings refuse unknown fields. Try again with types that ignore them.
        with suppress(*REFUSALS):
            return self._make_current(self._read_with_extra("current", json))
        return self._make_models(self._read_with_extra("odd", json))

    def _read_with_extra(self, row_format: str, json: bytes) -> list[Any]:
        """Read raw rows with unknown fields, which are stored in their `extra`."""
        # With None, the decoder ignores unknown fields. They are read from the parsed JSON.
        decode = self._decoder(_list_of, row_format, unknown_names=None)
        rows: list[Any] = decode(json)
        known_names = set(self._names.values())
        occurrences: list[str] = []
        for row, fields in zip(rows, msgspec.json.decode(json), strict=True):
            extra = {}
            for name in fields:
                if name not in known_names:
                    extra[name] = fields[name]
            if extra:
                row.extra = extra
                occurrences.extend(extra)
        # If each row has names of its own, fields for them would only slow later pages. So each
        # name must occur in two rows on average, unless there is only one row.
        unknown_names = dict.fromkeys(occurrences)
        if len(rows) == 1 or len(occurrences) >= 2 * len(unknown_names):
            self._learn(unknown_names)
        return rows

    def _learn(self, names: Iterable[str]) -> None:
        """Give unknown names fields in the types of later pages."""
        earlier_names = self._unknown_names
        new_names = [
            name for name in names if name not in earlier_names and _MAY_BE_FIELD.fullmatch(name)
        ]
        self._unknown_names = (*earlier_names, *new_names)[:_MOST_NAMES]

    def _page(
        self,
        envelope: Any,
        number: int,
        make_models: Callable[[list[Any]], list[M]],
        subject: Subject = None,
    ) -> Page[M]:
        """Return the page in a decoded envelope. Refuse rows of another subject."""
        rows, totals, path = _content(envelope)
        metadata: Metadata = _read_metadata(envelope.metadata) or Metadata()
        models = make_models(rows)
        refuse_another_subject(models, path, subject)
        return metadata.page(number, models, _totals_model(self._read_totals(totals)))

    def _format_of(self, first_row: dict[str, Any], names: tuple[str, ...]) -> str:
        """Return the narrowest format that accepts the first row of a page.

        Raises:
            ValueError: the page must be read in slices.
        """
        page = msgspec.json.encode({"data": [first_row]})
        for row_format in _FORMATS:
            with suppress(*REFUSALS):
                self._decoder(_envelope, row_format, names)(page)
                # `read_page` has already tried current rows without unknown names. So if the first
                # row is one, a later row was refused, and only its slice needs wider types.
                if row_format == "current" and not names:
                    break
                return row_format
        raise ValueError("the first row does not show how to read the others")

    def _make_current(self, rows: list[Any]) -> list[M]:
        """Turn raw rows in the current format into models in place."""
        # An error leaves all rows unconverted, so the JSON can be read again.
        self._values.convert(rows)
        return turn_into_models(rows, self._model)

    def _make_models(
        self, rows: list[Any], row_format: str = "odd", unknown_names: tuple[str, ...] = ()
    ) -> list[M]:
        """Make models of raw rows that can't become models.

        A model contains only a part of some values, such as the day of a date-time. The original is
        then in `extra`.

        Args:
            rows: the raw rows.
            row_format: the format of the rows.
            unknown_names: the unknown names that have fields.
        """
        self._values.convert(rows)
        model = self._model
        partial_values = self._partial_values if row_format != "current" else []
        field_count = len(self._types)
        # In a raw row, their values come after those of the model's fields.
        unknown_fields = list(enumerate(unknown_names, field_count))
        models = []
        for row in rows:
            # Access by index takes half the time of `getattr`.
            row_values = astuple(row)
            fields = [*row_values[:field_count]]
            originals = {}
            for index, name, memo in partial_values:
                fields[index], original = memo[fields[index]]
                if original is not None:
                    originals[name] = original
            for index, name in unknown_fields:
                # Null differs from a missing field.
                if row_values[index] is not UNSET:
                    originals[name] = row_values[index]
            if originals:
                # `extra` is the last field of every model. It is empty unless a slice was read.
                fields[-1] = originals | fields[-1] if fields[-1] else originals
            models.append(model(*fields))
        return models

    @cached_property
    def _partial_values(self) -> list[tuple[int, str, Memo]]:
        """The index, wire name and memo of each field that a model may contain only in part."""
        memos = {bool | None: Memo(values.flag), UNFROZEN.date | None: DayMemo(values.day)}
        return [
            (index, self._names[name], memos[type_])
            for index, (name, type_) in enumerate(self._types.items())
            if type_ in memos
        ]

    def _make_decoder(
        self,
        type_of: Callable[[Any], Any],
        row_format: str,
        unknown_names: tuple[str, ...] | None = (),
    ) -> Callable[[bytes], Any]:
        """Return a decoder of rows.

        Args:
            type_of: `_list_of`, or `_envelope` for a page.
            row_format: the format of the rows.
            unknown_names: the unknown names that get fields. Other unknown names are refused. With
                None, all of them are ignored.
        """
        types = {name: _FORMATS[row_format][self._types[name]] for name in self._names}
        type_ = type_of(raw_row_struct(self._model, types, self._names, unknown_names))
        if row_format == "odd":
            return partial(_decode_odd, JsonDecoder(type_, strict=False).decode)
        return JsonDecoder(type_).decode


def _list_of(row: Any) -> Any:
    return list[row]


def _envelope(row: Any) -> Any:
    """Return the type of pages of either shape, which refuses unknown fields anywhere."""
    struct = partial(msgspec.defstruct, forbid_unknown_fields=True, gc=False)
    # Totals and metadata stay JSON, because they are strict even if the rows are not.
    totals = ("totals", msgspec.Raw, _ABSENT)
    metadata = ("metadata", msgspec.Raw, _ABSENT)
    # msgspec distinguishes the shapes by itself: `data` is an array, or an object with rows.
    nested = struct("Nested", [("rows", list[row]), totals])
    return struct("Envelope", [("data", list[row] | nested), totals, metadata])


def _decode_odd(decode: Callable[[bytes], Any], json: bytes) -> Any:
    """Decode odd rows, but refuse all of them if a string may be "null"."""
    rows = decode(json)
    # Without `strict`, msgspec reads the string "null" as null, and the reference refuses it.
    lower_case = json.lower()
    if b'"null"' in lower_case or _ESCAPED_LETTER.search(lower_case):
        raise ValueError('a string may be "null"')
    return rows


def _end_at_first_row(_type: object, row: object) -> None:
    if isinstance(row, dict):
        raise _FirstRow(row)


# msgspec calls the hook with each value that should be a `_FirstRow`, and so with the first row.
_find_first_row = JsonDecoder(_envelope(_FirstRow), dec_hook=_end_at_first_row).decode


def _first_row_of(body: bytes) -> Any:
    """Return the first row of a page, or an empty object, which no types accept."""
    try:
        _find_first_row(body)
    except _FirstRow as end:
        return end.args[0]
    return {}


def _totals_decoder(names: dict[str, str]) -> Callable[[bytes], Any]:
    """Return a decoder of totals, from their names on the wire."""
    fields = [(name, _Metric | None, None) for name in names]
    totals = msgspec.defstruct("Totals", fields, rename=names, forbid_unknown_fields=True)
    # The service may send false in place of totals.
    wire_type: Any = totals | bool | None
    return JsonDecoder(wire_type).decode


def _content(envelope: Any) -> tuple[list[Any], msgspec.Raw, str]:
    """Return the rows of a page, its totals beside them, and the path of the rows."""
    if type(envelope.data) is list:
        return envelope.data, envelope.totals, "data"
    if envelope.totals is not _ABSENT:
        raise ValueError("totals beside `data` are an unknown field of this shape")
    return envelope.data.rows, envelope.data.totals, "data.rows"


def _totals_model(wire: Any) -> RankingTotals | None:
    """Return the model of decoded totals, or None if the service sent none."""
    if not wire:  # false, null or absent
        return None
    metrics = () if wire is True else astuple(wire)
    if not any(metrics):
        # such totals are rare, so the reference converter decides on them
        raise ValueError("totals without metrics")
    return RankingTotals(*[metric and metric.value for metric in metrics])
