"""`seorep doctor`: can the service be reached, do the clocks agree, and which shapes do its responses have?"""

from __future__ import annotations

import datetime as dt
import json
import os
import time
import urllib.parse
from collections.abc import Sequence
from typing import Any

import attrs
import click
from rich.text import Text

from seorep_async.cli.connection import Connection, connect
from seorep_async.cli.errors import ExitCode, UsageError, code_of, explain, reason
from seorep_async.cli.options import Service
from seorep_async.cli.output import messages
from seorep_async.cli.pull import Days, Job
from seorep_async.cli.running import wait_for
from seorep_async.client import SeoRepClient
from seorep_async.errors import (
    AuthenticationError,
    ConfigurationError,
    NotFoundError,
    SeoRepError,
    one_line,
)
from seorep_async.models import Page
from seorep_async.paging import Listing
from seorep_async.profiles import PROFILE, config_file
from seorep_async.session import RawAnswer
from seorep_async.session.retry_policy import seconds_since_epoch
from seorep_async.settings import without_password

_SECONDS = 20.0
_TRIED = 5
_CLOCK_SECONDS = 60.0
_STYLES = {"ok": "green", "note": "yellow", "FAIL": "bold red"}


def doctor(*, service: Service = Service()) -> int:
    """Check the settings, the connection and the service's responses.

    It only reads: the list of campaigns, and one page of each feed.
    """
    try:
        return wait_for(_check(connect(service), click.get_current_context().obj))
    except (UsageError, ConfigurationError) as error:
        _show("FAIL", "settings", explain(error))
        return ExitCode.USAGE


def _show(level: str, subject: str, message: str) -> None:
    messages().print(
        Text.assemble(
            (f"{level:<4}", _STYLES.get(level, "")), f"  {subject:<20}{one_line(message)}"
        )
    )


async def _check(connection: Connection, today: dt.date) -> ExitCode:
    # one retry is enough for a connection that was closed, or a limit of the service
    attempts = min(2, connection.settings.max_attempts)
    async with connection.opened(max_attempts=attempts) as client:
        _show("ok", "settings", f"{client.base_url}, and a key")
        if connection.sandbox is None:
            _show_sources(connection)
        with client.record_answers() as answers:
            try:
                return await _check_responses(client, answers, Job().windows(today)[0])
            except SeoRepError as error:
                code = code_of(error)
                refused = code is ExitCode.AUTHENTICATION and len(answers) == 1
                _show(
                    "FAIL",
                    "key" if refused else "responses" if answers else "connection",
                    explain(error),
                )
                return code


def _show_sources(connection: Connection) -> None:
    """Show each value that is no default, and its source."""
    access = connection.access
    if access.profile is not None:
        _show("", "profile", f"{access.profile}, from {config_file()}")
    elif PROFILE in os.environ:
        _show(
            "note",
            "profile",
            f"{PROFILE} is set, and not used: the environment has address and key",
        )
    if access.account is not None:
        _show("", "account", str(access.account))
    known = {
        "base_url": "the address",
        "api_key": "the key",
        "proxy": without_password(connection.settings.proxy or ""),
    }
    for name, source in access.sources.items():
        found = known.get(name) or getattr(connection.settings, name, None)
        if found is not None:
            _show(
                "",
                "key" if name == "api_key" else name,
                f"{getattr(found, 'value', found)}, from {source}",
            )
    _show("", "other settings", "defaults")
    unused = next((name for name in ("HTTPS_PROXY", "https_proxy") if os.environ.get(name)), None)
    if unused and not connection.settings.proxy:
        _show(
            "note",
            "proxy",
            f"{unused} is set, and not used: a proxy sees requests; -c proxy=URL uses one",
        )


