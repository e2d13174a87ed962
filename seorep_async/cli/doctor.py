"""`seorep doctor`: can the service be reached, do the clocks agree, and which shapes do its responses have?"""

from __future__ import annotations

import datetime as dt
import json
import os
import urllib.parse
from collections.abc import Iterable, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

import attrs
import click
from rich.text import Text

from seorep_async.cli.errors import code_of, explain, reason
from seorep_async.cli.exit_codes import ExitCode, UsageError
from seorep_async.cli.keys import config_file
from seorep_async.cli.options import Service
from seorep_async.cli.output import messages
from seorep_async.cli.profiles import Connection, connect
from seorep_async.cli.pull import days_of
from seorep_async.cli.running import wait_for
from seorep_async.client import SeoRepClient
from seorep_async.errors import AuthenticationError, NotFoundError, SeoRepError, one_line
from seorep_async.models import Campaign, Page
from seorep_async.session import RawAnswer

_SECONDS = 20.0
_TRIED = 5
_CLOCK_SECONDS = 60.0
_STYLES = {"ok": "green", "note": "yellow", "FAIL": "bold red"}


def doctor(*, service: Service = Service()) -> int:
    """Check the settings, the connection and the service's responses.

    It only reads: the list of campaigns, and one page of each feed.
    """
    try:
        connection = connect(service)
    except UsageError as error:
        _show("FAIL", "settings", str(error))
        return ExitCode.USAGE
    return wait_for(_check(connection, click.get_current_context().obj))


def _show(level: str, subject: str, message: str) -> None:
    messages().print(Text.assemble((f"{level:<4}", _STYLES.get(level, "")), f"  {subject:<20}{one_line(message)}"))


async def _check(connection: Connection, today: dt.date) -> ExitCode:
    # one retry is enough for a connection that was closed, or a limit of the service
    attempts = min(2, connection.settings.max_attempts)
    subject, answers = "settings", list[RawAnswer]()
    try:
        async with connection.opened(max_attempts=attempts) as client:
            _show("ok", "settings", f"{client.base_url}, and a key")
            _show_sources(connection)
            with client.record_answers() as answers:
                subject = "connection"
                campaigns = await _list_campaigns(client, answers)
                subject = "responses"
                return await _check_feeds(client, answers, campaigns, *days_of(today)[0])
    except (SeoRepError, UsageError) as error:
        code = code_of(error)
        if answers and subject == "connection":
            subject = "key" if code is ExitCode.AUTHENTICATION else "responses"
        _show("FAIL", subject, explain(error))
        return code


def _show_sources(connection: Connection) -> None:
    """Show each value that is no default, and its source."""
    if connection.sandbox is not None:
        return
    if connection.profile is not None:
        _show("", "profile", f"{connection.profile}, from {config_file()}")
    if connection.account is not None:
        _show("", "account", connection.account)
    for name, source in connection.sources.items():
        found = {"base_url": "the address", "key": "the key"}.get(name) or getattr(connection.settings, name, None)
        if found is not None:
            _show("", name, f"{getattr(found, 'value', found)}, from {source}")
    _show("", "other settings", "defaults")
    if os.environ.get("HTTPS_PROXY") and not getattr(connection.settings, "proxy", None):
        _show("note", "proxy", "HTTPS_PROXY is set, and not used: a proxy sees requests; -c proxy=URL uses one")


async def _list_campaigns(client: SeoRepClient, answers: Sequence[RawAnswer]) -> Page[Campaign]:
    """Return the first page of campaigns; show whether the service answers, even if it refuses, and its clock."""
    try:
        with client.timeout(_SECONDS):
            return await client.campaigns.list().page(1)
    finally:
        if answers:
            url = urllib.parse.urlsplit(client.base_url)
            secured = " over TLS" if url.scheme == "https" else ", not encrypted"
            _show("ok", "connection", f"{url.hostname} answered after {answers[-1].seconds * 1000:.0f} ms{secured}")
            _show(*compare_clocks(answers[-1].headers.get("Date"), dt.datetime.now(dt.UTC)))


