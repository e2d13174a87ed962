"""The envelope: metadata, unknown fields, hidden errors, and bodies of incomplete JSON."""

import gzip
from collections.abc import Callable
from typing import Any

import pytest

from seorep_async.errors import DecodeError, ProtocolError, SeoRepError, StatusError
from seorep_async.models import Campaign, KeywordRanking
from seorep_async.normalisation import FeedPage, ModelPage
from tests.normalisation.wire import as_bytes, decode, decoder, envelope

Reading = Callable[[bytes], Any]

READINGS: dict[str, Reading] = {
    "feed": FeedPage(decoder(), KeywordRanking, 1),
    "list": ModelPage(decoder(), Campaign, 1),
    "single": lambda body: decoder().single(body, Campaign),
}


def refusals(body: bytes) -> list[SeoRepError]:
    """Return the error of each decoder for a body that all of them refuse."""
    errors = []
    for read in READINGS.values():
        with pytest.raises(SeoRepError) as raised:
            read(body)
        errors.append(raised.value)
    return errors


@pytest.mark.parametrize("metadata", [{}, {"metadata": None}, {"metadata": []}, {"metadata": {}}])
def test_absent_or_empty_metadata_has_no_counts(metadata: dict[str, Any]) -> None:
    page = decode({**metadata, "data": []})
    assert (page.total_pages, page.total_records, page.version) == (None, None, None)
    assert page.extra == {}


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, 0),
        (1, 1),
        (2**40, 2**40),
        ("12", 12),
        ("0", 0),
        *[(count, None) for count in (None, -1, "-1", 1.0, 1.5, True, False, "", "many")],
        ([], None),
        ({}, None),
        ([3], None),
        # An announced number that no float can hold would overflow in the estimate of more pages.
        *[(count, None) for count in ("9" * 30, 2**63, 10**400)],
    ],
)
def test_a_count_is_an_integer_also_as_string_or_none(count: object, expected: int | None) -> None:
    page = decode(envelope([], "flat", total_pages=count, total_records=count))
    assert (page.total_pages, page.total_records) == (expected, expected)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (False, False),
        (True, True),
        ("false", False),
        ("TRUE", True),
        (None, None),
        ("3.0", None),
        (3, None),
        (0, None),
        ("", None),
    ],
)
def test_the_version_is_a_boolean_also_as_string_or_extra(
    version: object, expected: bool | None
) -> None:
    page = decode({"metadata": {"version": version}, "data": []})
    assert page.version is expected
    if expected is None and version is not None:
        assert page.extra == {"metadata": {"version": version}}
    else:
        assert page.extra == {}


