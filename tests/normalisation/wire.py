"""Answers of the service built from the reference's fields, and their decoding and checks.

`assert_faithful` judges without the package's own rules.
"""

import datetime as dt
import functools
import json
import re
from typing import Any, Literal

import pytest

from seorep_async.models import (
    CampaignPeriod,
    KeywordPeriod,
    KeywordRanking,
    SearchLanguage,
    SearchLocation,
    Tag,
)
from seorep_async.normalisation import Decoder, FeedPage
from seorep_async.settings import EngineNames
from tests.models.reference import REFERENCE, example_of

Shape = Literal["nested", "flat"]
Rows = Literal["current", "older"]
Json = dict[str, Any]

FEED_ROWS: tuple[type, ...] = (KeywordRanking, CampaignPeriod, KeywordPeriod)
every_feed = pytest.mark.parametrize("row", FEED_ROWS, ids=lambda row: row.__name__)

BRANDS = EngineNames(engine_a="google", engine_b="bing", webmaster_tools="gwt")


SWAPPED = EngineNames(engine_a="yahoo", engine_b="engineA", webmaster_tools="console")


def branded(wire: str, names: EngineNames = BRANDS) -> str:
    """Return a name on the wire of an account with these names for the engines."""
    brands = {
        "engineA": names.engine_a,
        "engineB": names.engine_b,
        "wmt": names.webmaster_tools,
    }
    for token, brand in brands.items():
        wire = re.sub(f"^{token}", brand, wire)
        wire = wire.replace(token[0].upper() + token[1:], brand[0].upper() + brand[1:])
    return wire


def wire_row(model: type, number: int, rows: Rows = "current") -> Json:
    """Return row `number` on the wire. The values of all fields and rows differ."""
    return row_and_model(model, number, rows)[0]


def row_and_model(model: type, number: int, rows: Rows = "current") -> tuple[Json, Any]:
    """Return row `number`, and the expected model."""
    return example_of(model, rows if model in FEED_ROWS else None, 1000 * number)


def envelope(rows: object, shape: Shape, totals: object = False, **metadata: object) -> Json:
    """Return rows and totals in one of the two shapes of a feed."""
    metadata = {"total_pages": 1, "total_records": 3} | metadata
    if shape == "nested":
        return {"metadata": metadata, "data": {"totals": totals, "rows": rows}}
    return {"metadata": metadata | {"version": False}, "data": rows, "totals": totals}


def as_bytes(answer: object) -> bytes:
    """Write an answer as the service does."""
    return json.dumps(answer).encode()


@functools.cache
def decoder(names: EngineNames = EngineNames()) -> Decoder:  # noqa: B008
    """Return the decoder for these names, which takes a while to build."""
    return Decoder(names)


def decode(answer: object, row: type = KeywordRanking, names: EngineNames = EngineNames()) -> Any:  # noqa: B008
    """Decode a feed's answer, which may be parsed or bytes, as its first page."""
    body = answer if isinstance(answer, bytes) else as_bytes(answer)
    return FeedPage(decoder(names), row, 1)(body)


def decode_row(
    row: object,
    model: type = KeywordRanking,
    names: EngineNames = EngineNames(),  # noqa: B008
) -> Any:
    """Decode an answer that holds this one row."""
    return decode(envelope([row], "flat"), model, names).items[0]


_NO_DATE = {None, "", "0000-00", "0000-00-00", "0000-00-00 00:00:00", "0000-00-00 0:00:00"}


def assert_faithful_page(page: Any, answer: Json, row: type) -> None:
    """Assert that a feed's page agrees with a parsed answer."""
    data: Any = answer["data"]
    if isinstance(data, list):
        rows = data
        totals: Any = answer.get("totals")
    else:
        rows = data["rows"]
        totals = data.get("totals")
    assert len(page.items) == len(rows)
    for model, wire in zip(page.items, rows, strict=True):
        assert type(model) is row
        assert_faithful(model, wire)
    if page.totals is None:
        assert totals in (None, [], {}) or totals is False
    else:
        assert_faithful(page.totals, totals)


def assert_faithful(model: Any, wire: Json) -> None:
    """Assert that a model, including its `extra`, agrees with a parsed object."""
    table = REFERENCE[type(model)]
    names = {field.name for field in table}
    extra = {name: value for name, value in wire.items() if name not in names}
    for field in table:
        value = getattr(model, field.attribute)
        came = wire.get(field.name)
        assert _is_fact(field.kind, value, came), (field.name, value, came)
        if field.kind == "month" or field.kind == "period":
            assert model.date_precision == {7: "month", 10: "day"}[len(wire[field.name])]
        if field.kind == "last" and isinstance(came, str) and value and came[10:].strip(" T0:"):
            extra[field.name] = came
        if field.name == "primaryKeyword" and value is None and came is not None:
            extra[field.name] = came
        if field.kind == "metric" and isinstance(came, dict) and len(came) > 1:
            extra[field.name] = came
    assert model.extra == extra


def _is_fact(kind: str, value: Any, came: Any) -> bool:
    match kind:
        case "id":
            return value is not None and _is_integer(value, came)
        case "integer":
            return _is_integer(value, came)
        case "text" if value is None:
            return came is None
        case "phrase" | "text":
            return type(value) is type(came) is str and value == came
        case "flag" if value is None:
            return came is None or (type(came) is str and came.lower() not in ("true", "false"))
        case "flag":
            is_flag = type(value) is bool and type(came) in (bool, str)
            return is_flag and str(came).lower() == str(value).lower()
        case "last" | "day" | "moment" if value is None:
            return came is None or (type(came) is str and came in _NO_DATE)
        case "last" | "day":
            return type(value) is dt.date and type(came) is str and came[:10] == value.isoformat()
        case "moment":
            return type(value) is dt.datetime and came == value.isoformat(" ")
        case "null" | "unknown":
            return type(value) is type(came) and value == came
        case "month" | "period":
            is_month = len(came) == 7
            if type(value) is not dt.date or (is_month and value.day != 1):
                return False
            return bool(came == (value.isoformat()[:7] if is_month else value.isoformat()))
        case "location" | "language" if value is None:
            return came is None or came in ([], {})
        case "location" | "language":
            assert_faithful(value, came)
            return type(value) is (SearchLocation if kind == "location" else SearchLanguage)
        case "tags":
            for tag, wire in zip(value, came or [], strict=True):
                assert_faithful(tag, wire)
            return type(value) is tuple and {*map(type, value)} <= {Tag}
        case "metric":
            inner = came["value"] if isinstance(came, dict) else came
            is_float = type(value) is type(inner) is float
            return (is_float and value == inner) or _is_integer(value, inner)
    raise AssertionError(kind)


def _is_integer(value: Any, came: Any) -> bool:
    if value is None or came is None:
        return value is came
    if type(came) is str:
        is_integer = re.fullmatch("-?[0-9]+", came) is not None
        return type(value) is int and is_integer and int(came) == value
    return type(value) is int and type(came) is int and value == came
