"""The API key: checked, encoded, shown nowhere."""

import base64
import pickle

import pytest

from seorep_async.session import Authentication, key_problem


@pytest.mark.parametrize(
    "key", ["k", "sandbox", "0123456789abcdef" * 16, "a:b", "with space inside", "äöü", "🔑", "a/b+c=", "%41", '"\\']
)
def test_key_is_taken(key: str) -> None:
    assert key_problem(key) is None


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (None, "pass api_key, or set SEOREP_API_KEY"),
        ("", "pass api_key, or set SEOREP_API_KEY"),
        ("   ", "pass api_key, or set SEOREP_API_KEY"),
        (b"c4n4ry", "must be a string, not bytes"),
        (42, "must be a string, not int"),
        (["c4n4ry"], "must be a string, not list"),
        ("c4n4ry\n", "strip it"),
        ("c4n4ry\r\nX-Other: 1", "strip it"),
        ("c4n\x00ary", "control character"),
        ("c4n4ry\x7f", "control character"),
        ("c4n4ry\t", "control character"),
        (" c4n4ry", "strip it"),
        ("c4n4ry ", "strip it"),
        ("c4n4ry\u2028", "strip it"),
        ("c4n4ry\ud800", "not valid Unicode"),
    ],
)
def test_key_is_refused_and_not_shown(key: object, said: str) -> None:
    problem = key_problem(key)
    assert problem is not None
    assert said in problem
    assert "c4n" not in problem


@pytest.mark.parametrize("key", ["k", "a:b", "äöü", "x" * 300])
def test_header_is_basic_with_an_empty_user(key: str) -> None:
    scheme, _, credentials = Authentication(key).header().partition(" ")
    assert scheme == "Basic"
    assert base64.b64decode(credentials, validate=True) == b":" + key.encode()


def test_key_is_in_no_repr() -> None:
    authentication = Authentication("c4n4ry")
    assert "c4n4ry" not in f"{authentication!r} {authentication} {vars(Authentication)}"


def test_key_is_not_pickled() -> None:
    with pytest.raises(TypeError, match="create the client"):
        pickle.dumps(Authentication("c4n4ry"))
