"""The fast paths and the reference converter give the same models and refusals."""

import contextlib
import functools
import itertools
import json
import tracemalloc
from collections.abc import Callable, Sequence
from time import thread_time
from typing import Any, get_args

import attrs
import msgspec
import pytest

from seorep_async.errors import DecodeError, SeoRepError
from seorep_async.models import CampaignPeriod, KeywordRanking, Page, RankingTotals
from seorep_async.normalisation import Decoder, FeedPage, envelope as envelopes
from seorep_async.normalisation.converter import ModelConverter
from seorep_async.normalisation.decoder import SLICE
from seorep_async.settings import EngineNames
from tests.normalisation.generated import (
    MANY,
    SOME,
    Body,
    generated,
    mutated,
)
from tests.normalisation.wire import (
    FEED_ROWS,
    Rows,
    Shape,
    as_bytes,
    assert_faithful_page,
    decode,
    decoder,
    envelope,
    every_feed,
    wire_row,
)

every_shape = pytest.mark.parametrize("shape", get_args(Shape))


@functools.cache
def reference(names: EngineNames = EngineNames()) -> ModelConverter:  # noqa: B008
    return ModelConverter(names)


def outcome(read: Callable[[], Any]) -> Any:
    """Return the page of a decoder, or its refusal."""
    try:
        return read()
    except SeoRepError as error:
        return type(error), str(error), getattr(error, "field_path", None)


def by_reference(body: bytes, row: type, names: EngineNames = EngineNames()) -> Any:  # noqa: B008
    """Return the page of the reference converter alone, or its refusal."""

    converter = reference(names)

    def read() -> Page[Any]:
        page = envelopes.raw_page(envelopes.parse(body), is_feed=True)
        rows: list[Any] = [
            converter.structure(wire, row, f"{page.items_path}[{number}]")
            for number, wire in enumerate(page.items)
        ]
        totals = None
        if page.totals is not None:
            totals = converter.structure(page.totals, RankingTotals, page.totals_path)
        return page.completed(1, rows, totals)

    return outcome(read)


def by_decoder(body: bytes, row: type, reader: Decoder) -> Any:
    """Return the page of the whole decoder, or its refusal."""
    return outcome(lambda: FeedPage(reader, row, 1)(body))


def types_within(value: Any) -> Any:
    """Return the types of all values in a page: `==` would take 1 for True."""
    parts: Any = ()
    if isinstance(value, dict):
        parts = [value[name] for name in sorted(value)]
    elif isinstance(value, list | tuple):
        parts = value
    elif attrs.has(type(value)):
        parts = attrs.astuple(value, recurse=False)
    return [type(value), *map(types_within, parts)]


def assert_same(page: Any, expected: Any) -> None:
    assert page == expected
    assert types_within(page) == types_within(expected)


def names_of_extras(page: Any) -> list[list[str]]:
    return [list(item.extra) for item in page.items]


@pytest.mark.parametrize("bodies", [SOME, MANY])
@pytest.mark.parametrize("make", [generated, mutated], ids=["generated", "mutated"])
def test_both_paths_refuse_bodies_or_take_them_unchanged(
    make: Callable[[int], Body], bodies: int
) -> None:
    accepted = 0
    without_converter = 0
    for number in range(bodies):
        body, row, names = make(number)
        page = by_decoder(body, row, decoder(names))
        expected = by_reference(body, row, names)
        assert page == expected, number
        if isinstance(page, Page):
            accepted += 1
            assert types_within(page) == types_within(expected), number
            if names == EngineNames():
                assert_faithful_page(page, json.loads(body), row)
            with contextlib.suppress(AssertionError):
                FeedPage(fast_only(names), row, 1)(body)
                without_converter += 1
    # Each case must occur often. Odd totals and values are left to the converter.
    assert bodies // 50 < accepted < bodies * 9 // 10
    assert without_converter > accepted // 3