@pytest.mark.parametrize(
    ("answer", "extra"),
    [
        ({"data": [], "took": 12}, {"took": 12}),
        ({"data": {"rows": []}, "took": None}, {"took": None}),
        ({"data": {"rows": [], "chart": [1]}}, {"data": {"chart": [1]}}),
        ({"data": {"rows": []}, "totals": {"x": 1}}, {"totals": {"x": 1}}),
        (
            {"metadata": {"cached": True, "version": False}, "data": []},
            {"metadata": {"cached": True}},
        ),
        (
            {"metadata": {"a": 1}, "data": {"rows": [], "b": 2}, "c": 3},
            {"metadata": {"a": 1}, "data": {"b": 2}, "c": 3},
        ),
        (
            {"data": [], "status": "ok", "code": 200, "message": "fine"},
            {"status": "ok", "code": 200, "message": "fine"},
        ),
        ({"data": [], "error": None, "errors": []}, {"error": None, "errors": []}),
        ({"data": [], "error": False, "errors": {}}, {"error": False, "errors": {}}),
        ({"data": [], "error": "", "errors": 0}, {"error": "", "errors": 0}),
        ({"data": [], "error": "false", "success": "true"}, {"error": "false", "success": "true"}),
        (
            {"data": [], "error": "0", "status": 0, "success": 1},
            {"error": "0", "status": 0, "success": 1},
        ),
    ],
)
def test_unknown_fields_of_the_envelope_stay_where_they_were(answer: Any, extra: object) -> None:
    assert decode(answer).extra == extra
    if isinstance(answer["data"], list):
        assert READINGS["list"](as_bytes(answer)).extra == extra


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ('{"data": [], "name": "größe"}'.encode("latin-1"), "name"),
        (b'{"data": [], "name": "a\nb"}', None),
        (rb'{"data": [], "name": "\ud800"}', "name"),
        (rb'{"data": [], "name": "\udc00 "}', "name"),
        (rb'{"data": [], "name": "\ud83d\u0041"}', "name"),
        (b'{"data": [], "name": "\xed\xa0\x80"}', "name"),
        (rb'{"data": {"rows": [{"a": 1}, {"a": "x\udc00"}]}}', "data.rows[1].a"),
        (rb'{"data": {"a": {"\ud800": 1}}}', "data.a"),
        (b'{"data": [{"x": NaN}]}', "data[0].x"),
        (b'{"data": [{"x": [1, -Infinity]}]}\r\n', "data[0].x[1]"),
        (b'{"data": [{"x": 1e400}]}', "data[0].x"),
        (b'{"data": [1e400]}', "data[0]"),
        (b'{"data": ["\xff"]}', "data[0]"),
        (b'{"data": [], "n": ' + b"9" * 5000 + b', "x": NaN}', "n"),
    ],
)
def test_undecodable_complete_json_is_a_decode_error(body: bytes, path: str | None) -> None:
    errors: list[Any] = refusals(body)
    for error in errors:
        assert type(error) is DecodeError
        assert error.field_path == path


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" \r\n\t",
        b"OK",
        b"<html>{}",
        b"<!DOCTYPE html><html><body>Maintenance</body></html>",
        '{"metadata": {}, "data": []}'.encode("utf-16"),
        rb'{"data": [], "name": "\ud800',
        rb'{"data": [], "name": "\ud800"',
        b'{"data": [], "name": "\xff"',
        b'{"data": []}{"data": []}',
        b'{"data": []}\n{"data": []}\n',
        b'{"data": [],}',
        b'{"data": [NaN]',
        b"{'data': []}",
        b'{"data": []} // end',
        b'Warning: foreach() in report.php on line 3{"data": []}',
        b'{"data": []}\x00',
        gzip.compress(b'{"data": []}', mtime=0),
    ],
)
def test_incomplete_json_is_a_protocol_error(body: bytes) -> None:
    for error in refusals(body):
        assert type(error) is ProtocolError
        is_empty = error.message == "the response is empty, but JSON was expected"
        assert is_empty == (body == b"")


@pytest.mark.parametrize("read", READINGS.values(), ids=READINGS)
def test_a_body_cut_short_anywhere_is_a_protocol_error(read: Reading) -> None:
    row = {"keywordId": 1, "keywordPhrase": "é€𐍈", "tags": [1.5e3, True, None]}
    whole = as_bytes(envelope([row], "nested"))
    for length in range(len(whole)):
        with pytest.raises(ProtocolError):
            read(whole[:length])


def test_an_error_nested_deeply_is_still_only_an_error() -> None:
    errors: Any = "at the bottom"
    for _ in range(300):
        errors = [{"errors": errors}]
    with pytest.raises(StatusError, match="it gave no reason"):
        decode({"errors": errors})


def test_a_byte_order_mark_is_skipped() -> None:
    marked = b"\xef\xbb\xbf" + as_bytes({"metadata": {}, "data": []})
    assert READINGS["feed"](marked).items == READINGS["list"](marked).items == ()
    campaign = as_bytes({"data": {"id": 1, "url": "u", "company": "c"}})
    assert READINGS["single"](b"\xef\xbb\xbf" + campaign).id == 1
