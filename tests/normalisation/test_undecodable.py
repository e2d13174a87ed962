"""JSON that is whole and can't be decoded is told from a body that may be whole next time."""

from __future__ import annotations

import pytest

from seorep_async.errors import DecodeError, ProtocolError
from seorep_async.normalisation.envelope import parse


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (rb'{"data": [], "name": "\ud800"}', "name"),
        (rb'{"data": {"rows": [{"a": 1}, {"a": "x\udc00"}]}}', "data.rows[1].a"),
        (rb'{"data": [], "name": "\ud83d\u0041"}', "name"),
        (b'{"data": [], "name": "\xff"}', "name"),
        (b'{"data": [], "name": "\xed\xa0\x80"}', "name"),
        (b'{"data": [{"x": NaN}]}', "data[0].x"),
        (b'{"data": [{"x": [1, -Infinity]}]}\r\n', "data[0].x[1]"),
        (rb'{"data": {"a": {"\ud800": 1}}}', "data.a"),
        (b'{"data": [], "name": "a\nb"}', None),
        (b'{"data": [], "n": ' + b"9" * 5000 + b', "x": NaN}', "n"),
        (b'{"data": [{"x": 1e400}]}', "data[0].x"),
    ],
)
def test_whole_json_that_can_not_be_decoded_is_a_decode_error(body: bytes, path: str | None) -> None:
    with pytest.raises(DecodeError) as caught:
        parse(memoryview(body))
    assert caught.value.field_path == path


def test_an_empty_body_is_called_empty() -> None:
    with pytest.raises(ProtocolError, match="the response is empty"):
        parse(memoryview(b""))


@pytest.mark.parametrize(
    "body",
    [
        rb'{"data": [], "name": "\ud800',
        rb'{"data": [], "name": "\ud800"',
        b'{"data": [], "name": "\xff"',
        b'{"data": [NaN]',
        b'{"data": []}{"data": []}',
        b"<html>{}",
        b"\xef\xbb\xbf{}",
    ],
)
def test_a_body_that_is_not_whole_may_be_whole_next_time(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse(body)