@every_feed
def test_pages_do_not_depend_on_the_pages_before_them(row: type) -> None:
    bodies = [
        as_bytes(envelope([wire_row(row, number, rows)], shape))
        for number, rows in enumerate([*get_args(Rows), *get_args(Rows)])
        for shape in get_args(Shape)
    ]
    used = Decoder(EngineNames())
    for body in [*bodies, *reversed(bodies)]:
        assert by_decoder(body, row, used) == by_reference(body, row)


@every_feed
def test_a_decoded_model_is_as_good_as_a_constructed_one(row: Any) -> None:
    (decoded,) = decode(envelope([wire_row(row, 1)], "flat"), row).items
    values = {field.name: getattr(decoded, field.name) for field in attrs.fields(row)}
    constructed = row(**values)
    assert type(decoded) is row
    assert decoded == constructed
    assert hash(decoded) == hash(constructed)
    assert repr(decoded) == repr(constructed)
    assert attrs.evolve(decoded) == decoded
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        decoded.competitors = 1


class FastOnly(Decoder):
    """A decoder that leaves nothing to the reference converter."""

    @property
    def converter(self) -> Any:
        raise AssertionError("the fast readings refused this")


@functools.cache
def fast_only(names: EngineNames = EngineNames()) -> Decoder:  # noqa: B008
    return FastOnly(names)


def without_reference(body: bytes, row: type) -> Any:
    """Return the page of the fast paths alone, or their refusal."""
    return FeedPage(fast_only(), row, 1)(body)


@every_feed
@every_shape
def test_a_page_of_current_rows_is_decoded_at_once(row: type, shape: Shape) -> None:
    body = as_bytes(envelope([wire_row(row, 1)] * 10, shape, wire_row(RankingTotals, 1)))
    page: Any = FeedPage(fast_only(), row, 1).documented(body)
    assert isinstance(page, Page)
    assert page == by_reference(body, row)


def test_unknown_fields_of_objects_belong_to_one_row() -> None:
    tags = [{"id": 1, "label": "x", "colour": ["red"]}]
    place = {
        "id": 5,
        "canonical_name": "a",
        "country_code": "GB",
        "target_type": "City",
        "zone": "EU",
    }
    language = {"id": 5, "name": "a", "zone": "EU"}
    own = {"tags": tags, "searchLocation": place, "searchLanguage": language}
    answer = envelope([wire_row(KeywordRanking, n) | own for n in (1, 2)], "flat")
    first, second = decode(answer).items
    first.tags[0].extra["colour"].append("blue")
    first.tags[0].extra["more"] = first.search_location.extra.pop("zone")
    first.search_language.extra.clear()
    for row in (second, *decode(answer).items):
        assert row.tags[0].extra == {"colour": ["red"]}
        assert row.search_location.extra == row.search_language.extra == {"zone": "EU"}


LONG_STRING = "x" * 100_000


@pytest.mark.parametrize(
    "change",
    [
        lambda number: {"tags": [{"id": number, "label": LONG_STRING}]},
        lambda number: {"tags": [{"id": number, "label": LONG_STRING}], "serp": 1},
        lambda number: {f"{number // 2}{LONG_STRING}": 1},
    ],
    ids=["tags", "tags beside an unknown field", "names of unknown fields"],
)
def test_long_strings_are_not_remembered(change: Callable[[int], dict[str, Any]]) -> None:
    reader = Decoder(EngineNames())
    tracemalloc.start()
    try:
        for number in range(60):
            rows = [wire_row(KeywordRanking, 1) | change(number)]
            FeedPage(reader, KeywordRanking, 1)(as_bytes(envelope(rows, "nested")))
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
    finally:
        tracemalloc.stop()


def test_a_few_thousand_tags_are_remembered() -> None:
    reader = Decoder(EngineNames())
    row = wire_row(KeywordRanking, 1)
    rows = [row | {"tags": [{"id": number, "label": "a"}]} for number in range(1, 8_001)]
    bodies = [as_bytes(envelope(page, "nested")) for page in (rows[:4_000], rows[4_000:])]
    sizes = []
    tracemalloc.start()
    try:
        for body in bodies:
            FeedPage(reader, KeywordRanking, 1)(body)
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[1] < 1.5 * sizes[0]


