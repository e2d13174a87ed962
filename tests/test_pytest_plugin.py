"""The pytest plugin in separate runs, in every mode of pytest-asyncio and without it."""

from pathlib import Path

import aiohttp
import aioresponses.core
import pytest

from seorep_async.pytest_plugin.patched_aioresponses import patched_aioresponses

pytest_plugins = ["pytester"]

FUNCTION_LOOPS = ("-o", "asyncio_default_fixture_loop_scope=function")
SESSION_LOOPS = (
    "-o",
    "asyncio_default_fixture_loop_scope=session",
    "-o",
    "asyncio_default_test_loop_scope=session",
)
REPO = Path(__file__).parent.parent
USER_TESTS = """
    import pytest
    from seorep_async import NotFoundError, ServerError

    {mark}
    async def test_client_and_sandbox_belong_together(seorep_client, seorep_sandbox):
        assert len(await seorep_client.campaigns.list()) == 3
        report = await seorep_client.rankings.campaign(1, "2022-01-01", "2022-01-31")
        assert len(report.rows) == 10
        assert seorep_sandbox.stats.requests == 2

    {mark}
    @pytest.mark.seorep_sandbox(campaigns=5, keywords=2, shape="flat", faults="404s=100%")
    async def test_the_marker_takes_options_of_the_sandbox(seorep_client, seorep_sandbox):
        assert (seorep_sandbox.campaigns, seorep_sandbox.shape) == (5, "flat")
        with pytest.raises(NotFoundError):
            await seorep_client.campaigns.get(1)

    @pytest.mark.seorep_sandbox(campaigns=4)
    class TestAll:
        {mark}
        async def test_a_marker_of_the_class_counts(self, seorep_client):
            assert len(await seorep_client.campaigns.list()) == 4

        {mark}
        @pytest.mark.seorep_sandbox(campaigns=2)
        async def test_the_closest_marker_counts(self, seorep_client):
            assert len(await seorep_client.campaigns.list()) == 2

    {mark}
    @pytest.mark.seorep_sandbox(failing=[2])
    async def test_a_failing_campaign_causes_no_long_wait(seorep_client):
        with pytest.raises(ServerError) as failed:
            await seorep_client.campaigns.get(2)
        assert failed.value.attempts == 8

    {mark}
    @pytest.mark.seorep_sandbox(failing=[2])
    @pytest.mark.seorep_client(max_attempts=3, account="acme")
    async def test_the_client_takes_settings(seorep_client):
        assert seorep_client.account == "acme"
        with pytest.raises(ServerError) as failed:
            await seorep_client.campaigns.get(2)
        assert failed.value.attempts == 3

    {mark}
    @pytest.mark.parametrize("_", range(2))
    async def test_every_test_has_an_account_of_its_own(seorep_client, _):
        await seorep_client.campaigns.delete(1)
        with pytest.raises(NotFoundError):
            await seorep_client.campaigns.get(1)

    def test_without_the_fixtures():
        pass
"""
WRONG_TESTS = """
    import pytest

    pytestmark = pytest.mark.asyncio

    @pytest.mark.seorep_sandbox(campagnes=5)
    async def test_an_option_that_there_is_not(seorep_sandbox): pass

    @pytest.mark.seorep_sandbox(5)
    async def test_an_option_without_a_name(seorep_sandbox): pass

    @pytest.mark.seorep_client(2)
    async def test_a_setting_without_a_name(seorep_client): pass

    @pytest.mark.seorep_sandbox(campaigns=-1)
    async def test_an_option_with_a_wrong_value(seorep_sandbox): pass
"""


@pytest.fixture(autouse=True)
def package_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the runs find this package, installed or not, and only the named plugins."""
    monkeypatch.setenv("PYTHONPATH", str(REPO))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(
    pytester: pytest.Pytester, *options: str, asyncio: str | None = "auto", **files: str
) -> pytest.RunResult:
    """Run tests in a process. Starting one takes seconds, so each run has several facts."""
    pytester.makepyfile(**files)
    arguments = [*options]
    if asyncio is not None:
        arguments += ["-p", "pytest_asyncio.plugin", f"--asyncio-mode={asyncio}"]
    arguments += ["-p", "seorep_async.pytest_plugin", "-p", "no:cacheprovider"]
    return pytester.runpytest_subprocess(*arguments, "--strict-markers", "-W", "error")


def test_without_its_library_only_a_fixture_fails(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pytester.mkdir("missing")
    fixtures = {"pytest_asyncio": "seorep_client", "aioresponses": "seorep_responses"}
    for library in fixtures:
        missing = f"raise ModuleNotFoundError('not installed', name='{library}')"
        folder.joinpath(f"{library}.py").write_text(missing)
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{REPO}")
    tests = [f"def test_{fixture}({fixture}): pass" for fixture in fixtures.values()]
    missing_tests = "\n".join([*tests, "def test_plain(): pass"])
    result = run(pytester, asyncio=None, test_missing=missing_tests)
    result.assert_outcomes(passed=1, errors=2)
    output = result.stdout.str()
    assert "seorep_client needs pytest-asyncio: pip install pytest-asyncio" in output
    assert "seorep_responses needs aioresponses: pip install aioresponses" in output


# --- Tests that block their event loop, or have none


WEB_TESTS = """
    from contextlib import asynccontextmanager

    import pytest
    from fastapi import FastAPI, Request
    from fastapi.testclient import TestClient
    from seorep_async import SeoRepClient

    def application(base_url, api_key, caught=ZeroDivisionError):
        @asynccontextmanager
        async def lifespan(app):
            async with SeoRepClient(base_url, api_key) as client:
                yield {"client": client}

        app = FastAPI(lifespan=lifespan)

        @app.get("/{campaign_id}")
        async def company(request: Request, campaign_id: int) -> str:
            client = request.state.client
            with client.timeout(30.0):
                try:
                    return (await client.campaigns.get(campaign_id)).company
                except caught:
                    return "unknown"

        return app
