"""Every default number and every undocumented choice, with its unit, on one page.

When to change which: the guide `errors-and-limits`.
"""

from __future__ import annotations

import enum
import itertools
from functools import partial
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import attrs

from seorep_async.errors import ConfigurationError, short_repr
from seorep_async.plain_values import plain
from seorep_async.version import __version__

_LARGEST_NUMBER = 1e9
_LARGEST_PAGE = 2**31 - 1
_ENGINE_PARTS = ("Mobile", "Places", "Maps")
"""The parts that follow an engine's name in names of fields."""


class RequestEncoding(enum.Enum):
    """How POST and PUT carry their parameters. The service's reference, section 4, leaves it open."""

    FORM = "form"
    """As a form."""
    JSON = "json"
    """As a JSON object."""
    QUERY = "query"
    """In the query of the address."""


class ArrayEncoding(enum.Enum):
    """How an array such as `role` is written. The service's reference, section 4.2, leaves it open."""

    BRACKETS = "brackets"
    """`role[]=a&role[]=b`."""
    REPEAT = "repeat"
    """`role=a&role=b`."""
    COMMA = "comma"
    """`role=a,b`."""


class FeedSearchParam(enum.Enum):
    """The parameter that carries a feed's search string. The service's reference, section 4.4, names both."""

    BOTH = "both"
    """`filter` and `search`."""
    FILTER = "filter"
    """`filter` alone."""
    SEARCH = "search"
    """`search` alone."""


def _take_plain_values(
    _class: type, fields: list[attrs.Attribute[Any]]
) -> list[attrs.Attribute[Any]]:
    return [field.evolve(converter=plain) for field in fields]


@attrs.frozen(kw_only=True, field_transformer=_take_plain_values)
class EngineNames:
    """The account's names for the search engines, where the reference writes `engineA`, `engineB` and `wmt`.

    With `engine_a="google"` the field `googleRanking` is read as `engine_a_ranking`. The names of
    attributes stay the same.

    Raises:
        ConfigurationError: a name is not one word of ASCII letters and digits, or fields of two
            engines would have the same name.
    """

    engine_a: str = "engineA"
    """The first search engine, `engineA` in the reference."""
    engine_b: str = "engineB"
    """The second search engine, `engineB` in the reference."""
    webmaster_tools: str = "wmt"
    """The first engine's webmaster tools, `wmt` in the reference."""

    def __attrs_post_init__(self) -> None:
        tokens = (self.engine_a, self.engine_b, self.webmaster_tools)
        for token in tokens:
            if not _is_word(token):
                raise _engine_error(
                    f"{short_repr(token)} is not one word of ASCII letters and digits"
                )
        if len({token.lower() for token in tokens}) < len(tokens):
            raise _engine_error("the three names must differ")
        for token, other in itertools.permutations(tokens, 2):
            if token in [f"{other}{part}" for part in _ENGINE_PARTS]:
                raise _engine_error(f"{token!r} and {other!r} would give two fields the same name")


def _is_word(token: object) -> bool:
    return isinstance(token, str) and token.isascii() and token.isalnum() and token[0].isalpha()


def _engine_error(problem: str) -> ConfigurationError:
    return ConfigurationError(f"engine_names: {problem}", argument="engine_names")


