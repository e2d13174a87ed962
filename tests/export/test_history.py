"""Two accounts, two weeks of nights, into one database: what a reader finds is what the service served last."""

from __future__ import annotations

import asyncio
import datetime as dt
import shutil
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import duckdb
import pytest

from seorep_async import ConfigurationError, Feed, SeoRepClient
from seorep_async.export import PullProgress, PullSummary, pull_to
from seorep_async.session.secrets import Authentication
from seorep_async.tables.declared import all_tables, table_named
from tests.export.door import LATEST_VIEW, target_of
from tests.export.made_service import CAMPAIGNS, FIRST_NIGHT, Key, Numbered
from tests.export.reports import rows_in
from tests.scripted_api import Asked, serving

NIGHTS = [FIRST_NIGHT + dt.timedelta(days=number) for number in range(30)]
"""Over the end of a month; what fails comes again every eighth night."""
TWICE, KILLED, RENEWED = NIGHTS[5], NIGHTS[7], NIGHTS[8]


@attrs.define
class Account:
    """An account, and how it is pulled each night: the month to date, all feeds, into one database."""

    name: str
    out: Path
    service: Numbered
    client: SeoRepClient
    place: str | Path

    async def pull(self, night: dt.date, *failing: int, **options: Any) -> PullSummary:
        self.service.night, self.service.failing = night, frozenset(failing)
        return await pull_to(
            self.client,
            None,
            night.replace(day=1),
            night,
            out=self.place,
            feeds=Feed,
            account=self.name,
            snapshot_date=night,
            **options,
        )

    async def pull_and_kill(self, night: dt.date) -> None:
        def kill(progress: PullProgress) -> None:
            if progress.rows >= 10:
                task.cancel()

        task = asyncio.create_task(self.pull(night, on_progress=kill))
        with pytest.raises(asyncio.CancelledError):
            await task


@asynccontextmanager
async def accounts(out: Path, place: str | None = None) -> AsyncIterator[tuple[Account, Account]]:
    one, other = Numbered(), Numbered(answers=5_000)
    async with serving(one.answer) as (client, _), serving(other.answer) as (second, _):
        yield Account("acme", out, one, client, place or out), Account("other", out, other, second, place or out)


def ask(out: Path, query: str) -> list[Key]:
    if out.is_dir():
        with duckdb.connect() as database:
            database.execute("".join(views(out)))
            return database.execute(query).fetchall()
    with duckdb.connect(str(out), read_only=True) as database:
        return database.execute(query).fetchall()


def views(dataset: Path) -> Iterator[str]:
    """Yield what a reader says who wants a dataset's rows as a database has them."""
    for table in all_tables():
        name, key = table.name, ", ".join(one for one in table.key if one != "snapshot_date")
        yield f"CREATE VIEW every_{name} AS SELECT * FROM read_parquet('{dataset}/{name}/**/*.parquet');"
        newest = f"row_number() OVER (PARTITION BY {key} ORDER BY snapshot_date DESC) = 1"
        if name in ("campaigns", "keywords"):
            yield f"CREATE VIEW {name} AS SELECT * FROM every_{name} QUALIFY {newest};"
        elif not name.endswith("_periods"):
            yield f"CREATE VIEW {name} AS SELECT * FROM every_{name};"
    yield f"{LATEST_VIEW};"
    for name, keyword in (("campaign_periods", ""), ("keyword_periods", "OR f.keyword_id = t.keyword_id")):
        key = ", ".join(one for one in table_named(name).key)
        yield f"""CREATE VIEW {name} AS SELECT * FROM every_{name} t WHERE NOT EXISTS (
            SELECT 1 FROM pulls p WHERE p.account = t.account AND p.snapshot_date > t.snapshot_date
            AND p.start_date <= CASE date_precision WHEN 'month' THEN greatest(date, t.start_date) ELSE date END
            AND p.end_date >= CASE date_precision WHEN 'month' THEN least(last_day(date), t.end_date) ELSE date END
            AND NOT EXISTS (
                SELECT 1 FROM failures f WHERE f.table_name = '{name}' AND f.account = p.account
                AND f.snapshot_date = p.snapshot_date AND f.campaign_id = t.campaign_id
                AND (f.keyword_id IS NULL {keyword})))
            QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY snapshot_date DESC) = 1;"""