def an_unknown_field(wire: dict[str, Any]) -> None:
    wire["type"] = "real"


def an_integer_as_string(wire: dict[str, Any]) -> None:
    wire["competitors"] = "12"


def an_unknown_name_of_its_own(wire: dict[str, Any]) -> None:
    wire[f"unknown {wire.get('keywordId', wire.get('date'))}"] = [7]


def an_unknown_name_beside_an_integer_as_string(wire: dict[str, Any]) -> None:
    an_unknown_name_of_its_own(wire)
    an_integer_as_string(wire)


def a_missing_field(wire: dict[str, Any]) -> None:
    del wire["competitors"]


# Two whole slices and a short one.
LONG = 2 * SLICE + 6
PLACES = {
    "first": [0],
    "last": [LONG - 1],
    "every third": range(2, LONG, 3),
    "all but the first": range(1, LONG),
    "all": range(LONG),
}


CHANGES: list[Callable[[dict[str, Any]], None]] = [
    an_unknown_field,
    an_unknown_name_of_its_own,
    an_unknown_name_beside_an_integer_as_string,
    an_integer_as_string,
    a_missing_field,
]


def long_pages() -> list[Any]:
    """Return each change at each place, in each format of rows, with one feed after another."""
    # Three feeds and five changes have no common divisor, so each change meets each feed.
    feeds = itertools.cycle(FEED_ROWS)
    cases = itertools.product(PLACES, get_args(Rows), CHANGES)
    return [(next(feeds), rows, PLACES[place], change) for place, rows, change in cases]


@pytest.mark.parametrize(("row", "rows", "places", "change"), long_pages())
def test_odd_rows_of_a_long_page_need_no_reference(
    row: type, rows: Rows, places: Sequence[int], change: Callable[[dict[str, Any]], None]
) -> None:
    wires = [wire_row(row, number, rows) for number in range(LONG)]
    for place in places:
        change(wires[place])
    body = as_bytes(envelope(wires, "flat"))
    page = without_reference(body, row)
    expected = by_reference(body, row)
    assert_same(page, expected)


def with_unknown_last(wire: dict[str, Any], number: int) -> dict[str, Any]:
    return wire | {f"own {number}": [number]}


def with_unknown_first(wire: dict[str, Any], number: int) -> dict[str, Any]:
    return {f"own {number}": [number]} | wire


def with_unknown_in_the_middle(wire: dict[str, Any], number: int) -> dict[str, Any]:
    names = [*wire]
    names.insert(3 + number % 5, f"own {number}")
    return {name: wire.get(name, number) for name in names}


def with_unknown_in_any_place(wire: dict[str, Any], number: int) -> dict[str, Any]:
    places = [with_unknown_first, with_unknown_in_the_middle, with_unknown_last]
    return places[number % 3](wire, number)


def in_another_order(wire: dict[str, Any], number: int) -> dict[str, Any]:
    names = [*wire, f"own {number}"]
    start = number % len(names)
    return {name: wire.get(name, number) for name in names[start:] + names[:start]}


def without_the_last_name(wire: dict[str, Any], number: int) -> dict[str, Any]:
    names = [*wire][:-1] if number % 2 else [*wire]
    return {name: wire[name] for name in names} | {f"own {number}": number}


@pytest.mark.parametrize(
    "change",
    [
        with_unknown_last,
        with_unknown_first,
        with_unknown_in_the_middle,
        with_unknown_in_any_place,
        in_another_order,
        without_the_last_name,
    ],
)
@pytest.mark.parametrize("rows", get_args(Rows))
@every_feed
def test_unknown_names_may_stand_anywhere_in_a_row(
    row: type, rows: Rows, change: Callable[[dict[str, Any], int], dict[str, Any]]
) -> None:
    wires = [change(wire_row(row, number, rows), number) for number in range(LONG)]
    body = as_bytes(envelope(wires, "flat"))
    page = without_reference(body, row)
    expected = by_reference(body, row)
    assert_same(page, expected)
    assert names_of_extras(page) == names_of_extras(expected)


