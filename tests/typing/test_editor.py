"""Editors know the package: jedi completes its names, and knows signatures."""

import pytest

jedi = pytest.importorskip("jedi")

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


@pytest.mark.parametrize(("place", "name"), COMPLETED.items())
def test_a_name_is_completed(place: str, name: str) -> None:
    source = HEAD + place
    line = source.count("\n") + 1
    column = len(source.splitlines()[-1])
    completions = jedi.Script(source).complete(line, column)
    assert name in {completion.name for completion in completions}


@pytest.mark.parametrize("function", ["client.rankings.pull", "seorep_async.export.pull_to"])
def test_a_signature_is_known(function: str) -> None:
    source = f"{HEAD}{function}("
    line = source.count("\n") + 1
    column = len(source.splitlines()[-1])
    signatures = jedi.Script(source).get_signatures(line, column)
    names = {parameter.name for signature in signatures for parameter in signature.params}
    assert {"ids", "start_date", "end_date"} <= names
