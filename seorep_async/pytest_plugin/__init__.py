"""Fixtures for tests of code that uses this client: a sandbox, its client, and mocked responses.

The guide `seorep_async/guides/testing.md` shows how to use them. pytest finds this plugin
automatically.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import pytest

try:
    import pytest_asyncio
except ImportError:
    # pytest loads this module wherever the package is installed, even for tests that don't use
    # its fixtures.
    pytest_asyncio = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import aioresponses

    from seorep_async.client import SeoRepClient
    from seorep_async.sandbox import Sandbox


_SMALL_ACCOUNT = {"campaigns": 3, "keywords": 10}
_SHORT_WAITS = {"backoff_initial": 0.001, "backoff_max": 0.01}


def list_response(items: Iterable[Mapping[str, object]], *, pages: int = 1) -> dict[str, object]:
    """Return the response of a list, for `seorep_responses.get(url, **list_response(items))`.

    Args:
        items: the objects, with the service's own field names.
        pages: the number of pages to announce. If there are several, the response does not say
            how many objects there are.
    """
    data = list(items)
    return {"payload": {"metadata": _metadata(data, pages), "data": data}}


def feed_response(
    rows: Iterable[Mapping[str, object]],
    totals: Mapping[str, object] | None = None,
    *,
    shape: Literal["nested", "flat"] = "nested",
    pages: int = 1,
) -> dict[str, object]:
    """Return the response of a feed, for `seorep_responses.get(url, **feed_response(rows))`.

    Args:
        rows: the rows, with the service's own field names.
        totals: the totals, such as `{"competitors": {"value": 3}}`, or None.
        shape: with `"nested"`, rows and totals are in `data`; with `"flat"`, `data` has only the
            rows, and the totals are beside it.
        pages: the number of pages to announce. If there are several, the response does not say
            how many rows there are.
    """
    data = list(rows)
    # The service writes missing totals as false.
    sums = False if totals is None else totals
    metadata = _metadata(data, pages)
    if shape == "nested":
        return {"payload": {"metadata": metadata, "data": {"totals": sums, "rows": data}}}
    return {"payload": {"metadata": metadata | {"version": False}, "data": data, "totals": sums}}


def error_response(status: int, message: str = "the test says so") -> dict[str, object]:
    """Return a refusal, for `seorep_responses.get(url, **error_response(404))`.

    Args:
        status: the HTTP status, such as 404.
        message: the reason, which is also in the error's `body_excerpt`.
    """
    return {"status": status, "payload": {"status": "error", "code": status, "message": message}}


def _metadata(items: list[Mapping[str, object]], pages: int) -> dict[str, object]:
    records = {"total_records": len(items)} if pages == 1 else {}
    return {"total_pages": pages, **records}


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers that configure the sandbox and the client."""
    config.addinivalue_line(
        "markers",
        "seorep_sandbox(**options): options of the Sandbox of the fixture `seorep_sandbox`",
    )
    config.addinivalue_line(
        "markers",
        "seorep_client(**options): Settings, account and on_attempt of the client `seorep_client`",
    )


def _options(request: pytest.FixtureRequest, marker: str, example: str) -> dict[str, Any]:
    """Return the options that a test's marker names, if it has the marker."""
    mark = request.node.get_closest_marker(marker)
    if mark is None:
        return {}
    if mark.args:
        raise pytest.UsageError(f"the marker {marker} takes options by name, such as {example}")
    return dict(mark.kwargs)


@pytest.fixture
def seorep_sandbox(
    request: pytest.FixtureRequest, seorep_make_sandbox: Callable[..., Sandbox]
) -> Sandbox:
    """A running sandbox with the marker's options; by default 3 campaigns of 10 keywords each.

    It runs in its own thread, so it responds even while a test blocks its event loop, for example
    with FastAPI's TestClient.
    """
    return seorep_make_sandbox(**_options(request, "seorep_sandbox", example="campaigns=5"))


@pytest.fixture
def seorep_make_sandbox() -> Iterator[Callable[..., Sandbox]]:
    """A function that starts another sandbox, for example for a second account.

    It takes the arguments of `Sandbox`. By default, it has 3 campaigns of 10 keywords each. The
    sandboxes run in their own threads and end with the test.
    """
    from seorep_async.pytest_plugin.sandbox_thread import running_in_thread
    from seorep_async.sandbox import Sandbox

    with ExitStack() as sandboxes:

        def make_sandbox(**options: Any) -> Sandbox:
            sandbox = Sandbox(**_SMALL_ACCOUNT | options)
            sandboxes.enter_context(running_in_thread(sandbox))
            return sandbox

        yield make_sandbox


def _on_event_loop(fixture: Any) -> Any:
    """Turn a coroutine function into a fixture, which fails its tests without pytest-asyncio."""
    if pytest_asyncio is not None:
        return pytest_asyncio.fixture(fixture)

    def missing() -> NoReturn:
        pytest.fail("seorep_client needs pytest-asyncio: pip install pytest-asyncio", pytrace=False)

    return pytest.fixture(missing, name=fixture.__name__)


@_on_event_loop
async def seorep_client(
    request: pytest.FixtureRequest, seorep_sandbox: Sandbox
) -> AsyncIterator[SeoRepClient]:
    """An open client of `seorep_sandbox`, with the options of the marker `seorep_client`."""
    from seorep_async.client import SeoRepClient
    from seorep_async.settings import Settings

    options = _options(request, "seorep_client", "max_attempts=2")
    account = options.pop("account", None)
    on_attempt = options.pop("on_attempt", None)
    settings = Settings(**_SHORT_WAITS | options)
    async with SeoRepClient(
        seorep_sandbox.base_url,
        seorep_sandbox.api_key,
        settings=settings,
        account=account,
        on_attempt=on_attempt,
    ) as client:
        yield client


@pytest.fixture
def seorep_responses() -> Iterator[aioresponses.aioresponses]:
    """A running aioresponses. A request that is not mocked fails the test."""
    try:
        from seorep_async.pytest_plugin.patched_aioresponses import patched_aioresponses
    except ModuleNotFoundError as error:
        if error.name != "aioresponses":
            raise
        pytest.fail("seorep_responses needs aioresponses: pip install aioresponses", pytrace=False)
    with patched_aioresponses() as responses:
        yield responses