def test_extra_has_unknown_fields_before_originals() -> None:
    originals = {"lastResultsDate": "2023-03-26 10:00:00", "primaryKeyword": "n/a"}
    wires = [
        wire_row(KeywordRanking, number, "older") | originals | {"own": number, "type": "real"}
        for number in range(LONG)
    ]
    body = as_bytes(envelope(wires, "flat"))
    expected = by_reference(body, KeywordRanking)
    reader: FeedPage[Any] = FeedPage(FastOnly(EngineNames()), KeywordRanking, 1)
    # The first page teaches the names to the second.
    for page in (reader(body), reader(body)):
        assert names_of_extras(page) == names_of_extras(expected)


@pytest.mark.parametrize("name", ["primaryKeyword", "competitors", "lastResultsDate"])
@pytest.mark.parametrize(
    "value",
    [
        "0",
        "1",
        "1.0",
        "true",
        '"TRUE"',
        '"1"',
        '"007"',
        '"1.0"',
        '"1e3"',
        '"null"',
        r'"nul\u006C"',
        '"NULL"',
        '"inf"',
        "null",
    ],
)
def test_strings_become_integers_and_nothing_else_is_converted(name: str, value: str) -> None:
    row = {"keywordId": "1", "keywordPhrase": "x", "engineARanking": "12"}
    body = as_bytes(envelope([row, row | {name: "VALUE"}], "flat"))
    written = body.replace(b'"VALUE"', value.encode())
    page = by_decoder(written, KeywordRanking, decoder())
    expected = by_reference(written, KeywordRanking)
    assert_same(page, expected)


@every_shape
@every_feed
def test_rows_in_an_odd_envelope_need_no_reference(row: type, shape: Shape) -> None:
    answer = envelope([wire_row(row, number) for number in range(90)], shape, took=7)
    beside: dict[str, Any] = {"status": "ok", "zz": [1], "account": {"limits": [{"id": 1}]}}
    body = as_bytes(answer | beside)
    page = without_reference(body, row)
    assert page == by_reference(body, row)
    assert page.extra == {"metadata": {"took": 7}} | beside


@pytest.mark.parametrize("places", [[150], range(200)], ids=["one row", "all rows"])
@every_shape
def test_a_row_of_another_campaign_is_refused_with_its_path(
    places: Sequence[int], shape: Shape
) -> None:
    wires = [wire_row(KeywordRanking, number % 90) for number in range(200)]
    for place in places:
        wires[place] |= {"campaign_id": "7"}
    body = as_bytes(envelope(wires, shape))
    assert len(FeedPage(decoder(), KeywordRanking, 1, ("campaign", 7))(body).items) == 200
    with pytest.raises(DecodeError) as caught:
        FeedPage(decoder(), KeywordRanking, 1, ("campaign", 8))(body)
    path = "data.rows" if shape == "nested" else "data"
    assert caught.value.field_path == f"{path}[{places[0]}].campaign_id"


def test_an_error_names_the_first_problem_of_a_long_page() -> None:
    wires = [wire_row(KeywordRanking, number % 90) for number in range(200)]
    wires[20] |= {"competitors": "?"}
    wires[21] |= {"competitors": "?"}
    wires[30] |= {"campaign_id": 7}
    wires[199] |= {"zz": "OUT"}
    body = as_bytes(envelope(wires, "flat"))
    read = FeedPage(decoder(), KeywordRanking, 1, ("campaign", 8))
    with pytest.raises(DecodeError, match=r"^data\[199\]\.zz: "):
        read(body.replace(b'"OUT"', b"1e999"))
    with pytest.raises(DecodeError, match=r"^data\[30\]\.campaign_id: "):
        read(body)
    with pytest.raises(DecodeError, match=r"^data\[20\]\.competitors: "):
        FeedPage(decoder(), KeywordRanking, 1)(body)


