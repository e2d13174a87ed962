"""Fixtures and marks that tests of several folders share.

- `scripted_server`: `server = await scripted_server(step, step, …, forever=step, tls=context)`
  starts a raw server that plays one step for each request, whatever the connection. A step is bytes
  to send as they are (see `answer`, `FINE`), or a misbehaviour, of `tests.session.scripted_server`.
  A request beyond the script fails the test at its end.
- `fake_time`: the time of a client whose sleeps are over at once, although its clock moves on by
  them (`FakeTime`).
- `open_client`: `client = await open_client(server.base_url, max_attempts=3, …)` opens a client
  with the key `KEY` on `fake_time`, with any of `Settings` as keywords. It is closed at the end of
  the test.
- `connect`: `client, server = await connect(step, step, forever=step, max_attempts=3, …)` does
  both. `session, server = await connect_session(…)` does so with a session, for requests that no
  resource makes.
- `only_new_garbage`: `gc.collect()` skips older objects, which saves time.
- `tables_at_once`: new DuckDB databases are copies of an empty one, which saves time.
- `five_changes`: a database of two days, with five changes between them.

The types of these fixtures, `ask(client)`, a plain call, and `failure(client, kind)`, the error of
one that must fail, are in `tests.session.calls`. Searches for the key in texts and errors are in
`tests.session.canary`.

The mark `virtual` runs an asynchronous test on a virtual loop, whose time passes at once.
`TEST_LOOP=uvloop` runs the others on uvloop, if it is installed. `--hypothesis-profile=many` runs
1,000 examples of each property in place of 40.
"""

import asyncio
import gc
import math
import os
import shutil
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, settings

from seorep_async import Attempt, SeoRepClient, Settings
from seorep_async.export import database
from seorep_async.export.schema import make_tables
from seorep_async.session import Session
from tests.session.calls import KEY, Connect, ConnectSession, OpenClient, StartServer, open_session
from tests.session.fake_time import FakeTime
from tests.session.scripted_server import ScriptedServer, Step
from tests.session.virtual_loop import VirtualLoop

_SLOW_SECONDS = 1800