@attrs.frozen(kw_only=True, field_transformer=_take_plain_values)
class Settings:
    """All options of a client; immutable, comparable, picklable.

    Raises:
        ConfigurationError: a value is out of its range or of the wrong type.
    """

    max_concurrency: int = 16
    """Requests in flight at once, 1 to 1024. A client begins with 8 at most, and adds one for each
    that is accepted."""
    requests_per_second: float | None = None
    """A hard cap on the rate of requests, or None to let the client find the service's limit."""
    attempt_timeout: float = 30.0
    """Seconds that one attempt may take, from its start to the last byte of the response."""
    connect_timeout: float = 10.0
    """Seconds that opening one connection may take."""
    call_timeout: float | None = 300.0
    """Seconds that one awaited call may take with all its pages, retries and waits, or None for no
    limit. In a pull or a stream (`async for`, `.pages()`) it holds for each request."""
    max_attempts: int = 8
    """Attempts for one request, the first included, 1 to 100. An attempt counts as a third if the
    service asked to wait, or if it probed whether an outage is over."""
    backoff_initial: float = 0.1
    """Seconds; the first retry waits a random time up to this, each further one up to twice as long."""
    backoff_max: float = 4.0
    """Seconds; the longest such wait."""
    retry_after_max: float = 120.0
    """Seconds; if the service asks for a longer wait (`Retry-After`), the call fails at once."""
    max_body_bytes: int = 64 * 1024 * 1024
    """Bytes of one response, decompressed; a larger one is a `BodyTooLargeError`."""
    max_pages: int = 100_000
    """Pages of one listing, in case the service never stops."""
    page_size: int | Literal["find"] | None = "find"
    """Records a page, wherever no `limit` is given. `"find"` asks once whether the service sends
    more than its default of what is read whole (awaited lists and reports, pulls, exports); None
    keeps to the service's default."""
    request_encoding: RequestEncoding = RequestEncoding.FORM
    """How POST and PUT carry their parameters."""
    array_encoding: ArrayEncoding = ArrayEncoding.BRACKETS
    """How arrays are written in queries and forms."""
    feed_search_param: FeedSearchParam = FeedSearchParam.BOTH
    """The parameter that carries a feed's search string."""
    engine_names: EngineNames = EngineNames()
    """The account's names for the search engines."""
    allow_insecure_http: bool = False
    """Allow `http://` to a host that is not this machine; the key is then sent unencrypted."""
    user_agent: str = f"seorep-async/{__version__}"
    """The `User-Agent` header; by default the name and version of this package."""
    proxy: str | None = attrs.field(default=None, repr=lambda proxy: _proxy_in_repr(proxy))
    """The address of an HTTP proxy, `http://[user:password@]host[:port]`, or None; the environment
    names none. Its password is in no repr, and settings with one are not pickled."""

    def __attrs_post_init__(self) -> None:
        self._check_integers()
        self._check_numbers()
        self._check_choices()
        require_booleans(allow_insecure_http=self.allow_insecure_http)
        user_agent: object = self.user_agent
        if not isinstance(user_agent, str) or not (
            user_agent.isprintable() and user_agent.isascii()
        ):
            problem = (
                f"user_agent must be a string of printable ASCII, got {short_repr(user_agent)}"
            )
            raise ConfigurationError(problem, argument="user_agent")
        proxy_problem = "" if self.proxy is None else _proxy_problem(self.proxy)
        if proxy_problem:
            raise ConfigurationError(proxy_problem, argument="proxy")

    def _check_integers(self) -> None:
        for name, lowest, highest in (
            ("max_concurrency", 1, 1024),
            ("max_attempts", 1, 100),
            ("max_body_bytes", 1024, 2**40),
            ("max_pages", 1, 10**9),
        ):
            value = getattr(self, name)
            if type(value) is not int or not lowest <= value <= highest:
                problem = f"must be an integer from {lowest} to {highest}, got {short_repr(value)}"
                raise ConfigurationError(f"{name} {problem}", argument=name)
        page_size = self.page_size
        if page_size is None or page_size == "find":
            return
        if type(page_size) is not int or not 1 <= page_size <= _LARGEST_PAGE:
            problem = f'must be "find", None, or an integer from 1 to {_LARGEST_PAGE}'
            raise ConfigurationError(
                f"page_size {problem}, got {short_repr(page_size)}", argument="page_size"
            )

    def _check_numbers(self) -> None:
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
            rate = self.requests_per_second
            require_positive("requests_per_second", rate, "requests a second, or None")

    def _check_choices(self) -> None:
        choices: dict[str, type[enum.Enum]] = {
            "request_encoding": RequestEncoding,
            "array_encoding": ArrayEncoding,
            "feed_search_param": FeedSearchParam,
        }
        for name, choice_type in choices.items():
            value = getattr(self, name)
            if not isinstance(value, choice_type):
                members = ", ".join(
                    f"{choice_type.__name__}.{member.name}" for member in choice_type
                )
                problem = f"{name} must be one of {members}, got {short_repr(value)}"
                raise ConfigurationError(problem, argument=name)
        engine_names: object = self.engine_names
        if not isinstance(engine_names, EngineNames):
            problem = f"engine_names must be of type EngineNames, got {short_repr(engine_names)}"
            raise ConfigurationError(problem, argument="engine_names")

    @property
    def proxy_password(self) -> str | None:
        """The proxy's password, as it is sent; a secret."""
        if self.proxy is None:
            return None
        password = urlsplit(self.proxy).password
        return unquote(password) if password else None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.proxy_password is not None:
            problem = "settings that hold a proxy's password are not pickled"
            raise TypeError(f"{problem}; make them where they are needed")
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


def _proxy_in_repr(proxy: object) -> str:
    """Return the repr of a proxy without its password.

    A traceback shows settings also while they refuse a proxy that is no string.
    """
    if proxy is None:
        return "None"
    return repr(without_password(proxy)) if isinstance(proxy, str) else type(proxy).__name__


def without_password(address: str) -> str:
    """Return an address with `***` in place of its user and password."""
    credentials, at, host = address.rpartition("@")
    if not at:
        return address
    scheme = credentials.partition("://")[0]
    return f"{scheme}://***@{host}"


def require_positive(name: str, value: object, unit: str) -> None:
    """Raise a ConfigurationError unless a value is a positive, finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= _LARGEST_NUMBER:  # type: ignore[operator]  # false for NaN
        problem = f"must be a number above 0 and up to 1e9 ({unit}), got {short_repr(value)}"
        raise ConfigurationError(f"{name} {problem}", argument=name)


def require_booleans(**named: object) -> None:
    """Raise a ConfigurationError unless all values are True or False.

    Python alone would take the string `"no"` as true.
    """
    for name, value in named.items():
        if not isinstance(value, bool):
            problem = f"{name} must be True or False, got {short_repr(value)}"
            raise ConfigurationError(problem, argument=name)