@every_feed
def test_unknown_fields_that_rows_may_lack_are_read_at_once(row: type) -> None:
    reader = FastOnly(EngineNames())
    wires = [wire_row(row, place) for place in range(LONG)]
    for place, wire in enumerate(wires, 1):
        # The first row has one of them.
        wire |= {f"optional-{bit}": place for bit in range(3) if place >> bit & 1}
    body = as_bytes(envelope(wires, "flat"))
    decode_page: FeedPage[Any] = FeedPage(reader, row, 1)
    decode_page(body)
    page = decode_page.documented(body)
    expected = by_reference(body, row)
    assert_same(page, expected)


def test_ever_new_names_of_fields_soon_make_no_more_types(monkeypatch: pytest.MonkeyPatch) -> None:
    decode_page: FeedPage[Any] = FeedPage(Decoder(EngineNames()), KeywordRanking, 1)
    pages_with_types: list[int] = []
    make = msgspec.defstruct

    def make_and_note(*args: Any, **options: Any) -> Any:
        pages_with_types.append(page)
        return make(*args, **options)

    monkeypatch.setattr(msgspec, "defstruct", make_and_note)
    wires = [wire_row(KeywordRanking, number) for number in range(LONG)]
    for page in range(60):
        own = [wire | {f"own_{page}_{place}": 1} for place, wire in enumerate(wires)]
        assert decode_page.documented(as_bytes(envelope(own, "flat"))) is not None
    assert max(pages_with_types) < 5
    # Later names are still learned, but only 32.
    for page in range(60, 140):
        alike = as_bytes(envelope([wire | {f"own_{page // 2}": 1} for wire in wires], "flat"))
        assert decode_page.documented(alike)
    assert decode_page(alike) == by_reference(alike, KeywordRanking)
    assert max(pages_with_types) == 123


# The first row has an unknown field between `keywordId` and `keywordPhrase`, or at an end.
@pytest.mark.parametrize(
    "second",
    [
        # These are like the first row.
        '"keywordId": 1, "own": [{"a": [1]}, "]}"], "keywordPhrase": "x"',
        r'"keywordId":1,"own":"\"},{\"keywordPhrase\":","keywordPhrase":"x"',
        '"keywordPhrase": "x", "keywordId": 1',
        '"keywordId": 1, "own": {}, "own": {"keywordPhrase": 5}, "keywordPhrase": "x"',
        # These are not.
        '"keywordId": 1, "own": {"a": {"b": {"c": 1, "keywordPhrase": 5}}}, "keywordPhrase": "x"',
        '"keywordId": 1, "own": {"keywordId": 3, "a": 4, "keywordPhrase": 5}, "keywordPhrase": "x"',
        '"keywordPhrase": "x", "keywordId": 1, "tags": [{"id": 1, "label": "a", "b": 3}]',
        '"tags": [{"keywordId": 2, "id": 1, "keywordPhrase": 4, "label": "a"}], "keywordId": 1',
        '"keywordId": 1, "a": 2, "keywordPhrase": "x", '
        '"keywordId": 3, "b": 4, "keywordPhrase": "y"',
        r'"keywordId": 1, "engineAR\u0061nking": 5, "keywordPhrase": "x"',
        '"keywordId": 1, "competitors": 5, "keywordPhrase": "x"',
        '"own": 5, "keywordId": 1, "keywordPhrase": "x", "searchLocation": {"id": 1, "zone": "EU"}',
        '"keywordId": 1, "keywordPhrase": "x", '
        '"own": [{"keywordId": 1}, {"own": 1, "keywordId": 1}]',
    ],
)
@pytest.mark.parametrize(
    "first",
    [
        '"keywordId": 1, "own": 2, "keywordPhrase": "x"',
        '"own": 2, "keywordId": 1, "keywordPhrase": "x"',
        '"keywordPhrase": "x", "keywordId": 1, "own": 2',
    ],
    ids=["between", "first", "last"],
)
def test_only_unknown_fields_of_rows_are_moved(first: str, second: str) -> None:
    body = f'{{"data":[{{{first}}},{{{second}}},{{{second}}}]}}'.encode()
    page = by_decoder(body, KeywordRanking, Decoder(EngineNames()))
    expected = by_reference(body, KeywordRanking)
    assert_same(page, expected)


