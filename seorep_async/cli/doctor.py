"""`seorep doctor`: can the service be reached, do the clocks agree, and which shapes do its responses have?"""

from __future__ import annotations

import datetime as dt
import enum
import json
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import attrs
import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli.choosing import chosen_days
from seorep_async.cli.connection import Connection, config_file
from seorep_async.cli.exit_codes import ExitCode, exit_code_of, explain
from seorep_async.cli.signals import run_until_interrupted
from seorep_async.cli.terminal import print_hanging, stderr_console
from seorep_async.client import SeoRepClient
from seorep_async.errors import SeoRepError, one_line
from seorep_async.models import Page
from seorep_async.session import RawAnswer
from seorep_async.settings import Settings

if TYPE_CHECKING:
    from seorep_async.sandbox import Sandbox

_SECONDS = 20.0
_CLOCK_SECONDS = 60.0


class Level(enum.Enum):
    """The severity of a check's result."""

    OK = "ok"
    NOTE = "note"
    FAIL = "FAIL"
    FACT = ""


@attrs.frozen
class CheckResult:
    """The result of a check: its level, its subject, and a sentence about it."""

    level: Level
    subject: str
    message: str


_STYLES = {Level.OK: "green", Level.NOTE: "yellow", Level.FAIL: "bold red", Level.FACT: ""}


def check_service(connect: Callable[[], Connection], now: dt.datetime) -> ExitCode:
    """Check a service, and show the connection in force."""
    console = stderr_console()
    try:
        connection = connect()
        client = attrs.evolve(connection, settings=_impatient(connection.settings)).client()
    except click.ClickException as error:
        _show(console, CheckResult(Level.FAIL, "settings", error.message))
        return ExitCode.USAGE
    _show(console, CheckResult(Level.OK, "settings", f"{connection.base_url}, and a key"))
    for subject, message in _in_force(connection):
        _show(console, CheckResult(Level.FACT, subject, message))
    return run_until_interrupted(_check(client, now, console))


def check_sandbox(sandbox: Sandbox, settings: Settings, now: dt.datetime) -> ExitCode:
    """Check a sandbox."""

    async def run() -> ExitCode:
        async with sandbox:
            client = SeoRepClient(sandbox.base_url, sandbox.api_key, settings=_impatient(settings))
            _show(console, CheckResult(Level.OK, "settings", f"{sandbox.base_url}, and a key"))
            return await _check(client, now, console)

    console = stderr_console()
    return run_until_interrupted(run())


def _impatient(settings: Settings) -> Settings:
    """Return settings for one retry, which is enough for a connection that was closed or a limit of the service."""
    return attrs.evolve(settings, max_attempts=min(2, settings.max_attempts))


