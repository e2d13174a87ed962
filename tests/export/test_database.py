"""A database is filled in one transaction; one that its user has changed is refused at once, or else respected."""

import asyncio
import datetime as dt
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from seorep_async import ConfigurationError, Feed
from seorep_async.export import ExportError
from seorep_async.tables.declared import keywords_table
from tests.export.databases import ask, change, fill, opened_elsewhere, refused
from tests.export.door import PullSpec, insert, make_table, preview, target_of
from tests.export.reports import END, START, account, pull_into


def counts(path: Path, name: str = "keyword_rankings") -> dict[int, int]:
    query = f"SELECT campaign_id, count(*) FROM {name} GROUP BY ALL ORDER BY ALL"  # noqa: S608
    return {row[0]: row[1] for row in ask(path, query)}


async def test_rows_of_a_campaign_that_failed_stay_from_before(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    async with account(keywords=3) as (_, client):
        await fill(client, path)
    async with account(keywords=5, failing={2: 404}) as (_, client):
        await fill(client, path)
    assert counts(path) == {1: 5, 2: 3, 3: 5, 4: 5}
    assert counts(path, "keyword_periods") == {1: 15, 2: 9, 3: 15, 4: 15}
    assert ask(path, "SELECT table_name, campaign_id, status FROM failures ORDER BY ALL") == [
        ("campaign_periods", 2, 404),
        ("keyword_periods", 2, 404),
        ("keyword_rankings", 2, 404),
    ]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "columns",
    [
        *(f"{name} AS SELECT 42 AS answer" for name in ("mine", "wanted", "fetched", "failed", "arriving")),
        "campaign (id BIGINT, name TEXT, start_date DATE, budget DOUBLE)",  # an older name of ours
    ],
)
async def test_tables_of_others_stay(tmp_path: Path, columns: str) -> None:
    path, name = tmp_path / "a.duckdb", columns.split()[0]
    change(path, f"CREATE TABLE {columns}")
    before = ask(path, f"FROM {name}")
    async with account(campaigns=1, keywords=1) as (_, client):
        for _ in range(2):
            assert (await fill(client, path)).ok
    assert (ask(path, f"FROM {name}"), counts(path)) == (before, {1: 1})


@pytest.mark.parametrize(
    ("older", "query", "found"),
    [
        (
            "DROP VIEW keyword_rankings_latest; ALTER TABLE keyword_rankings DROP COLUMN backlinks",
            "SELECT count(*), count(backlinks) FROM keyword_rankings",
            [(2, 0)],
        ),
        (
            "ALTER TABLE pulls DROP retries; ALTER TABLE pulls DROP refusals; ALTER TABLE pulls DROP waited",
            "SELECT refusals FROM pulls ORDER BY started_at",
            [(None,), (0,)],
        ),
    ],
)
async def test_tables_of_an_earlier_version_get_the_new_columns(
    tmp_path: Path, older: str, query: str, found: list[tuple[Any, ...]]
) -> None:
    path = tmp_path / "a.duckdb"
    async with account(campaigns=1, keywords=2) as (_, client):
        await fill(client, path)
        change(path, older, "UPDATE pulls SET version = '0.0.9'")
        await fill(client, path)
    assert ask(path, query) == found


async def test_open_in_another_program_it_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    with opened_elsewhere(path) as other:
        async with account() as (sandbox, client):
            with pytest.raises(ExportError, match="it is open in another program; close it there"):
                await fill(client, path)
            assert sandbox.stats.requests == 0
        other.communicate()


async def test_a_disk_that_refuses_duckdbs_locks_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise duckdb.IOException('IO Error: Could not set lock on file "/a.duckdb": No locks available.')

    async with account(campaigns=1) as (_, client):
        monkeypatch.setattr(duckdb, "connect", refuse)
        with pytest.raises(ExportError, match="its file system refuses the locks that DuckDB needs"):
            await fill(client, tmp_path / "a.duckdb")


