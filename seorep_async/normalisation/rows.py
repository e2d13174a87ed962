"""Rows of the ranking feeds, from JSON to models, without the reference converter.

msgspec reads rows into raw rows: structs with a model's fields under the wire's names and of the
wire's types. Then plain code converts the values that msgspec cannot. There are three readings:

1. Current rows, the hot path: a whole page in one typed decode, converted in place.
2. Older rows: the same with other types; a model is made of each raw row.
3. Odd rows, such as rows with unknown fields or integers as strings: parsed JSON is converted to
   raw rows, and a model keeps what it does not know in `extra`.

Whatever all three refuse goes to the reference converter, which names the bad field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

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
from seorep_async.normalisation.row_values import Memo, PeriodValues, RankingValues
from seorep_async.normalisation.wire_names import wire_names
from seorep_async.plain_values import CALENDAR, field_types
from seorep_async.settings import EngineNames

M = TypeVar("M")
WireTypes: TypeAlias = dict[Any, Any]
MakeModels: TypeAlias = Callable[[list[Any]], list[M]]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)] | None

REFUSALS = (ValueError, RecursionError)
"""Errors for refused pages and rows; those of msgspec are ValueErrors."""

CURRENT: WireTypes = {
    int: int,
    int | None: int | None,
    str: str,
    str | None: str | None,
    bool | None: Literal["true", "false"] | None,
    CALENDAR.date | None: CALENDAR.date | None,
    CALENDAR.date: str,
    SearchLocation | None: msgspec.Raw,
    SearchLanguage | None: msgspec.Raw,
    tuple[Tag, ...]: msgspec.Raw,
}
"""The type on the wire of a current row, for each type of an attribute."""

OLDER: WireTypes = CURRENT | {bool | None: bool | str | None, CALENDAR.date | None: str | None}
"""The same for older rows, whose dates have a time of day and whose flags may be any string."""

ACCEPTED: WireTypes = OLDER | {int: int | str, int | None: int | str | None}
"""The same for odd rows, whose integers may be strings."""

PARSED_OBJECTS: WireTypes = {
    SearchLocation | None: Any,
    SearchLanguage | None: Any,
    tuple[Tag, ...]: Any,
}
"""The types of objects in rows that were parsed before."""


class _Metadata(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An envelope's `metadata` as documented (the service's reference, section 1)."""

    total_pages: _Count = None
    total_records: _Count = None
    version: bool | None = None


