r"""Fixtures for tests of code that uses this client: a sandbox of the service, and a client of it.

pytest finds the plugin by itself; the fixtures need pytest-asyncio. `seorep_sandbox` is a running
`seorep_async.sandbox.Sandbox` with 3 campaigns of 10 keywords, `seorep_client` is a client of it. Each test has a
sandbox of its own. The marker `seorep_sandbox` sets it up, and takes every argument of `Sandbox`; the marker
`seorep_client` takes every field of `Settings`. Unless it says otherwise, the client waits at most 10 ms before a
retry, so that a campaign that fails does not hold a test up:

```python
import pytest

from seorep_async import SeoRepClient, ServerError


async def top_three(client: SeoRepClient, campaign_id: int) -> list[str]:  # your code
    report = await client.rankings.campaign(campaign_id, "2023-01-01", "2023-01-31")
    return [row.keyword_phrase for row in report.rows if row.engine_a_ranking and row.engine_a_ranking <= 3]


@pytest.mark.asyncio
async def test_the_top_three_are_some_of_the_keywords(seorep_client):
    assert len(await top_three(seorep_client, 1)) < 10


@pytest.mark.asyncio
@pytest.mark.seorep_sandbox(campaigns=1, keywords=200, rows="older", faults="resets=10%,cut=5%")
async def test_the_top_three_survive_a_bad_network(seorep_client, seorep_sandbox):
    assert await top_three(seorep_client, 1)
    assert seorep_sandbox.stats.requests >= 8


@pytest.mark.asyncio
@pytest.mark.seorep_sandbox(reports={("campaign", 1): [{"keywordPhrase": "shoes", "engineARanking": 3}]}, failing=[2])
@pytest.mark.seorep_client(max_attempts=2)
async def test_rows_of_the_test_and_a_campaign_that_fails(seorep_client):
    assert await top_three(seorep_client, 1) == ["shoes"]
    with pytest.raises(ServerError):
        await top_three(seorep_client, 2)
```

`seorep_responses` sends nothing: it is a running `aioresponses` (`pip install aioresponses`), mended for the aiohttp
that this package needs. Mock each request with it, by methods such as `get` and `post`; `list_response`,
`feed_response` and `error_response` build what they answer. A request that is not mocked fails the test at once,
where your code awaits it: not in a task that nobody awaits, nor in `asyncio.gather(…, return_exceptions=True)`.
`seorep_responses.requests` holds what was requested; `client.stats` counts none of it:

```python
import re

import pytest

from seorep_async import NotFoundError, SeoRepClient
from seorep_async.pytest_plugin import error_response, feed_response, list_response


@pytest.mark.asyncio
async def test_each_request_is_mocked(seorep_responses):
    rows = [{"keywordId": 5, "keywordPhrase": "shoes", "engineARanking": 3}]
    seorep_responses.get(re.compile(r".*/v3/campaigns\?"), **list_response([]), repeat=True)
    seorep_responses.get(re.compile(r".*/rankings/campaign\?.*campaign_id=7"), **feed_response(rows, shape="flat"))
    keyword = {"id": 5, "keyword_phrase": "shoes"}
    seorep_responses.get("https://api.example.com/v3/keywords/5", payload={"data": keyword})
    seorep_responses.get("https://api.example.com/v3/keywords/6", **error_response(404, "there is no such keyword"))
    async with SeoRepClient("https://api.example.com", "a key of the test") as client:
        assert await client.campaigns.list() == []
        report = await client.rankings.campaign(7, "2023-01-01", "2023-01-31")
        assert report.rows[0].engine_a_ranking == 3
        assert (await client.keywords.get(5)).keyword_phrase == "shoes"
        with pytest.raises(NotFoundError, match="there is no such keyword"):
            await client.keywords.get(6)
```
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn

try:
    import pytest
except ImportError:  # help() also shows this guide without pytest
    pytest = None  # type: ignore[assignment]

try:
    import pytest_asyncio
except ImportError:  # pytest loads this wherever the package is installed, fixtures used or not
    pytest_asyncio = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import aioresponses

    from seorep_async.client import SeoRepClient
    from seorep_async.sandbox import Sandbox


_SHORT_WAITS = {"backoff_initial": 0.001, "backoff_max": 0.01}


def list_response(items: Iterable[Mapping[str, object]], *, pages: int = 1) -> dict[str, object]:
    """Return the response of a list, for `seorep_responses.get(url, **list_response(items))`.

    Args:
        items: the objects, in the service's own words.
        pages: number of pages that it announces; if there are several, it does not say how many objects there are.
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
    """Return the response of a ranking feed, in either of its shapes, for `seorep_responses.get(url, **…)`.

    Args:
        rows: the rows, in the service's own words.
        totals: the totals, such as `{"competitors": {"value": 3}}`, or None.
        shape: where rows and totals stand: within `data`, or the rows as `data` and the totals beside them.
        pages: number of pages that it announces; if there are several, it does not say how many rows there are.
    """
    found, sums = list(rows), False if totals is None else totals
    metadata = _metadata(found, pages)
    if shape == "nested":
        return {"payload": {"metadata": metadata, "data": {"totals": sums, "rows": found}}}
    return {"payload": {"metadata": metadata | {"version": False}, "data": found, "totals": sums}}


