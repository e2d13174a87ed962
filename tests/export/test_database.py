"""A database of nights: the owners of rows, replaced rows, and refused changes."""
# ruff: noqa: ASYNC240

import asyncio
import contextlib
import os
import re
import shutil
import sqlite3
import threading
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from seorep_async import (
    AuthenticationError,
    ConfigurationError,
    ExportError,
    Feed,
    PullPausedError,
    SeoRepClient,
)
from seorep_async.export import database, preview
from seorep_async.export.database_use import use_of
from seorep_async.export.replacement import quoted
from seorep_async.export.schema import COMMENTS, VIEWS, make_tables
from seorep_async.history import open_history
from seorep_async.tables.output_tables import all_tables
from tests.export.accounts import Account, reports_in, served
from tests.export.golden_nights import pull as pull_night, refused_unsent
from tests.export.staged import folder_of
from tests.history.databases import ask, change, opened
from tests.processes import opening_a_database
from tests.scripted_api import ApiRequest, Service, serving

DAY = "2023-03-31"


pull = partial(pull_night, start="2023-03-01", snapshot_date=DAY)


async def pull_until_paused(
    client: SeoRepClient, out: Path, ids: Any = None, **options: Any
) -> None:
    with pytest.raises(PullPausedError):
        await pull(client, out, ids, **options)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "x.duckdb"


ANOTHER_ADDRESS = "of the service http://.*, not http://"


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (
            Account(1),
            Account(2),
            "of the service's account 1, and these campaigns are of account 2",
        ),
        (Account(0), Account(0), ANOTHER_ADDRESS),
        (Account(None), Account(None), ANOTHER_ADDRESS),
        (Account(1), Account(1, lists=False), ANOTHER_ADDRESS),
        (Account(1, lists=False), Account(1), ANOTHER_ADDRESS),
    ],
)
async def test_a_name_belongs_to_an_account_or_else_to_an_address(
    out: Path, first: Account, second: Account, words: str
) -> None:
    async with served(first) as (client, _):
        await pull(client, out, [1, 2])
    async with served(second) as (client, service):
        with pytest.raises(
            ConfigurationError, match=f"{words}.*give this account a name of its own with account="
        ):
            await pull(client, out, [1, 2])
        assert not reports_in(service)
        assert not folder_of(out, "acme").exists()


@pytest.mark.parametrize(
    ("status", "lists", "words"),
    [
        (None, True, "belongs to account 2, but the staged reports belong to account 1"),
        (403, True, "belongs to account 2, but the staged reports belong to account 1"),
        (404, False, "GET /v3/campaigns"),
    ],
)
async def test_a_resume_with_another_accounts_key_is_refused(
    client: SeoRepClient,
    service: Service,
    account: Account,
    tmp_path: Path,
    status: int | None,
    lists: bool,
    words: str,
) -> None:
    with pytest.raises(Exception, match="max_requests"):
        await pull(client, tmp_path / "x.csv", max_requests=2)
    account.account_id = 2
    account.lists = lists
    if status is not None:
        account.hidden = {1: status}
    service.requests.clear()
    with pytest.raises((ConfigurationError, AuthenticationError), match=words):
        await pull(client, tmp_path / "x.csv")
    assert not reports_in(service)
    account.account_id = 1
    account.hidden = {}
    assert (await pull(client, tmp_path / "x.csv")).rows == 2


async def test_a_resume_of_a_night_without_ids_is_of_its_account(
    client: SeoRepClient, service: Service, account: Account, out: Path
) -> None:
    await pull(client, out)
    account.account_id = 0
    await pull_until_paused(client, out, snapshot_date="2023-04-01", max_requests=2)
    account.account_id = 2
    service.requests.clear()
    with pytest.raises(ConfigurationError, match="of the service's account 1"):
        await pull(client, out, snapshot_date="2023-04-01")
    assert not reports_in(service)


async def test_a_night_resumes_without_its_first_campaign_and_a_list(tmp_path: Path) -> None:
    account = Account(1)

    def answer(request: ApiRequest) -> object:
        if request.path == "/v3/campaigns" and account.hidden:
            return 404
        return account.answer(request)

    async with serving(answer) as (client, _):
        await pull_until_paused(client, tmp_path / "x.csv", [1, 2], max_requests=2)
        account.hidden = {1: 404}
        assert (await pull(client, tmp_path / "x.csv", [1, 2])).resumed