def _in_force(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield each value that is no default, and its source."""
    if connection.profile is not None:
        yield "profile", f"{connection.profile}, from {config_file()}"
    if connection.account is not None:
        yield "account", connection.account
    for name, source in connection.sources.items():
        match name:
            case "base_url":
                value = "the address"
            case "key":
                value = "the key"
            case _:
                found = getattr(connection.settings, name)
                value = str(found.value if isinstance(found, enum.Enum) else found)
        yield name.replace("_", "-"), f"{value}, from {source}"
    if connection.storage_options:
        yield "storage-options", f"{', '.join(connection.storage_options)}, from profile {connection.profile}"
    yield "other settings", "defaults"


async def _check(client: SeoRepClient, now: dt.datetime, console: Console) -> ExitCode:
    days = chosen_days({}, now)
    async with client:
        with client.record_answers() as answers:
            try:
                async for result in _results(client, answers, days.first, days.last):
                    _show(console, result)
            except SeoRepError as error:
                _show(console, CheckResult(Level.FAIL, "responses" if answers else "connection", explain(error)))
                return exit_code_of(error)
    return ExitCode.OK


def _show(console: Console, result: CheckResult) -> None:
    line = f"  {result.subject:<20}{one_line(result.message)}"
    print_hanging(console, Text.assemble((f"{result.level.value:<4}", _STYLES[result.level]), line), 26)


async def _results(
    client: SeoRepClient, answers: Sequence[RawAnswer], first: dt.date, last: dt.date
) -> AsyncIterator[CheckResult]:
    """Fetch a page of campaigns and of each feed, and report shapes, rows, page sizes and unknown fields."""
    failure = None
    try:
        with client.timeout(_SECONDS):
            campaigns = await client.campaigns.list().page(1)
    except SeoRepError as error:
        failure = error
    if answers:
        url = urllib.parse.urlsplit(client.base_url)
        secured = " over TLS" if url.scheme == "https" else ", not encrypted"
        milliseconds = answers[-1].seconds * 1000
        yield CheckResult(Level.OK, "connection", f"{url.hostname} answered after {milliseconds:.0f} ms{secured}")
        yield compare_clocks(answers[-1].headers.get("Date"), dt.datetime.now(dt.UTC))
    if failure is not None:
        raise failure
    yield CheckResult(Level.OK, "key", "accepted")
    yield CheckResult(Level.FACT, "campaigns", f"{_count(campaigns.total_records)}, {_pages(campaigns)}")
    for result in _unknown_fields("campaigns", campaigns.items):
        yield result
    if not campaigns.items:
        yield CheckResult(Level.NOTE, "feeds", "not checked, as the account has no campaign")
        return
    one = campaigns.items[0].id
    rankings = await client.rankings.campaign(one, first, last).page(1)
    for result in _check_feed("campaign", f"campaign {one}", rankings, answers[-1]):
        yield result
    periods = await client.rankings.campaign_by_date(one, first, last).page(1)
    for result in _check_feed("campaign-by-date", f"campaign {one}", periods, answers[-1]):
        yield result
    unknown = _fields_in_extra((*rankings.items, *periods.items))
    if rank := next((name for name in sorted(unknown) if name.endswith("Ranking")), None):
        message = f"no column takes {rank}; if the account calls a search engine so, pass --engine-names"
        yield CheckResult(Level.NOTE, "engine-names", message)
    if not rankings.items:
        yield CheckResult(Level.NOTE, "keyword-by-date", f"not checked, as campaign {one} has no keyword")
        return
    keyword = rankings.items[0].keyword_id
    dates = await client.rankings.keyword_by_date(keyword, first, last).page(1)
    for result in _check_feed("keyword-by-date", f"keyword {keyword}", dates, answers[-1]):
        yield result


def compare_clocks(date: str | None, now: dt.datetime) -> CheckResult:
    """Compare this machine's time with the `Date` header of a response."""
    try:
        theirs = parsedate_to_datetime(date or "")
    except (ValueError, OverflowError):
        return CheckResult(Level.NOTE, "clock", "the service does not send its time")
    if theirs.tzinfo is None:
        theirs = theirs.replace(tzinfo=dt.UTC)
    apart = (now - theirs).total_seconds()
    if abs(apart) <= _CLOCK_SECONDS:
        return CheckResult(Level.OK, "clock", "agrees with the service's")
    order = "ahead of" if apart > 0 else "behind"
    message = f"this machine's is {abs(apart):,.0f} s {order} the service's; default dates may be wrong"
    return CheckResult(Level.NOTE, "clock", message)


def _check_feed(name: str, subject: str, page: Page[Any], answer: RawAnswer) -> Iterator[CheckResult]:
    data = json.loads(answer.body)["data"]  # the models do not show its shape
    rows = data if isinstance(data, list) else data.get("rows") or []
    facts = [
        f"{subject}: {_count(page.total_records)} rows",
        _pages(page),
        f"{'flat' if isinstance(data, list) else 'nested'} shape",
        f"{'older' if any('globalMonthlySearches' in row for row in rows) else 'current'} rows",
        "totals" if page.totals is not None else "no totals",
    ]
    yield CheckResult(Level.FACT, name, ", ".join(facts))
    yield from _unknown_fields(name, page.items)
    if page.total_records is None or page.total_pages is None:
        yield CheckResult(Level.NOTE, name, "no total counts; a pull reads pages until one is empty")


def _unknown_fields(name: str, items: Iterable[Any]) -> Iterator[CheckResult]:
    if fields := sorted(_fields_in_extra(items)):
        yield CheckResult(Level.NOTE, name, f"undocumented fields, stored in `extra`: {', '.join(fields[:10])}")


def _fields_in_extra(items: Iterable[Any]) -> set[str]:
    fields: set[str] = set()
    for item in items:
        fields.update(item.extra)
        for field in attrs.fields(type(item)):
            nested = getattr(item, field.name)
            if attrs.has(type(nested)):
                fields.update(f"{field.name}.{extra}" for extra in nested.extra)
    return fields


def _pages(page: Page[Any]) -> str:
    return f"{len(page.items)} on page 1 of {_count(page.total_pages)}"


def _count(number: int | None) -> str:
    return "an unknown number" if number is None else f"{number:,}"