"""
SANDBOX_TESTS = """
    def test_without_a_loop(seorep_sandbox):
        app = application(seorep_sandbox.base_url, seorep_sandbox.api_key)
        with TestClient(app) as web:
            assert web.get("/1").status_code == 200
        assert seorep_sandbox.stats.per_operation == {"GET /v3/campaigns/:id": 1}

    async def test_on_a_loop_that_is_blocked(seorep_sandbox, seorep_client):
        assert (await seorep_client.campaigns.get(1)).id == 1
        app = application(seorep_sandbox.base_url, seorep_sandbox.api_key)
        with TestClient(app) as web:
            assert web.get("/1").status_code == 200
        assert (await seorep_client.campaigns.get(1)).id == 1

    @pytest.mark.seorep_sandbox(latency=3600)
    def test_a_request_without_response_delays_no_other(seorep_sandbox):
        app = application(seorep_sandbox.base_url, seorep_sandbox.api_key)
        with TestClient(app) as web:
            web.portal.start_task_soon(web.app_state["client"].campaigns.get, 1)
            while not seorep_sandbox.stats.in_flight:
                pass

    @pytest.mark.seorep_sandbox(host="256.0.0.1")
    def test_a_sandbox_that_can_t_start(seorep_sandbox): pass
"""
UNMOCKED_WEB_TESTS = """
    @pytest.mark.parametrize("caught", [ZeroDivisionError, AssertionError])
    def test_it(seorep_responses, caught):
        with TestClient(application("https://api.example.com", "key", caught)) as web:
            web.get("/1")
"""


SEVERAL_SANDBOXES = """
    import urllib.request

    import pytest

    from seorep_async import AuthenticationError, SeoRepClient

    addresses = []

    async def test_each_account_has_its_own(seorep_make_sandbox):
        acme = seorep_make_sandbox(campaigns=2, api_key="key of acme")
        globex = seorep_make_sandbox(api_key="key of globex", seed=2)
        addresses.extend([acme.base_url, globex.base_url])
        async with SeoRepClient(acme.base_url, acme.api_key) as client:
            assert len(await client.campaigns.list()) == 2
        async with SeoRepClient(globex.base_url, globex.api_key) as client:
            assert len(await client.campaigns.list()) == 3
        async with SeoRepClient(globex.base_url, acme.api_key) as client:
            with pytest.raises(AuthenticationError):
                await client.campaigns.list()

    @pytest.mark.parametrize("number", [0, 1])
    def test_they_end_with_their_test(number):
        with pytest.raises(OSError):
            urllib.request.urlopen(addresses[number])
"""


# --- Mocked responses


MOCKED_TESTS = """
    import gc
    import re

    import aiohttp
    import aioresponses
    import pytest

    from seorep_async import SeoRepClient
    from seorep_async.pytest_plugin import feed_response, list_response

    BASE = "https://api.example.com"
    FEED = re.compile(rf"{BASE}/v3/resources/rankings/campaign\\?")
    CAMPAIGN = {"id": 1, "url": "https://a.example", "company": "A", "account_id": 1}

    @pytest.mark.parametrize("shape", ["nested", "flat"])
    @pytest.mark.parametrize("size", [0, 3, 5000])
    async def test_a_feed_in_both_shapes(seorep_responses, shape, size):
        rows = [{"keywordId": one, "keywordPhrase": "x"} for one in range(1, size + 1)]
        totals = {"competitors": {"value": 3}}
        seorep_responses.get(FEED, **feed_response(rows, totals, shape=shape))
        async with SeoRepClient(BASE, "key") as client:
            report = await client.rankings.campaign(1, "2023-01-01", "2023-01-31")
        assert (len(report.rows), report.totals.competitors) == (size, 3)
        assert report.version is (None if shape == "nested" else False)

    async def test_a_list_of_several_pages(seorep_responses):
        for number in (1, 2):
            page = re.compile(rf"{BASE}/v3/campaigns\\?.*page={number}")
            seorep_responses.get(page, **list_response([CAMPAIGN | {"id": number}], pages=2))
        async with SeoRepClient(BASE, "key") as client:
            assert [one.id for one in await client.campaigns.list()] == [1, 2]

    async def test_many_at_once_are_mocked_by_a_callback(seorep_responses):
        page = feed_response([{"keywordId": 1, "keywordPhrase": "x"}])
        result = aioresponses.CallbackResult(**page)
        seorep_responses.get(FEED, callback=lambda url, **_: result, repeat=True)
        async with SeoRepClient(BASE, "key") as client:
            outcomes = await client.rankings.pull(range(1, 200), "2023-01-01", "2023-01-31")
        assert len(outcomes.to_dicts()) == 199

    async def test_the_session_of_the_test_is_not_copied(seorep_responses):
        seorep_responses.get(re.compile(rf"{BASE}/v3/campaigns"), **list_response([]))
        async with aiohttp.ClientSession() as session:
            async with SeoRepClient(BASE, "key", session=session) as client:
                await client.campaigns.list()
        gc.collect()

    def test_without_a_loop(seorep_responses):
        assert seorep_responses.requests == {}