async def test_a_lookup_that_fails_in_a_resume_keeps_the_account(tmp_path: Path) -> None:
    out = tmp_path / "x.csv"
    account = Account(1, hidden={3: 500}, pages=500)
    is_list_gone = False

    def answer(request: ApiRequest) -> object:
        if request.path == "/v3/campaigns" and is_list_gone:
            return 404
        return account.answer(request)

    async with serving(answer) as (client, service):
        await pull_until_paused(client, out, [1, 2, 3], max_requests=6)
        is_list_gone = True
        account.hidden = {}
        await pull_until_paused(client, out, [1, 2, 3], max_requests=1)
        is_list_gone = False
        account.account_id = 2
        service.requests.clear()
        with pytest.raises(ConfigurationError, match="staged reports belong to account 1"):
            await pull(client, out, [1, 2, 3])
        assert not reports_in(service)


@pytest.mark.parametrize(
    ("nights", "night"),
    [
        pytest.param([(0, DAY), (1, "2023-03-01")], "2023-04-01", id="an earlier night"),
        pytest.param([(1, DAY), (0, DAY), (None, DAY)], DAY, id="before the ids were missing"),
    ],
)
async def test_any_night_says_whose_a_campaign_is(
    client: SeoRepClient,
    account: Account,
    out: Path,
    nights: list[tuple[int | None, str]],
    night: str,
) -> None:
    for account.account_id, earlier_night in nights:
        await pull(client, out, snapshot_date=earlier_night)
    account.account_id = 2
    words = "of the service's account 1, and these campaigns are of account 2"
    with pytest.raises(ConfigurationError, match=words):
        await pull(client, out, snapshot_date=night)
    assert ask(out, "SELECT campaign_id, account_id FROM campaigns ORDER BY 1") == [(1, 1), (2, 1)]


@pytest.mark.parametrize("name", ["x.csv", "x.duckdb"])
@pytest.mark.parametrize(
    ("account", "ids", "requests"),
    [
        (Account(campaigns=3, zero=(1,)), None, 2),
        (Account(campaigns=3, hidden={9: 404}), [9, 1, 2], 3),
        (Account(campaigns=3, hidden={9: 404}, pages=500), [9, 1, 2], 6),
        (Account(campaigns=3, hidden={9: 403}, pages=500), [1, 2, 9], 5),
    ],
)
async def test_a_resume_looks_up_a_campaign_of_a_known_account(
    client: SeoRepClient,
    service: Service,
    tmp_path: Path,
    account: Account,
    ids: list[int] | None,
    requests: int,
    name: str,
) -> None:
    account.account_id = 1
    await pull_until_paused(client, tmp_path / name, ids, max_requests=requests)
    account.account_id = 2
    service.requests.clear()
    with pytest.raises(
        ConfigurationError, match="account 2, but the staged reports belong to account 1"
    ):
        await pull(client, tmp_path / name, ids)
    assert not reports_in(service)


