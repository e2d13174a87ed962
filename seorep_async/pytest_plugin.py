"""Fixtures for tests of code that uses this client: a sandbox of the service, and a client of it.

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
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

try:
    import pytest_asyncio
except ImportError:  # pytest loads this wherever the package is installed, also where nobody asks for the fixtures
    pytest_asyncio = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from seorep_async.client import SeoRepClient
    from seorep_async.sandbox import Sandbox


_SHORT_WAITS = {"backoff_initial": 0.001, "backoff_max": 0.01}


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


if pytest_asyncio is not None:
    seorep_sandbox: Any = pytest_asyncio.fixture(_sandbox, name="seorep_sandbox")
    seorep_client: Any = pytest_asyncio.fixture(_client, name="seorep_client")
else:
    seorep_sandbox = pytest.fixture(_missing, name="seorep_sandbox")
    seorep_client = pytest.fixture(_missing, name="seorep_client")