async def _check_feeds(
    client: SeoRepClient, answers: Sequence[RawAnswer], campaigns: Page[Campaign], first: dt.date, last: dt.date
) -> ExitCode:
    """Fetch a page of each feed, and show shapes, rows, page sizes and unknown fields."""
    _show("ok", "key", "accepted")
    _show("", "campaigns", _counts(campaigns))
    _show_unknown_fields("campaigns", campaigns.items)
    if not campaigns.items:
        _show("note", "feeds", "not checked, as the account has no campaign")
        return ExitCode.OK
    feeds = client.rankings
    for one in (campaign.id for campaign in campaigns.items[:_TRIED]):
        try:
            rankings = await feeds.campaign(one, first, last).page(1)
            break
        except (AuthenticationError, NotFoundError) as error:  # of this campaign only, as the key was accepted
            _show("note", "campaign", f"campaign {one}: {reason(error)} (status {error.status})")
    else:
        _show("FAIL", "responses", "the key may not see these campaigns; ask for its rights, or use another key")
        return ExitCode.REFUSED
    _show_feed("campaign", f"campaign {one}", rankings, answers[-1])
    periods = await feeds.campaign_by_date(one, first, last).page(1)
    _show_feed("campaign-by-date", f"campaign {one}", periods, answers[-1])
    ranks = [name for name in sorted(_fields_in_extra((*rankings.items, *periods.items))) if name.endswith("Ranking")]
    if ranks:
        advice = f"no column takes {ranks[0]}; if the account calls a search engine so, pass -c engine_names=A,B,WMT"
        _show("note", "engine_names", advice)
    if not rankings.items:
        _show("note", "keyword-by-date", f"not checked, as campaign {one} has no keyword")
        return ExitCode.OK
    keyword = rankings.items[0].keyword_id
    page = await feeds.keyword_by_date(keyword, first, last).page(1)
    _show_feed("keyword-by-date", f"keyword {keyword}", page, answers[-1])
    return ExitCode.OK


def compare_clocks(date: str | None, now: dt.datetime) -> tuple[str, str, str]:
    """Compare this machine's time with the `Date` header of a response; return level, subject and message."""
    try:
        theirs = parsedate_to_datetime(date or "")
    except (ValueError, OverflowError):
        return "note", "clock", "the service does not send its time"
    apart = (now - (theirs if theirs.tzinfo else theirs.replace(tzinfo=dt.UTC))).total_seconds()
    if abs(apart) <= _CLOCK_SECONDS:
        return "ok", "clock", "agrees with the service's"
    order = f"{abs(apart):,.0f} s {'ahead of' if apart > 0 else 'behind'} the service's"
    return "note", "clock", f"this machine's is {order}; default dates may be wrong"


def _show_feed(name: str, subject: str, page: Page[Any], answer: RawAnswer) -> None:
    data = json.loads(answer.body)["data"]  # the models do not show its shape
    rows = data if isinstance(data, list) else data.get("rows") or []
    shape = "flat" if isinstance(data, list) else "nested"
    age = "older" if any("globalMonthlySearches" in row for row in rows) else "current"
    totals = "totals" if page.totals is not None else "no totals"
    _show("", name, f"{subject}: {_counts(page, ' rows')}, {shape} shape, {age} rows, {totals}")
    _show_unknown_fields(name, page.items)
    if page.total_records is None or page.total_pages is None:
        _show("note", name, "no total counts; a pull reads pages until one is empty")


def _show_unknown_fields(name: str, items: Iterable[Any]) -> None:
    if fields := sorted(_fields_in_extra(items)):
        _show("note", name, f"undocumented fields, stored in extra: {', '.join(fields[:10])}")


def _fields_in_extra(items: Iterable[Any]) -> set[str]:
    fields = {name for item in items for name in item.extra}
    for item in items:
        nested = ((field.name, getattr(item, field.name)) for field in attrs.fields(type(item)))
        fields.update(f"{name}.{extra}" for name, one in nested if attrs.has(type(one)) for extra in one.extra)
    return fields


def _counts(page: Page[Any], noun: str = "") -> str:
    records, pages = ("unknown" if one is None else f"{one:,}" for one in (page.total_records, page.total_pages))
    return f"{records}{noun}, {len(page.items)} on page 1 of {pages}"