@pytest.mark.parametrize(
    ("windows", "left"),
    [
        # A moving window.
        ([("2023-03-01", "2023-03-31"), ("2023-03-31", "2023-04-29")], 1),
        ([("2023-03-05", "2023-03-31"), ("2023-03-01", "2023-03-31")], 2),
        # The month to date.
        ([("2023-03-01", "2023-03-10"), ("2023-03-01", "2023-03-11")], 2),
    ],
)
async def test_a_row_of_a_month_keeps_the_fuller_pull(
    client: SeoRepClient, account: Account, out: Path, windows: list[tuple[str, str]], left: int
) -> None:
    for account.number, (start, end) in enumerate(windows, 1):
        await pull(client, out, start=start, end=end, feeds=list(Feed)[1:])
    for table in ("campaign_periods", "keyword_periods"):
        query = f"SELECT DISTINCT competitors FROM {table}"  # noqa: S608
        assert ask(out, query) == [(left,)]


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (
            "ALTER TABLE totals RENAME extra TO more",
            r"run in Python: import duckdb; .*ALTER TABLE totals ADD COLUMN extra VARCHAR'\)",
        ),
        (
            "ALTER TABLE totals DROP account",
            "totals was changed.* its column account is missing.*ALTER TABLE totals",
        ),
        (
            "ALTER TABLE totals ALTER engine_a_ranking TYPE VARCHAR",
            "engine_a_ranking is VARCHAR, not DOUBLE; change it",
        ),
        (
            "ALTER TABLE failures ALTER status SET NOT NULL",
            "column status is BIGINT NOT NULL, not BIGINT; change it back",
        ),
        ("ALTER TABLE failures ALTER message DROP NOT NULL", None),
        (
            "ALTER TABLE totals ADD COLUMN mine INTEGER DEFAULT 1; "
            "ALTER TABLE totals ALTER mine SET NOT NULL",
            None,
        ),
        (
            "ALTER TABLE totals ADD COLUMN mine INTEGER; UPDATE totals SET mine = 1; "
            "ALTER TABLE totals ALTER mine SET NOT NULL",
            "its column mine is INTEGER NOT NULL, without a default; allow NULL in it",
        ),
        (
            "ALTER TABLE keyword_rankings ADD COLUMN As_Of DATE",
            "keyword_rankings has a column as_of, but only the views may have one; rename",
        ),
        (
            "DROP TABLE pulls",
            "its table pulls is missing; only that table lists the accounts",
        ),
        (
            "DROP TABLE totals; CREATE VIEW totals AS SELECT 1 AS one",
            "its view totals was not made by a pull; rename the view",
        ),
        (
            "DROP VIEW keyword_rankings_latest; CREATE TABLE keyword_rankings_latest (a INT)",
            "its table keyword_rankings_latest was not made",
        ),
        (
            "CREATE OR REPLACE VIEW keyword_rankings_latest AS SELECT 1 AS one",
            "was not made by a pull; rename the view",
        ),
        (
            "CREATE TABLE mine (a INT); CREATE VIEW ours AS FROM mine; "
            "CREATE INDEX quick ON totals (account)",
            None,
        ),
        ("ALTER TABLE totals ADD COLUMN note VARCHAR", None),
    ],
)
async def test_a_changed_database_is_refused_or_kept_at_once(
    client: SeoRepClient, pulled: Path, statements: str, words: str | None
) -> None:
    change(pulled, statements)
    if words is None:
        await pull(client, pulled)
    else:
        await refused_unsent(client, pulled, words)


async def test_rows_that_a_database_refuses_are_one_clear_error(
    client: SeoRepClient, pulled: Path
) -> None:
    change(pulled, "CREATE UNIQUE INDEX own ON keyword_rankings (account, keyword_id)")
    rows = ask(pulled, "FROM keyword_rankings")
    with pytest.raises(ExportError, match=r"unique constraint.*kept: correct that, and run"):
        await pull(client, pulled, snapshot_date="2023-04-01")
    assert ask(pulled, "FROM keyword_rankings") == rows
    change(pulled, "DROP INDEX own")
    assert (await pull(client, pulled, snapshot_date="2023-04-01")).rows


LAST_COLUMNS = {
    table.name: column.name
    for table in all_tables()
    for column in table.columns
    if column.name not in table.key
}


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(
            [f"ALTER TABLE {table} DROP {name}" for table, name in LAST_COLUMNS.items()],
            id="lacks a column of each table",
        ),
        pytest.param(
            ["ALTER TABLE totals DROP extra", "CREATE INDEX quick ON totals (account)"],
            id="has a user's index",
        ),
    ],
)
async def test_the_refusal_of_an_older_database_mends_it(
    client: SeoRepClient, pulled: Path, statements: list[str]
) -> None:
    change(pulled, "; ".join(statements))
    words = "an older version made it, or columns were dropped"
    error = await refused_unsent(client, pulled, words)
    script = re.search(r"duckdb\.connect\('.*?'\)\.execute\('.*?'\)", str(error))
    assert script is not None
    exec(script[0], {"duckdb": duckdb})  # noqa: S102
    await pull(client, pulled)
    with open_history(pulled) as history:
        assert history.accounts() == ["acme"]


def sqlite_database(file: Path) -> bytes:
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE pulls (account TEXT)")
    return file.read_bytes()