"""
UNMOCKED_TESTS = """
    import re

    import pytest
    import pytest_asyncio

    from seorep_async import SeoRepClient
    from seorep_async.pytest_plugin import list_response

    pytestmark = pytest.mark.asyncio

    @pytest_asyncio.fixture
    async def client(seorep_responses):
        async with SeoRepClient("https://api.example.com", "key") as client:
            yield client

    @pytest.mark.parametrize("method", ["GET", "POST"])
    async def test_a_call(client, seorep_responses, method):
        try:
            await client.request(method, "/v3/campaigns")
        except Exception:
            raise AssertionError("the client takes it for an error of the service")
        finally:
            print(method, "sent", [len(calls) for calls in seorep_responses.requests.values()])

    async def test_a_pull(client):
        await client.rankings.pull(range(1, 50), "2023-01-01", "2023-01-31")

    async def test_a_page_ahead(client, seorep_responses):
        items = [{"id": 1, "url": "u", "company": "c", "account_id": 1}]
        seorep_responses.get(re.compile(r".*[?&]page=1$"), **list_response(items, pages=3))
        await client.campaigns.list()

    async def test_a_response_that_was_used(client, seorep_responses):
        seorep_responses.get(re.compile(".*"), **list_response([]))
        await client.users.list()
        await client.users.list()
"""


def test_the_fixtures_and_the_markers_work(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        *SESSION_LOOPS,
        test_user=USER_TESTS.format(mark=""),
        test_web=WEB_TESTS + SANDBOX_TESTS + UNMOCKED_WEB_TESTS,
        test_several=SEVERAL_SANDBOXES,
        test_mocked=MOCKED_TESTS,
    )
    # The application that catches the error of the fixture passes, and ends with an error.
    result.assert_outcomes(passed=9 + 3 + 3 + 10 + 1, failed=1, errors=1 + 2)
    # the sandbox that can't start
    result.stdout.fnmatch_lines(["*gaierror*"])
    unmocked = "GET https://api.example.com/v3/campaigns/1 is not mocked"
    assert result.stdout.str().count(unmocked) >= 2


def test_mistakes_are_named_in_the_strict_mode(pytester: pytest.Pytester) -> None:
    """In the strict mode of pytest-asyncio, right tests pass as well."""
    result = run(
        pytester,
        *FUNCTION_LOOPS,
        asyncio="strict",
        test_user=USER_TESTS.format(mark="@pytest.mark.asyncio"),
        test_options=WRONG_TESTS,
        test_unmocked=UNMOCKED_TESTS,
    )
    result.assert_outcomes(passed=9, failed=5, errors=4)
    output = result.stdout.str()
    for said in (
        "got an unexpected keyword argument 'campagnes'",
        "UsageError: the marker seorep_sandbox takes options by name, such as campaigns=5",
        "UsageError: the marker seorep_client takes options by name, such as max_attempts=2",
        "campaigns must be between 0 and 21473, not -1",
    ):
        assert said in output
    assert output.count("is not mocked, or its response was used") >= 5
    result.stdout.fnmatch_lines(["GET sent [[]1]"])
    # a client would take another error for one of the service, and try again
    assert "AssertionError: the client takes it" not in output


async def test_plain_aioresponses_still_needs_mending() -> None:
    """If this fails, aioresponses fits aiohttp, and `patched_aioresponses` needs only `match`."""
    with aioresponses.aioresponses() as responses:
        responses.get("https://api.example.com/")
        async with aiohttp.ClientSession() as session:
            with pytest.raises(TypeError, match="stream_writer"):
                await session.get("https://api.example.com/")


def test_after_a_test_aioresponses_is_restored() -> None:
    before = dict(vars(aioresponses.core))
    with patched_aioresponses():
        assert vars(aioresponses.core) != before
    assert vars(aioresponses.core) == before
