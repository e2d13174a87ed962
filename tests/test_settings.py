"""Settings: what is refused, and that a settings object is a value."""

import copy
import math
import pickle
from typing import Any

import attrs
import pytest

from seorep_async.errors import ConfigurationError
from seorep_async.settings import (
    ArrayEncoding,
    EngineNames,
    FeedSearchParam,
    RequestEncoding,
    Settings,
)

HUGE = 10**5000  # Python refuses to write it out
NAN = float("nan")
NO_NUMBERS: list[Any] = [None, "16", "", True, False, [], {}, object, 1j]

COUNTS = {
    "max_concurrency": (1, 1024),
    "max_attempts": (1, 100),
    "max_body_bytes": (1024, 2**40),
    "max_pages": (1, 10**9),
}
SECONDS = [
    "attempt_timeout",
    "connect_timeout",
    "call_timeout",
    "backoff_initial",
    "backoff_max",
    "retry_after_max",
]
NUMBERS = [*SECONDS, "requests_per_second"]
NULLABLE = {"call_timeout", "requests_per_second"}
TYPED: dict[str, list[Any]] = {
    "page_size": ["default", "all", "", 0, -1, 2**31, 25.0, True, b"find", ["find"], HUGE],
    "request_encoding": [None, "form", ArrayEncoding.COMMA, 1],
    "array_encoding": [None, "brackets", "role[]", RequestEncoding.FORM],
    "feed_search_param": [None, "both", True],
    "engine_names": [None, "google", {"engine_a": "google"}, ("google", "bing", "gwt")],
    "allow_insecure_http": [None, 0, 1, "true", "false"],
    "user_agent": [None, 7, b"agent", "two\nlines", "tab\t", "ünïcode", "nul\x00", "\x7f"],
    "proxy": [
        7,
        b"http://proxy",
        "",
        "proxy:80",
        "ftp://proxy",
        "http://",
        "http://proxy:x",
        "http://a\tb",
    ],
}

WRONG: list[tuple[str, Any]] = [
    *(
        (name, wrong)
        for name in COUNTS
        for wrong in [*NO_NUMBERS, 0, -1, 16.0, NAN, math.inf, HUGE, -HUGE]
    ),
    *(
        (name, limit + step)
        for name, limits in COUNTS.items()
        for limit, step in zip(limits, (-1, 1), strict=True)
    ),
    *(
        (name, wrong)
        for name in NUMBERS
        for wrong in [
            *NO_NUMBERS,
            0,
            0.0,
            -0.0,
            -1,
            -0.5,
            NAN,
            math.inf,
            -math.inf,
            10**400,
            HUGE,
            -HUGE,
            1e10,
        ]
        if wrong is not None or name not in NULLABLE
    ),
    *((name, wrong) for name, values in TYPED.items() for wrong in values),
]

RIGHT: list[tuple[str, Any]] = [
    *((name, limit) for name, limits in COUNTS.items() for limit in limits),
    *((name, value) for name in NUMBERS for value in (1, 0.001, 60.0, 86_400)),
    *((name, None) for name in sorted(NULLABLE)),
    *(("page_size", value) for value in (1, 2**31 - 1, "find", None)),
    *(("request_encoding", value) for value in RequestEncoding),
    *(("array_encoding", value) for value in ArrayEncoding),
    *(("feed_search_param", value) for value in FeedSearchParam),
    ("engine_names", EngineNames(engine_a="google")),
    ("allow_insecure_http", True),
    ("proxy", "http://proxy.example:3128"),
    ("proxy", None),
    ("user_agent", "my-reports/1.0 (+https://example.com)"),
]

EVERYTHING = Settings(
    max_concurrency=3, requests_per_second=2.5, attempt_timeout=4, connect_timeout=5.5, call_timeout=None,
    max_attempts=6, backoff_initial=0.7, backoff_max=8.5, retry_after_max=9, max_body_bytes=10_000, max_pages=11, page_size=12,
    request_encoding=RequestEncoding.JSON, array_encoding=ArrayEncoding.COMMA,
    feed_search_param=FeedSearchParam.SEARCH, user_agent="mine", allow_insecure_http=True,
    engine_names=EngineNames(engine_a="google", engine_b="bing", webmaster_tools="gwt"),
    proxy="http://proxy.example:3128",
)  # fmt: skip


def test_every_setting_has_a_name_and_a_wrong_and_right_value() -> None:
    names = set(attrs.fields_dict(Settings))
    assert {name for name, _ in WRONG} == names
    with pytest.raises(TypeError):
        Settings(16)  # type: ignore[call-arg]
    assert {name for name, _ in RIGHT} == names


@pytest.mark.parametrize("name", attrs.fields_dict(Settings))
def test_a_wrong_value_is_refused_and_the_setting_named(name: str) -> None:
    for wrong in [wrong for setting, wrong in WRONG if setting == name]:
        with pytest.raises(ConfigurationError, match=f"^{name}[ :]"):
            pytest.fail(f"{Settings(**{name: wrong})} is taken")
        with pytest.raises(ValueError, match=name):
            Settings(**{name: wrong})


@pytest.mark.parametrize("name", attrs.fields_dict(Settings))
def test_a_right_value_stays_as_it_is(name: str) -> None:
    values = [right for setting, right in RIGHT if setting == name]
    values_taken = [getattr(Settings(**{name: right}), name) for right in values]
    assert [(type(value), value) for value in values_taken] == [
        (type(right), right) for right in values
    ]


@pytest.mark.parametrize(
    "copied",
    [pickle.loads(pickle.dumps(EVERYTHING)), copy.deepcopy(EVERYTHING)],  # noqa: S301
)
def test_a_pickled_or_copied_settings_object_equals_the_original(copied: Settings) -> None:
    assert copied == EVERYTHING
    assert hash(copied) == hash(EVERYTHING)


@pytest.mark.parametrize("name", attrs.fields_dict(Settings))
def test_every_setting_is_frozen_and_counts_in_a_comparison(name: str) -> None:
    assert attrs.evolve(EVERYTHING, **{name: getattr(Settings(), name)}) != EVERYTHING
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(EVERYTHING, name, getattr(EVERYTHING, name))


def test_engines_have_the_reference_s_names_or_any_that_differ() -> None:
    assert Settings().engine_names == EngineNames(
        engine_a="engineA", engine_b="engineB", webmaster_tools="wmt"
    )
    names = EngineNames(engine_a="google", engine_b="bing", webmaster_tools="googleWebmasterTools")
    assert names.webmaster_tools == "googleWebmasterTools"
