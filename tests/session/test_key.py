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


REFUSED: dict[str, list[object]] = {
    "pass api_key, or set SEOREP_API_KEY": [None, "", "   "],
    "must be a string, not bytes": [b"c4n4ry"],
    "must be a string, not int": [42],
    "must be a string, not list": [["c4n4ry"]],
    "control character": ["c4n\x00ary", "c4n4ry\x7f", "c4n4ry\t"],
    "strip it": ["c4n4ry\n", "c4n4ry\r\nX-Other: 1", " c4n4ry", "c4n4ry ", "c4n4ry\u2028"],
    "not valid Unicode": ["c4n4ry\ud800"],
}


@pytest.mark.parametrize(("said", "key"), [(said, key) for said, keys in REFUSED.items() for key in keys])
def test_key_is_refused_and_not_shown(said: str, key: object) -> None:
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
