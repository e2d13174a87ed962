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
NOT_NUMBERS: list[Any] = [None, "16", "", True, False, [], {}, object, 1j]
NOT_COUNTS: list[Any] = [*NOT_NUMBERS, 0, -1, 16.0, math.nan, math.inf, HUGE, -HUGE]
NOT_POSITIVE: list[Any] = [0, 0.0, -0.0, -1, -0.5, math.nan, -math.inf, -HUGE]
NOT_DURATIONS: list[Any] = [*NOT_NUMBERS, *NOT_POSITIVE, math.inf, 10**400, HUGE, 1e10]
DURATIONS: list[Any] = [1, 0.001, 60.0, 86_400]

# the least and the most
COUNT_SETTINGS = {
    "max_concurrency": (1, 1024),
    "max_attempts": (1, 100),
    "max_body_bytes": (1024, 2**40),
    "max_pages": (1, 10**9),
}
DURATION_SETTINGS = (
    "attempt_timeout",
    "connect_timeout",
    "backoff_initial",
    "backoff_max",
    "retry_after_max",
)
# None means no limit.
LIMIT_SETTINGS = ("call_timeout", "requests_per_second")

WRONG: dict[str, list[Any]] = {
    "page_size": ["default", "all", "", 0, -1, 2**31, 25.0, True, b"find", ["find"], HUGE],
    "request_encoding": [None, "form", ArrayEncoding.COMMA, 1],
    "array_encoding": [None, "brackets", "role[]", RequestEncoding.FORM],
    "feed_search_param": [None, "both", True],
    "engine_names": [None, "google", {"engine_a": "google"}, ("google", "bing", "gwt")],
    "allow_insecure_http": [None, 0, 1, "true", "false"],
    "user_agent": [None, 7, b"agent", "two\nlines", "tab\t", "ünïcode", "nul\x00", "\x7f"],
}
WRONG["proxy"] = [7, b"http://proxy", "", "proxy:80", "ftp://proxy"]
WRONG["proxy"] += ["http://", "http://proxy:x", "http://a\tb"]
RIGHT: dict[str, list[Any]] = {
    "page_size": [1, 2**31 - 1, "find", None],
    "request_encoding": [*RequestEncoding],
    "array_encoding": [*ArrayEncoding],
    "feed_search_param": [*FeedSearchParam],
    "engine_names": [EngineNames(engine_a="google")],
    "allow_insecure_http": [True],
    "proxy": ["http://proxy.example:3128", None],
    "user_agent": ["my-reports/1.0 (+https://example.com)"],
}
for setting, (least, most) in COUNT_SETTINGS.items():
    WRONG[setting] = [*NOT_COUNTS, least - 1, most + 1]
    RIGHT[setting] = [least, most]
for setting in DURATION_SETTINGS:
    WRONG[setting] = NOT_DURATIONS
    RIGHT[setting] = DURATIONS
for setting in LIMIT_SETTINGS:
    WRONG[setting] = [value for value in NOT_DURATIONS if value is not None]
    RIGHT[setting] = [*DURATIONS, None]

# Every setting differs from its default.
EVERYTHING = Settings(
    max_concurrency=3,
    requests_per_second=2.5,
    attempt_timeout=4,
    connect_timeout=5.5,
    call_timeout=None,
    max_attempts=6,
    backoff_initial=0.7,
    backoff_max=8.5,
    retry_after_max=9,
    max_body_bytes=10_000,
    max_pages=11,
    page_size=12,
    request_encoding=RequestEncoding.JSON,
    array_encoding=ArrayEncoding.COMMA,
    feed_search_param=FeedSearchParam.SEARCH,
    user_agent="mine",
    allow_insecure_http=True,
    engine_names=EngineNames(engine_a="google", engine_b="bing", webmaster_tools="gwt"),
    proxy="http://proxy.example:3128",
)


def test_every_setting_has_a_name_and_a_wrong_and_right_value() -> None:
    names = attrs.fields_dict(Settings).keys()
    assert WRONG.keys() == names
    assert RIGHT.keys() == names
    with pytest.raises(TypeError):
        Settings(16)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", attrs.fields_dict(Settings))
def test_a_wrong_value_is_refused_and_the_setting_named(name: str) -> None:
    for wrong in WRONG[name]:
        with pytest.raises(ConfigurationError, match=f"^{name}[ :]") as caught:
            pytest.fail(f"{Settings(**{name: wrong})} is taken")
        assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", attrs.fields_dict(Settings))
def test_a_valid_value_is_unchanged(name: str) -> None:
    for right in RIGHT[name]:
        value = getattr(Settings(**{name: right}), name)
        assert value == right
        assert type(value) is type(right)


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


@pytest.mark.parametrize(
    ("proxy", "password"),
    [
        (None, None),
        ("http://proxy.example:3128", None),
        ("http://user:pass%20word@proxy.example:3128", "pass word"),
    ],
)
def test_the_password_of_a_proxy_is_decoded(proxy: str | None, password: str | None) -> None:
    assert Settings(proxy=proxy).proxy_password == password