# The speed of the machine does not matter.
settings.register_profile(
    "tests", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("many", settings.get_profile("tests"), max_examples=1000)
settings.load_profile("tests")


if os.environ.get("TEST_LOOP") == "uvloop":
    from uvloop import new_event_loop
else:
    from asyncio import new_event_loop


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("virtual"):
        return {"virtual": VirtualLoop}
    return {"real": new_event_loop}


def pytest_configure(config: pytest.Config) -> None:
    # A shell lets programs in the background ignore Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cache: pytest.Cache | None = getattr(config, "cache", None)
    if cache is not None and os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        # Otherwise each worker and each of a hundred processes compiles all that it imports, which
        # doubles the time.
        os.environ["PYTHONPYCACHEPREFIX"] = str(cache.mkdir("bytecode"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    # Modules and tests live to the end, so looking for garbage among them only costs time.
    gc.disable()
    try:
        return (yield)
    finally:
        # No `gc.freeze()`: with it, strategies of Hypothesis 6.100 draw other values a second time.
        # After each 700 new objects, as by default, collections took a fifth of the time of tests.
        gc.set_threshold(10_000)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(_SLOW_SECONDS))
    # The longest test comes first. Otherwise one worker ends with it, and another idles.
    items.sort(key=lambda item: item.path.name != "test_benchmarks.py")


def pytest_unconfigure() -> None:
    gc.collect()
    # Python collects several times more at its end, which took 2 s among all modules and tests.
    gc.freeze()


@pytest.fixture(autouse=True)
def signals_as_they_were() -> Iterator[None]:
    """Restore the signal handlers after each test.

    The command replaces them, because it ends its process: the next Ctrl-C would end the tests.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def only_new_garbage() -> Iterator[None]:
    """Let `gc.collect()` skip all that is older than the test: a million objects take 0.4 s."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
async def scripted_server() -> AsyncIterator[StartServer]:
    servers = []
    async with AsyncExitStack() as running:

        async def start(
            *script: Step, forever: Step | None = None, tls: ssl.SSLContext | None = None
        ) -> ScriptedServer:
            server = ScriptedServer(script, forever=forever, tls=tls)
            servers.append(server)
            return await running.enter_async_context(server)

        yield start
    for server in servers:
        assert not server.unexpected, "more requests came than the script has steps"


@pytest.fixture
async def fake_time(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    # A machine that is busy for a moment ends no attempt in another way.
    monkeypatch.setattr("seorep_async.session.timeouts.LATE", math.inf)
    return FakeTime()


@pytest.fixture
async def open_client(
    scripted_server: StartServer, fake_time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[OpenClient]:
    # This depends on the servers, so that clients are closed before them.
    monkeypatch.setattr("seorep_async.session.clock.SYSTEM", fake_time.clock)
    async with AsyncExitStack() as opened:

        async def open_client(
            base_url: str,
            *,
            session: aiohttp.ClientSession | None = None,
            on_attempt: Callable[[Attempt], object] | None = None,
            **settings: Any,
        ) -> SeoRepClient:
            client = SeoRepClient(
                base_url,
                KEY,
                settings=Settings(**settings),
                session=session,
                on_attempt=on_attempt,
            )
            return await opened.enter_async_context(client)

        yield open_client


@pytest.fixture
def connect(scripted_server: StartServer, open_client: OpenClient) -> Connect:
    async def connected(
        *script: Step,
        forever: Step | None = None,
        tls: ssl.SSLContext | None = None,
        **settings: Any,
    ) -> tuple[SeoRepClient, ScriptedServer]:
        server = await scripted_server(*script, forever=forever, tls=tls)
        return await open_client(server.base_url, **settings), server

    return connected


@pytest.fixture
async def connect_session(
    scripted_server: StartServer, fake_time: FakeTime
) -> AsyncIterator[ConnectSession]:
    async with AsyncExitStack() as opened:

        async def connected(
            *script: Step, forever: Step | None = None, **settings: Any
        ) -> tuple[Session, ScriptedServer]:
            server = await scripted_server(*script, forever=forever)
            opening = open_session(server.base_url, fake_time, **settings)
            return await opened.enter_async_context(opening), server

        yield connected


_connect: Callable[..., Any] = database._connect


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the empty tables and views of pulls."""
    path = tmp_path_factory.mktemp("empty") / "x.duckdb"
    with _connect(path, is_new=True) as opened:
        make_tables(opened)
    return path


@pytest.fixture
def tables_at_once(empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each new database its tables as a copy, because 300 comments on them take 0.4 s."""

    def connect(file: Path | str, *, is_new: bool) -> Any:
        if is_new and isinstance(file, Path):
            shutil.copyfile(empty_database, file)
        return _connect(file, is_new=is_new)

    monkeypatch.setattr(database, "_connect", connect)


@pytest.fixture(scope="module")
def five_changes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a database of two days that no test changes. Opening it each time would take long.

    Two ranks rose, by 9 and 3; one was found at 60, one lost at 2; a keyword is new.
    """
    # They import pyarrow, which other tests need not wait for.
    from seorep_async.history import open_history
    from tests.history.databases import database_of, nightly

    before = {11: 12, 12: 40, 13: None, 21: 2}
    after = {11: 3, 12: 37, 13: 60, 14: 101, 21: None}
    database = database_of(tmp_path_factory.mktemp("days"), nightly(before, after))
    with open_history(database):
        yield database


@pytest.fixture(scope="session")
def jedi(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Editors' completion of Python, with a cache for this process alone.

    A process that shares it may read a file that another one is still writing.
    """
    module = pytest.importorskip("jedi")
    module.settings.cache_directory = str(tmp_path_factory.mktemp("jedi"))
    return module
