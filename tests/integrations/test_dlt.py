"""The tables as a source of dlt, into DuckDB and into a folder of Delta tables."""

import asyncio
import datetime as dt
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import attrs
import duckdb
import pyarrow as pa
import pytest

from seorep_async import ConfigurationError, Feed, NotFoundError, SeoRepClient
from seorep_async.integrations.dlt import dlt_source
from seorep_async.tables.declared import all_tables
from tests.export.made_service import Made
from tests.export.random_nights import (
    CAMPAIGNS,
    COLUMNS,
    FIRST_NIGHT,
    KEYWORDS,
    REPORTS,
    Pull,
    change,
    columns,
    expected,
    no_rows,
    world,
)
from tests.integrations.service import (
    CANARY,
    END,
    FAULTY,
    KEY,
    MIXED,
    START,
    WHOSE,
    alone,
    assert_key_in_no_file,
    assert_same,
    served,
)
from tests.scripted_api import Asked, quick_client, serving

dlt = pytest.importorskip("dlt")
deltalake = pytest.importorskip("deltalake")
pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]

DESTINATIONS = ["duckdb", "delta"]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")
    monkeypatch.setenv("LOAD__RAISE_ON_MAX_RETRIES", "1")


@attrs.frozen
class Loads:
    """A pipeline, and what its destination holds."""

    destination: str
    folder: Path

    def run(self, source: Any) -> Any:
        place = dlt.destinations.duckdb(f"{self.folder}/seo.duckdb")
        if self.destination == "delta":
            place = dlt.destinations.filesystem(f"{self.folder}/files")
        # another working folder each time, as a machine that is new every night has
        folder = str(self.folder / f"pipelines-{len(list(self.folder.glob('pipelines-*')))}")
        pipeline = dlt.pipeline("seo", destination=place, dataset_name="rankings", pipelines_dir=folder)
        return pipeline.run(source)

    def tables(self) -> dict[str, pa.Table]:
        names = [table.name for table in all_tables()]
        if self.destination == "delta":
            found = [name for name in names if (self.folder / "files/rankings" / name).exists()]
            return {
                name: deltalake.DeltaTable(f"{self.folder}/files/rankings/{name}").to_pyarrow_table() for name in found
            }
        with duckdb.connect(f"{self.folder}/seo.duckdb", read_only=True) as database:
            query = "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'rankings'"
            found = [name for (name,) in database.execute(query).fetchall() if name in names]
            return {name: database.execute(f"FROM rankings.{name}").to_arrow_table() for name in found}

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        rows = self.tables()[table].select(list(columns)).to_pylist()
        return sorted(tuple(row.values()) for row in rows)


@pytest.fixture(params=DESTINATIONS)
def loads(request: pytest.FixtureRequest, tmp_path: Path) -> Loads:
    return Loads(request.param, tmp_path)


def test_dlt_brings_what_one_process_brings(loads: Loads, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path, **MIXED, **FAULTY) as sandbox:
        source = dlt_source(SeoRepClient(sandbox.base_url, KEY), None, START, END, feeds=list(Feed), **WHOSE)
        CANARY.assert_not_in(repr((source, source.resources, source.schema.to_pretty_json())))
        info = loads.run(source)
        assert_same(alone(sandbox, tmp_path), found := loads.tables())
    assert found.keys() == {table.name for table in all_tables()}
    assert {row["campaign_id"] for row in found["failures"].to_pylist()} == {3, 6}
    CANARY.assert_not_in(f"{info} {info.asdict()} {''.join(capfd.readouterr())}")
    assert assert_key_in_no_file(tmp_path) > 20


def test_keys_are_not_null_and_columns_have_meanings(tmp_path: Path) -> None:
    source = dlt_source(SeoRepClient("https://localhost", KEY), None, START, END, feeds=list(Feed))
    for table in all_tables():
        hints = source.resources[table.name].compute_table_schema()["columns"]
        assert {name: hint["description"] for name, hint in hints.items() if "description" in hint} == {
            column.name: column.description for column in table.columns
        }
        keys = [name for name, hint in hints.items() if hint.get("primary_key")]
        assert set(keys) == ({"row_id"} if table.name in ("totals", "failures") else set(table.key))


def three_campaigns() -> Made:
    return Made({1: [11], 2: [12], 3: [13]})


RANKINGS = ("account", "campaign_id", "keyword_id", "snapshot_date", "engine_a_ranking")


