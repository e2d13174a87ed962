"""Generated answers: facts survive both shapes, and whatever else comes is refused by us or taken as it is."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seorep_async.errors import SeoRepError
from seorep_async.models import Campaign, KeywordRanking, RankingTotals, SearchLanguage, SearchLocation, Tag
from tests.normalisation.faithful import assert_faithful_page
from tests.normalisation.wire import FEED_ROWS, TABLES, Json, as_bytes, decode, decoder, envelope, finished, wire_row

bounded = settings(max_examples=50, derandomize=True, database=None)
often = settings(bounded, max_examples=120)
every_feed = pytest.mark.parametrize("row", FEED_ROWS, ids=lambda row: row.__name__)

Said = tuple[Any, Any]
"""A value on the wire, and the fact that it states."""

texts = st.text(max_size=8)
integers = st.integers() | st.integers(0, 120)
dates = st.dates()
times = st.times().map(lambda time: time.replace(microsecond=0)).filter(lambda time: time != dt.time())
json_values = st.recursive(
    st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def same(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Said]:
    return values.map(lambda value: (value, value))


nothing: st.SearchStrategy[Said] = st.just((None, None))
said_integers = same(integers) | st.integers(-(10**18) + 1, 10**18 - 1).map(lambda value: (str(value), value))
said_objects = {
    "location": st.builds(SearchLocation, integers, *[st.none() | texts] * 3).map(
        lambda place: (
            {
                "id": place.id,
                "canonical_name": place.canonical_name,
                "country_code": place.country_code,
                "target_type": place.target_type,
            },
            place,
        )
    ),
    "language": st.builds(SearchLanguage, integers, st.none() | texts).map(
        lambda language: ({"id": language.id, "name": language.name}, language)
    ),
}
SAID: dict[str, st.SearchStrategy[Said]] = {
    "id": said_integers,
    "integer": nothing | said_integers,
    "phrase": same(texts),
    "text": nothing | same(texts),
    "boolean": st.sampled_from(
        [("true", True), ("false", False), ("False", False), ("TRUE", True), (True, True), (False, False), (None, None)]
    ),
    "last": st.sampled_from([(None, None), ("", None), ("0000-00-00", None), ("0000-00-00 00:00:00", None)])
    | dates.map(lambda date: (str(date), date))
    | dates.map(lambda date: (f"{date} 0:00:00", date)),
    "month": dates.map(lambda date: (str(date)[:7], date.replace(day=1))),
    "period": dates.map(lambda date: (str(date), date)),
    "location": st.sampled_from([(None, None), ([], None), ({}, None)]) | said_objects["location"],
    "language": st.sampled_from([(None, None), ([], None), ({}, None)]) | said_objects["language"],
    "tags": st.lists(st.builds(Tag, integers, texts), max_size=2).map(
        lambda tags: ([{"id": tag.id, "label": tag.label} for tag in tags], tuple(tags))
    ),
    "metric": st.sampled_from([(None, None), ({"value": None}, None)])
    | (said_integers | same(st.floats(allow_nan=False, allow_infinity=False))).map(
        lambda said: ({"value": said[0]}, said[1])
    ),
}


@st.composite
def said_models(draw: st.DrawFn, model: type) -> Said:
    """Draw an object of the wire, unknown fields included, and the model that it must become."""
    table = TABLES[model]
    wire: Json = {}
    facts: Json = {}
    for field in table:
        came, fact = draw(SAID[field.kind])
        needed = field.kind in ("id", "phrase", "month", "period")
        if needed or came is not None or draw(st.booleans()):
            wire[field.wire] = came
            facts[field.attribute] = fact
        if field.kind == "period":
            facts["date_precision"] = "day"
    known = {field.wire for field in table}
    extra = draw(st.dictionaries(texts.filter(lambda name: name not in known), json_values, max_size=2))
    if model is KeywordRanking and draw(st.booleans()):
        date, time = draw(dates), draw(times)
        extra["lastResultsDate"] = f"{date} {time}"
        facts["last_results_date"] = date
    if model is KeywordRanking and draw(st.booleans()):
        extra["primaryKeyword"] = draw(texts.filter(lambda text: text.lower() not in ("true", "false")))
        facts["primary_keyword"] = None
    return wire | extra, model(**facts, extra=extra)


@every_feed
@bounded
@given(data=st.data())
def test_generated_facts_survive_both_shapes(row: type, data: st.DataObject) -> None:
    rows = data.draw(st.lists(said_models(row), max_size=3))
    totals, expected = data.draw(said_models(RankingTotals))
    wire, models = [came for came, _ in rows], tuple(fact for _, fact in rows)
    nested = decode(envelope(wire, "nested", totals), row)
    flat = decode(envelope(wire, "flat", totals), row)
    assert nested.items == flat.items == models
    assert nested.totals == flat.totals == (expected if totals else None)


@every_feed
@often
@given(changes=st.data())
def test_rows_with_any_values_are_refused_or_taken_unchanged(row: type, changes: st.DataObject) -> None:
    names = [field.wire for field in TABLES[row]]
    wrong = changes.draw(st.dictionaries(st.sampled_from(names) | texts, json_values, min_size=1, max_size=2))
    answer = envelope([wire_row(row, 1, "older"), wire_row(row, 2) | wrong], "nested")
    try:
        page = decode(answer, row)
    except SeoRepError:
        return
    assert_faithful_page(page, answer, row)


named = st.sampled_from(["data", "rows", "totals", "metadata", "version", "status", "error", "code", "value", "id"])
envelopes = st.recursive(
    json_values, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(named, inner, max_size=4), max_leaves=8
)


@often
@given(answer=envelopes | st.fixed_dictionaries({"data": envelopes}, optional={"totals": envelopes}))
def test_any_json_is_refused_by_us_or_taken_as_it_is(answer: Any) -> None:
    for row in FEED_ROWS:
        try:
            page = decode(answer, row)
        except SeoRepError:
            continue
        assert_faithful_page(page, answer, row)


@often
@given(answer=envelopes | st.fixed_dictionaries({"data": envelopes}))
def test_any_json_is_taken_or_refused_with_our_error(answer: Any) -> None:
    for read in (
        lambda body: finished(decoder().model_page(body, Campaign, 1)),
        lambda body: decoder().single(body, Campaign),
    ):
        try:
            read(as_bytes(answer))
        except SeoRepError:
            continue


@often
@given(body=st.binary(max_size=60), start=st.sampled_from([b"", b'{"data":', b'{"data": [', b'{"data": {"rows": [{']))
def test_any_bytes_are_refused_by_us_or_taken_as_they_are(body: bytes, start: bytes) -> None:
    try:
        page = decode(start + body)
    except SeoRepError:
        return
    assert_faithful_page(page, json.loads(start + body), KeywordRanking)
