"""The sandbox: its options, and how it starts and ends."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self, get_args

from aiohttp import web
from attrs import Attribute, define, field

from seorep_async.sandbox.account import MOST_CAMPAIGNS, Account
from seorep_async.sandbox.chain import Chain, Stats
from seorep_async.sandbox.faults import Faults
from seorep_async.sandbox.feeds import FEEDS
from seorep_async.sandbox.options import check_choice, check_integer, check_number, check_that
from seorep_async.sandbox.rate_limit import RateLimit
from seorep_async.sandbox.seeds import IDS_PER_CAMPAIGN
from seorep_async.sandbox.service import LargeLimit, Rows, SandboxService, Shape

_SHUTDOWN_SECONDS = 0.1
_BACKLOG = 1024
_MOST_USERS = 100_000
_FEED_NAMES = tuple(feed.name for feed in FEEDS)
_check_filled = check_that(
    lambda value: isinstance(value, str) and value != "",
    "a non-empty string",
    show_value=False,
)
_check_flag = check_that(lambda value: isinstance(value, bool), "True or False")


def _failing_statuses(campaigns: Iterable[int] | Mapping[int, int]) -> Mapping[int, int]:
    if isinstance(campaigns, Mapping):
        return dict(campaigns)
    return dict.fromkeys(_campaign_ids("failing", campaigns), 500)


def _forbidden_ids(campaigns: Iterable[int]) -> frozenset[int]:
    return _campaign_ids("forbidden", campaigns)


def _campaign_ids(name: str, campaigns: Iterable[int]) -> frozenset[int]:
    try:
        return frozenset(campaigns)
    except TypeError:  # no iterable, or one that holds no ids
        raise ValueError(f"{name} must hold ids of campaigns, not {campaigns!r}") from None


def _rate_limit(limit: float | str | RateLimit | None) -> RateLimit | None:
    if isinstance(limit, str):
        return RateLimit.parse(limit)
    if limit is None or isinstance(limit, RateLimit):
        return limit
    return RateLimit(limit)


def _faults(faults: str | Faults | None) -> Faults:
    if isinstance(faults, Faults):
        return faults
    if isinstance(faults, str | None):
        return Faults.parse(faults or "")
    raise ValueError(f"faults must be a string or Faults, not {faults!r}")


@define(eq=False)
class _Running:
    """A sandbox that listens, and the steps of its end."""

    listener: asyncio.Server
    leaving: contextlib.AsyncExitStack


@define(kw_only=True, eq=False, repr=False)
class Sandbox:
    """The whole service on a local port, with a seeded account; an asynchronous context manager.

    Writes last until it is closed: entered again, the account is as it was at first. `rate_limit`
    may be a `RateLimit` and `faults` a `Faults`, and both may be changed while it runs.

    Attributes:
        campaigns: campaigns of the account at first; their ids are 1 to this.
        keywords: keywords of each campaign; their ids are campaign id x 100,000 + 1, 2, …
        users: users of the account at first; their ids are 1 to this.
        backlinks: backlinks of each campaign at first; their ids are made like those of keywords.
        seed: any integer; the same seed gives the same account, in whatever shape.
        shape: shape of the feeds' responses: nested (rows in `data.rows`), flat (in `data`), or
            mixed by id.
        rows: format of the feeds' rows: current, older, or mixed by id.
        daily: let ranks change by day; otherwise they change by month.
        latency: seconds that each response takes at least.
        rate_limit: the limit over which requests are refused: 20/s, 100/10s or at-once=8, and after
            commas fixed-window, sliding-window, burst=40, status=503, retry-after=seconds.
        failing: ids of campaigns that always get 500, and their feeds; another status: 3:404, in
            Python `{3: 404}`.
        forbidden: ids of campaigns that the key has no access to: the same responses are 403.
        reports: rows in place of seeded ones, by feed ("campaign", "campaign-by-date",
            "keyword-by-date") and id, such as `{("campaign", 1): [{"keywordPhrase": "shoes"}]}`;
            other fields are those of the seeded row. Rows by date need their `date`, and are sent
            if the requested range touches its month.
        faults: faults to meet, such as resets=5%,500s=5%,cut=2%.
        clock: returns the date and time of changes.
        default_limit: records of a page if a request names no limit.
        max_limit: most records of a page.
        large_limit: treatment of a limit above max_limit: lowered, ignored, refused, failing,
            hanging, misannounced, or whole-report; the guide "testing" explains each.
        api_key: the key to let in; any other gets a 403.
        host: address to listen on.
        port: port to listen on; 0 for any free one.

    Raises:
        ValueError: an option is out of its range.
        OSError: on entering, the port cannot be listened on.
    """

    campaigns: int = field(default=20, validator=check_integer(0, MOST_CAMPAIGNS))
    keywords: int = field(default=50, validator=check_integer(0, IDS_PER_CAMPAIGN - 1))
    users: int = field(default=5, validator=check_integer(0, _MOST_USERS))
    backlinks: int = field(default=3, validator=check_integer(0, IDS_PER_CAMPAIGN - 1))
    seed: int = field(default=1, validator=check_integer())
    shape: Shape = field(default="nested", validator=check_choice(*get_args(Shape)))
    rows: Rows = field(default="current", validator=check_choice(*get_args(Rows)))
    daily: bool = field(default=False, validator=_check_flag)
    latency: float = field(default=0.0, validator=check_number(allow_zero=True))
    rate_limit: RateLimit | None = field(default=None, converter=_rate_limit)
    failing: Mapping[int, int] = field(default=(), converter=_failing_statuses)
    forbidden: frozenset[int] = field(default=(), converter=_forbidden_ids)
    reports: Mapping[tuple[str, int], Sequence[Mapping[str, Any]]] = field(factory=dict)
    faults: Faults = field(default=None, converter=_faults)
    clock: Callable[[], datetime] = field(
        default=datetime.now, validator=check_that(callable, "a function")
    )
    default_limit: int = field(default=25, validator=check_integer(1))
    max_limit: int = field(default=500, validator=check_integer(1))
    large_limit: LargeLimit = field(
        default="lowered", validator=check_choice(*get_args(LargeLimit))
    )
    api_key: str = field(default="sandbox", validator=_check_filled)
    host: str = field(default="127.0.0.1", validator=_check_filled)
    port: int = field(default=0, validator=check_integer(0, 65535))
    _stats: Stats = field(init=False, factory=Stats)
    _running: _Running | None = field(init=False, default=None)

    @failing.validator
    @forbidden.validator
    def _check_ids(self, attribute: "Attribute[Any]", campaign_ids: Collection[Any]) -> None:
        for campaign_id in campaign_ids:
            if not isinstance(campaign_id, int) or not 1 <= campaign_id <= self.campaigns:
                raise ValueError(
                    f"{attribute.name} must hold ids of campaigns, 1 to {self.campaigns}, "
                    f"not {campaign_id!r}"
                )

    @reports.validator
    def _check_reports(self, attribute: "Attribute[Any]", reports: Mapping[Any, Any]) -> None:
        for key, rows in reports.items():
            if not _is_report_key(key):
                raise ValueError(
                    f"reports must have keys such as ('campaign', 1), of {', '.join(_FEED_NAMES)}; "
                    f"not {key!r}"
                )
            needs_date = key[0] != "campaign"
            if not all(_is_own_row(row, needs_date) for row in rows):
                raise ValueError(
                    f"reports must hold mappings, by date with a date such as '2023-01': {key!r}"
                )

    def __attrs_post_init__(self) -> None:
        for status in self.failing.values():
            if not isinstance(status, int) or not 400 <= status <= 599:
                raise ValueError(f"failing must map to statuses from 400 to 599, not {status!r}")
        in_both = self.forbidden & self.failing.keys()
        if in_both:
            raise ValueError(
                f"forbidden and failing must not hold the same campaign, {min(in_both)}"
            )
        if self.default_limit > self.max_limit:
            raise ValueError(
                f"default_limit must be at most the maximum, {self.max_limit}, "
                f"not {self.default_limit}"
            )

    @property
    def base_url(self) -> str:
        """The address that clients are given, such as `http://127.0.0.1:8080`."""
        if self._running is None:
            raise RuntimeError(
                "the sandbox is not running: enter it with `async with` first, or call "
                "`await sandbox.open()`"
            )
        port = self._running.listener.sockets[0].getsockname()[1]
        # An IPv6 address stands in brackets.
        if ":" in self.host:
            return f"http://[{self.host}]:{port}"
        return f"http://{self.host}:{port}"

    @property
    def stats(self) -> Stats:
        """The traffic since the sandbox was last entered. It is also readable after leaving."""
        return self._stats.copied()

    def __repr__(self) -> str:
        address = "not running" if self._running is None else self.base_url
        return f"<Sandbox: {address}, {self.campaigns} campaigns of {self.keywords} keywords>"

    async def open(self) -> Self:
        """Start the sandbox, as `async with` does; meant for notebooks.

        Raises:
            OSError: the port cannot be listened on.
        """
        return await self.__aenter__()

    async def close(self) -> None:
        """Stop the sandbox, and forget what was written."""
        await self.__aexit__()

    async def __aenter__(self) -> Self:
        if self._running is not None:
            raise RuntimeError("the sandbox is running already")
        self._stats = Stats()
        chain = Chain(self, self._service(), self._stats)
        runner = web.AppRunner(
            chain.application(),
            access_log=None,
            shutdown_timeout=_SHUTDOWN_SECONDS,
            auto_decompress=False,
        )
        async with contextlib.AsyncExitStack() as leaving:
            leaving.callback(chain.forget)
            leaving.push_async_callback(runner.cleanup)
            await runner.setup()
            listener = await self._listen(runner)
            leaving.callback(chain.close)
            self._running = _Running(listener, leaving.pop_all())
        return self

    async def __aexit__(self, *_: object) -> None:
        running = self._running
        if running is None:
            return
        self._running = None
        # asyncio drops a connection that it accepts just as its server closes, with its socket left
        # open and a warning. So stop accepting first, and let the runner learn of those accepted
        # already, which it closes.
        for listening in running.listener.sockets:
            with contextlib.suppress(NotImplementedError):
                asyncio.get_running_loop().remove_reader(listening.fileno())
        await asyncio.sleep(0)
        running.listener.close()
        await running.leaving.aclose()

    def _service(self) -> SandboxService:
        account = Account(self.seed, self.campaigns, self.keywords, self.users, self.backlinks)
        return SandboxService(
            account=account,
            shape=self.shape,
            rows=self.rows,
            clock=self.clock,
            default_limit=self.default_limit,
            max_limit=self.max_limit,
            large_limit=self.large_limit,
            daily=self.daily,
            failing={**self.failing, **dict.fromkeys(self.forbidden, 403)},
            reports={key: [dict(row) for row in rows] for key, rows in self.reports.items()},
        )

    async def _listen(self, runner: web.AppRunner) -> asyncio.Server:
        assert runner.server is not None, "the runner is set up"  # noqa: S101
        create_server = asyncio.get_running_loop().create_server
        try:
            return await create_server(runner.server, self.host, self.port, backlog=_BACKLOG)
        except OSError as error:
            # asyncio repeats the address in its text.
            problem = (error.strerror or str(error)).rpartition(": ")[2]
            raise OSError(
                error.errno, f"can't listen on {self.host}:{self.port}: {problem}"
            ) from error


def _is_report_key(key: object) -> bool:
    if not isinstance(key, tuple) or len(key) != 2:
        return False
    feed_name, subject_id = key
    return feed_name in _FEED_NAMES and isinstance(subject_id, int)


def _is_own_row(row: object, needs_date: bool) -> bool:
    if not isinstance(row, Mapping):
        return False
    return not needs_date or isinstance(row.get("date"), str)
