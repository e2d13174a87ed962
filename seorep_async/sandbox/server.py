"""Start and stop the sandbox."""

import asyncio
import contextlib
import copy
from typing import Self

from aiohttp import web
from attrs import define, field

from seorep_async.sandbox.chain import Chain, Stats
from seorep_async.sandbox.options import Options
from seorep_async.sandbox.service import SandboxService

_SHUTDOWN_SECONDS = 0.1
_BACKLOG = 1024


@define(kw_only=True, eq=False, repr=False)
class Sandbox(Options):
    """The whole service on a local port, with a seeded account; an asynchronous context manager.

    Changes last until the sandbox is closed; the next start has the seeded account. `rate_limit`
    may be a `RateLimit` and `faults` a `Faults`, and both may be changed while it runs.

    Attributes:
        campaigns: campaigns of the account at first; their ids are 1 to this.
        keywords: keywords of each campaign; their ids begin at the campaign's id x 100,000 + 1.
        users: users of the account at first; their ids are 1 to this.
        backlinks: backlinks of each campaign at first; their ids also begin at the campaign's id x
            100,000 + 1.
        seed: any integer; the same seed gives the same account, whatever the shape.
        shape: shape of the feeds' responses: nested (rows in `data.rows`), flat (in `data`), or
            mixed (each campaign or keyword has its own).
        rows: format of the feeds' rows: current, older, or mixed (each campaign or keyword has its
            own).
        daily: change ranks daily instead of monthly.
        latency: the minimum number of seconds that each response takes.
        rate_limit: the limit over which requests are refused: 20/s, 100/10s or at-once=8, and after
            commas fixed-window, sliding-window, burst=40, status=503, retry-after=seconds.
        failing: ids of campaigns whose requests always get a 500, or the status after a colon, such
            as 3:404, in Python `{3: 404}`.
        forbidden: ids of campaigns that the key has no access to: their requests get a 403.
        reports: rows in place of seeded ones, by feed ("campaign", "campaign-by-date",
            "keyword-by-date") and id, such as `{("campaign", 1): [{"keywordPhrase": "shoes"}]}`;
            other fields come from the seeded row. Rows with a `date` are sent if the requested
            range touches its month.
        faults: shares of requests that fail, such as resets=5%,500s=5%,cut=2%.
        clock: returns the date and time of changes.
        default_limit: records of a page if a request names no limit, up to max_limit.
        max_limit: maximum number of records of a page; a higher limit is lowered to it.
        api_key: the accepted key; any other key gets a 403.
        host: address to listen on.
        port: port to listen on; 0 for any free port.

    Raises:
        ValueError: an option is out of its range.
        OSError: on entering, the port cannot be listened on.
    """

    _stats: Stats = field(init=False, factory=Stats)
    _listener: asyncio.Server | None = field(init=False, default=None)
    _leaving: contextlib.AsyncExitStack = field(init=False, factory=contextlib.AsyncExitStack)

    @property
    def base_url(self) -> str:
        """The address for clients, such as `http://127.0.0.1:8080`."""
        if self._listener is None:
            raise RuntimeError(
                "the sandbox is not running: enter it with `async with` first, or call "
                "`await sandbox.open()`"
            )
        port = self._listener.sockets[0].getsockname()[1]
        # An IPv6 address stands in brackets.
        if ":" in self.host:
            return f"http://[{self.host}]:{port}"
        return f"http://{self.host}:{port}"

    @property
    def stats(self) -> Stats:
        """The traffic since the sandbox was last entered. It is also readable after leaving."""
        return copy.deepcopy(self._stats)

    def __repr__(self) -> str:
        address = "not running" if self._listener is None else self.base_url
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
        if self._listener is not None:
            raise RuntimeError("the sandbox is running already")
        self._stats = Stats()
        chain = Chain(SandboxService(self), self._stats)
        runner = web.AppRunner(
            chain.application(),
            access_log=None,
            shutdown_timeout=_SHUTDOWN_SECONDS,
            auto_decompress=False,
        )
        async with contextlib.AsyncExitStack() as leaving:
            # the last of these steps runs first
            leaving.callback(chain.forget)
            leaving.push_async_callback(runner.cleanup)
            await runner.setup()
            create_server = asyncio.get_running_loop().create_server
            assert runner.server is not None, "the runner is set up"  # noqa: S101
            try:
                self._listener = await create_server(
                    runner.server, self.host, self.port, backlog=_BACKLOG
                )
            except OSError as error:
                error.add_note(
                    "choose another host or port, or end the program that uses it: "
                    "an earlier cell's sandbox ends with `await sandbox.close()`"
                )
                raise
            leaving.callback(chain.close)
            self._leaving = leaving.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        listener = self._listener
        if listener is None:
            return
        self._listener = None
        # If asyncio accepts a connection just as its server closes, it warns and leaves the socket
        # open. So stop accepting first, and let the runner learn of the accepted connections: it
        # closes them.
        # Not every loop has `remove_reader`.
        for listening in listener.sockets:
            with contextlib.suppress(NotImplementedError):
                asyncio.get_running_loop().remove_reader(listening.fileno())
        await asyncio.sleep(0)
        listener.close()
        await self._leaving.aclose()
