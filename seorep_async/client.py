"""The client, which has an attribute for each resource of the service."""

from __future__ import annotations

import datetime as dt
import warnings
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NoReturn

import aiohttp
import attrs

from seorep_async.errors import ConfigurationError
from seorep_async.normalisation import decoder_for
from seorep_async.plain_values import plain, plain_string
from seorep_async.profiles import Access, find_access
from seorep_async.resources import Backlinks, Campaigns, Keywords, Rankings, Users, any_request
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
    """A client for one account of the service.

    Use it as `async with SeoRepClient(...) as client:`, or call `await client.open()` and
    `await client.close()`. Calls can run concurrently; they share the client's connections and
    limits.

    Args:
        base_url: `https://host[:port]`, without `/v3`. The default is the environment variable
            `SEOREP_BASE_URL`.
        api_key: the account's key. The default is the environment variable `SEOREP_API_KEY`.
        profile: the name of a profile that `seorep login` stored. Its address, key and settings
            take precedence over the environment. By default, if no address and no key is given
            anywhere, the client uses the profile named in `SEOREP_PROFILE`, or `default`.
        settings: see `Settings`. They replace all settings of a profile.
        session: an open aiohttp session to send requests through. The client never closes it. By
            default, the client opens a session of its own. The session's trace configs can see
            the key in request headers.
        limits: limits to share with other clients; see `Limits`. They replace the settings
            `max_concurrency` and `requests_per_second`. By default, nothing is shared.
        on_attempt: called with an `Attempt` after every attempt, including retries. It must
            return quickly. Exceptions that it raises are logged.
        account: the account's name in tables and files. The default is the name in the profile,
            or the service's host name.

    Raises:
        ConfigurationError: an argument is invalid. Nothing was sent.
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
        # Tracebacks can show local variables, so this frame only keeps masked secrets.
        base_url = _masked(base_url)
        wrong_type = (
            _wrong_type_error("api_key", api_key, str)
            or _wrong_type_error("settings", settings, Settings)
            or _wrong_type_error("session", session, aiohttp.ClientSession)
            or _wrong_type_error("limits", limits, Limits)
        )
        if wrong_type is not None:
            # `settings` may be a dictionary with a proxy's password.
            del api_key, settings
            raise wrong_type
        api_key = _masked(api_key)
        check_callback("on_attempt", on_attempt, "an Attempt")
        access = find_access(base_url, api_key, profile)
        access = replace(access, base_url=_masked(access.base_url))
        if settings is None:
            settings = access.make_settings()
        if limits is not None:
            settings = _with_shared_limits(settings, limits)
        authentication = _authentication_of(access, settings)
        self._base_url = _base_url_of(access, settings)
        self._account = _account_of(access, account, self._base_url)
        self._session = Session(
            self._base_url,
            authentication,
            settings,
            borrowed=session,
            limits=limits,
            on_attempt=on_attempt,
            account=self._account,
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
            ConfigurationError: the client was opened before, or the given session or limits
                can't be used.
        """
        await self._session.__aenter__()
        return self

    async def close(self) -> None:
        """Stop all running calls and close the connections. A borrowed session stays open."""
        await self._session.__aexit__(None, None, None)

    def __del__(self) -> None:
        # the constructor may have failed
        session = getattr(self, "_session", None)
        if session is not None and session.is_open:
            problem = f"the client of {self._account} was not closed: {self!r}"
            advice = "use `async with`, or `await client.close()`"
            warnings.warn(f"{problem}; {advice}", ResourceWarning, stacklevel=2, source=self)

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
        """A snapshot of this client's requests, attempts, retries, waits and current limits."""
        return self._session.stats

    def now(self) -> dt.datetime:
        """Return the current time of the client's clock as a naive datetime in UTC."""
        return self._session.clock.now()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: ExtraParams | None = None,
        body: ExtraParams | None = None,
    ) -> dict[str, Any]:
        """Send any request, with authentication and retries, and return the parsed response.

        Args:
            method: `GET`, `POST`, `PUT`, `DELETE` or `PATCH`. POST and PATCH are never repeated if
                the service may have carried them out.
            path: the path without a query, such as `/v3/campaigns/42`.
            params: the query parameters.
            body: the parameters of a write, encoded according to `Settings.request_encoding`.

        Returns:
            The envelope (section 1 of the service's reference). It is empty if the response to a
            write has no body.

        Raises:
            ConfigurationError: an argument is invalid.
            SeoRepError: the service refused the request or failed.
        """
        path = Secret.of(path)  # an invalid path may contain a query with a secret
        params = mask_secrets(params, argument="params")
        body = mask_secrets(body, argument="body")
        return await self._session.send(any_request(self._session, method, path, params, body))

    def record_answers(self) -> AbstractContextManager[list[RawAnswer]]:
        """Record the raw responses to all requests sent inside a `with` block, including retries.

        Returns:
            A context manager that returns a list. Each response is appended to it as a `RawAnswer`
            with status, headers and body. Bodies can contain secrets, such as login grants.
        """
        return self._session.observer.record_answers()

    def timeout(self, seconds: float) -> AbstractContextManager[float]:
        """Limit the time of each call that starts inside a `with` block or in a task started there.

        The shortest limit applies if blocks are nested, or if `Settings.call_timeout` is shorter. A
        stream (`async for`, `.pages()`, a pull) counts as one call, from its first request to its
        last.

        Args:
            seconds: a number above 0. A call that takes longer raises a DeadlineExceededError,
                whose `__cause__` is the last failure. It may end some 30 ms late.

        Raises:
            ConfigurationError: `seconds` is not a number above 0.
        """
        seconds = plain(seconds)
        require_positive("seconds", seconds, "seconds")
        return self._session.call_timeout.limit(seconds)

    def __repr__(self) -> str:
        # A traceback can show a client whose constructor refused its arguments.
        if not hasattr(self, "_session"):
            return "<SeoRepClient (not built)>"
        return f"<SeoRepClient {self._base_url.string} ({self._session.state.value})>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a client can't be pickled: it has a key and connections; create one where you need it"
        )


