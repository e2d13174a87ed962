"""The exceptions: their parents, their attributes, their messages, and their pickles."""

import ast
import copy
import inspect
import pathlib
import pickle
from typing import Any

import pytest

from seorep_async import errors
from seorep_async.errors import (
    AuthenticationError,
    ConfigurationError,
    DecodeError,
    ExportError,
    InvalidRequestError,
    NotFoundError,
    PaginationError,
    RateLimitedError,
    RedirectError,
    SeoRepError,
    ServerError,
    StatusError,
)

CLASSES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, BaseException)
]
PARENTS = """
SeoRepError: Exception
ConfigurationError: SeoRepError, ValueError
TransportError: SeoRepError
DeadlineExceededError: SeoRepError
StatusError: SeoRepError
DecodeError: SeoRepError
PaginationError: SeoRepError
OutcomeUnknownError: SeoRepError
ExportError: SeoRepError
PullPausedError: SeoRepError
ConnectionFailedError: TransportError
AttemptTimeoutError: TransportError
ProtocolError: TransportError
BodyTooLargeError: TransportError
RedirectError: TransportError
AuthenticationError: StatusError
NotFoundError: StatusError
RateLimitedError: StatusError
InvalidRequestError: StatusError
ServerError: StatusError
"""
COMMON: dict[str, Any] = {
    "subject": "campaign 42",
    "method": "GET",
    "path": "/v3/resources/rankings/campaign",
    "status": 500,
    "attempts": 3,
    "body_excerpt": "<h1>Oops</h1>",
}
OWN: dict[type[SeoRepError], dict[str, Any]] = {
    ConfigurationError: {"argument": "snapshot_date"},
    ExportError: {"file": pathlib.Path("rankings.csv")},
    RedirectError: {"location": "https://elsewhere.example/v3"},
    StatusError: {"retry_after": 12.5},
    DecodeError: {"field_path": "data.rows[3].engineARanking"},
    PaginationError: {"expected_records": 300, "received_records": 299, "page": 3},
}

every_class = pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)


def full(kind: type[SeoRepError]) -> SeoRepError:
    error = kind("it went wrong", **COMMON)
    for name, value in OWN.get(kind, {}).items():
        setattr(error, name, value)
    return error


def fields(error: SeoRepError) -> dict[str, Any]:
    return {name: getattr(error, name) for name in ("message", *COMMON, *OWN.get(type(error), {}))}


def test_the_errors_have_these_parents() -> None:
    lines = []
    for kind in CLASSES:
        parents = ", ".join(base.__name__ for base in kind.__bases__)
        lines.append(f"{kind.__name__}: {parents}")
    assert sorted(lines) == sorted(PARENTS.split("\n")[1:-1])


@every_class
def test_an_error_can_be_raised_with_a_sentence_alone(kind: type[SeoRepError]) -> None:
    with pytest.raises(kind, match=r"^it went wrong$") as raised:
        raise kind("it went wrong")
    assert raised.value.attempts == 0
    assert raised.value.args == ("it went wrong",)
    absent = {"subject", "method", "path", "status", "body_excerpt", *OWN.get(kind, {})}
    assert {getattr(raised.value, name) for name in absent} == {None}


@every_class
def test_an_error_keeps_all_in_a_pickle_or_copy(kind: type[SeoRepError]) -> None:
    error = full(kind)
    pickled = [
        pickle.loads(pickle.dumps(error, number))  # noqa: S301
        for number in range(pickle.HIGHEST_PROTOCOL + 1)
    ]
    for again in (*pickled, copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert (
            fields(again)
            == fields(error)
            == {"message": "it went wrong"} | COMMON | OWN.get(kind, {})
        )
        assert str(again) == str(error)
        assert again.args == error.args


def test_each_class_and_each_field_of_an_error_is_explained() -> None:
    page = ast.parse(pathlib.Path(errors.__file__).read_text(encoding="utf-8"))
    for node in page.body:
        if not isinstance(node, ast.ClassDef):
            continue
        assert ast.get_docstring(node)
        for statement, following in zip(node.body, node.body[1:], strict=False):
            if isinstance(statement, ast.AnnAssign):
                assert isinstance(following, ast.Expr), ast.unparse(statement)
                assert isinstance(following.value, ast.Constant)


@pytest.mark.parametrize(
    ("details", "text"),
    [
        ({}, "it went wrong"),
        ({"subject": "campaign 42"}, "campaign 42: it went wrong"),
        ({"method": "GET", "path": "/v3/users"}, "it went wrong [GET /v3/users]"),
        ({"method": "GET"}, "it went wrong [GET]"),
        ({"path": "/v3/users"}, "it went wrong [/v3/users]"),
        ({"status": 404}, "it went wrong [status 404]"),
        ({"attempts": 1}, "it went wrong [1 attempt]"),
        ({"attempts": 8}, "it went wrong [8 attempts]"),
        ({"body_excerpt": "<h1>"}, "it went wrong body: <h1>"),
        ({"body_excerpt": ""}, "it went wrong"),
        (
            COMMON,
            "campaign 42: it went wrong "
            "[GET /v3/resources/rankings/campaign, status 500, 3 attempts] body: <h1>Oops</h1>",
        ),
    ],
)
def test_an_error_reads_as_one_line(details: dict[str, Any], text: str) -> None:
    assert str(SeoRepError("it went wrong", **details)) == text


@pytest.mark.parametrize(
    ("kind", "statuses"),
    [
        (InvalidRequestError, [400, 402, 409, 422, 499]),
        (AuthenticationError, [401, 403]),
        (NotFoundError, [404]),
        (RateLimitedError, [429]),
        (ServerError, [500, 502, 503, 599]),
        (StatusError, [302]),
    ],
)
def test_a_status_has_this_error(kind: type[StatusError], statuses: list[int]) -> None:
    assert {errors.status_error_type(status) for status in statuses} == {kind}


def test_an_error_has_no_field_of_another_class() -> None:
    with pytest.raises(TypeError, match="ServerError has no field 'argument'"):
        ServerError("down", argument="limit")


def test_an_error_class_of_a_user_can_evolve() -> None:
    class Own(SeoRepError):
        def __init__(self, why: str) -> None:
            super().__init__(why, status=418)

    evolved = Own("tea").evolve(subject="campaign 1")
    assert type(evolved) is Own
    assert evolved.status == 418
    assert str(evolved) == "campaign 1: tea [status 418]"


def test_a_repr_names_the_subject() -> None:
    error = NotFoundError("there is no such object", subject="campaign 42")
    assert repr(error) == "NotFoundError('campaign 42: there is no such object')"


def test_a_note_on_a_copy_is_not_on_the_original() -> None:
    error = NotFoundError("gone")
    error.add_note("one")
    changed = error.evolve(message="still gone")
    changed.add_note("two")
    assert error.__notes__ == ["one"]
    assert changed.__notes__ == ["one", "two"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.031, "0.031 s"),
        (0.6, "0.6 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (90, "1 min 30 s"),
        (3599.7, "1 h"),
        (3900, "1 h 5 min"),
        (86_400, "1 d"),
        (100_000, "1 d 4 h"),
        (1e9, "11,574 d 2 h"),
    ],
)
def test_a_time_is_said_in_a_persons_units(seconds: float, words: str) -> None:
    assert errors.duration(seconds) == words