def pulls(count: int, seed: int, accounts: Sequence[str]) -> Iterator[Pull]:
    random, newest = Random(seed), FIRST_NIGHT
    keywords: dict[int, set[int]] = {one: {one * 10, one % 3 * 10 + 10} for one in CAMPAIGNS}
    account, night, start, end = accounts[0], newest, newest, newest
    for number in range(count):
        if random.random() < 0.7:  # else it asks for the same again
            account, newest = random.choice(accounts), newest + dt.timedelta(random.choice([0, 1, 1, 1]))
            night = newest - dt.timedelta(random.choice([0, 0, 0, 0, 2]))
            start = dt.date(2023, 1, 28) + dt.timedelta(random.choice([0, 0, 1, 4, 6]))
            end = start + dt.timedelta(random.choice([0, 3, 3, 5, 31]))
        for _ in range(random.randrange(3)):
            change(keywords, random.choice(CAMPAIGNS), random.choice([None, *KEYWORDS]))
        share = random.choice([0, 0, 0.1, 0.3, number % 3 // 2])
        failing = [report for report in REPORTS[1:] if random.random() < share]
        feeds = tuple(feed for feed in Feed if random.random() < 0.7) or (Feed.KEYWORD_BY_DATE,)
        ids = random.choice([None, None, tuple(random.sample(CAMPAIGNS, 2))])
        yield Pull(account, night, start, end, feeds, ids, world(number, keywords, failing))


# the first 9 have nights pulled twice and after later ones, and one in which everything fails
@pytest.mark.parametrize("count", [9, pytest.param(100, marks=pytest.mark.slow)])
async def test_random_nights_are_as_in_a_database(loads: Loads, count: int) -> None:
    held = no_rows()
    pull: Pull

    def answer(asked: Asked) -> object:
        return pull.answer(asked)

    async with serving(answer) as (client, _):
        for pull in pulls(count, 4, ("acme", "o'{b}rien")):
            source = dlt_source(
                quick_client(client.base_url),
                pull.ids,
                pull.start,
                pull.end,
                feeds=pull.feeds,
                account=pull.account,
                snapshot_date=pull.night,
            )
            failed = None
            try:
                await asyncio.to_thread(loads.run, source)
            except Exception as error:
                failed = error
            assert (failed is not None and "404" in str(failed)) == pull.fails_as_a_whole, failed
            if failed is None:
                pull.apply_to(held)
    assert {name: Counter(loads.rows(name, *columns(name))) for name in COLUMNS} == expected([held])


async def test_an_older_night_may_bring_the_first_keywords(loads: Loads) -> None:
    async with serving(three_campaigns().answer) as (client, _):
        for night, feed in (("2023-03-02", "campaign-by-date"), ("2023-03-01", "campaign")):
            source = of_account(client.base_url, "canary-1", feeds=feed, snapshot_date=night)
            await asyncio.to_thread(loads.run, source)
    assert loads.rows("keywords", "keyword_id") == [(11,)]
    assert loads.rows("campaigns", "snapshot_date") == [(dt.date(2023, 3, 2),)]


def of_account(base_url: str, key: str, **options: Any) -> Any:
    return dlt_source(quick_client(base_url, key), [1], "2023-03-01", "2023-03-01", account="acme", **options)


def cause_of(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


async def test_another_account_under_the_name_is_refused(loads: Loads) -> None:
    async with serving(three_campaigns().answer) as (client, service):
        await asyncio.to_thread(loads.run, of_account(client.base_url, "canary-1"))
        asked = len(service.asked)
        with pytest.raises(Exception, match="that another API key fetched") as caught:
            await asyncio.to_thread(loads.run, of_account(client.base_url, "canary-2"))
        assert isinstance(cause_of(caught.value), ConfigurationError)
        assert len(service.asked) == asked
        mark = str(cause_of(caught.value))[-7:-1]
        await asyncio.to_thread(loads.run, of_account(client.base_url, "canary-2", key_renewed=mark))
        with pytest.raises(Exception, match="the mark that was given is of another key"):
            await asyncio.to_thread(loads.run, of_account(client.base_url, "canary-1", key_renewed=mark))
        await asyncio.to_thread(loads.run, of_account(client.base_url, "canary-2"))


async def test_a_run_in_which_everything_fails_fails(loads: Loads) -> None:
    nights = three_campaigns()
    async with serving(nights.answer) as (client, _):
        await asyncio.to_thread(loads.run, of_account(client.base_url, "canary-1"))
        before = loads.rows("keyword_rankings", *RANKINGS)
        nights.failing = {1}
        with pytest.raises(Exception, match="404") as caught:
            await asyncio.to_thread(loads.run, of_account(client.base_url, "canary-1"))
    assert isinstance(cause_of(caught.value), NotFoundError)
    assert loads.rows("keyword_rankings", *RANKINGS) == before


async def test_a_client_that_is_open_is_refused(tmp_path: Path) -> None:
    async with serving(three_campaigns().answer) as (client, service):
        with pytest.raises(Exception, match="this client is open already; create a new one"):
            await asyncio.to_thread(Loads("duckdb", tmp_path).run, dlt_source(client, [1], START, END))
        assert service.asked == []


def test_a_search_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="would replace whole reports in a dlt destination"):
        dlt_source(SeoRepClient("https://localhost", KEY), None, START, END, search="shoes")


def test_a_backslash_in_the_account_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="SQL dialects differ on backslashes"):
        dlt_source(SeoRepClient("https://localhost", KEY), None, START, END, account="a\\' OR 1=1 --")


def test_a_source_without_a_pipeline_says_so() -> None:
    dlt.current.pipeline().deactivate()  # that of an earlier test
    with pytest.raises(Exception, match="needs a pipeline") as caught:
        list(dlt_source(SeoRepClient("https://localhost", KEY), None, START, END))
    assert isinstance(cause_of(caught.value), ConfigurationError)


async def test_work_dir_resumes_a_run_that_was_cut_off(tmp_path: Path) -> None:
    nights, loads = three_campaigns(), Loads("duckdb", tmp_path)
    cut_off = asyncio.Event()

    async def answer(asked: Asked) -> object:
        if asked.path.endswith("/campaign") and asked.id == 3 and not cut_off.is_set():
            cut_off.set()
            return 401  # ends a pull, and what has arrived stays
        return nights.answer(asked)

    async with serving(answer, max_concurrency=1) as (client, service):
        for _ in range(2):
            source = dlt_source(
                quick_client(client.base_url, "canary-1", max_concurrency=1), None, START, END, work_dir=tmp_path
            )
            if not cut_off.is_set():
                with pytest.raises(Exception, match="401"):
                    await asyncio.to_thread(loads.run, source)
            else:
                await asyncio.to_thread(loads.run, source)
        assert [asked.id for asked in service.asked if asked.path.endswith("/campaign")] == [1, 2, 3, 3]
    assert len(loads.rows("keyword_rankings", "keyword_id")) == 3
