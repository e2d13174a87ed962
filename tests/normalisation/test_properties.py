"""Generated answers: facts survive both shapes, and whatever else comes is refused by us or taken as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seorep_async.errors import SeoRepError
from seorep_async.models import Campaign, KeywordRanking, RankingTotals
from tests.models.reference import REFERENCE
from tests.normalisation.faithful import assert_faithful_page
from tests.normalisation.generated import bounded, json_values, said_models, texts
from tests.normalisation.wire import FEED_ROWS, as_bytes, decode, decoder, envelope, finished, wire_row

often = settings(bounded, max_examples=120)
every_feed = pytest.mark.parametrize("row", FEED_ROWS, ids=lambda row: row.__name__)


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
    names = [field.name for field in REFERENCE[row]]
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
