"""Mistakes of people who call it from Python: each message says what to do, in Python's words."""

import datetime as dt
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seorep_async import ConfigurationError, EngineNames, SeoRepClient, Settings
from seorep_async.export import CsvOptions, pull_to
from tests.export.reports import account

DAYS: Any = ("2023-01-01", "2023-01-31")
Call = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def without_an_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("SEOREP_BASE_URL", "SEOREP_API_KEY"):
        monkeypatch.delenv(name, raising=False)


CALLS: list[tuple[Call, str]] = [
    (lambda _: SeoRepClient("https://a.example.com"), "no API key: pass api_key, or set SEOREP_API_KEY"),
    (lambda _: SeoRepClient(api_key="k"), "no base URL: pass base_url, or set SEOREP_BASE_URL"),
    (lambda _: SeoRepClient("a.example.com", "k"), "base_url needs a scheme and a host: write it as https://host"),
    (lambda _: SeoRepClient("http://a.example.com", "k"), r"Settings\(allow_insecure_http=True\) allows it"),
    (lambda _: SeoRepClient("https://a.example.com", "k").campaigns.list(), "use it inside `async with SeoRepClient"),
    (lambda _: Settings(max_concurrency=0), "max_concurrency must be an integer from 1 to 1024, got 0"),
    (lambda _: Settings(requests_per_second=0), r"above 0 and up to 1e9 \(requests a second, or None\), got 0"),
    (lambda _: Settings(request_encoding="json"), "must be one of RequestEncoding.FORM, RequestEncoding.JSON"),  # type: ignore[arg-type]
    (lambda _: EngineNames(engine_a="a b"), "'a b' is not one word of ASCII letters and digits"),
    (lambda c: c.rankings.campaign(1, "31.01.2023", DAYS[1]), 'must be a datetime.date or a string "YYYY-MM-DD"'),
    (lambda c: c.rankings.campaign(1, dt.datetime.min, DAYS[1]), r"got datetime.datetime\(1, .*; pass its .date\(\)"),
    (lambda c: c.rankings.campaign(1, *DAYS[::-1]), "end_date 2023-01-01 is before start_date 2023-01-31; swap them"),
    (lambda c: c.rankings.campaign("1", *DAYS), "campaign_id must be an integer from 1 to 2147483647, got '1'"),
    (lambda c: c.rankings.campaign(1.0, *DAYS), "campaign_id must be an integer from 1 to 2147483647, got 1.0"),
    (lambda c: c.rankings.campaign(99, *DAYS), "campaign 99: there is no such object"),
    (lambda c: c.rankings.campaign(1, *DAYS).rows, r"`await` is missing: \(await listing\).rows"),
    (lambda c: c.campaigns.list().page(0), "page must be an integer from 1, got 0"),
    (lambda c: c.campaigns.list(limit=0), "limit must be an integer from 1 to 2147483647, got 0"),
    (lambda c: c.campaigns.list(extra_params={"filter": "x"}), "'filter' has a place of its own: filter=…"),
    (lambda c: c.request("GET", "https://b.example.com/"), "path must be a path such as /v3/campaigns/42"),
    (lambda c: c.rankings.pull([1], *DAYS, feed="weekly"), 'feed must be one of Feed.CAMPAIGN or "campaign", '),
    (lambda c: c.rankings.pull(1, *DAYS), "ids must be several campaign ids, got 1"),
    (lambda c: c.rankings.pull([1], *DAYS, colour=1), "pull has no argument 'colour'; the feeds take search, limit"),
    (
        lambda c: anext(aiter(c.rankings.pull([1], *DAYS))),
        r"use it as `async with client.rankings.pull\(...\) as outcomes",
    ),
    (lambda c: c.rankings.pull([1], *DAYS), r"use it as `async with client.rankings.pull\(...\) as outcomes"),
    (lambda _: SeoRepClient("https://a.example.com", "k", account=" "), "account must be a name of 1 to 100 printable"),
    (lambda c: pull_to(c, None, *DAYS, out="no/a.csv"), "there is no folder .*no; create it first"),
    (lambda c: pull_to(c, None, *DAYS, out="a.xlsx"), "the name must end in .csv, .jsonl, .parquet or .duckdb"),
    (lambda c: pull_to(c, None, *DAYS, out="."), "it is a folder; name a file in it"),
    (lambda c: pull_to(c, None, *DAYS, out=__file__ + ".csv", feeds=[]), "feeds must name at least one feed"),
    (lambda c: pull_to(c, [], *DAYS, out="a.csv"), "ids is empty; give at least one, or None for all"),
    (lambda c: pull_to(c, None, *DAYS, out="a.csv", account=""), "account must be a name of 1 to 100 printable"),
    (lambda c: pull_to(c, None, *DAYS, out="a.csv", key_renewed="no"), "key_renewed must be the mark of the new key"),
    (lambda c: pull_to(c, None, *DAYS, out="a.csv", restart=1), "restart must be True or False, got 1"),  # type: ignore[arg-type]
    (lambda c: pull_to(c, None, *DAYS, out="a.csv", force=None), "force must be True or False, got None"),  # type: ignore[arg-type]
    (
        lambda c: pull_to(c, None, *DAYS, out="a.csv", restart=True, retry_failed=True),
        "restart=True and retry_failed=True can't be combined; give one",
    ),
    (lambda c: pull_to(c, None, *DAYS, out="a.csv", csv=True), "csv must be CsvOptions, .* got True"),  # type: ignore[arg-type]
    (lambda c: pull_to(c, None, *DAYS, out="a.duckdb", csv=CsvOptions(bom=True)), "csv is only for CSV: leave it"),
    (lambda c: pull_to(c, None, *DAYS, out="a.csv", on_progress=5), "on_progress must be a function that takes"),  # type: ignore[arg-type]
    (lambda c: pull_to(c, None, *DAYS, out="a.csv", on_progress=_made), "and not an async one, got <function"),  # type: ignore[arg-type]
]


