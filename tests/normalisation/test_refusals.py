"""Every refusal gives the path of what was refused, in the wire's own names."""

from typing import Any, get_args

import pytest

from seorep_async.errors import DecodeError
from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking
from tests.models.reference import REFERENCE
from tests.normalisation.wire import BRANDS, FEED_ROWS, Json, Shape, branded, decode, envelope, wire_row

WRONG: dict[str, list[tuple[Any, str]]] = {
    "id": [
        (None, "expected an integer, got null"),
        ("", 'expected an integer, got ""'),
        (1.0, "expected an integer, got 1.0"),
    ],
    "integer": [
        ("n/a", 'expected an integer, got "n/a"'),
        (1.9, "expected an integer, got 1.9"),
        (True, "expected an integer, got true"),
    ],
    "phrase": [(None, "expected a string, got null"), (7, "expected a string, got 7")],
    "text": [
        (7, "expected a string, got 7"),
        (False, "expected a string, got false"),
        ([], "expected a string, got an array"),
    ],
    "flag": [(1, "expected true or false, got 1"), ({}, "expected true or false, got an object")],
    "last": [("x", 'expected a date "YYYY-MM-DD", got "x"'), (20230131, 'expected a date "YYYY-MM-DD", got 20230131')],
    "month": [("x", 'expected a period "YYYY-MM" or "YYYY-MM-DD", got "x"')],
    "period": [
        ("x", 'expected a period "YYYY-MM" or "YYYY-MM-DD", got "x"'),
        (None, 'expected a period "YYYY-MM" or "YYYY-MM-DD", got null'),
    ],
    "tags": [
        ("x", 'expected an array, got "x"'),
        ("null", 'expected an array, got "null"'),
        ({}, "expected an array, got an object"),
    ],
    "location": [("x", 'expected an object, got "x"'), ([7], "expected an object, got an array")],
    "language": [("x", 'expected an object, got "x"'), (0, "expected an object, got 0")],
}
PREFIX: dict[Shape, str] = {"nested": "data.rows", "flat": "data"}

both_shapes = pytest.mark.parametrize("shape", get_args(Shape))


def refusal(row: type, changes: Json, shape: Shape, *, brands: bool = False, totals: object = False) -> DecodeError:
    rows = [wire_row(row, number, "older") for number in range(5)]
    rows[3] |= changes
    if brands:
        rows = [{branded(name): value for name, value in found.items()} for found in rows]
    with pytest.raises(DecodeError) as raised:
        decode(envelope(rows, shape, totals), row, *([BRANDS] if brands else []))
    return raised.value


def test_the_refusal_reads_as_the_design_shows_it() -> None:
    error = refusal(KeywordRanking, {"engineARanking": "n/a"}, "nested")
    assert str(error) == 'data.rows[3].engineARanking: expected an integer, got "n/a"'
    assert error.field_path == "data.rows[3].engineARanking"


@pytest.mark.parametrize(
    ("model", "kind"), sorted({(model, field.kind) for model in FEED_ROWS for field in REFERENCE[model]}, key=str)
)
def test_every_wrong_value_is_refused_under_brand_names(model: type, kind: str) -> None:
    wires = [field.name for field in REFERENCE[model] if field.kind == kind]
    errors = [refusal(model, {wire: wrong}, "nested", brands=True) for wire in wires for wrong, _ in WRONG[kind]]
    paths = [(f"data.rows[3].{branded(wire)}", problem) for wire in wires for _, problem in WRONG[kind]]
    assert [error.field_path for error in errors] == [path for path, _ in paths]
    assert [error.message for error in errors] == [f"{path}: {problem}" for path, problem in paths]


