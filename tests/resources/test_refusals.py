"""Bad input is refused as the call is made, before any I/O, with a message that says what to do.

The clients here were never opened, and most are used outside of any event loop.
`tests/mistakes.txt` has more.
"""

import datetime as dt
import enum
import itertools
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from seorep_async import (
    ConfigurationError,
    Feed,
    FeedSearchParam,
    SeoRepClient,
    Settings,
)
from seorep_async.errors import short_repr
from seorep_async.resources.arguments import check_dates
from seorep_async.resources.secret_arguments import described
from tests.resources.operations import (
    CHECKED,
    DATES,
    IDS,
    OPERATIONS,
    Arguments,
    Operation,
    each,
)

JANUARY = ("2023-01-01", "2023-01-31")


class Name(str, enum.Enum):  # noqa: UP042  # its own str() is not its value
    TAG = "tag"


def closed(**settings: Any) -> SeoRepClient:
    return SeoRepClient("http://127.0.0.1:9", "key", settings=Settings(**settings))


def refused(call: Callable[..., Any], *arguments: Any, **keywords: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        call(*arguments, **keywords)
    assert caught.value.path is None
    return caught.value.message


async def refusal(operation: Operation, arguments: Arguments) -> str:
    with pytest.raises(ConfigurationError) as caught:
        await operation.ask(closed(), **arguments)
    assert caught.value.path is None
    return caught.value.message


# --- Arguments

BAD_IDS = [0, -1, True, "7", 7.0, None, 2**31, 10**5000, Name.TAG, [7]]


def no_id(name: str, bad: Any) -> str:
    problem = f"{name} must be an integer from 1 to 2147483647, got {short_repr(bad)}"
    is_number = bad in ("7", "10", 7.0)
    return f"{problem}; convert it with int()" if is_number else problem


def no_date(name: str, bad: Any) -> str:
    if bad == "2023-02-30":
        return f"{name}: the date {bad} does not exist"
    hint = "; pass its .date()" if isinstance(bad, dt.datetime) else ""
    forms = 'a datetime.date or a string "YYYY-MM-DD"'
    if name in ("start_date", "end_date"):
        forms = 'a datetime.date, a day "YYYY-MM-DD" or a month "YYYY-MM"'
    return f"{name} must be {forms}, got {bad!r}{hint}"


@pytest.mark.parametrize(
    ("is_checked", "values", "said"),
    [
        pytest.param(lambda _, name: name in IDS, BAD_IDS, no_id, id="ids"),
        pytest.param(
            lambda operation, name: name in DATES and operation.verb != "update",
            [
                "2023-1-1",
                "2023-02-30",
                "20230101",
                "2023-W01-1",
                "today",
                "2023-01-01T00:00:00",
                "\uff12\uff10\uff12\uff13-01-01",
                "",
                None,
                20230101,
                dt.datetime(2023, 1, 1),
            ],
            no_date,
            id="dates",
        ),
        pytest.param(
            lambda _, name: name == "limit", [0, -1, True, "10", 1.5, 2**31], no_id, id="limits"
        ),
        pytest.param(
            lambda operation, name: name in operation.required and name not in CHECKED,
            ["", None, 5],
            lambda name, _: f"{name} must be a non-empty string",
            id="strings",
        ),
        pytest.param(
            lambda _, name: name == "status",
            ["Published", "draft", "", 5, True, ["published"]],
            lambda name, bad: f"{name} must be 'published' or 'unpublished', got {bad!r}",
            id="statuses",
        ),
    ],
)
async def test_a_wrong_argument_is_refused_and_named(
    is_checked: Any, values: list[Any], said: Any
) -> None:
    bad_values = itertools.cycle(values)
    for operation in OPERATIONS:
        for name in operation.inputs:
            if is_checked(operation, name):
                bad = next(bad_values)
                message = await refusal(operation, operation.changing | {name: bad})
                assert message == said(name, bad)


@pytest.mark.parametrize("bad", BAD_IDS, ids=short_repr)
@pytest.mark.parametrize("feed", Feed)
def test_a_pull_refuses_wrong_ids(feed: Feed, bad: Any) -> None:
    name = f"{feed.object_name}_id"
    assert refused(closed().rankings.pull, [1, bad, 3], *JANUARY, feed=feed) == no_id(name, bad)


def test_a_month_stands_for_its_first_or_last_day() -> None:
    assert check_dates("2024-02", "2024-02") == (dt.date(2024, 2, 1), dt.date(2024, 2, 29))
    for bad in ("2023-13", "2023-00", "2023-1", "0000-01"):
        assert "end_date" in refused(check_dates, "0001-01-01", bad)


def test_the_refusal_of_a_period_suggests_its_string() -> None:
    refusal_of_period = refused(check_dates, pd.Period("2023-03"), "2023-03")
    assert refusal_of_period.endswith("got Period('2023-03', 'M'); pass its str()")


@pytest.mark.parametrize("bad", [5, ["a"]], ids=["number", "list"])
@each([operation for operation in OPERATIONS if operation.optional])
async def test_an_argument_that_must_be_a_string_is_refused_if_not(
    operation: Operation, bad: Any
) -> None:
    others = CHECKED | {"email_credentials", "compare_previous_period"}
    if operation.name == "users.list":
        others |= {"role"}
    for name in operation.optional:
        if name not in others:
            said = await refusal(operation, operation.changing | {name: bad})
            assert said == f"{name} must be a string, got {described(bad)}"


# --- extra_params


@each(OPERATIONS)
async def test_extra_params_can_not_repeat_an_argument(
    operation: Operation,
) -> None:
    places = {name: f"{name}=…" for name in operation.inputs}
    if operation.is_listing:
        places["page"] = ".page(…)"
    for name, place in places.items():
        said = await refusal(operation, operation.changing | {"extra_params": {name: "1"}})
        assert said == f"extra_params: {name!r} is an argument of its own: {place}"


@pytest.mark.parametrize("names", FeedSearchParam)
@pytest.mark.parametrize("feed", Feed)
@pytest.mark.parametrize("name", ["filter", "search"])
def test_an_extra_parameter_named_like_a_feed_s_is_refused(
    name: str, feed: Feed, names: FeedSearchParam
) -> None:
    pull = closed(feed_search_param=names).rankings.pull
    said = refused(pull, [1], *JANUARY, feed=feed, extra_params={name: "1"})
    assert said == f"extra_params: {name!r} is an argument of its own: search=…"
    # A keyword feed may have it as a filter.
    pull([1], *JANUARY, feed=Feed.KEYWORD_BY_DATE, extra_params={"campaign_id": 43})


@pytest.mark.parametrize(
    "bad",
    [10**5000, object(), float("nan"), dt.datetime(2023, 1, 1), {"a": 1}, [1], b"x"],
    ids=["huge", "object", "nan", "time", "dict", "list of numbers", "bytes"],
)
async def test_a_further_value_that_cannot_be_sent_is_refused(bad: object) -> None:
    for operation in OPERATIONS:
        said = await refusal(operation, operation.changing | {"extra_params": {"x": bad}})
        assert said.startswith("x cannot be sent as ")


@pytest.mark.parametrize("name", ["email_credentials", "compare_previous_period"])
async def test_a_choice_that_cannot_be_sent_is_refused_by_name(name: str) -> None:
    for operation in OPERATIONS:
        if name in operation.inputs:
            said = await refusal(operation, operation.least | {name: {"a": 1}})
            assert said == f"{name} cannot be sent as a value of type dict"
