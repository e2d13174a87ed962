"""Rows of the ranking feeds, from JSON to models, without the reference converter.

msgspec reads rows into raw rows: structs with the fields of a model, but with the names and types
of the wire. Then plain code converts the values that msgspec can't convert. There are three
readings:

1. A page of current rows, the hot path: one typed decode, after which raw rows become models.
2. A page whose rows are all like its first one, such as older rows or rows with integers as
   strings: one typed decode with the first types that accept this row, and a new model for each raw
   row. The types have fields for unknown names that earlier rows had, so each row may have any of
   these.
3. Any other page: its rows arrive as JSON, a slice at a time. A slice is read as current rows, or
   else with the types of odd ones. If both fail because of unknown fields, it is read with types
   that ignore them, and its JSON is parsed once more to collect them.

The reference converter reads rows that all three refuse, and names the bad field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, cached_property, lru_cache, partial
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
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
from seorep_async.models.gc_untracked import become, raw_row_struct
from seorep_async.normalisation import values
from seorep_async.normalisation.envelope import Metadata, Subject, refuse_another_row
from seorep_async.normalisation.row_values import (
    DayMemo,
    Memo,
    PeriodValues,
    RankingValues,
    optional,
)
from seorep_async.normalisation.wire_names import wire_names
from seorep_async.plain_values import UNFROZEN, field_types
from seorep_async.settings import EngineNames

M = TypeVar("M")
Names: TypeAlias = tuple[str, ...]
"""Names of unknown fields."""

REFUSALS = (ValueError, RecursionError, OverflowError)
"""The errors for refused pages and rows. Those of msgspec are ValueErrors."""

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

ODD = OLDER | {int: int | str, int | None: int | str | None}
"""The types in odd rows: integers may be strings as well."""

Format: TypeAlias = Literal["current", "older", "odd"]
_FORMATS: dict[Format, Any] = {"current": CURRENT, "older": OLDER, "odd": ODD}
"""The types of each format of rows, from the narrowest to the widest."""

_MOST_NAMES = 32
"""The most unknown names that get fields. A new name needs new types, and making them takes as long
as reading 500 rows. So names that differ in each row must not get fields.
"""
_MAY_BE_FIELD = re.compile(r"\w[\w.-]{0,63}")
"""The form of names that may get fields. Types are kept, so long names would fill the memory."""


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
        self._totals_type = _totals_type(wire_names(RankingTotals, engine_names))
        self._integer_values = Memo(partial(optional, values.integer))
        self._values = RankingValues() if model is KeywordRanking else PeriodValues()
        # Decoders of current rows exist from the start. Others are made when a page needs them.
        self._rows_decoder = cache(self._make_rows_decoder)
        self._page_decoder = lru_cache(3)(self._make_page_decoder)
        self._current_page = self._page_decoder("current", ())
        # Unknown names of earlier rows. The types of other pages have a field for each.
        self._unknown_names: Names = ()
        # Whether rows have so far been like the first row of their page.
        self._first_rows_are_typical = True

    def read_page(self, body: bytes, number: int, subject: Subject) -> Page[M]:
        """Read a page whose rows are alike, or raise one of `REFUSALS`.

        Raises:
            DecodeError: a row is about another campaign or keyword.
        """
        # Nearly every page is read here, and `suppress` would take longer than reading a row.
        # Current rows have no unknown fields, so none can name another campaign.
        try:
            return self._page(self._current_page.decode(body), number, self._make_current)
        except REFUSALS:
            pass
        first_row = self._first_row(body)
        names = self._unknown_names
        if self._first_rows_are_typical:
            names = self._with_new_names(first_row)
        format = self._format_of(first_row, names)
        make_models = partial(self._make_models, format=format, unknown_names=names)
        try:
            envelope = self._page_decoder(format, names).decode(body)
            page = self._page(envelope, number, make_models, subject)
        except REFUSALS:
            # Perhaps each row has names of its own. Types for those of the first row would then be
            # made in vain.
            self._first_rows_are_typical = False
            raise
        self._unknown_names = names
        return page

    def read_rows(self, json_rows: list[msgspec.Raw]) -> list[M]:
        """Read a slice of a page, whose rows may differ, or raise one of `REFUSALS`."""
        json = b"[" + b",".join(json_rows) + b"]"
        with suppress(*REFUSALS):
            return self._make_current(self._rows_decoder("current", ()).decode(json))
        with suppress(*REFUSALS):
            return self._make_models(self._rows_decoder("odd", ()).decode(json))
        # Perhaps some of these rows have unknown fields.
        with suppress(*REFUSALS):
            return self._make_current(self._read_with_extra("current", json))
        return self._make_models(self._read_with_extra("odd", json))

    def _read_with_extra(self, format: Format, json: bytes) -> list[Any]:
        # The decoder ignores unknown fields, so they are read from the parsed JSON.
        rows: list[Any] = self._rows_decoder(format, None).decode(json)
        known_names = set(self._names.values())
        unknown_names: list[str] = []
        for row, fields in zip(rows, msgspec.json.decode(json), strict=True):
            extra = {}
            for name in fields:
                if name not in known_names:
                    extra[name] = fields[name]
            if extra:
                row.extra = extra
                unknown_names += extra
        # Names that only one row has would be of no use to later pages, but slow all of them.
        names = dict.fromkeys(unknown_names)
        if len(unknown_names) >= 2 * len(names):
            self._unknown_names = self._with_new_names(names)
        return rows

    def _page(
        self,
        envelope: Any,
        number: int,
        make_models: Callable[[list[Any]], list[M]],
        subject: Subject = None,
    ) -> Page[M]:
        rows, totals, path = _content(envelope)
        metadata: Metadata = envelope.metadata or Metadata()
        models = make_models(rows)
        refuse_another_row(models, path, subject)
        return metadata.page(number, models, _totals(totals))

    def _first_row(self, body: bytes) -> Any:
        """Return the first row of a page, or an empty object, which no types accept."""
        try:
            self._first_row_finder.decode(body)
        except _FirstRow as end:
            return end.args[0]
        return {}

    def _format_of(self, first_row: dict[str, Any], names: Names) -> Format:
        """Return the narrowest format that accepts the first row of a page.

        Raises:
            ValueError: other types would not help.
        """
        page = msgspec.json.encode({"data": [first_row]})
        for format in _FORMATS:
            with suppress(*REFUSALS):
                self._page_decoder(format, names).decode(page)
                # If the first row is current, a later one was refused. Types help only if they have
                # fields for its unknown names.
                if format != "current" or names:
                    return format
        raise ValueError("the first row does not show how to read the others")

    def _with_new_names(self, names: Iterable[str]) -> Names:
        """Return the names that have fields in the types of later pages, if these are learned."""
        earlier_names = {*self._unknown_names, *self._names.values()}
        new_names = [
            name for name in names if name not in earlier_names and _MAY_BE_FIELD.fullmatch(name)
        ]
        return (*self._unknown_names, *new_names)[:_MOST_NAMES]

    def _make_current(self, rows: list[Any]) -> list[M]:
        # An error leaves all rows unconverted, so the JSON can be read again.
        self._values.convert(rows)
        return become(rows, self._model)

    def _make_models(
        self, rows: list[Any], format: Format = "odd", unknown_names: Names = ()
    ) -> list[M]:
        """Make models of raw rows that can't become models.

        A model holds only a part of some values, such as the day of a date-time. The original is
        then in `extra`.

        Args:
            rows: the raw rows.
            format: the format of the rows.
            unknown_names: the unknown names that have fields.
        """
        self._values.convert(rows)
        model = self._model
        integers = self._integers if format == "odd" else []
        integer_values = self._integer_values
        partial_values = self._partial_values if format != "current" else []
        field_count = len(self._types)
        unknown_fields = list(enumerate(unknown_names, field_count))
        models = []
        for row in rows:
            # Access by the place in a list takes half the time of `getattr`.
            row_values = astuple(row)
            fields = [*row_values[:field_count]]
            for place in integers:
                fields[place] = integer_values[fields[place]]
            originals = {}
            for place, name, parts in partial_values:
                fields[place], original = parts[fields[place]]
                if original is not None:
                    originals[name] = original
            for place, name in unknown_fields:
                # Null differs from a missing field.
                if row_values[place] is not UNSET:
                    originals[name] = row_values[place]
            if originals:
                # `extra` is the last field of every model. It is empty unless a slice was read.
                fields[-1] = originals | fields[-1] if fields[-1] else originals
            models.append(model(*fields))
        return models

    @cached_property
    def _integers(self) -> list[int]:
        """The places of integers in a model."""
        types = self._types.values()
        return [place for place, type_ in enumerate(types) if type_ in (int, int | None)]

    @cached_property
    def _partial_values(self) -> list[tuple[int, str, Memo]]:
        """The place, wire name and memo of each field whose value a model may hold only in part."""
        memos = {bool | None: Memo(values.flag), UNFROZEN.date | None: DayMemo(values.day)}
        return [
            (place, self._names[name], memos[type_])
            for place, (name, type_) in enumerate(self._types.items())
            if type_ in memos
        ]

    @cached_property
    def _first_row_finder(self) -> JsonDecoder[Any]:
        return self._envelope_decoder(list[_FirstRow], _end_at_first_row)

    def _make_rows_decoder(self, format: Format, unknown_names: Names | None) -> JsonDecoder[Any]:
        return JsonDecoder(self._raw_rows(format, unknown_names))

    def _make_page_decoder(self, format: Format, unknown_names: Names) -> JsonDecoder[Any]:
        return self._envelope_decoder(self._raw_rows(format, unknown_names))

    def _envelope_decoder(
        self, rows: Any, dec_hook: Callable[[type, Any], Any] | None = None
    ) -> JsonDecoder[Any]:
        """Return a decoder of pages of either shape, which refuses unknown fields anywhere."""
        struct = partial(msgspec.defstruct, forbid_unknown_fields=True, gc=False)
        # The service may send false in place of totals. Unset totals differ from null: `_content`
        # refuses totals beside `data` in the nested shape.
        totals = ("totals", self._totals_type | bool | None | UnsetType, UNSET)
        metadata = ("metadata", Metadata | None, None)
        # msgspec distinguishes the shapes by itself: `data` is an array, or an object with rows.
        nested = struct("Nested", [("rows", rows), totals])
        envelope = struct("Envelope", [("data", rows | nested), totals, metadata])
        return JsonDecoder(envelope, dec_hook=dec_hook)

    def _raw_rows(self, format: Format, unknown_names: Names | None) -> Any:
        """Return the type of a list of raw rows."""
        types = {name: _FORMATS[format][self._types[name]] for name in self._names}
        row: Any = raw_row_struct(self._model, types, self._names, unknown_names)
        return list[row]


def _end_at_first_row(_type: object, row: object) -> None:
    if isinstance(row, dict):
        raise _FirstRow(row)


def _totals_type(names: dict[str, str]) -> Any:
    fields = [(name, _Metric | None, None) for name in names]
    return msgspec.defstruct("Totals", fields, rename=names, forbid_unknown_fields=True)


def _content(envelope: Any) -> tuple[list[Any], Any, str]:
    """Return the rows of a page, its totals beside them, and the path of the rows."""
    if type(envelope.data) is list:
        return envelope.data, envelope.totals, "data"
    if envelope.totals is not UNSET:
        raise ValueError("totals beside `data` are an unknown field of this shape")
    return envelope.data.rows, envelope.data.totals, "data.rows"


def _totals(wire: Any) -> RankingTotals | None:
    if not wire:  # false, null or absent
        return None
    metrics = () if wire is True else astuple(wire)
    if not any(metrics):
        # such totals are rare, so the reference converter decides on them
        raise ValueError("totals without metrics")
    return RankingTotals(*[metric and metric.value for metric in metrics])