@pytest.mark.parametrize(
    "change",
    [
        with_unknown_first,
        with_unknown_last,
        lambda wire, number: with_unknown_in_the_middle(wire, 5 * number),
    ],
)
@every_feed
def test_names_of_each_rows_own_in_one_place_are_read_at_once(
    row: type, change: Callable[[dict[str, Any], int], dict[str, Any]]
) -> None:
    wires = [change(wire_row(row, number), number) for number in range(LONG)]
    body = as_bytes(envelope(wires, "nested"))
    assert FeedPage(decoder(), row, 1).documented(body) == by_reference(body, row)


@pytest.mark.parametrize(
    "rows",
    [
        b'{%b"b": 1}]}' % (b'"date": [{%b"b": 2}], ' % (b'"date": "a", ' * 50) * 500),
        rb'"date": 1, "o": {\"' * 15_000,
        rb'"date": 1, "o": [{\"' * 15_000,
    ],
    ids=["recurring names", "no JSON", "no JSON in an array"],
)
def test_hostile_rows_are_searched_a_few_times_at_most(rows: bytes) -> None:
    body = b'{"data": [{"date": "2023-01", "o n": 1, "competitors": 1}, ' + rows
    start = thread_time()
    json.loads(json.dumps(body.decode()))
    middle = thread_time()
    FeedPage(decoder(), CampaignPeriod, 1).documented(body)
    assert thread_time() - middle < 16 * (middle - start)


@pytest.mark.parametrize(
    "text",
    [
        "2023-03-26 14:05:33",
        "2023-03-26T3:04:05",
        "2023-03-26 0:00:01",
        "2023-03-26 00:00:00",
        "2023-03-26T0:00:00",
        "2023-03-26 24:00:00",
        "2023-03-26 10:60:00",
        "2023-03-26  3:04:05",
        "2023-03-26 3:4:5",
        "2023-02-30 10:00:00",
        "0000-00-00 0:00:00",
        "0000-00-00 10:00:00",
        "0000-01-01 10:00:00",
        "2023-03-26 10:00:00\n",
        "2023-03-26 10:00:00\n2023-03-26 10:00:00",
        "\n2023-03-26 10:00:00",
        "0000-00-00T0:00:00",
        "0000-00-00 00:00:01",
        "2023-03-26t10:00:00",
        "2023-03-26 10:00:00.5",
        "2023-03-26 00:00:00Z",
        "2023-03-26 ",
        "20230326.. 10:00:00",
        "\u0662023-03-26 10:00:00",
        "2023-03",
        "",
    ],
)
def test_times_of_day_are_read_as_by_the_reference(text: str) -> None:
    older = wire_row(KeywordRanking, 1, "older")
    body = as_bytes(envelope([older, older | {"lastResultsDate": text}], "flat"))
    page = by_decoder(body, KeywordRanking, decoder())
    expected = by_reference(body, KeywordRanking)
    assert_same(page, expected)


def test_hours_of_one_digit_need_no_converter() -> None:
    row = wire_row(KeywordRanking, 1) | {"lastResultsDate": "2023-03-26 9:00:00"}
    body = as_bytes(envelope([row], "flat"))
    assert without_reference(body, KeywordRanking).items[0].extra


@every_feed
def test_the_converter_reads_only_the_slice_of_a_refused_row(
    row: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    structured: list[object] = []
    structure = ModelConverter.structure

    def structure_and_note(self: ModelConverter, wire: Any, model: type, path: str) -> Any:
        structured.append(path)
        return structure(self, wire, model, path)

    monkeypatch.setattr(ModelConverter, "structure", structure_and_note)
    rows = [wire_row(row, number) for number in range(90)]
    rows[40] |= {"competitors": "?"}
    with pytest.raises(DecodeError, match=r"^data\[40\]\.competitors: "):
        decode(envelope(rows, "flat"), row)
    assert structured == [f"data[{place}]" for place in range(SLICE, 41)]
