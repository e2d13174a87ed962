"""The client: opened, used for any number of calls, closed; one attribute for each resource."""

from __future__ import annotations

import datetime as dt
from contextlib import AbstractContextManager
from typing import Any, NoReturn

import aiohttp
import attrs

from seorep_async.errors import ConfigurationError
from seorep_async.normalisation import decoder_for
from seorep_async.plain_values import plain_string
from seorep_async.profiles import Access, find_access
from seorep_async.resources import Backlinks, Campaigns, Keywords, Rankings, Users, raw_request
from seorep_async.resources.arguments import ExtraParams, check_account_name, mask_secrets
from seorep_async.secret import Secret
from seorep_async.session import (
    Authentication,
    BaseURL,
    Limits,
    OnAttempt,
    Proxy,
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
        profile: the name of a profile that `seorep login` stored, whose address, key and settings are used whatever
            the environment says. Default: if neither an address nor a key is given anywhere, the profile of
            `SEOREP_PROFILE`, or the one named `default`.
        settings: numbers and choices; see `Settings`. They replace all settings of a profile.
        session: an open aiohttp session to send through; the client never closes it. Default: a session of its own. A
            trace config of such a session sees the key in the headers of requests.
        limits: to share with other clients of the service, in place of the settings' `max_concurrency` and
            `requests_per_second`; see `Limits`. Default: limits of its own.
        on_attempt: called with an `Attempt` after every attempt, retried ones too; it must return soon. What it raises
            is logged.
        account: the account's name in tables and files. Default: the name in the profile, or the host of the service.

    Raises:
        ConfigurationError: an argument is wrong; nothing was sent.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        profile: str | None = None,
        settings: Settings | None = None,
        session: aiohttp.ClientSession | None = None,
        limits: Limits | None = None,
        on_attempt: OnAttempt | None = None,
        account: str | None = None,
    ) -> None:
        # tracebacks may show locals, so only a masked key stays in this frame
        if api_key is not None and not isinstance(api_key, str):
            type_name = type(api_key).__name__
            del api_key
            problem = f"api_key must be a string, not {type_name}"
            raise ConfigurationError(problem, argument="api_key")
        api_key = None if api_key is None else Secret.of(api_key)
        base_url = _masked(base_url)
        _check_type("settings", settings, Settings)
        _check_type("session", session, aiohttp.ClientSession)
        _check_type("limits", limits, Limits)
        check_callback("on_attempt", on_attempt, "an Attempt")
        access = find_access(base_url, api_key, profile)
        access = access.evolve(base_url=_masked(access.base_url))
        if settings is None:
            settings = access.make_settings()
        if limits is not None:
            settings = _within(settings, limits)
        authentication = _authentication_of(access, settings)
        self._base_url = _base_url_of(access, settings)
        self._account = _account_of(access, account, self._base_url)
        self._session = Session(
            self._base_url,
            authentication,
            settings,
            session,
            None,
            limits,
            on_attempt,
            self._account,
        )
        decoder = decoder_for(settings.engine_names)
        self.campaigns: Campaigns = Campaigns(self._session, decoder)
        """The account's campaigns."""
        self.users: Users = Users(self._session, decoder)
        """The account's users."""
        self.keywords: Keywords = Keywords(self._session, decoder)
        """The account's keywords."""
        self.backlinks: Backlinks = Backlinks(self._session, decoder)
        """The backlinks of the account's campaigns."""
        self.rankings: Rankings = Rankings(self._session, decoder, self._account)
        """The three ranking feeds, and pulls of many campaigns."""

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
        return f"<SeoRepClient {self._base_url.string} ({self._session.state.value})>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a client cannot be pickled: it holds a key and connections; create one where you need it"
        )


def _check_type(name: str, value: object, required_type: type) -> None:
    if value is not None and not isinstance(value, required_type):
        module = required_type.__module__.partition(".")[0]
        type_name = required_type.__name__
        if module != "seorep_async":
            type_name = f"{module}.{type_name}"
        article = "an" if type_name[0] in "aeiou" else "a"
        problem = f"{name} must be {article} {type_name}, got {type(value).__name__}"
        raise ConfigurationError(problem, argument=name)


def _masked(base_url: Any) -> Any:
    """Return a string with a masked repr: a wrong address may hold a password."""
    return Secret.of(base_url) if isinstance(base_url, str) else base_url


def _base_url_of(access: Access, settings: Settings) -> BaseURL:
    base_url: Any = access.base_url
    problem = base_url_problem(base_url, allow_insecure_http=settings.allow_insecure_http)
    if problem is not None:
        error = ConfigurationError(": ".join(filter(None, problem)), argument="base_url")
        raise ConfigurationError(access.in_words_of_source(error), argument="base_url")
    return BaseURL(plain_string(base_url))


def _authentication_of(access: Access, settings: Settings) -> Authentication:
    problem = key_problem(access.api_key)
    if problem is not None:
        error = ConfigurationError(problem, argument="api_key")
        raise ConfigurationError(access.in_words_of_source(error), argument="api_key")
    proxy_secrets = () if settings.proxy is None else Proxy(settings.proxy).secrets
    return Authentication(access.api_key, *filter(None, proxy_secrets))


def _account_of(access: Access, account: str | None, base_url: BaseURL) -> str:
    """Return the account's name: the caller's, else the profile's, else the host of the service."""
    if account is not None:
        return check_account_name(account)
    if access.account is None:
        return base_url.origin[1] or ""
    try:
        return check_account_name(access.account)
    except ConfigurationError as error:
        raise ConfigurationError(access.in_words_of_source(error), argument="account") from None


def _within(settings: Settings, limits: Limits) -> Settings:
    """Return a client's settings with the numbers of the limits that it shares.

    Raises:
        ConfigurationError: the settings have other numbers of their own.
    """
    defaults = Settings()
    shared: dict[str, Any] = {}
    for name in ("max_concurrency", "requests_per_second"):
        own_value = getattr(settings, name)
        shared[name] = getattr(limits, name)
        if own_value not in (shared[name], getattr(defaults, name)):
            problem = (
                f"Settings({name}={own_value}) contradicts limits, which hold for all their clients"
            )
            advice = (
                f"create them as Limits({name}={own_value}), or leave {name} out of the settings"
            )
            raise ConfigurationError(f"{problem}: {advice}", argument="limits")
    return attrs.evolve(settings, **shared)
