"""Rows of the ranking feeds, from JSON to models, without the reference converter.

msgspec reads rows into raw rows: structs with the fields of a model, but with the names and types
of the wire. Then plain code converts the values that msgspec can't convert, and raw rows become
models. There are three kinds of pages:

1. A page of current rows, the hot path. It needs one typed decode.
2. A page whose rows are all like its first one, such as older rows or rows with integers as
   strings. It also needs one typed decode, with the first types that accept this row.
3. Any other page. Its rows arrive as JSON, a slice at a time. A slice is decoded with the first
   types that accept its rows.

Rows of pages 2 and 3 may have unknown fields:

- If rows of earlier pages often had the same unknown fields, the types have a field for each, and
  raw rows are copied to models.
- Otherwise, on a page 2, the unknown fields are moved in the JSON (`unknown_fields.py`).
- Otherwise, on a page 3, the types ignore the unknown fields, and the slice is parsed as well.

The reference converter reads rows that cannot be read in these ways, and names the bad field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw
from msgspec.json import Decoder as JsonDecoder, decode as decode_json, encode as encode_json
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
from seorep_async.models.model import NO_EXTRA
from seorep_async.normalisation.envelope import Metadata, PageSubject, refuse_another_subject
from seorep_async.normalisation.row_values import (
    PeriodValues,
    RankingValues,
)
from seorep_async.normalisation.unknown_fields import MARK, move_unknown_fields
from seorep_async.normalisation.wire_names import wire_names
from seorep_async.plain_values import UNFROZEN, field_types
from seorep_async.settings import EngineNames

M = TypeVar("M")

REFUSALS = (ValueError, RecursionError, OverflowError)
"""The errors for refused pages and rows. msgspec's errors are ValueErrors."""

CURRENT = {
    bool | None: Literal["true", "false"] | None,
    UNFROZEN.date: str,
    SearchLocation | None: Raw,
    SearchLanguage | None: Raw,
    tuple[Tag, ...]: Raw,
}
"""The types on the wire in current rows, by the type of the attribute. Others are the same."""

_NO_NUMBER = Meta(ge=1, le=0)  # a constraint that no number meets

OLDER = CURRENT | {
    bool | None: bool | str | Annotated[int, _NO_NUMBER] | None,
    UNFROZEN.date | None: str | None,
}
"""The types in older rows: dates have a time of day, and flags may be any string.

The type of a flag includes an integer with a constraint that no number meets. Otherwise, decoding
without `strict` would read 1 as true.
"""

_MOST = 10**18 - 1  # longer strings are no integers
_WHOLE = Annotated[int, Meta(ge=-_MOST, le=_MOST)] | Annotated[float, _NO_NUMBER]

_LAX = {int: _WHOLE, int | None: _WHOLE | None}
"""The types of integers that may be strings as well, so they are decoded without `strict`.

Without it, msgspec would also read 1.0, "1.0" and "1e3" as integers. So these types include a float
with a constraint that no number meets.
"""

_ESCAPED_LETTER = re.compile(rb"\\u00([46][ce]|[57]5)")
"""An escaped letter of "null" or "NULL". Encoders don't escape letters, but JSON allows it."""

_FORMATS = {
    "current": CURRENT,
    "older": OLDER,
    "current, lax": CURRENT | _LAX,
    "older, lax": OLDER | _LAX,
}
"""The types of each format of rows. A format before another one decodes faster."""

_MOST_NAMES = 32
"""The maximum number of unknown names that get fields. A new name needs new types, and making them
takes as long as reading 200 to 400 rows. So names that differ in each row must not get fields.
"""
_MAY_BE_FIELD = re.compile(r"\w[\w.-]{0,63}")
"""The form of names that may get fields. Types are kept, so long names would fill the memory."""