def error_response(status: int, message: str = "the test says so") -> dict[str, object]:
    """Return a refusal, for `seorep_responses.get(url, **error_response(404))`.

    Args:
        status: the HTTP status, such as 404.
        message: the reason, which the error's `body_excerpt` shows.
    """
    return {"status": status, "payload": {"status": "error", "code": status, "message": message}}


def _metadata(items: list[Mapping[str, object]], pages: int) -> dict[str, object]:
    records = {"total_records": len(items)} if pages == 1 else {}
    return {"total_pages": pages, **records}


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers that set the sandbox and the client up."""
    config.addinivalue_line(
        "markers", "seorep_sandbox(**options): options of the Sandbox that the fixture `seorep_sandbox` starts"
    )
    config.addinivalue_line("markers", "seorep_client(**settings): Settings of the client `seorep_client`")


def _options(request: pytest.FixtureRequest, marker: str, example: str) -> dict[str, Any]:
    mark = request.node.get_closest_marker(marker)
    if mark is not None and mark.args:
        raise pytest.UsageError(f"the marker {marker} takes options by name, such as {example}")
    return {} if mark is None else dict(mark.kwargs)


async def _sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    """A running sandbox: 3 campaigns of 10 keywords, or what `@pytest.mark.seorep_sandbox(campaigns=…)` says."""
    from seorep_async.sandbox import Sandbox

    options = _options(request, "seorep_sandbox", "campaigns=5")
    async with Sandbox(**{"campaigns": 3, "keywords": 10, **options}) as sandbox:
        yield sandbox


async def _client(request: pytest.FixtureRequest, seorep_sandbox: Sandbox) -> AsyncIterator[SeoRepClient]:
    """An open client of `seorep_sandbox`, with the settings of `@pytest.mark.seorep_client(max_attempts=…)`."""
    from seorep_async.client import SeoRepClient
    from seorep_async.settings import Settings

    settings = Settings(**{**_SHORT_WAITS, **_options(request, "seorep_client", "max_attempts=2")})
    async with SeoRepClient(seorep_sandbox.base_url, seorep_sandbox.api_key, settings=settings) as client:
        yield client


def _missing() -> NoReturn:
    """Nothing, as pytest-asyncio is not installed."""
    pytest.fail("seorep_sandbox and seorep_client need pytest-asyncio: pip install pytest-asyncio", pytrace=False)


def _responses() -> Iterator[aioresponses.aioresponses]:
    """A running aioresponses that fits the installed aiohttp; a request that is not mocked fails the test."""
    try:
        from seorep_async.pytest_plugin.mended_aioresponses import mended_aioresponses
    except ModuleNotFoundError as error:
        if error.name != "aioresponses":
            raise
        pytest.fail("seorep_responses needs aioresponses: pip install aioresponses", pytrace=False)
    with mended_aioresponses() as responses:
        yield responses


if pytest is not None:
    seorep_responses: Any = pytest.fixture(_responses, name="seorep_responses")
    if pytest_asyncio is not None:
        seorep_sandbox: Any = pytest_asyncio.fixture(_sandbox, name="seorep_sandbox")
        seorep_client: Any = pytest_asyncio.fixture(_client, name="seorep_client")
    else:
        seorep_sandbox = pytest.fixture(_missing, name="seorep_sandbox")
        seorep_client = pytest.fixture(_missing, name="seorep_client")
