"""Editors understand the package: jedi completes its names and shows signatures."""

from typing import Any

import pytest

pytestmark = pytest.mark.heavy

HEAD = """import seorep_async
from seorep_async import Feed, SeoRepClient, Settings

async def main() -> None:
    async with SeoRepClient() as client:
        campaigns = await client.campaigns.list()
        campaign = await client.campaigns.get(1)
        report = await client.rankings.campaign(1, "2023-01-01", "2023-01-31")
        outcomes = await client.rankings.pull([1], "2023-01-01", "2023-01-31")
        for outcome in outcomes:
"""
COMPLETED = {
    "client.": "rankings",
    "client.rankings.": "pull",
    "client.campaigns.": "list",
    "client.stats.": "pace",
    "outcomes.": "to_pandas",
    "outcome.": "report",
    "outcome.error.": "retryable",
    "report.": "total_records",
    "campaigns[0].": "company",
    "campaign.": "company",
    "Settings().": "max_concurrency",
    "Feed.": "CAMPAIGN",
    "seorep_async.": "SeoRepClient",
    "seorep_async.export.": "pull_to",
    "seorep_async.history.": "changes",
    "seorep_async.sandbox.": "Sandbox",
    "from seorep_async import ": "SeoRepClient",
}


FUNCTIONS = ["client.rankings.pull", "seorep_async.export.pull_to"]
LINES = [*(f"{place}x" for place in COMPLETED), *(f"{function}()" for function in FUNCTIONS)]


@pytest.fixture(scope="session")
def script(jedi: Any) -> Any:
    """A program with all lines. All tests use the same result of jedi."""
    return jedi.Script(HEAD + "".join(f"            {line}\n" for line in LINES))


def position(line: str) -> tuple[int, int]:
    """Return where an editor's cursor is before the last character of a line."""
    return HEAD.count("\n") + LINES.index(line) + 1, 12 + len(line) - 1


@pytest.mark.parametrize(("place", "name"), COMPLETED.items())
def test_a_name_is_completed(script: Any, place: str, name: str) -> None:
    completions = script.complete(*position(f"{place}x"))
    assert name in {completion.name for completion in completions}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_signature_is_known(script: Any, function: str) -> None:
    signatures = script.get_signatures(*position(f"{function}()"))
    names = {parameter.name for signature in signatures for parameter in signature.params}
    assert {"ids", "start_date", "end_date"} <= names
