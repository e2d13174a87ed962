"""The client: opened, used for any number of calls, closed; one attribute for each resource."""

from __future__ import annotations

import datetime as dt
import os
from contextlib import AbstractContextManager
from typing import Any, NoReturn

import aiohttp
import attrs

from seorep_async.errors import ConfigurationError
from seorep_async.normalisation import decoder_for
from seorep_async.plain_values import plain
from seorep_async.resources import Backlinks, Campaigns, Keywords, Rankings, Users, raw_request
from seorep_async.resources.arguments import ExtraParams, Secret, check_account_name, mask_secrets
from seorep_async.session import (
    Authentication,
    BaseURL,
    Limits,
    OnAttempt,
    RawAnswer,
    Session,
    Stats,
    base_url_problem,
    check_callback,
    key_problem,
)
from seorep_async.settings import Settings, require_positive


class SeoRepClient:
    """A client of one account of the service.

    Use it as `async with SeoRepClient(...) as client:`, or call `await client.open()` and `await client.close()`. Calls
    may run concurrently; they share the client's connections and limits.

    Args:
        base_url: `https://host[:port]`, without `/v3`. Default: the environment variable `SEOREP_BASE_URL`.
        api_key: the account's key. Default: the environment variable `SEOREP_API_KEY`.
        settings: numbers and choices; see `Settings`.
        session: an open aiohttp session to send through; the client never closes it. Default: a session of its own. A
            trace config of such a session sees the key in the headers of requests.
        limits: to share with other clients of the service, in place of the settings' `max_concurrency` and
            `requests_per_second`; see `Limits`. Default: limits of its own.
        on_attempt: called with an `Attempt` after every attempt, retried ones too; it must return soon. What it raises
            is logged.
        account: the account's name in tables and files. Default: the host of the service.

    Raises:
        ConfigurationError: an argument is wrong; nothing was sent.

    Attributes:
        campaigns: the account's campaigns.
        users: the account's users.
        keywords: the account's keywords.
        backlinks: the backlinks of the account's campaigns.
        rankings: the three ranking feeds, and pulls of many campaigns.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        settings: Settings = Settings(),  # noqa: B008  # immutable
        session: aiohttp.ClientSession | None = None,
        limits: Limits | None = None,
        on_attempt: OnAttempt | None = None,
        account: str | None = None,
    ) -> None:
        # the key leaves this frame before it can raise: tracebacks may show locals
        if api_key is None:
            api_key = os.environ.get("SEOREP_API_KEY")
        api_key = plain(api_key)
        problem = key_problem(api_key)
        others = (getattr(settings, "proxy_password", None),)
        authentication = (
            None if problem or api_key is None else Authentication(api_key, *filter(None, others))
        )
        del api_key, others
        if authentication is None:
            raise ConfigurationError(problem or "no API key", argument="api_key")
        if not isinstance(settings, Settings):
            raise ConfigurationError(
                f"settings must be a Settings, got {type(settings).__name__}", argument="settings"
            )
        if session is not None and not isinstance(session, aiohttp.ClientSession):
            problem = f"session must be an aiohttp.ClientSession, got {type(session).__name__}"
            raise ConfigurationError(problem, argument="session")
        settings = _within(settings, limits)
        check_callback("on_attempt", on_attempt, "an Attempt")
        if base_url is None:
            base_url = os.environ.get("SEOREP_BASE_URL")
        base_url = plain(base_url)
        if refused := base_url_problem(base_url, allow_insecure_http=settings.allow_insecure_http):
            del base_url  # it may hold a password
            raise ConfigurationError(": ".join(filter(None, refused)), argument="base_url")
        self._base_url = BaseURL(base_url or "")
        self._account = (
            (self._base_url.origin[1] or "") if account is None else check_account_name(account)
        )
        self._session = Session(
            self._base_url, authentication, settings, session, None, limits, on_attempt
        )
        decoder = decoder_for(settings.engine_names)
        self.campaigns: Campaigns = Campaigns(self._session, decoder)
        self.users: Users = Users(self._session, decoder)
        self.keywords: Keywords = Keywords(self._session, decoder)
        self.backlinks: Backlinks = Backlinks(self._session, decoder)
        self.rankings: Rankings = Rankings(self._session, decoder, self._account)

    async def open(self) -> SeoRepClient:
        """Open the client for use in the running event loop.

        Raises:
            ConfigurationError: it was opened before, or the session or the limits passed in can't be used.
        """
        await self._session.__aenter__()
        return self

    async def close(self) -> None:
        """Stop the calls that still run and close the connections; a session that was passed in stays open."""
        await self._session.__aexit__(None, None, None)

    async def __aenter__(self) -> SeoRepClient:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def base_url(self) -> str:
        """The address of the service, without `/v3`."""
        return self._base_url.string

    @property
    def account(self) -> str:
        """The account's name in tables and files."""
        return self._account

    @property
    def settings(self) -> Settings:
        """The settings of this client."""
        return self._session.settings

    @property
    def stats(self) -> Stats:
        """A snapshot of what this client has done so far: requests, attempts, retries, waits, present limits."""
        return self._session.stats

    def now(self) -> dt.datetime:
        """Return the time by the client's clock, in UTC and without a zone."""
        return self._session.clock.now()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: ExtraParams | None = None,
        body: ExtraParams | None = None,
    ) -> dict[str, Any]:
        """Send any request, authenticated and retried like every other, and return the parsed envelope.

        Args:
            method: `GET`, `POST`, `PUT`, `DELETE` or `PATCH`; POST and PATCH are not sent again once the service may
                have carried them out.
            path: the path without a query, such as `/v3/campaigns/42`.
            params: the query's parameters.
            body: a write's parameters; `Settings.request_encoding` says how they are sent.

        Returns:
            The envelope as the service sent it (the service's reference, section 1); empty if the response to a write
            has no body.

        Raises:
            ConfigurationError: an argument is wrong.
            SeoRepError: the service refused or failed.
        """
        path = Secret.of(path)  # a wrong one may hold a query, and a secret in it
        params = mask_secrets(params, argument="params")
        body = mask_secrets(body, argument="body")
        return await raw_request(self._session, method, path, params, body)

    def record_answers(self) -> AbstractContextManager[list[RawAnswer]]:
        """Collect the raw responses to all requests that are sent inside a `with` block, retried ones too.

        Returns:
            A context manager that gives a list. It grows with each response, by a `RawAnswer` with its status, headers
            and body. Bodies may hold secrets, such as login grants.
        """
        return self._session.observer.record_answers()

    def timeout(self, seconds: float) -> AbstractContextManager[float]:
        """Limit the time of every call that begins inside a `with` block, or in a task that is started there.

        A call has the shortest of the limits around it and of `Settings.call_timeout`. A stream (`async for`,
        `.pages()`, a pull) counts as one call, from its first request to its last.

        Args:
            seconds: a number above 0. After that, the call raises a DeadlineExceededError, caused by its last failure.

        Raises:
            ConfigurationError: `seconds` is no such number.
        """
        require_positive("seconds", seconds, "seconds")
        return self._session.call_timeout.limit(seconds)

    def __repr__(self) -> str:
        if not hasattr(
            self, "_session"
        ):  # tracebacks with locals show clients with refused arguments
            return "<SeoRepClient (not built)>"
        return f"<SeoRepClient {self._base_url.string} ({self._session.state})>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a client cannot be pickled: it holds a key and connections; create one where you need it"
        )


def _within(settings: Settings, limits: Limits | None) -> Settings:
    """Return a client's settings with the numbers of the limits that it shares; others of its own are refused."""
    if limits is None:
        return settings
    if not isinstance(limits, Limits):
        raise ConfigurationError(
            f"limits must be a Limits, got {type(limits).__name__}", argument="limits"
        )
    shared = {name: getattr(limits, name) for name in ("max_concurrency", "requests_per_second")}
    for name, value in shared.items():
        if (own := getattr(settings, name)) not in (value, getattr(Settings(), name)):
            problem = (
                f"Settings({name}={own}) contradicts limits, which hold for all their clients: "
            )
            problem += f"create them as Limits({name}={own}), or leave {name} out of the settings"
            raise ConfigurationError(problem, argument="limits")
    return attrs.evolve(settings, **shared)
