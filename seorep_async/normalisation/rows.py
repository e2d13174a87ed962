"""Rows of the ranking feeds, from JSON to models, without the reference converter.

msgspec reads rows into raw rows: structs with the fields of a model, but with the names and types
of the wire. Then plain code converts the values that msgspec can't convert. There are three
readings:

1. A page of current rows, the hot path: one typed decode, after which raw rows become models.
2. A page whose rows are all like its first one, such as older rows or rows with integers as
   strings: one typed decode with other types, and a new model for each raw row. The types have
   fields for unknown names that earlier rows had, so each row may have any of these.
3. Any other page: its rows arrive as JSON, a slice at a time. A slice is read as current rows, or
   else with the types of odd ones. If both fail because of unknown fields, it is read with types
   that ignore them, and its JSON is parsed once more to collect them.

The reference converter reads rows that all three refuse, and names the bad field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType
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
from seorep_async.normalisation.row_values import Memo, PeriodValues, RankingValues
from seorep_async.normalisation.wire_names import wire_names
from seorep_async.plain_values import UNFROZEN, field_types
from seorep_async.settings import EngineNames

M = TypeVar("M")
WireTypes: TypeAlias = dict[Any, Any]
"""For each type of an attribute, its type on the wire."""
MakeModels: TypeAlias = Callable[[list[Any]], list[M]]
JsonDecoder: TypeAlias = msgspec.json.Decoder[Any]
Names: TypeAlias = tuple[str, ...]
"""Names of unknown fields."""

REFUSALS = (ValueError, RecursionError, OverflowError)
"""The errors for refused pages and rows. Those of msgspec are ValueErrors."""

CURRENT: WireTypes = {
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
"""The types in current rows."""

ODD: WireTypes = CURRENT | {
    int: int | str,
    int | None: int | str | None,
    bool | None: bool | str | None,
    UNFROZEN.date | None: str | None,
}
"""The types in other rows that occur: in older ones, dates have a time of day, and flags may be any
string. In some, integers are strings.
"""

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
        self._known_names = frozenset(self._names.values())
        self._totals_names = wire_names(RankingTotals, engine_names)
        self._integer_strings = Memo(values.integer)
        self._values = RankingValues() if model is KeywordRanking else PeriodValues()
        # Decoders of current rows exist from the start. Others are made when a page needs them.
        current_rows = self._raw_rows(CURRENT)
        self._current_rows = JsonDecoder(current_rows)
        self._current_page = self._page_decoder(current_rows)
        self._odd_page_decoder = lru_cache(maxsize=1)(self._make_odd_page_decoder)
        # Unknown names of earlier rows. The types of odd pages have a field for each.
        self._unknown_names: Names = ()

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
        # Raises a ValueError if other types would not help.
        self._learn_names(self._first_row(body))
        names = self._unknown_names
        envelope = self._odd_page_decoder(names).decode(body)
        make_odd = partial(self._make_odd, unknown_names=names)
        return self._page(envelope, number, make_odd, subject)

    def read_rows(self, json_rows: list[msgspec.Raw]) -> list[M]:
        """Read a slice of a page, whose rows may differ, or raise one of `REFUSALS`."""
        json = b"[" + b",".join(json_rows) + b"]"
        with suppress(*REFUSALS):
            return self._make_current(self._current_rows.decode(json))
        with suppress(*REFUSALS):
            return self._make_odd(self._odd_rows.decode(json))
        # Perhaps some of these rows have unknown fields.
        with suppress(*REFUSALS):
            return self._make_current(self._read_with_extra(self._tolerant_current_rows, json))
        return self._make_odd(self._read_with_extra(self._tolerant_odd_rows, json))

    def _read_with_extra(self, decoder: msgspec.json.Decoder[list[Any]], json: bytes) -> list[Any]:
        # The decoder ignores unknown fields, so they are read from the parsed JSON.
        rows = decoder.decode(json)
        known_names = self._known_names
        # A call for each row takes time, and is in vain once there are enough names.
        may_learn = len(self._unknown_names) < _MOST_NAMES
        for row, fields in zip(rows, msgspec.json.decode(json), strict=True):
            extra = {}
            for name in fields:
                if name not in known_names:
                    extra[name] = fields[name]
            if extra:
                row.extra = extra
                if may_learn:
                    self._learn_names(extra)
        return rows

    def _page(
        self, envelope: Any, number: int, make_models: MakeModels[M], subject: Subject = None
    ) -> Page[M]:
        rows, totals, path = _content(envelope)
        metadata: Metadata = envelope.metadata or Metadata()
        models = make_models(rows)
        refuse_another_row(models, path, subject)
        return metadata.page(number, models, _totals(totals))

    def _first_row(self, body: bytes) -> dict[str, Any]:
        """Return the first row of a page, to learn its unknown names.

        If the first row is current, a later one was refused. Other types are tried only if earlier
        pages had unknown names. Then the result is an empty row, from which nothing is learnt.

        Raises:
            ValueError: other types would not help.
        """
        row = None
        try:
            self._first_row_finder.decode(body)
        except _FirstRow as end:
            row = end.args[0]
        with suppress(*REFUSALS):
            self._current_rows.decode(msgspec.json.encode([row]))
            row = {} if self._unknown_names else None
        if not isinstance(row, dict):
            raise ValueError("the first row does not show how to read the others")
        return row

    def _learn_names(self, names: Iterable[str]) -> None:
        """Give the unknown names of a row a field in the types of later pages."""
        unknown_names = self._unknown_names
        for name in names:
            if len(unknown_names) == _MOST_NAMES:
                break
            is_new = name not in self._known_names and name not in unknown_names
            if is_new and _MAY_BE_FIELD.fullmatch(name):
                unknown_names = (*unknown_names, name)
        self._unknown_names = unknown_names

    def _make_current(self, rows: list[Any]) -> list[M]:
        # An error leaves all rows unconverted, so the JSON can be read again.
        self._values.convert(rows)
        return become(rows, self._model)

    def _make_odd(self, rows: list[Any], unknown_names: Names = ()) -> list[M]:
        """Make models of odd raw rows.

        A model holds only a part of some values, such as the day of a date-time. The original is
        then in `extra`.

        Args:
            rows: the raw rows.
            unknown_names: the unknown names that have fields.
        """
        self._values.convert(rows)
        if unknown_names:
            _keep_unknown_fields(rows, unknown_names)
        model = self._model
        integers = self._integers
        integer_strings = self._integer_strings
        partial_values = self._partial_values
        field_count = len(self._types)
        models = []
        for row in rows:
            # Access by the place in a list takes half the time of `getattr`.
            fields = [*astuple(row)[:field_count]]
            for place in integers:
                if type(fields[place]) is str:
                    fields[place] = integer_strings[fields[place]]
            originals = {}
            for place, name, parts in partial_values:
                fields[place], original = parts[fields[place]]
                if original is not None:
                    originals[name] = original
            if originals:
                # `extra` is the last field of every model.
                fields[-1] = originals | row.extra
            models.append(model(*fields))
        return models

    @cached_property
    def _integers(self) -> list[int]:
        """The places of integers in a model."""
        types = enumerate(self._types.values())
        return [place for place, type_ in types if type_ in (int, int | None)]

    @cached_property
    def _partial_values(self) -> list[tuple[int, str, Memo]]:
        """The place, wire name and memo of each field whose value a model may hold only in part."""
        memos = {
            bool | None: Memo(values.flag),
            UNFROZEN.date | None: Memo(values.day, limit=16 * 1024),
        }
        return [
            (place, self._names[name], memos[type_])
            for place, (name, type_) in enumerate(self._types.items())
            if type_ in memos
        ]

    @cached_property
    def _first_row_finder(self) -> JsonDecoder:
        return self._page_decoder(list[_FirstRow], _end_at_first_row)

    @cached_property
    def _odd_rows(self) -> JsonDecoder:
        return JsonDecoder(self._raw_rows(ODD))

    @cached_property
    def _tolerant_current_rows(self) -> JsonDecoder:
        return JsonDecoder(self._raw_rows(CURRENT, None))

    @cached_property
    def _tolerant_odd_rows(self) -> JsonDecoder:
        return JsonDecoder(self._raw_rows(ODD, None))

    def _make_odd_page_decoder(self, unknown_names: Names) -> JsonDecoder:
        return self._page_decoder(self._raw_rows(ODD, unknown_names))

    def _page_decoder(
        self, rows: Any, dec_hook: Callable[[type, Any], Any] | None = None
    ) -> JsonDecoder:
        """Return a decoder of pages of either shape, which refuses unknown fields anywhere."""
        struct = partial(msgspec.defstruct, forbid_unknown_fields=True, gc=False)
        # The service may send false in place of totals. Unset totals differ from null: `_content`
        # refuses totals beside `data` in the nested shape.
        totals = ("totals", self._totals_type() | bool | None | UnsetType, UNSET)
        metadata = ("metadata", Metadata | None, None)
        # msgspec distinguishes the shapes by itself: `data` is an array, or an object with rows.
        nested = struct("Nested", [("rows", rows), totals])
        envelope = struct("Envelope", [("data", rows | nested), totals, metadata])
        return JsonDecoder(envelope, dec_hook=dec_hook)

    def _totals_type(self) -> Any:
        names = self._totals_names
        fields = [(name, _Metric | None, None) for name in names]
        return msgspec.defstruct("Totals", fields, rename=names, forbid_unknown_fields=True)

    def _raw_rows(self, wire_types: WireTypes, unknown_names: Names | None = ()) -> Any:
        """Return the type of a list of raw rows."""
        types = {name: wire_types[self._types[name]] for name in self._names}
        row: Any = raw_row_struct(self._model, types, self._names, unknown_names)
        return list[row]


def _end_at_first_row(_type: object, row: object) -> None:
    raise _FirstRow(row)


def _keep_unknown_fields(rows: list[Any], names: Names) -> None:
    """Move the values of unknown names into `extra`."""
    fields = [(f"unknown_{place}", name) for place, name in enumerate(names)]
    for row in rows:
        extra = {}
        for field, name in fields:
            value = getattr(row, field)
            # Null differs from a missing field.
            if value is not UNSET:
                extra[name] = value
        if extra:
            row.extra = extra


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
