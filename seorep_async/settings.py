"""Every default number and every undocumented choice, with its unit, on one page.

When to change which: the guide `errors-and-limits`.
"""

from __future__ import annotations

import enum
import itertools
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs

from seorep_async.errors import ConfigurationError, shown
from seorep_async.plain_values import plain
from seorep_async.version import __version__


class RequestEncoding(enum.Enum):
    """How POST and PUT carry their parameters: as a form, JSON or a query.

    The service's reference, section 4, leaves it open.
    """

    FORM = "form"
    JSON = "json"
    QUERY = "query"


class ArrayEncoding(enum.Enum):
    """How an array such as `role` is written: `role[]=a&role[]=b`, `role=a&role=b` or `role=a,b`.

    The service's reference, section 4.2, leaves it open.
    """

    BRACKETS = "brackets"
    REPEAT = "repeat"
    COMMA = "comma"


class FeedSearchParam(enum.Enum):
    """The parameter that carries a feed's search string: `filter`, `search`, or both.

    The service's reference, section 4.4, names both.
    """

    BOTH = "both"
    FILTER = "filter"
    SEARCH = "search"


def _take_plain_values(
    _class: type, fields: list[attrs.Attribute[Any]]
) -> list[attrs.Attribute[Any]]:
    return [field.evolve(converter=plain) for field in fields]


@attrs.frozen(kw_only=True, field_transformer=_take_plain_values)
class EngineNames:
    """What the account's responses call the search engines, where the reference writes `engineA`, `engineB` and `wmt`.

    With `engine_a="google"` the field `googleRanking` is read as `engine_a_ranking`. Attribute names stay the same.

    Args:
        engine_a: the first search engine, `engineA` in the reference.
        engine_b: the second search engine, `engineB` in the reference.
        webmaster_tools: the first engine's webmaster tools, `wmt` in the reference.

    Raises:
        ConfigurationError: a name is not one word of ASCII letters and digits, or fields of two engines would have
            the same name.
    """

    engine_a: str = "engineA"
    engine_b: str = "engineB"
    webmaster_tools: str = "wmt"

    def __attrs_post_init__(self) -> None:
        tokens = (self.engine_a, self.engine_b, self.webmaster_tools)
        for token in tokens:
            if not (
                isinstance(token, str)
                and token.isascii()
                and token.isalnum()
                and token[0].isalpha()
            ):
                problem = f"{shown(token)} is not one word of ASCII letters and digits"
                raise ConfigurationError(f"engine_names: {problem}", argument="engine_names")
        if len({token.lower() for token in tokens}) < len(tokens):
            raise ConfigurationError(
                "engine_names: the three names must differ", argument="engine_names"
            )
        for token, other in itertools.permutations(tokens, 2):
            if token in (f"{other}{kind}" for kind in ("Mobile", "Places", "Maps")):
                problem = f"{token!r} and {other!r} would give two fields the same name"
                raise ConfigurationError(f"engine_names: {problem}", argument="engine_names")


