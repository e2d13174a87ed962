"""Each account has one history: a pull from a new address uses the name in the database."""
# ruff: noqa: ASYNC240

from pathlib import Path
from typing import Any

import pytest

from seorep_async import ConfigurationError, Feed, SeoRepClient
from seorep_async.export import PullSummary, preview, pull_to
from tests.export.accounts import Account, reports_in
from tests.export.golden_nights import FILE_FORMATS
from tests.history.databases import opened
from tests.scripted_api import quick_client, serving

START = "2023-03-01"
END = "2023-03-31"


async def pull(client: SeoRepClient, out: Path, night: str, **options: Any) -> PullSummary:
    return await pull_to(client, None, START, END, out=out, snapshot_date=night, **options)


def by_new_address(client: SeoRepClient) -> SeoRepClient:
    """Return a client of the same service under another host."""
    return quick_client(client.base_url.replace("127.0.0.1", "localhost"))


def accounts(out: Path) -> list[str]:
    with opened(out) as database:
        rows = database.execute("SELECT DISTINCT account FROM pulls ORDER BY account").fetchall()
    return [account for (account,) in rows]


async def test_a_resumed_night_keeps_the_old_account_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "x.duckdb"
    async with serving(Account().answer) as (client, _):
        await pull(client, out, "2023-04-01")
        assert caplog.messages == []
        async with by_new_address(client) as moved:
            summary = await pull(moved, out, "2023-04-02")
            again = await pull(moved, out, "2023-04-03")
    assert (summary.account, again.account) == ("127.0.0.1", "127.0.0.1")
    (note,) = summary.notes
    assert note.startswith("uses the account name 127.0.0.1 instead of localhost: the database")
    assert note in repr(summary)
    assert note in caplog.text
    assert accounts(out) == ["127.0.0.1"]


async def test_a_name_that_was_given_once_is_kept(pulled: Path) -> None:
    async with serving(Account().answer) as (client, _):
        estimate = await preview(client, None, START, END, out=pulled)
        await pull(client, pulled, "2023-04-02")
    assert estimate.account == "acme"
    assert accounts(pulled) == ["acme"]


@pytest.mark.parametrize("name", ["argument", "client"])
async def test_a_new_name_from_the_caller_is_used(pulled: Path, name: str) -> None:
    async with serving(Account().answer) as (client, _):
        if name == "argument":
            await pull(client, pulled, "2023-04-02", account="other")
        else:
            async with SeoRepClient(client.base_url, "canary-7", account="other") as other:
                await pull(other, pulled, "2023-04-02")
    assert accounts(pulled) == ["acme", "other"]


@pytest.mark.parametrize("name", ["acmee", "acm", "ACME"])
async def test_a_misspelt_name_is_refused_before_any_report(pulled: Path, name: str) -> None:
    async with serving(Account().answer) as (client, service):
        with pytest.raises(ConfigurationError) as caught:
            await pull(client, pulled, "2023-04-02", account=name)
        with pytest.raises(ConfigurationError, match="no account"):
            await preview(client, None, START, END, out=pulled, account=name)
        assert not reports_in(service)
        assert caught.value.argument == "account"
        assert str(caught.value) == (
            f"the database has no account {name} yet, and has these campaigns under acme; "
            "pass that name as account=…, or begin a new account with force=True"
        )
        await pull(client, pulled, "2023-04-02", account=name, force=True)
    assert accounts(pulled) == sorted(["acme", name])


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


async def test_several_names_of_one_account_are_refused(pulled: Path) -> None:
    async with serving(Account().answer) as (client, service):
        await pull(client, pulled, "2023-04-01", account="other")
        service.requests.clear()
        with pytest.raises(ConfigurationError, match="acme and other for the service's account 1"):
            await pull(client, pulled, "2023-04-02")
        assert not reports_in(service)


@pytest.mark.parametrize(
    "account", [Account(8), Account(None), Account(0), Account(1, lists=False)]
)
async def test_another_account_gets_its_own_name(pulled: Path, account: Account) -> None:
    async with serving(account.answer) as (client, _):
        await pull_to(client, [1], START, END, out=pulled)
    assert accounts(pulled) == ["127.0.0.1", "acme"]