class _Metric(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    value: int | float | None


class RowReader(Generic[M]):
    """Reads the rows of one feed."""

    def __init__(self, model: type[M], engine_names: EngineNames) -> None:
        self._model = model
        self._types = field_types(model)
        self._names = wire_names(model, engine_names)
        self._known_fields = frozenset(self._names.values())
        self._totals_names = wire_names(RankingTotals, engine_names)
        self._integer_strings = Memo(values.integer)
        self._values: RankingValues | PeriodValues
        if model is KeywordRanking:
            self._values = RankingValues()
            self._second_types = OLDER
        else:
            # Older rows by date are read as current ones, so the second reading takes odd ones.
            self._values = PeriodValues()
            self._second_types = ACCEPTED
        self._read_current = self._page_decoder(CURRENT)

    def read_page(self, body: bytes, number: int) -> Page[M]:
        """Read a page of current or older rows, or raise one of `REFUSALS`."""
        try:
            return self._page(self._read_current(body), number, self._make_current)
        except REFUSALS:
            make_models = partial(self._make_models, wire_types=self._second_types)
            return self._page(self._read_second(body), number, make_models)

    def read_objects(self, objects: Sequence[Any]) -> tuple[list[M], set[str]]:
        """Read parsed rows, or raise one of `REFUSALS`.

        Unknown fields go into `extra`. Their names are returned beside the rows.
        """
        # Most odd rows are current ones with an unknown field. To make these is faster.
        try:
            return self._read_objects(objects, self._current_rows, self._make_current)
        except REFUSALS:
            make_models = partial(self._make_models, wire_types=ACCEPTED)
            return self._read_objects(objects, self._accepted_rows, make_models)

    def _page(self, envelope: Any, number: int, make_models: MakeModels[M]) -> Page[M]:
        rows, totals = _content(envelope)
        # What fails here fails before a row has become a model, so the page can be read again.
        self._values.convert(rows)
        metadata = envelope.metadata or _Metadata()
        return Page(
            items=tuple(make_models(rows)),
            number=number,
            total_pages=metadata.total_pages,
            total_records=metadata.total_records,
            totals=_totals(totals),
            version=metadata.version,
        )

    def _read_objects(
        self, objects: Sequence[Any], raw_rows: Any, make_models: MakeModels[M]
    ) -> tuple[list[M], set[str]]:
        # From the same parsed JSON as the reference path, so both see the same of double keys.
        rows = msgspec.convert(objects, raw_rows)
        unknown_fields = self._add_unknown_fields(rows, objects)
        self._values.convert_parsed(rows)
        return make_models(rows), unknown_fields

    def _add_unknown_fields(self, rows: list[Any], objects: Sequence[Any]) -> set[str]:
        all_unknown: set[str] = set()
        names: list[str] = []
        unknown: list[str] = []
        for row, wire in zip(rows, objects, strict=True):
            # Most rows have the same fields as the row before.
            if [*wire] != names:
                names = [*wire]
                unknown = [name for name in names if name not in self._known_fields]
                all_unknown.update(unknown)
            if unknown:
                row.extra = extra = {}
                # In half the time of a comprehension.
                for name in unknown:
                    extra[name] = wire[name]
        return all_unknown

    def _make_current(self, rows: list[Any]) -> list[M]:
        self._values.convert_flags(rows)
        return become(rows, self._model)

    def _make_models(self, rows: list[Any], wire_types: WireTypes) -> list[M]:
        """Make models of raw rows with older or odd values.

        A model holds only a part of some values, such as the day of a date-time. Then the original
        is in `extra`.
        """
        model = self._model
        integer_strings = self._integer_strings
        partial_values = self._partial_values
        integers = self._integers if wire_types is ACCEPTED else []
        models = []
        for row in rows:
            # By its place in a list, a field is found in half the time of `getattr`.
            fields = [*astuple(row)]
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
        """Place, wire name and memo of each value that a model may hold only a part of."""
        flags = Memo(values.flag)
        days = Memo(values.day, limit=16 * 1024)
        partial_values = []
        for place, (name, type_) in enumerate(self._types.items()):
            if type_ == bool | None:
                partial_values.append((place, self._names[name], flags))
            elif type_ == CALENDAR.date | None:
                partial_values.append((place, self._names[name], days))
        return partial_values

    @cached_property
    def _read_second(self) -> Callable[[bytes], Any]:
        return self._page_decoder(self._second_types)

    @cached_property
    def _current_rows(self) -> Any:
        return self._raw_rows(CURRENT | PARSED_OBJECTS, strict=False)

    @cached_property
    def _accepted_rows(self) -> Any:
        return self._raw_rows(ACCEPTED | PARSED_OBJECTS, strict=False)

    def _page_decoder(self, wire_types: WireTypes) -> Callable[[bytes], Any]:
        """Return a decoder of pages of either shape, which refuses unknown fields anywhere."""
        struct = partial(msgspec.defstruct, forbid_unknown_fields=True, gc=False)
        rows = self._raw_rows(wire_types, strict=True)
        # Unset totals differ from null: in the nested shape, totals beside `data` are refused.
        totals = ("totals", self._totals_type() | bool | None | UnsetType, UNSET)
        metadata = ("metadata", _Metadata | None, None)
        # msgspec tells the shapes apart by itself: `data` is an array, or an object with rows.
        nested = struct("Nested", [("rows", rows), totals])
        envelope = struct("Envelope", [("data", rows | nested), totals, metadata])
        return msgspec.json.Decoder(envelope).decode

    def _totals_type(self) -> Any:
        names = self._totals_names
        fields = [(name, _Metric | None, None) for name in names]
        return msgspec.defstruct("Totals", fields, rename=names, forbid_unknown_fields=True)

    def _raw_rows(self, wire_types: WireTypes, *, strict: bool) -> Any:
        types = {name: wire_types[self._types[name]] for name in self._names}
        raw_row: Any = raw_row_struct(self._model, types, self._names, strict=strict)
        return list[raw_row]


def _content(envelope: Any) -> tuple[list[Any], Any]:
    """Return the rows of a page and its totals, which stand beside the rows in either shape."""
    if type(envelope.data) is list:
        return envelope.data, envelope.totals
    if envelope.totals is not UNSET:
        raise ValueError("totals beside `data` are an unknown field of this shape")
    return envelope.data.rows, envelope.data.totals


def _totals(wire: Any) -> RankingTotals | None:
    if wire is True:
        raise ValueError("only the reference converter judges `true`")
    if not wire:  # false, null or absent
        return None
    metrics = astuple(wire)
    if not any(metrics):
        raise ValueError("only the reference converter judges totals without any metric")
    return RankingTotals(*[metric and metric.value for metric in metrics])