_ABSENT = Raw(b"null")
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
        self._names = wire_names(model, engine_names) | {"extra": MARK}
        self._known_names = frozenset(self._names.values())
        self._read_totals = _totals_decoder(wire_names(RankingTotals, engine_names))
        # `PeriodValues` or `RankingValues`; continue at their `convert` in `row_values.py`.
        self._values: Any = PeriodValues()
        self._formats = ["current", "current, lax"]
        # Only this feed has flags and dates that may be null, whose types differ in older rows.
        if model is KeywordRanking:
            self._values = RankingValues(self._names)
            self._formats = list(_FORMATS)
        # `_make_decoder` makes each decoder when a page first needs it.
        self._decoder_for = lru_cache(16)(self._make_decoder)
        # Unknown names that recurred on earlier pages. The types of other pages have a field for
        # each.
        self._unknown_names: tuple[str, ...] = ()

    def read_page(self, body: bytes, number: int, subject: PageSubject) -> Page[M]:
        """Read a page whose rows are alike, or raise one of `REFUSALS`.

        Raises:
            DecodeError: a row is about another campaign or keyword.
        """
        # Nearly every page is read here. `contextlib.suppress` would take longer than a row does.
        # Current rows have no unknown fields, so none can name another campaign, and no subject is
        # passed.
        try:
            return self._page(self._decoder_for("current", ())(body), number)
        except REFUSALS:
            pass
        known_names = self._known_names
        first_row = _first_row_of(body)
        unknown_names = {*first_row} - known_names
        # None: only the format is wanted, so the types ignore unknown fields.
        row_format, *_ = self._decode(encode_json({"data": [first_row]}), None)
        # Current rows were already tried. So if the first row is one, a later row was refused, and
        # only its slice needs wider types.
        if row_format == "current" and not unknown_names:
            raise ValueError("the first row does not show how to read the others")
        names = self._unknown_names if unknown_names else ()
        moves = 0
        if not unknown_names.issubset(names):
            # Some name has no field of its own, so the unknown fields are moved in the JSON.
            names = ()
            body, moves = move_unknown_fields(body, [*first_row], known_names)
        envelope = self._decoder_for(row_format, names)(body)
        # A known field, or a field of an object in a row, may have been moved by mistake. Then the
        # types refused the page, or fewer rows have extras than moves were made, or an extra has a
        # known name.
        extras = [row.extra for row in _content(envelope)[0] if row.extra]
        if len(extras) != moves or not known_names.isdisjoint(chain(*extras)):
            raise ValueError("other fields than unknown ones of rows were moved")
        self._remember_names(extras)
        return self._page(envelope, number, subject, row_format, names)

    def read_rows(self, json_rows: Sequence[Raw]) -> list[M]:
        """Read a slice of a page, whose rows may differ, or raise one of `REFUSALS`."""
        page = b'{"data":[' + b",".join(json_rows) + b"]}"
        # First types without unknown fields, then with fields for the names that recurred, and last
        # types that ignore unknown fields.
        row_format, names, envelope = self._decode(page, (), self._unknown_names, None)
        if names is None:
            # The types ignore unknown fields, so these are read from the parsed JSON.
            known_names = self._known_names
            for row, fields in zip(envelope.data, decode_json(page)["data"], strict=True):
                row.extra = {
                    name: fields[name] for name in fields if name not in known_names
                } or NO_EXTRA
            self._remember_names([row.extra for row in envelope.data])
        return self._make_models(envelope.data, row_format, names)

    def _decode(
        self, page: bytes, *choices: tuple[str, ...] | None
    ) -> tuple[str, tuple[str, ...] | None, Any]:
        """Decode a page with the first types that accept all of its rows.

        Args:
            page: the JSON of the page.
            choices: the unknown names that may get fields, as `_make_decoder` takes them.

        Returns:
            The format of the rows, the names that got fields, and the decoded envelope.
        """
        for names in dict.fromkeys(choices):
            for row_format in self._formats:
                try:
                    return row_format, names, self._decoder_for(row_format, names)(page)
                except REFUSALS:
                    pass
        raise ValueError("no types accept these rows")

    def _remember_names(self, extras: Sequence[Mapping[str, Any]]) -> None:
        """Remember the names of the unknown fields of some rows, if these names recur.

        `extras` has the unknown fields of each row.
        """
        names = [*chain(*extras)]
        # If each row has names of its own, fields for them would only slow later pages. So each
        # name must occur in two rows on average.
        if len(names) >= 2 * len(set(names)):
            new_names = filter(_MAY_BE_FIELD.fullmatch, names)
            all_names = dict.fromkeys(chain(self._unknown_names, new_names))
            self._unknown_names = tuple(all_names)[:_MOST_NAMES]

    def _page(
        self,
        envelope: Any,
        number: int,
        subject: PageSubject = None,
        row_format: str = "current",
        unknown_names: tuple[str, ...] = (),
    ) -> Page[M]:
        """Return a page from a decoded envelope.

        Args:
            envelope: the decoded envelope.
            number: the number of the page.
            subject: the requested campaign or keyword. Rows that name another one are refused.
            row_format: the key of `_FORMATS` with which the rows were decoded.
            unknown_names: the unknown names that have fields, if any.
        """
        rows, totals, path = _content(envelope)
        metadata: Metadata = _read_metadata(envelope.metadata) or Metadata()
        models = self._make_models(rows, row_format, unknown_names)
        refuse_another_subject(models, path, subject)
        return metadata.page(number, models, _totals_model(self._read_totals(totals)))

    def _make_models(
        self,
        rows: list[Any],
        row_format: str = "current",
        unknown_names: tuple[str, ...] | None = (),
    ) -> list[M]:
        """Make models of raw rows.

        Args:
            rows: the raw rows.
            row_format: the key of `_FORMATS` with which the rows were decoded.
            unknown_names: the unknown names that have fields, if any.
        """
        self._values.convert(rows)
        if row_format.startswith("older"):
            self._values.shorten(rows)
        if not unknown_names:
            try:
                return turn_into_models(rows, self._model)
            except TypeError:  # a later msgspec may lay structs out otherwise
                unknown_names = ()
        field_count = len(self._types)
        models = []
        for row in rows:
            # Access by index takes half the time of `getattr`.
            row_values = astuple(row)
            fields = [*row_values[:field_count]]
            extra = {}
            # The values of unknown fields come after those of the model's fields.
            for index, name in enumerate(unknown_names, field_count):
                # Null differs from a missing field.
                if row_values[index] is not UNSET:
                    extra[name] = row_values[index]
            # `extra` is the last field of every model.
            fields[-1] = extra | fields[-1] or NO_EXTRA
            models.append(self._model(*fields))
        return models

    def _make_decoder(
        self, row_format: str, unknown_names: tuple[str, ...] | None
    ) -> Callable[[bytes], Any]:
        """Return a decoder of an envelope around rows.

        Args:
            row_format: a key of `_FORMATS`. If it is lax, integers may be strings.
            unknown_names: the unknown names that get fields. Other unknown names are refused. With
                None, all of them are ignored.
        """
        wire_types: Any = _FORMATS[row_format]
        # Most types on the wire are those of the attributes.
        types = {name: wire_types.get(self._types[name], self._types[name]) for name in self._names}
        type_ = _envelope_type(raw_row_struct(self._model, types, self._names, unknown_names))
        if row_format.endswith("lax"):
            return partial(_decode_lax, JsonDecoder(type_, strict=False).decode)
        return JsonDecoder(type_).decode


