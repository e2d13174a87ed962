"""A database that its user has changed: refused before any request if a pull would fail in it, or else respected."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from seorep_async import ConfigurationError, Feed
from seorep_async.export import pull_to
from tests.export.databases import ask, change, fill, refused
from tests.export.door import PullSpec, preview, target_of
from tests.export.reports import END, START, account

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


@pytest.mark.parametrize("done", FINAL)
async def test_what_no_statement_mends_is_refused_too(path: Path, done: str) -> None:
    async with account(campaigns=1, keywords=2) as (_, client):
        change(path, done)
        await refused(client, path, FINAL[done])


@pytest.mark.parametrize("made", FOREIGN)
async def test_a_table_that_is_not_ours_is_refused(tmp_path: Path, made: str) -> None:
    change(tmp_path / "a.duckdb", made)
    async with account() as (_, client):
        await refused(client, tmp_path / "a.duckdb", FOREIGN[made])


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
        await pull_to(client, None, START, END, out=path)
        change(path, "ALTER TABLE pulls RENAME feeds TO lists")
        spec = PullSpec.of(client, None, START, END, Feed.CAMPAIGN, {})
        with pytest.raises(ConfigurationError, match='RENAME "lists" TO feeds'):
            await preview(client, spec, target_of(path, spec.feeds), retry_failed=True)


async def test_pulls_of_an_earlier_version_get_the_new_columns(path: Path) -> None:
    added = "retries", "refusals", "waited"
    async with account(campaigns=1, keywords=2) as (_, client):
        change(path, "UPDATE pulls SET version = '0.0.9'", *(f"ALTER TABLE pulls DROP {name}" for name in added))
        await fill(client, path)
    assert ask(path, "SELECT refusals FROM pulls ORDER BY started_at") == [(None,), (0,)]