WHOLE = {row: wire_row(row, 3, "older") for row in FEED_ROWS}
NEEDED: list[tuple[type, str]] = [(KeywordRanking, "keywordId"), (KeywordRanking, "keywordPhrase")]
NEEDED += [(CampaignPeriod, "date"), (KeywordPeriod, "date")]
"""The fields that tell rows apart."""
INSIDE: list[tuple[Json, str, str]] = [
    ({"searchLocation": {"canonical_name": "London"}}, "searchLocation.id", "is missing"),
    ({"searchLocation": {"id": "x"}}, "searchLocation.id", 'expected an integer, got "x"'),
    ({"searchLocation": {"id": 1, "canonical_name": 5}}, "searchLocation.canonical_name", "expected a string, got 5"),
    (
        {"searchLocation": {"id": 1, "country_code": []}},
        "searchLocation.country_code",
        "expected a string, got an array",
    ),
    ({"searchLocation": {"id": 1, "target_type": 0}}, "searchLocation.target_type", "expected a string, got 0"),
    ({"searchLanguage": {"name": "English"}}, "searchLanguage.id", "is missing"),
    ({"searchLanguage": {"id": None}}, "searchLanguage.id", "expected an integer, got null"),
    ({"searchLanguage": {"id": 1, "name": True}}, "searchLanguage.name", "expected a string, got true"),
    ({"tags": [{"id": 1, "label": "a"}, {"label": "b"}]}, "tags[1].id", "is missing"),
    ({"tags": [{"id": 1}]}, "tags[0].label", "is missing"),
    ({"tags": [{"id": 1, "label": None}]}, "tags[0].label", "expected a string, got null"),
    ({"tags": [{"id": 1.5, "label": "a"}]}, "tags[0].id", "expected an integer, got 1.5"),
    ({"tags": [{"id": 1, "label": "a"}, "b"]}, "tags[1]", 'expected an object, got "b"'),
    ({"tags": [None]}, "tags[0]", "expected an object, got null"),
    ({"tags": [[]]}, "tags[0]", "expected an object, got an array"),
]
NO_ROWS: list[tuple[type, object, str]] = [
    (KeywordRanking, None, "null"),
    (KeywordRanking, "row", '"row"'),
    (CampaignPeriod, [], "an array"),
]
NO_ROWS += [(CampaignPeriod, 1.5, "1.5"), (KeywordPeriod, [1], "an array"), (KeywordPeriod, False, "false")]


@both_shapes
@pytest.mark.parametrize(
    ("row", "wrong", "step", "problem"),
    [
        *((row, {k: v for k, v in WHOLE[row].items() if k != one}, f".{one}", "is missing") for row, one in NEEDED),
        *((KeywordRanking, WHOLE[KeywordRanking] | wrong, f".{step}", problem) for wrong, step, problem in INSIDE),
        *((row, wrong, "", f"expected an object, got {described}") for row, wrong, described in NO_ROWS),
    ],
)
def test_a_wrong_row_is_refused_with_the_path_of_what_is_wrong(
    row: type, wrong: object, step: str, problem: str, shape: Shape
) -> None:
    with pytest.raises(DecodeError) as raised:
        decode(envelope([*(wire_row(row, number, "older") for number in range(3)), wrong], shape), row)
    path = f"{PREFIX[shape]}[3]{step}"
    assert (raised.value.message, raised.value.field_path) == (f"{path}: {problem}", path)


@pytest.mark.parametrize(("shape", "path"), [("nested", "data.totals"), ("flat", "totals")])
@pytest.mark.parametrize(
    ("totals", "step", "problem"),
    [
        (True, "", "expected an object, got true"),
        (0, "", "expected an object, got 0"),
        ("", "", 'expected an object, got ""'),
        ([1], "", "expected an object, got an array"),
        ({"engineARanking": 7}, ".engineARanking", 'expected an object with "value", got 7'),
        ({"engineARanking": []}, ".engineARanking", 'expected an object with "value", got an array'),
        ({"competitors": {}}, ".competitors", 'expected an object with "value", got an object'),
        ({"wmtCtr": {"value": "n/a"}}, ".wmtCtr", 'expected a number as "value", got "n/a"'),
        ({"wmtCtr": {"value": True}}, ".wmtCtr", 'expected a number as "value", got true'),
    ],
)
def test_wrong_totals_are_refused_with_their_path(
    shape: Shape, path: str, totals: object, step: str, problem: str
) -> None:
    with pytest.raises(DecodeError) as raised:
        decode(envelope([], shape, totals), CampaignPeriod)
    assert (raised.value.message, raised.value.field_path) == (f"{path}{step}: {problem}", f"{path}{step}")


def test_the_first_wrong_row_is_the_one_named() -> None:
    rows = [wire_row(KeywordRanking, number) | {"competitors": "?"} for number in range(3)]
    with pytest.raises(DecodeError, match=r"^data\[0\]\.competitors: "):
        decode(envelope(rows, "flat"))


def test_a_long_value_is_shown_only_in_short() -> None:
    error = refusal(KeywordRanking, {"engineARanking": "9" * 5000}, "flat")
    assert error.message == f'data[3].engineARanking: expected an integer, got "{"9" * 40}…"'


def test_a_refusal_shows_no_cause_that_is_not_ours() -> None:
    error = refusal(KeywordRanking, {"engineARanking": "n/a"}, "nested")
    assert error.__suppress_context__
    assert (error.__cause__, error.__context__) == (None, None)
