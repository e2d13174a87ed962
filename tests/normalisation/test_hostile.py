"""Hostile bodies: generated ones, a table of bad ones, and random JSON or bytes."""

import datetime as dt
import json
import pickle
import re
import sys
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from seorep_async.errors import DecodeError, ProtocolError, SeoRepError
from seorep_async.models import Campaign, Feed, KeywordRanking, RankingTotals
from seorep_async.normalisation import FeedPage, ModelPage
from seorep_async.reports import RankingReport
from seorep_async.settings import EngineNames
from seorep_async.tables.output_tables import totals_values
from tests.normalisation.generated import bounded, json_values, mutated
from tests.normalisation.wire import (
    FEED_ROWS,
    as_bytes,
    assert_faithful_page,
    decode,
    decoder,
    wire_row,
)

DAY = dt.date(2023, 1, 1)


def test_every_refusal_of_a_generated_body_pickles_and_is_short() -> None:
    for number in range(200):
        body, row, names = mutated(number)
        error = refusal(body, row, names)
        if error is not None:
            again = pickle.loads(pickle.dumps(error))  # noqa: S301
            assert (str(again), vars(again)) == (str(error), vars(error))
            assert len(str(error)) < 400
            assert str(error).isprintable()


def refusal(
    body: bytes,
    row: type = KeywordRanking,
    names: EngineNames = EngineNames(),  # noqa: B008
) -> SeoRepError | None:
    try:
        decode(body, row, names)
    except SeoRepError as error:
        return error
    return None


def nested_to(depth: int) -> str:
    return "[" * depth + "]" * depth


ROW = '{"keywordId": 1, "keywordPhrase": "x", %s}'
PLACES = {
    "a known integer": '{"data": [' + ROW % '"engineARanking": %s' + "]}",
    "a known object": '{"data": [' + ROW % '"searchLocation": %s' + "]}",
    "a flag": '{"data": [' + ROW % '"primaryKeyword": %s' + "]}",
    "tags": '{"data": [' + ROW % '"tags": %s' + "]}",
    "an unknown field": '{"data": {"rows": [' + ROW % '"unknown": %s' + "]}}",
    "a row": '{"data": [%s]}',
    "rows": '{"data": {"rows": %s}}',
    "data": '{"data": %s}',
    "totals": '{"data": [], "totals": %s}',
    "a total": '{"data": [], "totals": {"competitors": %s}}',
    "an unknown total": '{"data": [], "totals": {"unknown": %s}}',
    "metadata": '{"metadata": %s, "data": []}',
    "a count": '{"metadata": {"total_pages": %s}, "data": []}',
    "an error": '{"error": %s}',
    "messages": '{"status": "error", "messages": %s}',
    "everything": "%s",
}
every_place = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)


@every_place
@pytest.mark.parametrize(
    ("opening", "closing"), [("[", "null" + "]" * 10**5), ('{"rows":[', "")], ids=["arrays", "cut"]
)
def test_nesting_a_hundred_thousand_deep_is_our_error(
    place: str, opening: str, closing: str
) -> None:
    body = place.replace("%s", opening * 10**5 + closing)
    for reading in (FeedPage, ModelPage):
        with pytest.raises(SeoRepError):
            reading(decoder(), KeywordRanking, 1)(body.encode())
    with pytest.raises(SeoRepError):
        decoder().single(body.encode(), Campaign)


@every_place
def test_nesting_of_any_depth_is_accepted_or_our_error(place: str) -> None:
    # Python's limit is reached between 945 and 958, which depends on the depth of the call.
    depths = [2, 3, 50, 400, 800, *range(930, 970), 1200]
    bodies = [place.replace("%s", nested_to(depth)) for depth in depths]
    refusals = [refusal(body.encode()) for body in bodies]
    assert max(len(str(error)) for error in refusals) < 400
    body = PLACES["an unknown field"].replace("%s", nested_to(100)).encode()
    assert json.dumps(decode(body).items[0].extra["unknown"]) == nested_to(100)


@every_place
@pytest.mark.parametrize(
    "value",
    [
        pytest.param("9" * 5000, id="5,000 digits"),
        "NaN",
        r'"\ud800"',
        '"false"',
        "1",
        "null",
        '{"a": 1, "a": 2}',
        "[]",
        '"x"',
    ],
)
def test_a_nasty_value_anywhere_is_refused_or_taken_unchanged(value: str, place: str) -> None:
    body = place.replace("%s", value).encode()
    try:
        page = decode(body)
    except SeoRepError:
        return
    assert_faithful_page(page, json.loads(body), KeywordRanking)


OUT_OF_RANGE = ["-" + "9" * 4300, "9" * 4301, "9" * 5000, "1e309", "-1e999", "9" * 400 + ".5"]
ONLY_OTHER_JSON = ["NaN", "-Infinity"]
NO_JSON = ["nan", "0x10", "01", "+1", "1.", ".5", "1_000", "1e"]


