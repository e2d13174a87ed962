"""All settings of a client, with their units and defaults.

The guide `errors-and-limits` explains when to change them.
"""

from __future__ import annotations

import enum
import functools
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import attrs

from seorep_async.errors import ConfigurationError, short_repr, suggestion
from seorep_async.plain_values import plain
from seorep_async.secret import Secret
from seorep_async.version import __version__

_LARGEST_NUMBER = 1e9
_LARGEST_PAGE_SIZE = 2**31 - 1
_ENGINE_PARTS = ("Mobile", "Places", "Maps")
"""Words that can follow an engine's name in a field name."""


class RequestEncoding(enum.Enum):
    """How POST, PUT and PATCH requests send their parameters; the service doesn't document this."""

    FORM = "form"
    """As form fields in the body."""
    JSON = "json"
    """As a JSON object in the body."""
    QUERY = "query"
    """In the query of the URL."""


class ArrayEncoding(enum.Enum):
    """How an array such as `role` is encoded; the service doesn't document this."""

    BRACKETS = "brackets"
    """`role[]=a&role[]=b`."""
    REPEAT = "repeat"
    """`role=a&role=b`."""
    COMMA = "comma"
    """`role=a,b`."""


class FeedSearchParam(enum.Enum):
    """Which parameter sends a feed's search string; the service documents two names."""

    BOTH = "both"
    """`filter` and `search`."""
    FILTER = "filter"
    """Only `filter`."""
    SEARCH = "search"
    """Only `search`."""


def _take_plain_values(
    _class: type, fields: list[attrs.Attribute[Any]]
) -> list[attrs.Attribute[Any]]:
    """Let each field convert an instance of a subclass of `str`, `int` or `float` to that type."""
    return [field.evolve(converter=plain) for field in fields]


@attrs.frozen(kw_only=True, field_transformer=_take_plain_values)
class EngineNames:
    """The search engine names that the service uses in this account's field names.

    The service's reference calls them `engineA`, `engineB` and `wmt`. With `engine_a="google"`,
    the field `googleRanking` is read as `engine_a_ranking`. Attribute names never change.

    Raises:
        ConfigurationError: a name is not a single word of ASCII letters and digits, or two
            engines would share a field name.
    """

    engine_a: str = "engineA"
    """The first search engine, called `engineA` in the reference."""
    engine_b: str = "engineB"
    """The second search engine, called `engineB` in the reference."""
    webmaster_tools: str = "wmt"
    """The first engine's webmaster tools, called `wmt` in the reference."""

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
    """All options of a client. Settings are immutable, comparable and picklable.

    Raises:
        ConfigurationError: a value is out of range or has the wrong type.
    """

    max_concurrency: int = 16
    """The maximum number of requests in flight, from 1 to 1024. A client starts with at most 8, and
    allows one more for each accepted request."""
    requests_per_second: float | None = None
    """A hard cap on requests per second, or None to let the client find the service's limit."""
    attempt_timeout: float = 30.0
    """The time limit of one attempt in seconds, up to the last byte of the response."""
    connect_timeout: float = 10.0
    """The time limit for opening a connection in seconds."""
    call_timeout: float | None = 300.0
    """The time limit of an awaited call in seconds, including its pages, retries and waits, or None
    for no limit. In a pull or a stream (`async for`, `.pages()`), it applies to each request."""
    max_attempts: int = 8
    """The maximum number of attempts per request, including the first, from 1 to 100. An attempt
    counts as a third if the service asked the client to wait, if it was a probe during an outage,
    or if it got a 503 while other requests were refused as well. If a report is read again (at the
    default page size, or at the end of a pull), its requests have this many attempts again."""
    backoff_initial: float = 0.1
    """The longest random wait before the first retry, in seconds; it doubles with each retry."""
    backoff_max: float = 4.0
    """The longest random wait before any retry, in seconds."""
    retry_after_max: float = 120.0
    """The longest `Retry-After` that the client obeys, in seconds. If the service asks for a longer
    pause, the call fails at once."""
    max_body_bytes: int = 64 * 1024 * 1024
    """The maximum size of a decompressed response in bytes. A larger one raises a
    `BodyTooLargeError`."""
    max_pages: int = 100_000
    """The maximum number of pages in a listing, in case the service never ends it."""
    page_size: int | Literal["find"] | None = "find"
    """The number of records per page where no `limit` is given, or None for the service's default.
    `"find"` tries larger pages for listings that are read in full: awaited lists and reports,
    pulls and exports."""
    request_encoding: RequestEncoding = RequestEncoding.FORM
    """How POST, PUT and PATCH requests send their parameters."""
    array_encoding: ArrayEncoding = ArrayEncoding.BRACKETS
    """How arrays are encoded in queries and forms."""
    feed_search_param: FeedSearchParam = FeedSearchParam.BOTH
    """Which parameter sends a feed's search string."""
    engine_names: EngineNames = EngineNames()
    """The search engine names in this account's field names."""
    allow_insecure_http: bool = False
    """Whether to allow `http://` to other machines. The key is then sent unencrypted."""
    user_agent: str = f"seorep-async/{__version__}"
    """The `User-Agent` header. The default is this package's name and version."""
    proxy: str | None = attrs.field(default=None, repr=lambda proxy: _proxy_in_repr(proxy))
    """An HTTP proxy, `http://[user:password@]host[:port]`, or None; environment variables are
    ignored. The password never appears in a repr, and settings with a password can't be pickled."""

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
        """Refuse integers that are out of their setting's range."""
        self._check_integer("max_concurrency", 1, 1024)
        self._check_integer("max_attempts", 1, 100)
        self._check_integer("max_body_bytes", 1024, 2**40)
        self._check_integer("max_pages", 1, 10**9)
        if self.page_size not in ("find", None):
            self._check_integer("page_size", 1, _LARGEST_PAGE_SIZE, 'must be "find", None, or')

    def _check_integer(self, name: str, lowest: int, highest: int, verb: str = "must be") -> None:
        value = getattr(self, name)
        if type(value) is not int or not lowest <= value <= highest:
            problem = f"{name} {verb} an integer from {lowest} to {highest}"
            raise ConfigurationError(f"{problem}, got {short_repr(value)}", argument=name)

    def _check_numbers(self) -> None:
        """Refuse numbers of seconds, or of requests a second, that are not positive."""
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

    def _check_choices(self) -> None:
        """Refuse a value that is not a member of its setting's enumeration or class."""
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
        """The decoded password of the proxy, which is a secret, or None."""
        if self.proxy is None:
            return None
        password = urlsplit(self.proxy).password
        return unquote(password) if password else None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.proxy_password is not None:
            problem = "settings that contain a proxy password can't be pickled"
            raise TypeError(f"{problem}; create them where they are needed")
        # Unpickling passes positional arguments, but `Settings` takes only keywords.
        return partial(Settings, **attrs.asdict(self, recurse=False)), ()


