"""`seorep doctor`: is everything ready for a pull?

It checks the settings and their sources, a target, the connection, the clocks, the key, and a
response of each feed.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import time
import urllib.parse
from collections.abc import Sequence
from typing import Any

import click

from seorep_async.cli.connection import Connection, connect
from seorep_async.cli.errors import ExitCode, UsageError, code_of, reason
from seorep_async.cli.findings import Findings, Level
from seorep_async.cli.options import Service
from seorep_async.cli.output import as_json as json_of, write_if_read
from seorep_async.cli.pull import Window, default_window
from seorep_async.cli.running import wait_for
from seorep_async.cli.target_check import check_target
from seorep_async.client import SeoRepClient
from seorep_async.errors import (
    AttemptTimeoutError,
    AuthenticationError,
    ConfigurationError,
    NotFoundError,
    RateLimitedError,
    SeoRepError,
    ServerError,
    duration,
)
from seorep_async.models import Page
from seorep_async.profiles import PROFILE, config_file
from seorep_async.session import RawAnswer
from seorep_async.session.failures import seconds_since_epoch
from seorep_async.settings import Settings, without_password

_TIMEOUT_SECONDS = 20.0
_TRIED_CAMPAIGNS = 5
_CLOCK_SECONDS = 60.0
"""A smaller difference between two clocks may be due to the time that a request takes."""
_LISTED_FIELDS = 10
_OF_FAILING_SERVICE = (ServerError, AttemptTimeoutError)
_OF_ONE_CAMPAIGN = (AuthenticationError, NotFoundError, *_OF_FAILING_SERVICE)
"""Errors that may concern only one campaign, so another campaign is tried."""


class _NoAccessError(UsageError):
    """The key has access to the account, but to none of its campaigns."""

    exit_code = ExitCode.REFUSED


def check(
    service: Service, *, out: str | None, account: str | None, exit_code: bool, as_json: bool
) -> ExitCode:
    """Check everything, show the findings, and return the exit code.

    Args:
        exit_code: whether a missing or incomplete night, or no night at all, gives exit code 10.
    """
    today: dt.date = click.get_current_context().obj
    findings = Findings(writes=not as_json)
    try:
        wait_for(_check(findings, connect(service), out, account, default_window(today)))
    except (UsageError, ConfigurationError) as error:
        findings.fail("settings", error)
    code = findings.code
    # Exit code 10, which is set below, needs a finding that explains it. A finding about the nights
    # does so, and a failure has an exit code of its own.
    if exit_code and code is ExitCode.OK and not findings.has("nights"):
        findings.add(Level.LOST, "nights", f"no night was found in {out}")
    facts = findings.facts()
    if exit_code:
        nights = facts.setdefault("nights", [])
        # 10 unless nights were found, and all are complete
        if not nights or not all(night["ok"] for night in nights):
            code = code or ExitCode.ALERT
    if as_json:
        write_if_read(json_of(facts | {"exit_code": int(code)}))
    return code


async def _check(
    findings: Findings,
    connection: Connection,
    out: str | None,
    account: str | None,
    window: Window,
) -> None:
    """Check the settings, the target and the service."""
    # one retry is enough for a closed connection or a rate limit
    attempts = min(2, connection.settings.max_attempts)
    async with connection.opened(max_attempts=attempts) as client:
        findings.ok("settings", f"{client.base_url}, and a key")
        if connection.sandbox is None:
            _add_sources(findings, connection)
        # the target comes first, because a service that does not answer ends the checks
        if out is not None:
            await check_target(findings, client, out, window, account)
        with client.record_answers() as answers:
            try:
                await _check_service(findings, client, answers, window)
            except SeoRepError as error:
                _add_final_error(findings, client.settings, error, answers)


def _add_final_error(
    findings: Findings, settings: Settings, error: SeoRepError, answers: Sequence[RawAnswer]
) -> None:
    """Add the error that ended the checks of the service."""
    longest_pause = min(settings.retry_after_max, settings.call_timeout or math.inf)
    # status None: nothing was sent, because an earlier Retry-After still applied
    is_short_pause = (
        isinstance(error, RateLimitedError)
        and error.status in (429, None)
        and (error.retry_after or 0.0) <= longest_pause
    )
    if not is_short_pause:
        findings.fail(_failed_check(error, answers), error)
        return
    # a pull waits until it may continue, so this is not a failure
    key_was_checked = findings.has("campaigns")
    unchecked = "not all checked" if key_was_checked else "the key was not checked"
    advice = f"{unchecked}; a pull waits, or sends fewer requests with -c requests_per_second=N"
    findings.note("responses", f"{reason(error)}; {advice}")


def _failed_check(error: SeoRepError, answers: Sequence[RawAnswer]) -> str:
    """Return the name of the check that an error ended."""
    if not answers:
        return "connection"
    # only the first response is about the key; a later 401 or 403 is about one object
    if len(answers) == 1 and code_of(error) is ExitCode.AUTHENTICATION:
        return "key"
    return "responses"


def _add_sources(findings: Findings, connection: Connection) -> None:
    """Add each value that is not a default, and its source."""
    access = connection.access
    settings = connection.settings
    if access.profile is not None:
        findings.fact("profile", f"{access.profile}, from {config_file()}")
    # the user may have set the variable to choose a profile, so say that it has no effect
    elif PROFILE in os.environ:
        findings.note("profile", f"{PROFILE} is set, and not used: address and key are given")
    if access.account is not None:
        findings.fact("account", access.account)
    for name, source in access.sources.items():
        _add_source(findings, settings, name, source)
    findings.fact("other settings", "defaults")
    for variable in ("HTTPS_PROXY", "https_proxy"):
        if os.environ.get(variable) and not settings.proxy:
            advice = "a proxy sees requests; -c proxy=URL uses one"
            findings.note("proxy", f"{variable} is set, and not used: {advice}")
            break


def _add_source(findings: Findings, settings: Settings, name: str, source: str) -> None:
    """Add the value of a setting, unless it is secret, and its source."""
    if name == "base_url":
        findings.fact("address", f"from {source}")
    elif name == "api_key":
        findings.fact("key", f"from {source}")
    elif name == "proxy":
        # the proxy's address may contain a password
        findings.fact(name, f"{without_password(settings.proxy or '')}, from {source}")
    elif hasattr(settings, name):
        value = getattr(settings, name)
        findings.fact(name, f"{getattr(value, 'value', value)}, from {source}")


async def _check_service(
    findings: Findings, client: SeoRepClient, answers: Sequence[RawAnswer], window: Window
) -> None:
    """Fetch the campaigns, and a page of each feed. The client adds each response to `answers`.

    Raises:
        SeoRepError: the key was refused, or the service failed.
    """
    try:
        with client.timeout(_TIMEOUT_SECONDS):
            campaigns = await client.campaigns.list().page(1)
    finally:
        # even a refusal shows the response time and the service's clock
        if answers:
            _add_answer(findings, client, answers[-1])
    findings.ok("key", "accepted")
    findings.fact("campaigns", _counts_in_words(campaigns, "campaigns"))
    _add_unknown_fields(findings, "campaigns", campaigns.items)
    if not campaigns.items:
        findings.note("feeds", "not checked, because the account has no campaign")
        return
    advice = "ask for its rights, or use another key"
    last_error: Exception = _NoAccessError(f"the key has no access to these campaigns; {advice}")
    # a key may be limited to some campaigns, or one may always fail, so more than one is tried
    for campaign in campaigns.items[:_TRIED_CAMPAIGNS]:
        try:
            await _check_feeds(findings, client, campaign.id, window)
            return
        except _OF_ONE_CAMPAIGN as error:
            # the key was accepted, so the campaign is the problem
            status = f"status {error.status or 'unknown'}"
            findings.note("campaign", f"campaign {campaign.id}: {reason(error)} ({status})")
            if isinstance(error, _OF_FAILING_SERVICE):
                last_error = error
    findings.fail("responses", last_error)


def _add_answer(findings: Findings, client: SeoRepClient, answer: RawAnswer) -> None:
    """Add the response time, and whether the service's clock agrees with this machine's."""
    url = urllib.parse.urlsplit(client.base_url)
    security = "over TLS" if url.scheme == "https" else "not encrypted"
    milliseconds = answer.seconds * 1000
    findings.ok("connection", f"{url.hostname} answered after {milliseconds:.0f} ms, {security}")
    service_time = seconds_since_epoch(answer.headers.get("Date", ""))
    if service_time is None:
        findings.note("clock", "the service does not send its time")
        return
    difference = time.time() - service_time
    if abs(difference) <= _CLOCK_SECONDS:
        findings.ok("clock", "agrees with the service's")
        return
    order = "ahead of" if difference > 0 else "behind"
    clocks = f"this machine's is {duration(abs(difference))} {order} the service's"
    findings.note("clock", f"{clocks}; default dates may be wrong")


async def _check_feeds(
    findings: Findings,
    client: SeoRepClient,
    campaign_id: int,
    window: Window,
) -> None:
    """Fetch a page of each feed of a campaign."""
    feeds = client.rankings
    campaign = f"campaign {campaign_id}"
    page = await feeds.campaign(campaign_id, *window).page(1)
    _add_feed(findings, "campaign", campaign, page)
    by_date = await feeds.campaign_by_date(campaign_id, *window).page(1)
    _add_feed(findings, "campaign-by-date", campaign, by_date)
    if not page.items:
        findings.note("keyword-by-date", f"not checked, because {campaign} has no keyword")
        return
    # the third feed needs a keyword, and rows of the first feed have one
    keyword_id = page.items[0].keyword_id
    by_keyword = await feeds.keyword_by_date(keyword_id, *window).page(1)
    _add_feed(findings, "keyword-by-date", f"keyword {keyword_id}", by_keyword)


def _add_feed(findings: Findings, feed: str, object_name: str, page: Page[Any]) -> None:
    """Add what the first page of a feed shows."""
    totals = "no totals" if page.totals is None else "totals"
    findings.fact(feed, f"{object_name}: {_counts_in_words(page, 'rows')}, {totals}")
    _add_unknown_fields(findings, feed, page.items)
    if page.total_records is None or page.total_pages is None:
        findings.note(feed, "no total counts; a pull reads pages until one is empty")


def _add_unknown_fields(findings: Findings, name: str, items: Sequence[Any]) -> None:
    """Add a note on fields that the models don't have."""
    fields = set()
    for item in items:
        fields.update(item.extra)
    if fields:
        names = ", ".join(sorted(fields)[:_LISTED_FIELDS])
        findings.note(name, f"undocumented fields, stored in extra: {names}")
    # a rank without a column: the service has another name for this engine
    rankings = sorted(field for field in fields if field.endswith("Ranking"))
    if rankings:
        advice = "if this contains the name of a search engine, pass -c engine_names=A,B,WMT"
        findings.note("engine_names", f"no column takes {rankings[0]}; {advice}")


def _counts_in_words(page: Page[Any], noun: str) -> str:
    records = "an unknown number of" if page.total_records is None else f"{page.total_records:,}"
    pages = "an unknown number" if page.total_pages is None else f"{page.total_pages:,}"
    return f"{records} {noun}, {len(page.items)} on page 1 of {pages}"