@pytest.mark.parametrize("format_", FILE_FORMATS)
async def test_a_file_of_another_pull_is_replaced_with_a_note(
    tmp_path: Path, format_: str, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / f"x.{format_}"
    pulls: list[dict[str, Any]] = [
        {"start_date": "2023-03-02"},
        {},
        {"account": "acme"},
        {"account": "acme", "feeds": Feed.CAMPAIGN_BY_DATE},
        {"account": "acme", "feeds": Feed.CAMPAIGN_BY_DATE, "ids": [1]},
    ]
    usual: dict[str, Any] = {"ids": None, "start_date": START, "end_date": END, "out": out}
    notes: list[str] = []
    async with serving(Account(1, campaigns=3).answer) as (client, _):
        for options in pulls:
            estimate = await preview(client, **usual | options)
            summary = await pull_to(client, **usual | options)
            assert estimate.notes == summary.notes
            notes += summary.notes
        assert (await pull_to(client, **usual | pulls[-1])).notes == ()
    assert notes == [
        "replaces 2023-03-02 to 2023-03-31 of 127.0.0.1 (campaign): 3 complete campaigns, now 3",
        "replaces 2023-03-01 to 2023-03-31 of 127.0.0.1 (campaign): 3 complete campaigns, now 3",
        "replaces 2023-03-01 to 2023-03-31 of acme (campaign): 3 complete campaigns, now 3",
        "replaces 2023-03-01 to 2023-03-31 of acme (campaign-by-date): 3 complete campaigns, now 1",
    ]
    # A warning says that campaigns are lost, before the pull and after it.
    assert caplog.messages == notes[-1:] * 2


@pytest.mark.parametrize("feed", Feed)
async def test_a_period_in_the_future_is_refused(tmp_path: Path, feed: Feed) -> None:
    out = tmp_path / "x.csv"
    async with serving(Account(rows=lambda _: []).answer) as (client, service):
        with pytest.raises(ConfigurationError, match="start_date 2999-01-01 has not begun"):
            await pull_to(client, None, "2999-01-01", "2999-01-31", out=out, feeds=feed)
        assert len(reports_in(service)) == 2
    assert not [*tmp_path.iterdir()]


async def test_a_period_that_the_service_has_is_pulled(tmp_path: Path) -> None:
    async with serving(Account().answer) as (client, _):
        summary = await pull_to(client, None, "2999-01-01", "2999-01-31", out=tmp_path / "x.csv")
    assert summary.rows == 2


@pytest.mark.parametrize(
    ("start_date", "end_date", "is_noted"),
    [
        ("2023-03-01", "2023-03-31", False),
        ("2023-03-02", "2023-03-02", False),  # it had begun in some time zones
        ("2023-03-02", "2023-03-03", True),
        ("2023-04-01", "2023-04-30", True),
    ],
)
async def test_rows_of_days_to_come_are_noted(
    tmp_path: Path, start_date: str, end_date: str, is_noted: bool
) -> None:
    options: dict[str, Any] = {"out": tmp_path / "x.csv", "snapshot_date": "2023-03-01"}
    async with serving(Account().answer) as (client, _):
        summary = await pull_to(client, None, start_date, end_date, **options)
    assert any("had not begun" in note for note in summary.notes) is is_noted


@pytest.mark.parametrize("format_", ["csv", "duckdb"])
async def test_a_failure_has_the_reason_of_the_service(tmp_path: Path, format_: str) -> None:
    reason = "the range is over 1,200 months"
    account = Account(hidden={2: (400, {"status": "error", "message": reason})})
    async with serving(account.answer) as (client, _):
        summary = await pull_to(client, None, START, END, out=tmp_path / f"x.{format_}")
    (failure,) = summary.failures
    assert failure.message.endswith(f"; the service said: {reason}")
    if format_ == "csv":
        assert reason in (tmp_path / "x.failures.csv").read_text()