def _envelope_type(row: Any) -> Any:
    """Return the type of pages of either shape, which refuses unknown fields anywhere."""
    struct = partial(msgspec.defstruct, forbid_unknown_fields=True, gc=False)
    # Totals and metadata stay JSON, because they are strict even if the rows are not.
    totals = ("totals", Raw, _ABSENT)
    metadata = ("metadata", Raw, _ABSENT)
    # msgspec distinguishes the shapes by itself: `data` is an array, or an object with rows.
    nested = struct("Nested", [("rows", list[row]), totals])
    return struct("Envelope", [("data", list[row] | nested), totals, metadata])


def _decode_lax(decode: Callable[[bytes], Any], json: bytes) -> Any:
    """Decode rows without `strict`, but refuse all of them if a string may be "null"."""
    rows = decode(json)
    # Without `strict`, msgspec reads the string "null" as null, and the reference refuses it.
    lower_case = json.lower()
    # Most rows have no backslash, and finding none takes a fraction of the time of a match.
    if b'"null"' in lower_case or (b"\\" in json and _ESCAPED_LETTER.search(lower_case)):
        raise ValueError('a string may be "null"')
    return rows


def _end_at_first_row(_type: object, row: object) -> None:
    raise _FirstRow(row)


# msgspec calls the hook with each value that should be a `_FirstRow`, and so with the first row.
_find_first_row = JsonDecoder(_envelope_type(_FirstRow), dec_hook=_end_at_first_row).decode


def _first_row_of(body: bytes) -> dict[str, Any]:
    """Return the first row of a page, or raise one of `REFUSALS`."""
    try:
        _find_first_row(body)
    except _FirstRow as end:
        return msgspec.convert(end.args[0], dict)
    raise ValueError("the page has no rows")


def _totals_decoder(names: dict[str, str]) -> Callable[[bytes], Any]:
    """Return a decoder of totals.

    Args:
        names: the wire name of each attribute of `RankingTotals`.
    """
    fields = [(name, _Metric | None, None) for name in names]
    totals = msgspec.defstruct("Totals", fields, rename=names, forbid_unknown_fields=True)
    # The service may send false in place of totals. `bool` admits true as well, which
    # `_totals_model` leaves to the reference converter.
    return JsonDecoder(totals | bool | None).decode


def _content(envelope: Any) -> tuple[list[Any], Raw, str]:
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