@pytest.mark.parametrize("kind", ["text", "SQLite"])
async def test_a_file_that_is_not_a_database_is_refused(
    client: SeoRepClient, out: Path, kind: str
) -> None:
    content = sqlite_database(out) if kind == "SQLite" else b"no database" * 999
    out.write_bytes(content)
    words = "not a DuckDB database; name another file, or restore a backup"
    await refused_unsent(client, out, words)
    assert out.read_bytes() == content


async def test_a_database_that_is_open_elsewhere_is_waited_for(
    client: SeoRepClient,
    service: Service,
    pulled: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with opening_a_database(pulled) as other:
        monkeypatch.setattr(database, "WAIT_SECONDS", 0.2)
        with pytest.raises(
            ExportError, match=r"open in another program.*close it there, and run this again"
        ):
            await pull(client, pulled)
        assert not service.requests
        monkeypatch.setattr(database, "WAIT_SECONDS", 60)
        assert other.stdin is not None
        threading.Timer(0.3, other.stdin.close).start()
        assert (await pull(client, pulled)).rows == 2
    assert f"is open in another program (process {other.pid}); waiting" in caplog.text


async def test_a_locked_database_keeps_no_older_night_from_a_restart(
    client: SeoRepClient, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"account": None, "snapshot_date": "2023-04-02"}
    await pull(client, out, account=None)
    await pull_until_paused(client, out, max_requests=2, account=None, snapshot_date="2023-04-01")
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.2)
    with duckdb.connect(config={"threads": "1"}) as other:
        other.execute(f"ATTACH '{out}' AS attached")
        with pytest.raises(ExportError, match="has it open"):
            await pull(client, out, restart=True, **options)
    summary = await pull(client, out, **options)
    assert (summary.rows, summary.resumed) == (2, 0)


async def test_a_preview_deletes_nothing_even_if_a_pull_would(
    client: SeoRepClient, out: Path
) -> None:
    await pull_until_paused(client, out, max_requests=2)
    await preview(client, None, "2023-03-01", DAY, out=out, account="acme", restart=True)
    assert (await pull(client, out)).resumed == 1


@pytest.mark.parametrize("read_only", [True, False])
async def test_a_database_that_this_program_has_open_is_waited_for(
    client: SeoRepClient, pulled: Path, caplog: pytest.LogCaptureFixture, read_only: bool
) -> None:
    # attached or with settings of its own, it can't be shared with the pull
    opened = duckdb.connect(str(pulled), read_only=read_only, config={"threads": "1"})
    threading.Timer(0.3, opened.close).start()
    assert (await pull(client, pulled)).rows == 2
    assert "is open in this program; waiting" in caplog.text


OF_OTHER_SYSTEMS = [
    (  # Windows
        'IO Error: Cannot open file "C:\\x.duckdb": The process cannot access the file because it '
        "is being used by another process.\r\n\nFile is already open in \nC:\\python.exe (PID 7)"
    ),
    (  # Windows in German
        'IO Error: Cannot open file "C:\\x.duckdb": Der Prozess kann nicht auf die Datei zugreifen'
        "\r\n\nFile is already open in \nC:\\python.exe (PID 7)"
    ),
    (  # macOS
        'IO Error: Could not set lock on file "/x.duckdb": Conflicting lock is held in '
        "/usr/bin/python3 (PID 7). See also https://duckdb.org/docs/connect/concurrency"
    ),
    (  # an attached database
        'Binder Error: Unique file handle conflict: Cannot attach "x" - the database file "/x" is '
        'already attached by database "d"'
    ),
]