@every_place
def test_an_invalid_json_number_is_our_error(place: str) -> None:
    def kinds(numbers: list[str]) -> set[tuple[Any, bool]]:
        refusals = [refusal(place.replace("%s", number).encode()) for number in numbers]
        return {
            (type(refused), "contains a number that is out of range" in str(refused))
            for refused in refusals
        }

    assert kinds(OUT_OF_RANGE) == {(DecodeError, True)}
    assert kinds(ONLY_OTHER_JSON) == {(ProtocolError if place == "%s" else DecodeError, False)}
    assert kinds(NO_JSON) == {(ProtocolError, False)}


WRITABLE = ["9" * 4299, "-" + "9" * 4299, "9" * 4300, "1e308", "5e-999"]


@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize(
    "place",
    [
        '{"data": [{rows}, ' + ROW % '"zz": %s' + "]}",
        '{"data": [{rows}, ' + ROW % '"tags": [{"id": 1, "label": "x", "zz": [%s]}]' + "]}",
        '{"data": [{rows}], "totals": {"zz": {"value": %s}}}',
        '{"metadata": {"zz": %s}, "data": [{rows}]}',
        '{"data": {"rows": [{rows}], "zz": {"y": [%s]}}}',
    ],
    ids=["row", "tag", "totals", "metadata", "beside the rows"],
)
def test_an_accepted_unknown_number_can_be_written(place: str, rows: int) -> None:
    body = place.replace("{rows}", ", ".join([ROW % '"competitors": 1'] * rows))
    for number in WRITABLE:
        page = decode(body.replace("%s", number).encode())
        which = (Feed.CAMPAIGN, 1, DAY, DAY)
        report = RankingReport(*which, page.items, page.totals, extra=page.extra)
        assert len(report.to_jsonl().splitlines()) == len(page.items)
        assert report.to_arrow().num_rows == len(page.items)
        totals = page.totals or RankingTotals()
        assert json.dumps(page.extra)
        assert json.dumps(totals_values(totals, compared=True))
    for number in OUT_OF_RANGE:
        error = refusal(body.replace("%s", number).encode())
        assert re.fullmatch(
            r"[\w.\[\]]*zz[\w.\[\]]*: contains a number that is out of range", str(error)
        )


@pytest.mark.parametrize(
    ("body", "ranking"),
    [
        ('{"data": [' + ROW % '"engineARanking": 1, "engineARanking": 2' + "]}", 2),
        ('{"data": [' + ROW % '"engineARanking": 1, "engineARanking": null' + "]}", None),
        ('{"data": [], "data": {"rows": [' + ROW % '"engineARanking": 3' + "]}}", 3),
    ],
)
def test_the_last_of_repeated_keys_counts(body: str, ranking: int | None) -> None:
    (row,) = decode(body.encode()).items
    assert row.engine_a_ranking == ranking


@pytest.mark.parametrize("prefix", ["", "\ufeff"])
@pytest.mark.parametrize(
    ("in_row", "in_envelope"),
    [("unknown", {}), ("unknown{number}", {}), ("keywordId", {"unknown": 1})],
    ids=["in each row", "a name of its own in each row", "in the envelope"],
)
def test_an_unknown_field_on_3_mb_makes_one_call_per_row_at_most(
    prefix: str, in_row: str, in_envelope: dict[str, int]
) -> None:
    row = wire_row(KeywordRanking, 1)
    rows = [
        row | {"keywordId": number, in_row.format(number=number): number}
        for number in range(1, 2_001)
    ]
    text = json.dumps({"data": rows, **in_envelope})
    body = (prefix + text.ljust(3_000_000)).encode()
    # The first page teaches names of its fields, and the second makes types with them.
    decode(body)
    decode(body)
    events = Counter[str]()
    sys.setprofile(lambda frame, event, arg: events.update([event]))
    page = decode(body)
    sys.setprofile(None)
    assert len(page.items) == 2_000
    assert events["call"] < 2_500


# --- Any other body is refused with our errors, or accepted unchanged

often = settings(bounded, max_examples=60)


field_names = st.sampled_from(
    ["data", "rows", "totals", "metadata", "version", "status", "error", "code", "value", "id"]
)


def arrays_and_objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=2) | st.dictionaries(field_names, inner, max_size=4)


envelopes = st.recursive(json_values, arrays_and_objects, max_leaves=8)


@often
@given(
    answer=envelopes | st.fixed_dictionaries({"data": envelopes}, optional={"totals": envelopes})
)
def test_any_json_is_our_error_or_accepted_unchanged(answer: Any) -> None:
    for read in (partial(decoder().single, model=Campaign), ModelPage(decoder(), Campaign, 1)):
        with suppress(SeoRepError):
            read(as_bytes(answer))
    for row in FEED_ROWS:
        try:
            page = decode(answer, row)
        except SeoRepError:
            continue
        assert_faithful_page(page, answer, row)


@often
@given(
    body=st.binary(max_size=60),
    start=st.sampled_from([b"", b'{"data":', b'{"data": [', b'{"data": {"rows": [{']),
)
def test_any_bytes_are_our_error_or_accepted_unchanged(body: bytes, start: bytes) -> None:
    try:
        page = decode(start + body)
    except SeoRepError:
        return
    assert_faithful_page(page, json.loads(start + body), KeywordRanking)