def periods(out: Path, account: str, table: str, id_: str) -> dict[Key, dict[str, int]]:
    found: dict[Key, dict[str, int]] = {}
    shown = "left(date::VARCHAR, CASE date_precision WHEN 'month' THEN 7 ELSE 10 END)"
    query = f"SELECT {id_}, {shown}, competitors FROM {table} WHERE account = '{account}'"
    for one, date, value in ask(out, query):
        held = found.setdefault((id_.removesuffix("_id"), one), {})
        assert date not in held, "a date came twice"
        held[date] = value
    return found


def check(account: Account) -> None:
    out, name, service = account.out, account.name, account.service
    found = periods(out, name, "campaign_periods", "campaign_id") | periods(out, name, "keyword_periods", "keyword_id")
    assert found == {key: rows for key, rows in service.periods.items() if rows}
    snapshots: dict[Key, dict[int, int]] = {}
    query = "SELECT snapshot_date, campaign_id, keyword_id, competitors FROM keyword_rankings WHERE account = "
    for night, campaign_id, keyword_id, value in ask(out, f"{query} '{name}'"):
        assert snapshots.setdefault((night, campaign_id), {}).setdefault(keyword_id, value) == value
    assert snapshots == service.snapshots


@pytest.fixture(autouse=True)
def cheap_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare a twentieth of a second each night."""
    monkeypatch.setattr(
        Authentication, "fingerprint", lambda self, salt: str(zlib.crc32(self.header().encode(), salt[0]))
    )


@pytest.mark.parametrize("nights", [NIGHTS[5:9], pytest.param(NIGHTS, marks=pytest.mark.slow)], ids=len)
@pytest.mark.parametrize("place", ["nights.duckdb", "nights/"])
async def test_nights_of_two_accounts_are_as_served(tmp_path: Path, place: str, nights: list[dt.date]) -> None:
    out = tmp_path / place
    failed: dict[Key, tuple[int, ...]] = {}
    async with accounts(out, f"{tmp_path}/{place}") as both:
        for number, night in enumerate(nights):
            for account in both:
                failing = {1: (1,), 4: (2, 3), 6: (1, 2, 3)}.get(number % 8, ()) if account.name == "acme" else ()
                renewed = {}
                if account.name == "other" and night == RENEWED:
                    account.client = await SeoRepClient(account.client.base_url, "renewed").open()
                    with pytest.raises(ConfigurationError, match="its key was renewed, confirm it once") as refused:
                        await account.pull(night)
                    renewed = {"key_renewed": str(refused.value)[-7:-1]}
                if night == TWICE:
                    await account.pull(night, 2)
                if night == KILLED:
                    await account.pull_and_kill(night)
                await account.pull(night, *failing, **renewed)
                failed[account.name, night] = failing
            if night in (nights[len(nights) // 2], nights[-1]):
                check(both[0])
                check(both[1])
        await both[1].client.close()
    missing = {(name, night): set(ids) for (name, night), ids in failed.items() if ids}
    for table in ("keyword_rankings", "campaign_periods", "keyword_periods"):
        found: dict[Key, set[int]] = {}
        query = f"SELECT account, snapshot_date, campaign_id FROM failures WHERE table_name = '{table}'"
        for name, night, id_ in ask(out, query):
            found.setdefault((name, night), set()).add(id_)
        assert found == missing
    assert ask(out, "SELECT account, count(*) FROM pulls GROUP BY 1 ORDER BY 1") == [
        (name, len(nights) + 1) for name in ("acme", "other")
    ]
    newest = "SELECT account, max(snapshot_date), count(*) FROM keyword_rankings_latest GROUP BY 1 ORDER BY 1"
    assert ask(out, newest) == [(name, nights[-1], 8) for name in ("acme", "other")]
    assert ask(out, "SELECT count(*), min(company) FROM campaigns") == [(8, "Company 1")]
    assert ask(out, "SELECT count(*) FROM keywords") == [(16,)]


MARCH, APRIL = "2023-03", "2023-04"


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        # a month that is asked for in part is replaced by a row of it, and stays without one
        (("2023-03-01", "2023-03-31", [MARCH]), ("2023-03-15", "2023-04-14", [MARCH, APRIL]), {MARCH: 2, APRIL: 2}),
        (("2023-03-01", "2023-03-31", [MARCH]), ("2023-03-15", "2023-04-14", [APRIL]), {MARCH: 1, APRIL: 2}),
        # a row of a month stands for the days that its own pull asked for
        (("2023-03-01", "2023-03-20", [MARCH]), ("2023-03-01", "2023-03-25", ["2023-03-24"]), {"2023-03-24": 2}),
        (("2023-03-01", "2023-03-31", [MARCH]), ("2023-03-01", "2023-03-31", []), {}),
        (("2023-03-01", "9999-12-31", [MARCH]), ("2023-03-01", "9999-12-31", [APRIL]), {APRIL: 2}),
        (
            ("2023-03-01", "2023-03-20", ["2023-03-02"]),
            ("2023-03-03", "2023-03-25", [MARCH]),
            {"2023-03-02": 1, MARCH: 2},
        ),
    ],
)
async def test_a_row_of_a_month_stands_for_the_days_asked_for(
    tmp_path: Path, first: Key, second: Key, found: dict[str, int]
) -> None:
    out, dates, number = tmp_path / "a.duckdb", [""], 0

    def answer(asked: Asked) -> object:
        if asked.path == "/v3/campaigns":
            return 404
        rows = [{"date": date, "competitors": number} for date in dates]
        return {"metadata": {"total_pages": 1, "total_records": len(rows)}, "data": {"rows": rows, "totals": False}}

    async with serving(answer) as (client, _):
        for number, (start, end, dates) in enumerate((first, second), 1):  # noqa: B007
            await pull_to(
                client, [7], start, end, out=out, feeds=Feed.CAMPAIGN_BY_DATE, snapshot_date=f"2023-05-0{number}"
            )
    assert periods(out, "127.0.0.1", "campaign_periods", "campaign_id").get(("campaign", 7), {}) == found
    assert ask(out, "SELECT DISTINCT table_name, error FROM failures") == [("campaigns", "NotFoundError")]


async def test_a_resumed_pull_keeps_its_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "a.csv"
    async with accounts(tmp_path / "a.duckdb") as (one, _):
        clock = attrs.evolve(one.client._session.clock, wall_clock=lambda: 1679700000.0)  # 2023-03-24
        monkeypatch.setattr(one.client._session, "clock", clock)
        one.service.failing = frozenset({2})
        await pull_to(one.client, None, FIRST_NIGHT, FIRST_NIGHT, out=out)
        later = attrs.evolve(clock, wall_clock=lambda: 1679900000.0)
        monkeypatch.setattr(one.client._session, "clock", later)
        one.service.failing = frozenset()
        summary = await pull_to(one.client, None, FIRST_NIGHT, FIRST_NIGHT, out=out, retry_failed=True)
        with pytest.raises(ConfigurationError, match="account must be a name"):
            await pull_to(one.client, None, FIRST_NIGHT, FIRST_NIGHT, out=out, account=" ")
    assert (summary.snapshot_date, summary.rows) == (FIRST_NIGHT, 8)
    assert {row["snapshot_date"] for row in rows_in(out)} == {str(FIRST_NIGHT)}


async def failed(account: Account, *failing: int, **options: Any) -> PullSummary:
    summary = await account.pull(FIRST_NIGHT, *failing, **options)
    assert {failure.campaign_id for failure in summary.failures} == set(failing)
    return summary


@pytest.mark.parametrize("out", ["a.duckdb", "a/"])
async def test_another_account_leaves_what_failed_to_retry(tmp_path: Path, out: str) -> None:
    async with accounts(tmp_path / out, f"{tmp_path}/{out}") as (one, other):
        await failed(one, 3)
        await failed(other, 2)
        before = one.service.answers
        summary = await one.pull(FIRST_NIGHT, retry_failed=True)
        assert (summary.ok, summary.resumed, one.service.answers - before) == (True, 12, 4)
        before = other.service.answers
        assert (await other.pull(FIRST_NIGHT, retry_failed=True)).resumed == 12
        assert other.service.answers - before == 4


@pytest.mark.parametrize("out", ["a.duckdb", "a/"])
async def test_another_account_leaves_what_was_killed(tmp_path: Path, out: str) -> None:
    async with accounts(tmp_path / out, f"{tmp_path}/{out}") as (one, other):
        await one.pull_and_kill(FIRST_NIGHT)
        assert (await other.pull(FIRST_NIGHT, restart=True)).ok
        assert (await one.pull(FIRST_NIGHT)).resumed


@pytest.mark.parametrize("out", ["a.duckdb", "a/"])
@pytest.mark.parametrize("lost", ["another job", "deleted"])
async def test_failures_in_the_target_are_retried_anew(tmp_path: Path, out: str, lost: str) -> None:
    async with accounts(tmp_path / out, f"{tmp_path}/{out}") as (one, _):
        await failed(one, 3)
        if lost == "deleted":
            shutil.rmtree(target_of(one.place, tuple(Feed), account="acme").staging_folder)
        else:
            night: dict[str, Any] = {"account": "acme", "snapshot_date": FIRST_NIGHT}
            await pull_to(one.client, [1], FIRST_NIGHT, FIRST_NIGHT, out=one.place, **night)
        summary = await one.pull(FIRST_NIGHT, retry_failed=True)
        assert (summary.ok, summary.campaigns) == (True, 4)
        before = one.service.answers
        assert not (await one.pull(FIRST_NIGHT, retry_failed=True)).campaigns
        assert one.service.answers == before


@pytest.mark.parametrize("out", ["a.duckdb", "a/"])
async def test_an_ended_pull_of_other_dates_does_not_block(tmp_path: Path, out: str) -> None:
    async with accounts(tmp_path / out, f"{tmp_path}/{out}") as (one, _):
        await failed(one, 3)
        assert (await one.pull(NIGHTS[1], retry_failed=True)).ok


async def test_a_killed_night_names_the_dates_to_repeat(tmp_path: Path) -> None:
    async with accounts(tmp_path / "a.duckdb") as (one, _):
        await one.pull_and_kill(FIRST_NIGHT)
        dates = 'Repeat the original pull with start_date="2023-03-01" and end_date="2023-03-24" to resume it'
        with pytest.raises(ConfigurationError, match=dates):
            await one.pull(NIGHTS[1])


async def test_two_accounts_at_once_into_a_new_database(tmp_path: Path) -> None:
    async with accounts(tmp_path / "a.duckdb") as both:
        await asyncio.gather(*(account.pull(FIRST_NIGHT) for account in both))
        check(both[0])
        check(both[1])


@pytest.mark.parametrize("out", ["a.duckdb", "a/"])
async def test_a_night_that_failed_does_not_claim_the_account(tmp_path: Path, out: str) -> None:
    async with accounts(tmp_path / out, f"{tmp_path}/{out}") as (one, other):
        assert not (await failed(one, *CAMPAIGNS)).paths
        other.name = one.name
        assert (await other.pull(NIGHTS[1])).ok
        with pytest.raises(ConfigurationError, match="give this account a name of its own"):
            await one.pull(NIGHTS[2], restart=True)


async def test_files_beside_the_rows_are_of_the_same_pull(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    async with accounts(out) as (one, other):
        await pull_to(one.client, [1], FIRST_NIGHT, FIRST_NIGHT, out=out, account="acme")
        assert (tmp_path / "a.keywords.csv").exists()
        await pull_to(
            other.client, [1], FIRST_NIGHT, FIRST_NIGHT, out=out, account="other", feeds=Feed.CAMPAIGN_BY_DATE
        )
        assert not (tmp_path / "a.keywords.csv").exists()
        assert {row["account"] for row in rows_in(tmp_path / "a.campaigns.csv")} == {"other"}
        (tmp_path / "a.keywords.csv").write_text("mine\n")
        await pull_to(
            other.client, [1], FIRST_NIGHT, FIRST_NIGHT, out=out, account="other", feeds=Feed.CAMPAIGN_BY_DATE
        )
    assert (tmp_path / "a.keywords.csv").read_text() == "mine\n"