async def test_the_words_of_each_system_for_an_open_database_are_known(
    client: SeoRepClient, pulled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = duckdb.connect
    refusals = [*map(duckdb.IOException, OF_OTHER_SYSTEMS)]

    def refuse(*arguments: Any, **options: Any) -> duckdb.DuckDBPyConnection:
        if refusals:
            raise refusals.pop()
        return connect(*arguments, **options)

    monkeypatch.setattr(duckdb, "connect", refuse)
    assert (await pull(client, pulled)).rows == 2
    assert not refusals


async def test_a_log_without_its_database_is_refused(
    client: SeoRepClient, tmp_path: Path, out: Path
) -> None:
    (tmp_path / "x.duckdb.wal").touch()
    await refused_unsent(client, out, r"x\.duckdb\.wal belongs to a database that was here")


async def test_a_night_counts_though_a_writer_keeps_its_log_open(
    client: SeoRepClient, pulled: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with duckdb.connect(str(pulled)) as ours:
        ours.execute("BEGIN; CREATE TABLE mine (a INT)")
        assert (await pull(client, pulled)).ok
    assert "has its new rows, but some are still in x.duckdb.wal" in caplog.text
    assert ask(pulled, "SELECT count(*) FROM pulls") == [(2,)]


async def test_a_wait_for_another_pull_can_be_cancelled(
    client: SeoRepClient, pulled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    waits = asyncio.Event()

    class Locked:
        def acquire(self, timeout: float) -> bool:
            loop.call_soon_threadsafe(waits.set)
            return False

    monkeypatch.setattr(use_of(pulled), "pull", Locked())
    waiting = asyncio.create_task(pull(client, pulled))
    await waits.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


# an empty target is removed before the link, after a look at its permissions
@pytest.mark.parametrize(("module", "name"), [(os, "link"), (shutil, "copymode")])
async def test_two_first_pulls_of_two_accounts_lose_nothing(
    client: SeoRepClient,
    tmp_path: Path,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
) -> None:
    if name == "copymode":
        out.touch()
    step = getattr(module, name)

    async def other() -> None:
        async with served(Account(2)) as (client, _):
            await pull(client, out, account="other")

    def step_late(*paths: Any) -> None:
        monkeypatch.undo()
        # another pull is faster
        thread = threading.Thread(target=asyncio.run, args=[other()])
        threads.append(thread)
        thread.start()
        thread.join()
        step(*paths)

    threads: list[threading.Thread] = []
    monkeypatch.setattr(module, name, step_late)
    await pull(client, out)
    assert len(threads) == 1
    assert ask(out, "SELECT DISTINCT account FROM pulls ORDER BY 1") == [("acme",), ("other",)]
    assert os.listdir(tmp_path) == ["x.duckdb"]


async def test_without_hard_links_it_is_made_in_place(
    client: SeoRepClient, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("os.link", refuse)
    assert (await pull(client, out)).rows == 2
    query = """
        SELECT (SELECT count(*) FROM keyword_rankings), tags::VARCHAR LIKE '%v1.0.0%'
        FROM duckdb_databases()
        WHERE database_name = 'file'
    """
    assert ask(out, query) == [(2, True)]


def test_a_database_has_comments_and_views(first_night: Path) -> None:
    query = """
        SELECT count(*) FROM duckdb_columns()
        WHERE database_name = 'file' AND comment IS NULL
            AND (table_name = 'pulls' OR table_name LIKE 'keyword_rankings%')
    """
    assert ask(first_night, query) == [(0,)]
    for name in VIEWS:
        assert ask(first_night, f"SELECT count(*) FROM {name}") == [(2,)]  # noqa: S608


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE SCHEMA temp",
        "DROP TABLE keyword_rankings",
        "CREATE OR REPLACE VIEW keyword_rankings_latest AS FROM keyword_rankings_by_day; "
        f"COMMENT ON VIEW keyword_rankings_latest IS {quoted(COMMENTS['keyword_rankings_latest'])}",
        "COMMENT ON VIEW keyword_rankings_latest IS 'The rows of old'",
        "COMMENT ON COLUMN keyword_rankings_latest.as_of IS 'old'",
        "ALTER TABLE keyword_rankings ADD COLUMN mine INT",  # DuckDB 1.4 then reads no old view
    ],
)
def test_only_a_changed_view_is_stored_again(
    empty_database: Path, tmp_path: Path, statement: str
) -> None:
    texts = """
        SELECT replace(replace(sql, '(', ''), ')', ''), comment, view_oid
        FROM duckdb_views()
        WHERE NOT internal
        UNION ALL
        SELECT table_name, comment, 0 FROM duckdb_columns() WHERE column_name = 'as_of'
    """
    with opened(Path(shutil.copy(empty_database, tmp_path))) as database:
        before = database.execute(texts).fetchall()
        database.execute(statement)
        make_tables(database)
        after = database.execute(texts).fetchall()
        assert [row[:2] for row in after] == [row[:2] for row in before]
        assert after == before or statement != "CREATE SCHEMA temp"
        database.execute("FROM keyword_rankings_latest LIMIT 0")