def _hide_arguments(settings_type: type[Settings]) -> None:
    """Mask strings before they reach the generated `__init__`.

    Otherwise, if `__init__` refused a setting, a traceback with locals would show the proxy's
    password.
    """
    init: Callable[..., None] = settings_type.__init__
    names = list(attrs.fields_dict(settings_type))

    @functools.wraps(init)
    def masked_init(self: Settings, **values: Any) -> None:
        """Mask all strings, refuse unknown settings, and call the generated `__init__`."""
        # the converter turns these secrets into plain strings again
        values = {
            name: Secret.of(value) if isinstance(value, str) else value
            for name, value in values.items()
        }
        if values.get("proxy") is not None:
            # any other type becomes an empty string, which is refused
            values["proxy"] = Secret.of(values["proxy"])
        for name in values:
            if name not in names:
                # A traceback with locals would show `values`, whose unknown setting may be a
                # password. It would also fail at the repr of `self`, which has no attributes yet.
                del self, values
                problem = f"there is no setting {short_repr(name)}.{suggestion(name, names)}"
                raise ConfigurationError(problem.removesuffix("."), argument=name)
        init(self, **values)

    settings_type.__init__ = masked_init  # type: ignore[method-assign]


_hide_arguments(Settings)


def _proxy_problem(address: object) -> str:
    """Return the problem with a proxy address without showing the address, or ""."""
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
        return "proxy: a user name can't contain a colon (%3A)"
    return ""


def _proxy_in_repr(proxy: str | None) -> str:
    """Return the repr of a proxy, with `***` in place of its user and password.

    A traceback that shows local variables calls this even for a refused address. Of that, nothing
    is shown, because any part of it may be the password: the usual mistake is a missing `http://`.
    """
    if proxy is None:
        return "None"
    return "***" if _proxy_problem(proxy) else repr(without_password(proxy))


def without_password(address: str) -> str:
    """Return a valid address with `***` in place of its user and password."""
    credentials, at, host = address.rpartition("@")
    if not at:
        return address
    scheme = credentials.partition("://")[0]
    return f"{scheme}://***@{host}"


def require_positive(name: str, value: object, unit: str) -> None:
    """Raise a ConfigurationError unless a value is a positive number up to 1e9."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= _LARGEST_NUMBER:  # type: ignore[operator]  # false for NaN
        problem = f"must be a number above 0 and up to 1e9 ({unit}), got {short_repr(value)}"
        raise ConfigurationError(f"{name} {problem}", argument=name)


def require_booleans(**values: object) -> None:
    """Raise a ConfigurationError unless all values are True or False.

    Without this check, Python would treat the string `"no"` as true.
    """
    for name, value in values.items():
        if not isinstance(value, bool):
            problem = f"{name} must be True or False, got {short_repr(value)}"
            raise ConfigurationError(problem, argument=name)
