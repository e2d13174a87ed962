"""Generated answers: bodies by their number, and rows with the expected models."""

import datetime as dt
import random
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import attrs
import pytest
from hypothesis import settings, strategies as st

from seorep_async.models import KeywordRanking, RankingTotals, SearchLanguage, SearchLocation, Tag
from seorep_async.settings import EngineNames
from tests.models.reference import REFERENCE
from tests.normalisation.wire import (
    BRANDS,
    FEED_ROWS,
    SWAPPED,
    Json,
    as_bytes,
    branded,
    envelope,
    wire_row,
)

SOME = 1_000
MANY = pytest.param(20_000, marks=pytest.mark.slow)
VALUES: list[Any] = [None, True, False, 0, 1, -1, 12, 2**31, 2**63, 2**64, 10**30]
VALUES += [0.0, 1.0, 1.9, -2.5, 1e300]
VALUES += ["", " ", "0", "1", "-1", "12", "1.0", "9" * 19]
VALUES += ["true", "FALSE", "True ", "null", "NULL", "n/a", "None", "NaN", "1e0"]
VALUES += ["2023-01", "2023-1", "2023-01-31", "2023-02-30", "2023-01-31 00:00:00"]
VALUES += ["2015-03-31 9:32:19", "0000-00-00", "0000-00-00 00:00:00", "٢٠٢٣-01-31"]
VALUES += ["é", "𐍈", "\x00", "a\nb", "https://example.com/?a=b&c=d", "x" * 300]
VALUES += [[], {}, [[]], [{}], [None], {"id": 1}, {"id": "1", "name": "x"}, {"id": None}]
VALUES += [[{"id": 1, "label": "x"}], [{"id": 1}], [{"id": True, "label": "x"}]]
VALUES += [{"value": 1}, {"value": None}, {"value": "x"}, {"value": [1]}]


PIECES = [b'"', b"{", b"}", b"[", b"]", b",", b"0", b"null", b"\xff", b"\\u"]
NAMINGS = (EngineNames(), BRANDS, SWAPPED)


class Body(NamedTuple):
    """A generated body, the row that it is read as, and the account's names for the engines."""

    body: bytes
    row: type
    names: EngineNames


def generated(number: int) -> Body:
    """Return body `number`: one or two rows, in which some values, fields or parts are odd."""
    chance = random.Random(number)
    row = chance.choice(FEED_ROWS)
    names = NAMINGS[number % len(NAMINGS)]
    rows = []
    for place in range(chance.randint(1, 2)):
        rows.append(wire_row(row, place, chance.choice(["current", "older"])))
    totals: Any = wire_row(RankingTotals, 1) if chance.random() < 0.5 else False
    fields = [field.name for field in REFERENCE[row]]
    for _ in range(chance.choice([0, 1, 1, 1, 2, 5])):
        target = chance.choice([*rows, totals or rows[0]])
        name = chance.choice([*fields, "unknown"])
        if chance.random() < 0.2:
            target.pop(name, None)
        else:
            target[name] = chance.choice(VALUES)
    rows = [_branded(wire, names) for wire in rows]
    totals = totals and _branded(totals, names)
    answer: Any = envelope(rows, chance.choice(["nested", "flat"]), totals)
    if chance.random() < 0.1:
        part = chance.choice([answer, answer["metadata"], answer["data"]])
        if isinstance(part, list):
            part[0] = chance.choice(VALUES)
        else:
            part[chance.choice([*part, "status", "error"])] = chance.choice(VALUES)
    return Body(as_bytes(answer), row, names)


def mutated(number: int) -> Body:
    """Return body `number` with some bytes changed, removed, inserted or repeated."""
    whole = generated(number)
    chance = random.Random(-number)
    body = bytearray(whole.body)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(body))
        match chance.randrange(4):
            case 0:
                body[place] = chance.randrange(256)
            case 1:
                del body[place : place + chance.randint(1, 30)]
            case 2:
                body[place:place] = chance.choice(PIECES)
            case 3:
                body[place:place] = body[place : place + chance.randint(1, 60)]
    return whole._replace(body=bytes(body))


def _branded(wire: Json, names: EngineNames) -> Json:
    return {branded(name, names): value for name, value in wire.items()}


bounded = settings(max_examples=25, derandomize=True, database=None)

Said = tuple[Any, Any]
"""A value on the wire, and its meaning."""
Strategy: TypeAlias = st.SearchStrategy[Any]
SaidStrategy: TypeAlias = st.SearchStrategy[Said]

texts = st.text(max_size=8)
integers = st.integers() | st.integers(0, 120)
dates = st.dates()
whole_seconds = st.times().map(lambda time: time.replace(microsecond=0))
times = whole_seconds.filter(lambda time: time != dt.time())
floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | integers | floats | texts


