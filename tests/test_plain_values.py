"""Subclasses of str, int, float and date become plain values."""

import datetime as dt
import enum
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from seorep_async import RequestEncoding, SeoRepClient, Settings
from seorep_async.plain_values import plain
from seorep_async.resources.arguments import (
    check_account_name,
    check_date,
    check_dates,
    check_id,
    check_ids,
)
from tests.processes import run_python
from tests.session.calls import Connect
from tests.session.scripted_server import EMPTY_PAGE, answer


class Word(str, enum.Enum):  # noqa: UP042  # its own str() is not its value
    SECRET = "correct-horse-9"
    PATH = "/v3/campaigns"
    DAY = "2023-01-31"
    MONTH = "2023-02"


class Number(enum.IntEnum):
    SEVEN = 7


class Index:
    """An integer like numpy's: not an int, but usable as one."""

    def __index__(self) -> int:
        return 7


class Day(dt.date):
    """A date like pendulum's."""


class Float(float):
    """A float like numpy's."""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Word.SECRET, "correct-horse-9"),
        (Number.SEVEN, 7),
        (Index(), 7),
        (Float(0.5), 0.5),
        (Day(2023, 1, 31), dt.date(2023, 1, 31)),
        (True, True),
        (None, None),
    ],
)
def test_a_value_of_a_subclass_becomes_plain(value: Any, expected: Any) -> None:
    result = plain(value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(lambda: check_account_name(Word.SECRET), id="account"),
        pytest.param(lambda: check_date("start_date", Day(2023, 1, 31)), id="date"),
        pytest.param(lambda: check_date("start_date", Word.DAY), id="date as a string"),
        pytest.param(lambda: check_id("campaign_id", Index()), id="id"),
        pytest.param(lambda: next(iter(check_ids("campaign", [Number.SEVEN]))), id="ids"),
    ],
)
def test_a_checked_argument_is_plain(check: Callable[[], object]) -> None:
    assert type(check()) in (str, int, dt.date)


def test_a_month_may_be_an_enum_member() -> None:
    assert check_dates(Word.MONTH, Word.MONTH) == (dt.date(2023, 2, 1), dt.date(2023, 2, 28))


async def test_pages_timeouts_and_ids_may_be_integers_of_another_type(connect: Connect) -> None:
    client, server = await connect(
        answer(EMPTY_PAGE), answer({"data": {"id": 7, "url": "example.com", "company": "Example"}})
    )
    seven: Any = Index()
    with client.timeout(seven):
        await client.campaigns.list().page(seven)
        await client.campaigns.get(seven)
    assert server.requests[0].query["page"] == "7"


@pytest.mark.parametrize(
    ("name", "call"),
    [
        pytest.param(
            "password",
            lambda client: client.users.create("a", "b", "c", Word.SECRET, "client"),
            id="create",
        ),
        pytest.param(
            "password", lambda client: client.users.update(1, password=Word.SECRET), id="update"
        ),
        pytest.param(
            "token",
            lambda client: client.request("POST", "/v3/x", body={"token": Word.SECRET}),
            id="body",
        ),
        pytest.param(
            "tokens[]",
            lambda client: client.request("POST", "/v3/x", body={"tokens": [Word.SECRET]}),
            id="tokens",
        ),
    ],
)
async def test_a_secret_enum_member_is_sent_as_its_value(
    name: str, call: Callable[[SeoRepClient], Any], connect: Connect
) -> None:
    client, server = await connect(answer({"data": {"id": 1, "username": "c"}}))
    await call(client)
    assert parse_qs(server.requests[0].body.decode())[name] == [Word.SECRET.value]


async def test_a_numeric_password_stays_a_number_in_json(connect: Connect) -> None:
    client, server = await connect(answer({"data": {}}), request_encoding=RequestEncoding.JSON)
    await client.request("POST", Word.PATH, body={"password": 12345})
    assert json.loads(server.requests[0].body) == {"password": 12345}


async def test_key_and_address_may_be_enum_members(connect: Connect) -> None:
    _, server = await connect(answer(EMPTY_PAGE))

    class Address(str, enum.Enum):  # noqa: UP042
        MAIN = server.base_url

    async with SeoRepClient(Address.MAIN, Word.SECRET) as client:
        await client.campaigns.list().page(1)
    assert server.requests[0].headers["Authorization"] == "Basic OmNvcnJlY3QtaG9yc2UtOQ=="


def test_settings_are_plain() -> None:
    settings = Settings(
        max_concurrency=Index(),  # type: ignore[arg-type]
        attempt_timeout=Float(2.5),
        user_agent=Word.SECRET,
        proxy=None,
    )
    assert settings == Settings(
        max_concurrency=7, attempt_timeout=2.5, user_agent="correct-horse-9"
    )
    kinds = settings.max_concurrency, settings.attempt_timeout, settings.user_agent
    assert [type(value) for value in kinds] == [int, float, str]


FROZEN = """
import asyncio, datetime as dt, sys
import seorep_async
from seorep_async.export import pull_to
from seorep_async.sandbox import Sandbox

real_date, real_datetime = dt.date, dt.datetime

class FakeType(type):
    def __instancecheck__(cls, value):
        return isinstance(value, real_date)

class FakeDate(real_date, metaclass=FakeType):
    pass

class FakeDatetimeType(FakeType):
    def __instancecheck__(cls, value):
        return isinstance(value, real_datetime)

class FakeDatetime(real_datetime, FakeDate, metaclass=FakeDatetimeType):
    pass

FAKES = {real_date: FakeDate, real_datetime: FakeDatetime}

def freeze():
    for module in list(sys.modules.values()):
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and value in FAKES and module.__name__ != "__main__":
                setattr(module, name, FAKES[value])

async def main(folder):
    sandbox = await Sandbox(campaigns=1, keywords=2).__aenter__()
    seorep_async.SeoRepClient
    freeze()
    async with seorep_async.SeoRepClient(sandbox.base_url, sandbox.api_key) as client:
        campaigns = await client.campaigns.list()
        report = await client.rankings.campaign(1, "2023-01-01", dt.date(2023, 3, 31))
        assert type(report.end_date) is type(report.snapshot_date) is real_date
        assert type(campaigns[0].date_created) is real_datetime
        for table in (report, campaigns):
            for method in ("to_dicts", "to_jsonl", "to_arrow", "to_pandas", "to_polars"):
                getattr(table, method)()
        for target in ("a.csv", "a.duckdb"):
            await pull_to(client, [1], "2023-01-01", "2023-03-31", out=f"{folder}/{target}")
    await sandbox.__aexit__(None, None, None)

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.heavy
def test_reports_become_tables_under_frozen_dates(tmp_path: Path) -> None:
    result = run_python("-c", FROZEN, str(tmp_path), env=os.environ | {"TZ": "UTC"})
    assert result.returncode == 0
    assert result.stderr == ""
