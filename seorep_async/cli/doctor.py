"""`seorep doctor`: can the service be reached, do the clocks agree, and which shapes do its responses have?"""

from __future__ import annotations

import datetime as dt
import enum
import json
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import attrs
import click
from rich.text import Text

from seorep_async.cli.choosing import ChosenDays, chosen_days
from seorep_async.cli.connection import Connection, config_file, connect
from seorep_async.cli.exit_codes import ExitCode, exit_code_of, explain
from seorep_async.cli.signals import run_until_interrupted
from seorep_async.cli.terminal import print_hanging, stderr_console
from seorep_async.client import SeoRepClient
from seorep_async.errors import SeoRepError, one_line
from seorep_async.models import Campaign, Page
from seorep_async.session import RawAnswer

if TYPE_CHECKING:
    from seorep_async.sandbox import Sandbox

_SECONDS = 20.0
_CLOCK_SECONDS = 60.0


class Level(enum.Enum):
    """The severity of a check's result: its word and style."""

    OK = "ok", "green"
    NOTE = "note", "yellow"
    FAIL = "FAIL", "bold red"
    FACT = "", ""


def check(options: Mapping[str, Any], sandbox: Sandbox | None, now: dt.datetime) -> ExitCode:
    """Show the connection in force, check the service, and show each result when it is known."""
    try:
        return run_until_interrupted(_check(connect(options, sandbox), now))
    except click.UsageError:
        raise
    except click.ClickException as error:
        _show(Level.FAIL, "settings", error.message)
        return ExitCode.USAGE


def _show(level: Level, subject: str, message: str) -> None:
    word, style = level.value
    line = Text.assemble((f"{word:<4}", style), f"  {subject:<20}{one_line(message)}")
    print_hanging(stderr_console(), line, 26)


async def _check(connection: Connection, now: dt.datetime) -> ExitCode:
    # one retry is enough for a connection that was closed, or a limit of the service
    settings = attrs.evolve(connection.settings, max_attempts=min(2, connection.settings.max_attempts))
    async with attrs.evolve(connection, settings=settings).opened() as client:
        _show(Level.OK, "settings", f"{connection.address}, and a key")
        for subject, message in _in_force(connection) if connection.sandbox is None else ():
            _show(Level.FACT, subject, message)
        campaigns = None
        with client.record_answers() as answers:
            try:
                campaigns = await _list_campaigns(client, answers)
                await _check_feeds(client, answers, campaigns, chosen_days({}, now))
            except SeoRepError as error:
                code = exit_code_of(error)
                is_key = code is ExitCode.AUTHENTICATION and campaigns is None  # else that of one campaign
                _show(Level.FAIL, "key" if is_key else "responses" if answers else "connection", explain(error))
                return code
    return ExitCode.OK


def _in_force(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield each value that is no default, and its source."""
    if connection.profile is not None:
        yield "profile", f"{connection.profile}, from {config_file()}"
    if connection.account is not None:
        yield "account", connection.account
    for name, source in connection.sources.items():
        found = {"base_url": "the address", "key": "the key"}.get(name) or getattr(connection.settings, name)
        yield name.replace("_", "-"), f"{found.value if isinstance(found, enum.Enum) else found}, from {source}"
    if connection.storage_options:
        yield "storage-options", f"{', '.join(connection.storage_options)}, from profile {connection.profile}"
    yield "other settings", "defaults"


async def _list_campaigns(client: SeoRepClient, answers: Sequence[RawAnswer]) -> Page[Campaign]:
    """Return the first page of campaigns; show whether the service answers, even if it refuses, and its clock."""
    try:
        with client.timeout(_SECONDS):
            return await client.campaigns.list().page(1)
    finally:
        if answers:
            url = urllib.parse.urlsplit(client.base_url)
            secured = " over TLS" if url.scheme == "https" else ", not encrypted"
            milliseconds = answers[-1].seconds * 1000
            _show(Level.OK, "connection", f"{url.hostname} answered after {milliseconds:.0f} ms{secured}")
            level, message = compare_clocks(answers[-1].headers.get("Date"), dt.datetime.now(dt.UTC))
            _show(level, "clock", message)


async def _check_feeds(
    client: SeoRepClient, answers: Sequence[RawAnswer], campaigns: Page[Campaign], days: ChosenDays
) -> None:
    """Fetch a page of each feed, and show shapes, rows, page sizes and unknown fields."""
    _show(Level.OK, "key", "accepted")
    _show(Level.FACT, "campaigns", f"{_count(campaigns.total_records)}, {_pages(campaigns)}")
    _show_unknown_fields("campaigns", campaigns.items)
    if not campaigns.items:
        _show(Level.NOTE, "feeds", "not checked, as the account has no campaign")
        return
    one = campaigns.items[0].id
    rankings = await client.rankings.campaign(one, days.first, days.last).page(1)
    _show_feed("campaign", f"campaign {one}", rankings, answers[-1])
    periods = await client.rankings.campaign_by_date(one, days.first, days.last).page(1)
    _show_feed("campaign-by-date", f"campaign {one}", periods, answers[-1])
    unknown = _fields_in_extra((*rankings.items, *periods.items))
    if rank := next((name for name in sorted(unknown) if name.endswith("Ranking")), None):
        message = f"no column takes {rank}; if the account calls a search engine so, pass --engine-names"
        _show(Level.NOTE, "engine-names", message)
    if not rankings.items:
        _show(Level.NOTE, "keyword-by-date", f"not checked, as campaign {one} has no keyword")
        return
    keyword = rankings.items[0].keyword_id
    dates = await client.rankings.keyword_by_date(keyword, days.first, days.last).page(1)
    _show_feed("keyword-by-date", f"keyword {keyword}", dates, answers[-1])


def compare_clocks(date: str | None, now: dt.datetime) -> tuple[Level, str]:
    """Compare this machine's time with the `Date` header of a response."""
    try:
        theirs = parsedate_to_datetime(date or "")
    except (ValueError, OverflowError):
        return Level.NOTE, "the service does not send its time"
    if theirs.tzinfo is None:
        theirs = theirs.replace(tzinfo=dt.UTC)
    apart = (now - theirs).total_seconds()
    if abs(apart) <= _CLOCK_SECONDS:
        return Level.OK, "agrees with the service's"
    order = "ahead of" if apart > 0 else "behind"
    return Level.NOTE, f"this machine's is {abs(apart):,.0f} s {order} the service's; default dates may be wrong"


def _show_feed(name: str, subject: str, page: Page[Any], answer: RawAnswer) -> None:
    data = json.loads(answer.body)["data"]  # the models do not show its shape
    rows = data if isinstance(data, list) else data.get("rows") or []
    facts = [
        f"{subject}: {_count(page.total_records)} rows",
        _pages(page),
        f"{'flat' if isinstance(data, list) else 'nested'} shape",
        f"{'older' if any('globalMonthlySearches' in row for row in rows) else 'current'} rows",
        "totals" if page.totals is not None else "no totals",
    ]
    _show(Level.FACT, name, ", ".join(facts))
    _show_unknown_fields(name, page.items)
    if page.total_records is None or page.total_pages is None:
        _show(Level.NOTE, name, "no total counts; a pull reads pages until one is empty")


def _show_unknown_fields(name: str, items: Iterable[Any]) -> None:
    if fields := sorted(_fields_in_extra(items)):
        _show(Level.NOTE, name, f"undocumented fields, stored in `extra`: {', '.join(fields[:10])}")


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