@attrs.frozen(kw_only=True, field_transformer=_take_plain_values)
class Settings:
    """All options of a client; immutable, comparable, picklable.

    Args:
        max_concurrency: requests in flight at once, 1 to 1024; no more than 8 at first, until as many were accepted or
            one waited 0.1 s.
        requests_per_second: a hard cap on the rate of requests, or None to let the client find the service's limit.
        attempt_timeout: seconds that one attempt may take, from its start to the last byte of the response.
        connect_timeout: seconds that opening one connection may take.
        call_timeout: seconds that one awaited call may take with all its pages, retries and waits, or None for no
            limit. When results are streamed (`async for`, `.pages()`, `pull`) it holds for each request.
        max_attempts: attempts for one request, the first included, 1 to 100; 429, and 503 with Retry-After, count as a
            third, as does an attempt that probes whether an outage is over.
        backoff_initial: seconds; the first retry waits a random time up to this, each further one up to twice as long.
        backoff_max: seconds; the longest such wait.
        retry_after_max: seconds; if the service asks for a longer wait (`Retry-After`), the call fails at once.
        max_body_bytes: bytes of one response, decompressed; a larger one is a `BodyTooLargeError`.
        max_pages: pages of one listing, in case the service never stops.
        request_encoding: how POST and PUT carry their parameters.
        array_encoding: how arrays are written in queries and forms.
        feed_search_param: the parameter that carries a feed's search string.
        engine_names: what the account's responses call the search engines.
        allow_insecure_http: allow `http://` to a host that is not this machine; the key is then sent unencrypted.
        user_agent: the `User-Agent` header; by default the name and version of this package.
        proxy: address of an HTTP proxy, `http://[user:password@]host[:port]`, or None; the environment names none. Its
            password is in no repr, and settings with one are not pickled.

    Raises:
        ConfigurationError: a value is out of its range or of the wrong type.
    """

    max_concurrency: int = 16
    requests_per_second: float | None = None
    attempt_timeout: float = 30.0
    connect_timeout: float = 10.0
    call_timeout: float | None = 300.0
    max_attempts: int = 8
    backoff_initial: float = 0.1
    backoff_max: float = 4.0
    retry_after_max: float = 120.0
    max_body_bytes: int = 64 * 1024 * 1024
    max_pages: int = 100_000
    request_encoding: RequestEncoding = RequestEncoding.FORM
    array_encoding: ArrayEncoding = ArrayEncoding.BRACKETS
    feed_search_param: FeedSearchParam = FeedSearchParam.BOTH
    engine_names: EngineNames = EngineNames()
    allow_insecure_http: bool = False
    user_agent: str = f"seorep-async/{__version__}"
    proxy: str | None = attrs.field(
        default=None, repr=lambda proxy: repr(proxy and without_password(proxy))
    )

    def __attrs_post_init__(self) -> None:
        for name, low, high in (
            ("max_concurrency", 1, 1024),
            ("max_attempts", 1, 100),
            ("max_body_bytes", 1024, 2**40),
            ("max_pages", 1, 10**9),
        ):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                problem = f"{name} must be an integer from {low} to {high}, got {shown(value)}"
                raise ConfigurationError(problem, argument=name)
        for name in (
            "attempt_timeout",
            "connect_timeout",
            "backoff_initial",
            "backoff_max",
            "retry_after_max",
        ):
            require_positive(name, getattr(self, name), "seconds")
        if self.call_timeout is not None:
            require_positive("call_timeout", self.call_timeout, "seconds, or None")
        if self.requests_per_second is not None:
            require_positive(
                "requests_per_second", self.requests_per_second, "requests a second, or None"
            )
        for name, kind in (
            ("request_encoding", RequestEncoding),
            ("array_encoding", ArrayEncoding),
            ("feed_search_param", FeedSearchParam),
            ("engine_names", EngineNames),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind):
                members = [f"{kind.__name__}.{one}" for one in getattr(kind, "__members__", ())]
                known = f"one of {', '.join(members)}" if members else f"of type {kind.__name__}"
                raise ConfigurationError(
                    f"{name} must be {known}, got {shown(value)}", argument=name
                )
        require_booleans(allow_insecure_http=self.allow_insecure_http)
        if (
            not isinstance(self.user_agent, str)
            or not self.user_agent.isprintable()
            or not self.user_agent.isascii()
        ):
            problem = (
                f"user_agent must be a string of printable ASCII, got {shown(self.user_agent)}"
            )
            raise ConfigurationError(problem, argument="user_agent")
        proxy_problem = "" if self.proxy is None else _proxy_problem(self.proxy)
        if proxy_problem:
            raise ConfigurationError(proxy_problem, argument="proxy")

    @property
    def proxy_password(self) -> str | None:
        """The proxy's password, as it is sent; a secret."""
        password = self.proxy and urlsplit(self.proxy).password
        return unquote(password) if password else None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.proxy_password is not None:
            raise TypeError(
                "settings that hold a proxy's password are not pickled; make them where they are needed"
            )
        return partial(Settings, **attrs.asdict(self, recurse=False)), ()


def _proxy_problem(address: object) -> str:
    """Return why a value can't be a proxy's address, without showing it, or nothing."""
    example = "proxy must be an address such as http://user:password@proxy.example:3128, or None"
    if not isinstance(address, str) or not address.isprintable() or "\\" in address:
        return example
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return example
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return example
    if parts.query or parts.fragment:
        return example
    if ":" in unquote(parts.username or ""):
        return "proxy: a user name can't hold a colon (%3A)"
    return ""


def without_password(address: str) -> str:
    """Return an address with `***` in place of its user and password."""
    before, at, host = address.rpartition("@")
    return f"{before.partition('://')[0]}://***@{host}" if at else address


def require_positive(name: str, value: object, unit: str) -> None:
    """Raise a ConfigurationError unless a value is a positive, finite number."""
    if (
        isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1e9
    ):  # false for NaN
        problem = f"{name} must be a number above 0 and up to 1e9 ({unit}), got {shown(value)}"
        raise ConfigurationError(problem, argument=name)


def require_booleans(**named: object) -> None:
    """Raise a ConfigurationError unless all values are True or False; Python would take the string `"no"` as true."""
    for name, value in named.items():
        if not isinstance(value, bool):
            raise ConfigurationError(
                f"{name} must be True or False, got {shown(value)}", argument=name
            )