NAMED: dict[str, Call] = {
    "api_key": lambda _: SeoRepClient("https://a.example.com", " k"),
    "base_url": lambda _: SeoRepClient("a.example.com", "k"),
    "max_concurrency": lambda _: Settings(max_concurrency=0),
    "call_timeout": lambda _: Settings(call_timeout=0),
    "request_encoding": lambda _: Settings(request_encoding="json"),  # type: ignore[arg-type]
    "engine_names": lambda _: EngineNames(engine_a="a b"),
    "bom": lambda _: CsvOptions(bom=1),  # type: ignore[arg-type]
    "start_date": lambda c: c.rankings.campaign(1, "31.01.2023", DAYS[1]),
    "end_date": lambda c: c.rankings.campaign(1, *DAYS[::-1]),
    "campaign_id": lambda c: c.rankings.campaign("1", *DAYS),
    "sort_metric": lambda c: c.rankings.campaign(1, *DAYS, sort_metric=1),
    "limit": lambda c: c.campaigns.list(limit=0),
    "extra_params": lambda c: c.campaigns.list(extra_params={"filter": "x"}),
    "feed": lambda c: c.rankings.pull([1], *DAYS, feed="weekly"),
    "ids": lambda c: c.rankings.pull(1, *DAYS),
    "date_string": lambda c: c.backlinks.list(1, date_string=DAYS[::-1]),
    "out": lambda c: pull_to(c, None, *DAYS, out="a.xlsx"),
    "feeds": lambda c: pull_to(c, None, *DAYS, out="a.csv", feeds=[]),
    "account": lambda c: pull_to(c, None, *DAYS, out="a.csv", account=""),
    "key_renewed": lambda c: pull_to(c, None, *DAYS, out="a.csv", key_renewed="no"),
    "snapshot_date": lambda c: pull_to(c, None, *DAYS, out="a.csv", snapshot_date="9999-01-01"),
    "search": lambda c: pull_to(c, None, *DAYS, out="a.duckdb", search="x"),
    "csv": lambda c: pull_to(c, None, *DAYS, out="a.duckdb", csv=CsvOptions(bom=True)),
}


async def _made(call: Call, client: SeoRepClient) -> None:
    result = call(client)
    if inspect.isawaitable(result):
        await result


@pytest.mark.parametrize(("call", "said"), CALLS, ids=[said[:40] for _, said in CALLS])
async def test_a_mistake_is_answered_in_the_words_of_python(call: Call, said: str) -> None:
    async with account(campaigns=1, keywords=1) as (_, client):
        with pytest.raises(Exception, match=said) as caught:
            await _made(call, client)
    assert not re.search(r"(?<!\w)--\w", str(caught.value))


@pytest.mark.parametrize("argument", NAMED)
async def test_an_error_names_the_wrong_argument(argument: str) -> None:
    async with account(campaigns=1, keywords=1) as (_, client):
        with pytest.raises(ConfigurationError) as caught:
            await _made(NAMED[argument], client)
    assert caught.value.argument == argument