def arrays_and_objects(inner: Strategy) -> Strategy:
    return st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)


json_values = st.recursive(scalars, arrays_and_objects, max_leaves=6)


def same(values: Strategy) -> SaidStrategy:
    return values.map(lambda value: (value, value))


def unknown(*names: str) -> st.SearchStrategy[Json]:
    """Draw fields that a model does not know."""
    return st.dictionaries(texts.filter(lambda text: text not in names), json_values, max_size=2)


def stated(values: Strategy, on_the_wire: Callable[[Any], Any]) -> SaidStrategy:
    """Return facts, each with its value on the wire."""
    return values.map(lambda fact: (on_the_wire(fact), fact))


nothing: SaidStrategy = st.just((None, None))
NO_DATES = (None, "", "0000-00-00", "0000-00-00 00:00:00", "0000-00-00 0:00:00")
no_dates: SaidStrategy = st.sampled_from([(text, None) for text in NO_DATES])
short_integers = st.integers(-(10**18) + 1, 10**18 - 1)
# Longer numbers beside integers as strings are left to the converter.
said_integers = same(short_integers | st.integers(0, 120)) | stated(short_integers, str)
said_dates = no_dates | stated(dates, str) | stated(dates, "{} 0:00:00".format)
optional = [st.none() | texts] * 3
LOCATION_FIELDS = ("id", "canonical_name", "country_code", "target_type")
locations = st.builds(SearchLocation, integers, *optional, unknown(*LOCATION_FIELDS))
languages = st.builds(SearchLanguage, integers, st.none() | texts, unknown("id", "name"))
single_tags = st.builds(Tag, integers, texts, unknown("id", "label"))


def as_object(fact: Any) -> Json:
    """Return an object inside a row in the form of the wire."""
    fields: Json = attrs.asdict(fact, recurse=False)
    extra: Json = fields.pop("extra")
    return fields | extra


def moment_on_the_wire(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%d} {moment.hour}:{moment:%M:%S}"


SAID: dict[str, SaidStrategy] = {
    "id": said_integers,
    "integer": nothing | said_integers,
    "phrase": same(texts),
    "text": nothing | same(texts),
    "null": nothing,
    "unknown": same(json_values),
    "last": said_dates,
    "day": said_dates,
    "period": stated(dates, str),
}
"""The values of each kind of field."""
true = st.sampled_from([("true", True), ("TRUE", True), (True, True)])
false = st.sampled_from([("false", False), ("False", False), (False, False)])
SAID["flag"] = nothing | true | false
datetimes = st.datetimes(dt.datetime(1000, 1, 1))
moments = datetimes.map(lambda moment: moment.replace(microsecond=0))
SAID["moment"] = no_dates | stated(moments, moment_on_the_wire)
months = dates.map(lambda date: date.replace(day=1))
SAID["month"] = stated(months, lambda month: str(month)[:7])
no_objects: SaidStrategy = st.sampled_from([(None, None), ([], None), ({}, None)])
SAID["location"] = no_objects | stated(locations, as_object)
SAID["language"] = no_objects | stated(languages, as_object)
tuples_of_tags = st.lists(single_tags, max_size=2).map(tuple)
SAID["tags"] = st.just((None, ())) | stated(tuples_of_tags, lambda tags: [*map(as_object, tags)])
no_numbers: SaidStrategy = st.sampled_from([(None, None), ({"value": None}, None)])
numbers = said_integers | same(floats)
SAID["metric"] = no_numbers | numbers.map(lambda said: ({"value": said[0]}, said[1]))


@st.composite
def said_models(draw: st.DrawFn, model: type) -> Said:
    """Draw an object on the wire, perhaps with unknown fields, and the expected model."""
    table = REFERENCE[model]
    wire: Json = {}
    facts: Json = {}
    for field in table:
        came, fact = draw(SAID[field.kind])
        needed = field.kind in ("id", "phrase", "month", "period")
        if needed or came is not None or draw(st.booleans()):
            wire[field.name] = came
            facts[field.attribute] = fact
        if field.kind == "period":
            facts["date_precision"] = "day"
    extra = draw(unknown(*(field.name for field in table)))
    with_time = draw(st.sampled_from([None, *(field for field in table if field.kind == "last")]))
    if with_time is not None:
        date = draw(dates)
        time = draw(times)
        extra[with_time.name] = f"{date} {time}"
        facts[with_time.attribute] = date
    if model is KeywordRanking and draw(st.booleans()):
        extra["primaryKeyword"] = draw(
            texts.filter(lambda text: text.lower() not in ("true", "false"))
        )
        facts["primary_keyword"] = None
    return wire | extra, model(**facts, extra=extra)
