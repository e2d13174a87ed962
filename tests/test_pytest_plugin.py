"""The pytest plugin in runs of pytest of their own: in every mode of pytest-asyncio, and without it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")
REPO = Path(__file__).parent.parent

USER_TESTS = """
    import pytest
    from seorep_async import NotFoundError, ServerError

    {mark}
    async def test_client_and_sandbox_belong_together(seorep_client, seorep_sandbox):
        campaigns = await seorep_client.campaigns.list()
        assert len(campaigns) == 3
        assert seorep_sandbox.stats.requests == 1

    {mark}
    async def test_there_are_rankings(seorep_client):
        report = await seorep_client.rankings.campaign(1, "2022-01-01", "2022-01-31")
        assert len(report.rows) == 10

    {mark}
    @pytest.mark.seorep_sandbox(campaigns=5, keywords=2, shape="flat")
    async def test_the_marker_sets_the_sandbox_up(seorep_client):
        assert len(await seorep_client.campaigns.list()) == 5
        report = await seorep_client.rankings.campaign(5, "2022-01-01", "2022-01-31")
        assert (len(report.rows), report.version) == (2, False)

    {mark}
    @pytest.mark.seorep_sandbox(faults="404s=100%")
    async def test_faults_can_be_rehearsed(seorep_client):
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
    async def test_a_campaign_that_fails_is_no_long_wait(seorep_client):
        with pytest.raises(ServerError) as failed:
            await seorep_client.campaigns.get(2)
        assert failed.value.attempts == 8

    {mark}
    @pytest.mark.seorep_sandbox(failing=[2])
    @pytest.mark.seorep_client(max_attempts=3)
    async def test_the_client_takes_settings(seorep_client):
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

    @pytest.mark.asyncio
    @pytest.mark.seorep_sandbox(campagnes=5)
    async def test_an_option_that_there_is_not(seorep_sandbox):
        pass

    @pytest.mark.asyncio
    @pytest.mark.seorep_sandbox(5)
    async def test_an_option_without_its_name(seorep_sandbox):
        pass

    @pytest.mark.asyncio
    @pytest.mark.seorep_client(3)
    async def test_a_setting_without_its_name(seorep_client):
        pass

    @pytest.mark.asyncio
    @pytest.mark.seorep_sandbox(campaigns=-1)
    async def test_an_option_out_of_its_range(seorep_sandbox):
        pass
"""
PLAIN_TESTS = """
    def test_plain():
        pass

    def test_that_asks_for_a_client(seorep_client):
        pass

    def test_that_asks_for_a_sandbox(seorep_sandbox):
        pass
"""


@pytest.fixture(autouse=True)
def package_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the runs find this package, installed or not, and no plugin that is not named."""
    monkeypatch.setenv("PYTHONPATH", str(REPO))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    ours = ("-p", "seorep_async.pytest_plugin", "-p", "no:cacheprovider")
    return pytester.runpytest_subprocess(*options, *ours, "--strict-markers", "-W", "error")


@pytest.mark.parametrize(("mode", "mark"), [("strict", "@pytest.mark.asyncio"), ("auto", "")])
def test_the_fixtures_and_the_marker_work(mode: str, mark: str, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(USER_TESTS.format(mark=mark))
    run(pytester, *ASYNCIO, f"--asyncio-mode={mode}").assert_outcomes(passed=11)


def test_a_wrong_option_of_the_marker_is_an_error_of_its_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(WRONG_TESTS)
    result = run(pytester, *ASYNCIO)
    result.assert_outcomes(errors=4)
    result.stdout.fnmatch_lines(["*unexpected keyword argument 'campagnes'*"])
    result.stdout.fnmatch_lines(["*UsageError: the marker seorep_sandbox takes options by name, such as campaigns=5*"])
    result.stdout.fnmatch_lines(
        ["*UsageError: the marker seorep_client takes options by name, such as max_attempts=2*"]
    )
    result.stdout.fnmatch_lines(["*campaigns must be between 0 and *, not -1*"])


def test_the_fixtures_and_the_marker_are_described(pytester: pytest.Pytester) -> None:
    fixtures = run(pytester, *ASYNCIO, "--fixtures").stdout.str()
    assert "A running sandbox: 3 campaigns of 10 keywords" in fixtures
    assert "An open client of `seorep_sandbox`" in fixtures
    markers = run(pytester, "--markers").stdout.str()
    assert "@pytest.mark.seorep_sandbox(**options)" in markers
    assert "@pytest.mark.seorep_client(**settings)" in markers


def test_without_pytest_asyncio_only_users_of_the_fixtures_fail(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.mkdir("missing").joinpath("pytest_asyncio.py").write_text("raise ImportError('not installed')")
    monkeypatch.setenv("PYTHONPATH", f"{pytester.path / 'missing'}:{REPO}")
    pytester.makepyfile(PLAIN_TESTS)
    result = run(pytester)
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(["*seorep_sandbox and seorep_client need pytest-asyncio: pip install pytest-asyncio*"])


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"seorep": "seorep_async.pytest_plugin"}
