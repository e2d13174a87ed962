"""Settings: what is refused, and that a settings object is a value."""

import copy
import math
import pickle
from collections.abc import Iterable
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
NOT_LIMITS = [value for value in NOT_DURATIONS if value is not None]

VALUES: dict[str, tuple[Iterable[Any], list[Any]]] = {
    "max_concurrency": ([1, 1024], [*NOT_COUNTS, 1025]),
    "max_attempts": ([1, 100], [*NOT_COUNTS, 101]),
    "max_body_bytes": ([1024, 2**40], [*NOT_COUNTS, 1023, 2**40 + 1]),
    "max_pages": ([1, 10**9], [*NOT_COUNTS, 10**9 + 1]),
    "page_size": (
        [1, 2**31 - 1, "find", None],
        ["default", "all", "", 0, -1, 2**31, 25.0, True, b"find", ["find"], HUGE],
    ),
    "attempt_timeout": (DURATIONS, NOT_DURATIONS),
    "connect_timeout": (DURATIONS, NOT_DURATIONS),
    "backoff_initial": (DURATIONS, NOT_DURATIONS),
    "backoff_max": (DURATIONS, NOT_DURATIONS),
    "retry_after_max": (DURATIONS, NOT_DURATIONS),
    "call_timeout": ([*DURATIONS, None], NOT_LIMITS),
    "requests_per_second": ([*DURATIONS, None], NOT_LIMITS),
    "request_encoding": (RequestEncoding, [None, "form", ArrayEncoding.COMMA, 1]),
    "array_encoding": (ArrayEncoding, [None, "brackets", "role[]", RequestEncoding.FORM]),
    "feed_search_param": (FeedSearchParam, [None, "both", True]),
    "engine_names": (
        [EngineNames(engine_a="google")],
        [None, "google", {"engine_a": "google"}, ("google", "bing", "gwt")],
    ),
    "allow_insecure_http": ([True], [None, 0, 1, "true", "false"]),
    "proxy": (
        ["http://proxy.example:3128", None],
        [
            7,
            b"http://proxy",
            "",
            "proxy:80",
            "ftp://proxy",
            "http://",
            "http://proxy:x",
            "http://a\tb",
        ],
    ),
    "user_agent": (
        ["my-reports/1.0 (+https://example.com)"],
        [None, 7, b"agent", "two\nlines", "tab\t", "ünïcode", "nul\x00", "\x7f"],
    ),
}
"""The right and the wrong values of each setting."""


def not_default(name: str) -> Any:
    right, _ = VALUES[name]
    return next(value for value in right if value != getattr(Settings(), name))


EVERYTHING = Settings(**{name: not_default(name) for name in VALUES})
"""Every setting differs from its default."""


@pytest.mark.parametrize("name", VALUES)
def test_a_right_value_is_kept_and_a_wrong_one_is_refused(name: str) -> None:
    right, wrong = VALUES[name]
    for value in right:
        kept = getattr(Settings(**{name: value}), name)
        assert kept == value
        assert type(kept) is type(value)
    for value in wrong:
        with pytest.raises(ConfigurationError, match=f"^{name}[ :]") as caught:
            pytest.fail(f"{Settings(**{name: value})} is taken")
        assert isinstance(caught.value, ValueError)


def test_every_setting_has_a_row_and_is_given_by_name() -> None:
    assert VALUES.keys() == attrs.fields_dict(Settings).keys()
    with pytest.raises(TypeError):
        Settings(16)  # type: ignore[call-arg]


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