async def test_opened_meanwhile_nothing_changes_and_what_came_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    async with account(campaigns=2, keywords=3) as (sandbox, client):
        await fill(client, path)
        before = ask(path, "SELECT * FROM keyword_rankings")
        others: list[subprocess.Popen[bytes]] = []

        def open_it(_: object) -> None:
            if not others:
                others.append(opened_elsewhere(path))

        with pytest.raises(ExportError, match="open in another program"):
            await fill(client, path, on_progress=open_it)
        others[0].communicate()
        assert ask(path, "SELECT * FROM keyword_rankings") == before
        asked = sandbox.stats.requests
        assert (await fill(client, path)).ok
        assert sandbox.stats.requests == asked


async def test_a_night_without_any_report_writes_what_failed(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    others = ("keyword_rankings", "campaign_periods", "keyword_periods", "totals", "campaigns", "keywords")
    async with account(campaigns=2, keywords=3) as (_, client):
        await fill(client, path)
    before = [ask(path, f"SELECT * FROM {name}") for name in others]  # noqa: S608
    async with account(campaigns=3, keywords=3, failing={1: 404, 2: 404, 3: 404}) as (_, client):
        summary = await fill(client, path)
    assert (summary.paths, len(summary.failures)) == ((), 9)
    assert [ask(path, f"SELECT * FROM {name}") for name in others] == before  # noqa: S608
    assert ask(path, "SELECT rows, failures FROM pulls ORDER BY started_at") == [(30, 0), (0, 9)]
    assert ask(path, "SELECT count(*) FROM failures") == [(9,)]


async def test_open_in_this_program_says_what_to_close(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    async with account(campaigns=1, keywords=1) as (_, client):
        await fill(client, path)
        with duckdb.connect(str(path), read_only=True), pytest.raises(ExportError, match="close that connection"):
            await fill(client, path)


async def test_a_night_may_be_tomorrow(tmp_path: Path) -> None:
    async with account(campaigns=1, keywords=1) as (_, client):
        tomorrow = dt.datetime.now(dt.UTC).date() + dt.timedelta(1)
        assert (await fill(client, tmp_path / "a.duckdb", snapshot_date=tomorrow)).ok


@pytest.mark.parametrize("name", ["a.duckdb", "locksmith.duckdb"])
async def test_a_file_that_is_no_database_is_refused_at_once(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"something else\n" * 1000)
    async with account() as (_, client):
        await refused(client, path, rf"can't write .*{name}.*not a valid DuckDB")
    assert path.read_bytes() == b"something else\n" * 1000


def test_rows_of_a_database_are_in_the_order_of_the_pull() -> None:
    table, count = keywords_table(), 200_000
    day = pa.array([dt.date(2023, 4, 1)] * count)
    columns = {"account": ["a"] * count, "snapshot_date": day, "campaign_id": [1] * count, "keyword_id": range(count)}
    columns["keyword_phrase"] = ["tea"] * count
    with duckdb.connect() as database:
        make_table(database, table, {})
        database.register("arriving", pa.Table.from_batches(pa.table(columns).to_batches(500)))
        insert(database, table)
        found = database.execute("SELECT keyword_id FROM keywords").fetchnumpy()["keyword_id"]
    assert found.tolist() == list(range(count))


async def test_a_pull_says_what_was_retried_and_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    async with account(campaigns=8, keywords=2, faults="500s=40%", seed=2) as (_, client):
        summary = await pull_into(client, path)
    assert summary.stats is not None
    assert summary.stats.retries.keys() == {"transient"}
    ((started_at, retries, refusals, waited),) = ask(path, "SELECT started_at, retries, refusals, waited FROM pulls")
    assert (started_at, refusals) == (summary.started_at, 0)
    assert json.loads(retries) == summary.stats.retries
    assert json.loads(waited)["backoff"] == pytest.approx(summary.stats.waited["backoff"], abs=0.001)


# --- Changed by its user


MENDABLE = {
    "ALTER TABLE keyword_rankings RENAME engine_a_ranking TO rank": "rank has its comment",
    'ALTER TABLE keywords RENAME keyword_id TO "the key"': "the key has its comment",
    "ALTER TABLE pulls RENAME key_digest TO digest": "column key_digest is missing",
    "ALTER TABLE pulls RENAME version TO of": "column version is missing",
    "ALTER TABLE keyword_rankings DROP COLUMN backlinks": "column backlinks is missing",
    "ALTER TABLE pulls DROP COLUMN refusals": "column refusals is missing",
    "ALTER TABLE totals ALTER engine_a_ranking TYPE INTEGER": "engine_a_ranking is INTEGER, not DOUBLE",
    "ALTER TABLE failures ALTER status TYPE VARCHAR": "status is VARCHAR, not BIGINT",
    "ALTER TABLE failures ALTER keyword_id SET NOT NULL": "column keyword_id is NOT NULL",
    'ALTER TABLE failures ADD "My" INT; ALTER TABLE failures ALTER "My" SET NOT NULL': "my, which pulls don't fill",
    "CREATE UNIQUE INDEX one ON keyword_rankings (account, keyword_id)": "unique index one on keyword_rankings",
    "CREATE UNIQUE INDEX one ON campaigns (account, campaign_id)": "unique index one on campaigns",
    'ALTER TABLE keywords RENAME keyword_id TO "order"': "order has its comment",
    'ALTER TABLE pulls RENAME feeds TO "the ""feeds"""': 'the "feeds" has its comment',
    'ALTER TABLE failures ADD "in" INT; ALTER TABLE failures ALTER "in" SET NOT NULL': "in, which pulls don't fill",
    'CREATE UNIQUE INDEX "select" ON pulls (account)': "unique index select on pulls",
    'CREATE UNIQUE INDEX "One of" ON pulls (lower(account))': "unique index One of on pulls",
}
"""What a user did, and what the refusal says; a statement in the refusal makes it good."""
FINAL = {
    "ALTER TABLE campaigns DROP COLUMN company": "column company is missing; put it back, or name another file",
    "DROP TABLE pulls": "its table pulls, which says whose rows it holds, is missing",
    "CREATE OR REPLACE VIEW keyword_rankings_latest AS SELECT 42": "not made by a pull; rename the view",
    "DELETE FROM pulls": "it has rows of the account 127.0.0.1, and its table pulls no longer says whose they are",
}
FINAL |= {
    f"ALTER TABLE {name} RENAME TO other; CREATE VIEW {name} AS FROM other": f"{name.lower()} is a view in it, where"
    for name in ("keyword_rankings", "Keyword_Rankings", "failures")
}
FINAL |= {
    f'CREATE MACRO "{name}"(a, b) AS false': f'run DROP MACRO "{name}"' for name in ("list_contains", "LIST_CONTAINS")
}
FOREIGN = {
    "CREATE TABLE totals (name TEXT)": "is another program's",
    "CREATE TABLE campaigns (account BIGINT)": "is another program's",
    "CREATE TABLE Keyword_Rankings (account BIGINT)": "is another program's: its column",
}
CONSTRAINTS = {
    "CHECK (requests >= 0)": r"constraint CHECK\(\(requests >= 0\)\) of its table pulls",
    "UNIQUE (account)": r"constraint UNIQUE\(account\) of its table pulls",
    "PRIMARY KEY (account)": r"constraint PRIMARY KEY\(account\) of its table pulls",
}
KEPT = """
    CREATE TABLE mine AS SELECT 1 AS one; CREATE TABLE wanted AS FROM mine; CREATE TABLE fetched AS FROM mine;
    CREATE TABLE chunk AS FROM mine; CREATE SCHEMA other; CREATE TABLE other.pulls AS FROM mine;
    CREATE UNIQUE INDEX by_one ON mine (one); CREATE INDEX by_phrase ON keywords (keyword_phrase);
    ALTER TABLE totals ADD note VARCHAR; CREATE UNIQUE INDEX by_note ON totals (note);
    CREATE INDEX by_key ON campaigns (account, campaign_id);
    ALTER TABLE pulls ADD weight INT DEFAULT 7; ALTER TABLE pulls ALTER weight SET NOT NULL;
    CREATE VIEW best AS SELECT * FROM keyword_rankings WHERE engine_a_ranking = 1; CREATE MACRO twice(x) AS x * 2
"""


@pytest.fixture(scope="module")
def pulled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pull into a database, which the tests copy."""
    path = tmp_path_factory.mktemp("pulled") / "a.duckdb"

    async def pull() -> None:
        async with account(campaigns=1, keywords=2) as (_, client):
            await fill(client, path)

    asyncio.run(pull())
    return path


@pytest.fixture
def path(tmp_path: Path, pulled: Path) -> Path:
    return Path(shutil.copy(pulled, tmp_path))


def constrain(path: Path, table: str, constraint: str) -> None:
    ((made,),) = ask(path, f"SELECT sql FROM duckdb_tables() WHERE table_name = '{table}'")  # noqa: S608
    change(path, f"ALTER TABLE {table} RENAME TO before", f"{made.rstrip(');')}, {constraint})")
    change(path, f"INSERT INTO {table} FROM before; DROP TABLE before")


@pytest.mark.heavy
@pytest.mark.parametrize("done", MENDABLE)
async def test_a_refused_change_is_mended_as_the_refusal_says(path: Path, done: str) -> None:
    async with account(campaigns=1, keywords=2) as (_, client):
        before = ask(path, "FROM keyword_rankings ORDER BY ALL")
        change(path, done)
        said = await refused(client, path, MENDABLE[done])
        mend = re.search(r"(?i:run) ((ALTER TABLE|DROP INDEX) .+?)( there)?, or name another file$", said)
        assert mend is not None, said
        change(path, mend[1])
        assert (await fill(client, path)).ok
    if "COLUMN" not in done:  # what was dropped is lost
        assert ask(path, "FROM keyword_rankings ORDER BY ALL") == before


@pytest.mark.parametrize("done", [*FINAL, *FOREIGN])
async def test_what_no_statement_mends_is_refused_too(tmp_path: Path, path: Path, done: str) -> None:
    place = path if done in FINAL else tmp_path / "new.duckdb"
    async with account(campaigns=1, keywords=2) as (_, client):
        change(place, done)
        await refused(client, place, (FINAL | FOREIGN)[done])


@pytest.mark.parametrize("constraint", CONSTRAINTS)
async def test_a_constraint_that_rows_may_violate_is_refused(path: Path, constraint: str) -> None:
    async with account(campaigns=1, keywords=2) as (_, client):
        constrain(path, "pulls", constraint)
        said = await refused(client, path, CONSTRAINTS[constraint])
        change(path, said.partition("without it (")[2].partition("), or name")[0])
        assert (await fill(client, path)).ok
    assert ask(path, "SELECT count(*) FROM pulls") == [(2,)]


async def test_what_the_user_added_survives(path: Path) -> None:
    async with account(campaigns=2, keywords=2) as (_, client):
        change(path, KEPT)
        for ids in ([1], [1, 2]):
            assert (await fill(client, path, ids)).ok
    for table in ("mine", "wanted", "fetched", "chunk", "other.pulls"):
        assert ask(path, f"FROM {table}") == [(1,)]
    indexes = ask(path, "SELECT index_name FROM duckdb_indexes() ORDER BY ALL")
    assert [name for (name,) in indexes] == ["by_key", "by_note", "by_one", "by_phrase"]
    assert ask(path, "SELECT twice(min(weight)), (SELECT count(*) FROM best) >= 0 FROM pulls") == [(14, True)]


async def test_a_dry_run_that_retries_looks_at_the_tables_first(tmp_path: Path) -> None:
    path = tmp_path / "a.duckdb"
    async with account(campaigns=1, keywords=2) as (_, client):
        await pull_into(client, path)
        change(path, "ALTER TABLE pulls RENAME feeds TO lists")
        spec = PullSpec.of(client, None, START, END, Feed.CAMPAIGN, {})
        with pytest.raises(ConfigurationError, match='RENAME "lists" TO feeds'):
            await preview(client, spec, target_of(path, spec.feeds), retry_failed=True)