def _show_answer(client: SeoRepClient, answer: RawAnswer) -> None:
    """Show that the service answers, and whether its clock agrees with this machine's."""
    url = urllib.parse.urlsplit(client.base_url)
    secured = " over TLS" if url.scheme == "https" else ", not encrypted"
    _show(
        "ok", "connection", f"{url.hostname} answered after {answer.seconds * 1000:.0f} ms{secured}"
    )
    theirs = seconds_since_epoch(answer.headers.get("Date", ""))
    apart = time.time() - (theirs or 0.0)
    if theirs is None:
        _show("note", "clock", "the service does not send its time")
    elif abs(apart) <= _CLOCK_SECONDS:
        _show("ok", "clock", "agrees with the service's")
    else:
        order = f"{abs(apart):,.0f} s {'ahead of' if apart > 0 else 'behind'} the service's"
        _show("note", "clock", f"this machine's is {order}; default dates may be wrong")


async def _check_responses(
    client: SeoRepClient, answers: Sequence[RawAnswer], days: Days
) -> ExitCode:
    """Fetch the campaigns, and a page of each feed; show shapes, rows, page sizes and unknown fields."""
    try:
        with client.timeout(_SECONDS):
            campaigns = await client.campaigns.list().page(1)
    finally:
        if answers:  # even if it is a refusal
            _show_answer(client, answers[-1])
    _show("ok", "key", "accepted")
    _show("", "campaigns", _counts(campaigns))
    _show_unknown_fields("campaigns", campaigns.items)
    feeds = client.rankings
    for one in (campaign.id for campaign in campaigns.items[:_TRIED]):
        try:
            rows = await _show_feed(
                "campaign", f"campaign {one}", feeds.campaign(one, *days), answers
            )
        except (
            AuthenticationError,
            NotFoundError,
        ) as error:  # of this campaign only, as the key was accepted
            _show("note", "campaign", f"campaign {one}: {reason(error)} (status {error.status})")
            continue
        await _show_feed(
            "campaign-by-date", f"campaign {one}", feeds.campaign_by_date(one, *days), answers
        )
        if rows:
            id_ = rows[0].keyword_id
            await _show_feed(
                "keyword-by-date", f"keyword {id_}", feeds.keyword_by_date(id_, *days), answers
            )
        else:
            _show("note", "keyword-by-date", f"not checked, as campaign {one} has no keyword")
        return ExitCode.OK
    if campaigns.items:
        _show(
            "FAIL",
            "responses",
            "the key may not see these campaigns; ask for its rights, or use another key",
        )
        return ExitCode.REFUSED
    _show("note", "feeds", "not checked, as the account has no campaign")
    return ExitCode.OK


async def _show_feed(
    feed: str, subject: str, rows: Listing[Any, Any], answers: Sequence[RawAnswer]
) -> Sequence[Any]:
    """Fetch a page of a feed, show it, and return its rows."""
    page = await rows.page(1)
    data = json.loads(answers[-1].body)["data"]  # the models do not show its shape
    sent = data if isinstance(data, list) else data.get("rows") or []
    shape = "flat" if isinstance(data, list) else "nested"
    age = "older" if any("globalMonthlySearches" in row for row in sent) else "current"
    totals = "totals" if page.totals is not None else "no totals"
    _show("", feed, f"{subject}: {_counts(page, ' rows')}, {shape} shape, {age} rows, {totals}")
    _show_unknown_fields(feed, page.items)
    if page.total_records is None or page.total_pages is None:
        _show("note", feed, "no total counts; a pull reads pages until one is empty")
    return page.items


def _show_unknown_fields(name: str, items: Sequence[Any]) -> None:
    fields = {field for item in items for field in item.extra}
    for item in items:
        nested = ((field.name, getattr(item, field.name)) for field in attrs.fields(type(item)))
        fields.update(
            f"{field}.{extra}"
            for field, one in nested
            if attrs.has(type(one))
            for extra in one.extra
        )
    if fields:
        _show(
            "note", name, f"undocumented fields, stored in extra: {', '.join(sorted(fields)[:10])}"
        )
    if engine := min((field for field in fields if field.endswith("Ranking")), default=None):
        advice = f"no column takes {engine}; if the account calls a search engine so, pass -c engine_names=A,B,WMT"
        _show("note", "engine_names", advice)


def _counts(page: Page[Any], noun: str = "") -> str:
    records, pages = (
        "unknown" if one is None else f"{one:,}" for one in (page.total_records, page.total_pages)
    )
    return f"{records}{noun}, {len(page.items)} on page 1 of {pages}"
