"""Each account has one history: a pull from a new address uses the name in the database."""
# ruff: noqa: ASYNC240

import json
from pathlib import Path
from typing import Any

import pytest

from seorep_async import ConfigurationError, Feed, SeoRepClient
from seorep_async.export import PullSummary, pull_to
from tests.export.accounts import Account, reports_in
from tests.history.databases import ask
from tests.scripted_api import serving

START = "2023-03-01"
END = "2023-03-31"


async def pull(client: SeoRepClient, out: Path, night: str, **options: Any) -> PullSummary:
    return await pull_to(client, None, START, END, out=out, snapshot_date=night, **options)


def accounts(out: Path) -> list[str]:
    rows = ask(out, "SELECT DISTINCT account FROM pulls ORDER BY account")
    return [account for (account,) in rows]


@pytest.mark.parametrize("name", ["argument", "client"])
async def test_a_new_name_from_the_caller_is_used(
    client: SeoRepClient, pulled: Path, name: str
) -> None:
    if name == "argument":
        await pull(client, pulled, "2023-04-02", account="other")
    else:
        async with SeoRepClient(client.base_url, "canary-7", account="other") as other:
            await pull(other, pulled, "2023-04-02")
    assert accounts(pulled) == ["acme", "other"]


async def test_the_refusal_of_a_misspelt_name_names_the_argument(
    client: SeoRepClient, pulled: Path
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await pull(client, pulled, "2023-04-02", account="acmee")
    assert caught.value.argument == "account"
    assert str(caught.value) == (
        "the database has no account acmee yet, and has these campaigns under acme; "
        "pass that name as account=…, or begin a new account with force=True"
    )


@pytest.mark.parametrize(
    ("account_id", "name", "warning"),
    [
        (1, "other", "account other yet, and has these campaigns under acme; this pull begins"),
        (8, "acme2", "no account acme2 yet; this pull begins account acme2"),
        (None, "acme2", "no account acme2 yet; this pull begins account acme2"),
    ],
    ids=["own account", "another account", "unknown account"],
)
async def test_a_new_name_is_a_warning(
    pulled: Path, caplog: pytest.LogCaptureFixture, account_id: int | None, name: str, warning: str
) -> None:
    async with serving(Account(account_id).answer) as (client, _):
        summary = await pull(client, pulled, "2023-04-02", account=name)
        assert summary.notes == (f"begins account {name} beside acme",)
        assert warning in caplog.text
        caplog.clear()
        assert not (await pull(client, pulled, "2023-04-03", account=name)).notes
        assert "begins" not in caplog.text


@pytest.mark.parametrize(
    "account", [Account(8), Account(None), Account(0), Account(1, lists=False)]
)
async def test_another_account_gets_its_own_name(
    client: SeoRepClient, pulled: Path, account: Account
) -> None:
    await pull_to(client, [1], START, END, out=pulled)
    assert accounts(pulled) == ["127.0.0.1", "acme"]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param("start_date,campaigns\r\nacme,2023-04-01,,2023-03-01,\r\n", id="cut"),
        pytest.param("start_date,failures\r\nacme,2023-04-01,,2023-03-01,0\r\n", id="no-column"),
        pytest.param("start_date,failures\r\nacme,2023-04-01,,2023-03-01,x\r\n", id="no-number"),
    ],
)
async def test_a_changed_row_of_the_replaced_pull_ends_no_pull(
    client: SeoRepClient, tmp_path: Path, row: str
) -> None:
    out = tmp_path / "x.csv"
    await pull(client, out, "2023-04-01")
    pulls = out.with_name("x.pulls.csv")
    pulls.write_text(f"account,snapshot_date,started_at,{row}", newline="")
    assert (await pull(client, out, "2023-04-01")).notes == ()


async def test_a_file_of_an_older_version_is_not_retried(
    client: SeoRepClient, tmp_path: Path
) -> None:
    out = tmp_path / "x.jsonl"
    await pull(client, out, "2023-04-01")
    pulls = out.with_name("x.pulls.jsonl")
    row = json.loads(pulls.read_text())
    del row["reading"]
    pulls.write_text(json.dumps(row))
    with pytest.raises(ConfigurationError, match=r"an older version.*leave out retry_failed"):
        await pull(client, out, "2023-04-01", retry_failed=True)


@pytest.mark.parametrize("account", [Account(campaigns=3)])
async def test_several_failures_of_a_campaign_count_no_other_campaign(
    client: SeoRepClient, account: Account, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"feeds": list(Feed), "out": tmp_path / "x.csv"}
    account.hidden = {1: 404, 2: 404, 30: 404}
    await pull_to(client, None, "2023-02-01", END, **options)
    account.hidden = {}
    summary = await pull_to(client, None, START, END, **options)
    assert summary.notes[0].endswith("at least 0 complete campaigns, now 3")


@pytest.mark.parametrize("feed", Feed)
async def test_a_period_in_the_future_is_refused(tmp_path: Path, feed: Feed) -> None:
    out = tmp_path / "x.csv"
    async with serving(Account(rows=lambda _: []).answer) as (client, service):
        with pytest.raises(ConfigurationError, match="start_date 2999-01-01 is in the future"):
            await pull_to(client, None, "2999-01-01", "2999-01-31", out=out, feeds=feed)
        assert len(reports_in(service)) == 2
    assert not [*tmp_path.iterdir()]


async def test_a_period_that_the_service_has_is_pulled(
    client: SeoRepClient, tmp_path: Path
) -> None:
    summary = await pull_to(client, None, "2999-01-01", "2999-01-31", out=tmp_path / "x.csv")
    assert summary.rows == 2