def _wrong_type_error(name: str, value: object, required_type: type) -> ConfigurationError | None:
    """Return the error for an argument of another type, without its value, or None."""
    if value is None or isinstance(value, required_type):
        return None
    problem = f"{name} must be of type {required_type.__name__}, got {type(value).__name__}"
    return ConfigurationError(problem, argument=name)


def _masked(string: Any) -> Any:
    """Return a string with a masked repr. Even an address may contain a password."""
    return Secret.of(string) if isinstance(string, str) else string


def _base_url_of(access: Access, settings: Settings) -> BaseURL:
    """Check an address. The error names its origin."""
    base_url: Any = access.base_url
    refusal = base_url_problem(base_url, allow_insecure_http=settings.allow_insecure_http)
    if refusal is not None:
        problem, advice = refusal
        raise access.refusal(f"{problem}: {advice}" if advice else problem, "base_url")
    return BaseURL(plain_string(base_url))


def _authentication_of(access: Access, settings: Settings) -> Authentication:
    problem = key_problem(access.api_key)
    if problem is not None:
        raise access.refusal(problem, "api_key")
    proxy_secrets = () if settings.proxy is None else Proxy(settings.proxy).secrets
    return Authentication(access.api_key, *filter(None, proxy_secrets))


def _account_of(access: Access, account: str | None, base_url: BaseURL) -> str:
    """Return the account name given by the caller or the profile, or the service's host name."""
    if account is not None:
        return check_account_name(account)
    if access.account is None:
        _scheme, host, _port = base_url.origin
        return host or ""
    try:
        return check_account_name(access.account)
    except ConfigurationError as error:
        raise access.refusal(error.message, "account") from None


def _with_shared_limits(settings: Settings, limits: Limits) -> Settings:
    """Return the settings with the values of the shared limits.

    Raises:
        ConfigurationError: a value that the caller has chosen contradicts the limits.
    """
    defaults = Settings()
    shared = {}
    for name in ("max_concurrency", "requests_per_second"):
        own_value = getattr(settings, name)
        shared[name] = getattr(limits, name)
        # A caller who leaves a setting at its default has chosen nothing.
        if own_value not in (shared[name], getattr(defaults, name)):
            problem = f"Settings({name}={own_value}) contradicts limits, which have {shared[name]}"
            raise ConfigurationError(f"{problem}: leave it out of the settings", argument="limits")
    return attrs.evolve(settings, **shared)
