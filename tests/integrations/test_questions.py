"""Questions about a database: answers, refusals, and the processes that answer."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from seorep_async import ConfigurationError
from seorep_async.history import open_history
from seorep_async.integrations import questions
from seorep_async.integrations.questions import (
    ChangesQuestion,
    SqlQuestion,
    answer_in_process,
    environment_of_process,
    reply_to,
)
from tests.history.databases import Pull, database_of, day, nightly

ENDLESS = "WITH RECURSIVE t AS (SELECT 1 n UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"
RANKS = [{n: n % 97 for n in range(11, 300)}, {n: (n * 7) % 97 for n in range(11, 300)}]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A database of two nights, which no question changes. Opening it each time takes long."""
    file = tmp_path_factory.mktemp("history") / "rankings.duckdb"
    with open_history(database_of(file, nightly(*RANKS)), limits=questions._LIMITS):
        yield file


def sql(database: Path, query: str) -> str:
    """Return the answer or the error of a query."""
    reply = reply_to(SqlQuestion(database=str(database), sql=query))
    return reply.answer if reply.error is None else f"error: {reply.error}"


def changes_in(
    database: Path, *, account: str | None = None, by_campaign: bool = False, **options: Any
) -> dict[str, Any]:
    """Return the answer of a comparison, decoded."""
    question = ChangesQuestion(
        database=str(database),
        account=account,
        default_account="mine",
        options=options,
        by_campaign=by_campaign,
    )
    reply = reply_to(question)
    if reply.error is not None:
        return {"error": reply.error}
    answer: dict[str, Any] = json.loads(reply.answer)
    return answer


@pytest.mark.parametrize(
    ("query", "fact"),
    [
        ("SELECT count(*) FROM keyword_rankings", '"rows": [[578]]'),
        ("FROM pulls SELECT account, snapshot_date ORDER BY ALL", '["acme", "2026-03-01"]'),
        ("DESCRIBE keyword_rankings", '"engine_a_ranking", "BIGINT"'),
        ("SHOW TABLES", '["keyword_rankings_by_day"]'),
        ("PIVOT pulls ON account USING count(*) GROUP BY feeds", '["campaign", 2]'),
        ("-- by account\nFROM (PIVOT pulls ON account USING count(*)) SELECT acme", "[[1], [1]]"),
        ("UNPIVOT (SELECT 1 a, 2 b) ON a, b", '[["a", 1], ["b", 2]]'),
        ("/**/ ( WITH p AS (PIVOT pulls ON account) FROM p SELECT count(*))", "[[2]]"),
        ("FROM keyword_rankings", "has at most 20,000 bytes: aggregate, select fewer columns, or "),
        ("SELECT repeat('漢', 100000)", "1 value cut at 500 characters"),
        ("SELECT repeat('漢', 400), i FROM range(100) t(i)", '"left_out": ["further rows, '),
        ("SELECT ['nan'::DOUBLE, 'inf'::DOUBLE]", '[[["NaN", "Infinity"]]]'),
        ("SELECT 'nan'::DOUBLE, 1.5, [1, NULL]", '["nan", 1.5, [1, null]]'),
        ("SELECT sum(rows), round(1.25, 1) FROM pulls", '"rows": [[578, 1.3]]'),
        ("SELECT 18446744073709551615::UBIGINT", "[[18446744073709551615]]"),
        ("SELECT NULL::HUGEINT, NULL::DECIMAL", "[[null, null]]"),
        ("SELECT age(DATE '2023-04-01', DATE '2023-01-01')", '[["3 months"]]'),
        ("SELECT 'infinity'::DATE", '["infinity"]'),
        ("SELECT TIMESTAMP_NS '2023-01-01 00:00:00.123456789'", "00.123456789"),
        ("SELECT 1 AS x, 2 AS x, true, 1.5::DOUBLE; ", '"rows": [[1, 2, true, 1.5]]'),
        ("SELECT 1; -- done\n", "[[1]]"),
        ("SELECT ';  -- this is ''no'' comment'", "[[\";  -- this is 'no' comment\"]]"),
        ("SELECT repeat('漢', 400), i FROM range(100) t(i) OFFSET 50", "ORDER BY and 16 to OFFSET"),
        ("SELECT '漢; --'; -- the client's\n; /* ; */", '"rows": [["漢; --"]]'),
        ("FROM range(3) t(x) ORDER BY x DESC", '"rows": [[2], [1], [0]]'),
        ("SELECT chr(8238) || 'drawkcab'", '"\\u202edrawkcab"'),
        ("SELECT current_setting('lock_configuration')", "[[true]]"),
        # whatever the number of cores
        ("SELECT current_setting('threads')", "[[4]]"),
    ],
)
def test_sql_is_answered_in_json(database: Path, query: str, fact: str) -> None:
    answer = sql(database, query)
    assert fact in answer
    json.loads(answer)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT rank FROM keyword_rankings", 'Referenced column "rank" not found'),
        ("SELECT", "DuckDB: "),
        ("FROM campaign", 'campaign does not exist!\nDid you mean "campaigns"?'),
        ("SELECT 1; SELECT 2", "sql must be one SELECT; ask the others in their own calls"),
        ("  ", "sql must be a query"),
        (f"SELECT {', '.join(f'1 AS a{n}' for n in range(3000))}", "no room for 3000 columns"),
    ],
    ids=[
        "unknown column",
        "syntax",
        "unknown table",
        "two statements",
        "no statement",
        "too many columns",
    ],
)
def test_wrong_sql_is_explained(database: Path, query: str, problem: str) -> None:
    assert problem in sql(database, query)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO pulls SELECT * FROM pulls",
        "DELETE FROM pulls",
        "UPDATE pulls SET account = 'x'",
        "CREATE TABLE x AS SELECT 1",
        "COPY (PIVOT pulls ON account) TO 'pulls.csv'",
        "DROP TABLE pulls",
        "ALTER TABLE pulls ADD COLUMN x INT",
        "COPY pulls TO 'pulls.csv'",
        "EXPORT DATABASE 'copy'",
        "ATTACH 'other.duckdb'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '10GB'",
        "RESET memory_limit",
        "SELECT 1; COPY pulls TO 'pulls.csv'; SELECT 2",
        "SELECT 1; DELETE FROM pulls",
        "SELECT * FROM query('DELETE FROM pulls')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/proc/self/environ')",
        "FROM '/etc/passwd'",
        "SELECT * FROM glob('/*')",
        "SELECT getenv('SEOREP_API_KEY')",
        "SELECT * FROM questions",
    ],
)
def test_sql_writes_nothing_and_reads_no_other_file(database: Path, statement: str) -> None:
    before = _files_beside(database)
    assert sql(database, statement).startswith("error: ")
    assert _files_beside(database) == before


def _files_beside(database: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in database.parent.rglob("*") if file.is_file()}


# --- Changes


def test_campaigns_that_were_not_compared_are_named(tmp_path: Path) -> None:
    pulls = nightly({11: 1}, {11: 9})
    pulls.append(Pull(day(1), day(-29), day(1), {}, failed=(2,)))
    answer = changes_in(database_of(tmp_path, pulls))
    assert answer["campaigns_not_compared"] == 1
    reason = "there are no rows of 2026-03-01 and "
    reason += "the report of 2026-03-02 failed (an error of the service)"
    assert answer["not_compared"] == {reason: [2]}
    assert "notes" not in answer


def test_notes_name_no_option_of_the_command(tmp_path: Path) -> None:
    window = (day(-30), day(0))
    pulls = [Pull(day(-1), day(-31), day(-1), {11: 1})]
    pulls += [Pull(day(night), *window, {11: 2}) for night in (1, 2)]
    (note,) = changes_in(database_of(tmp_path, pulls))["notes"]
    assert note.endswith("a day for each night, call pull for 30 days that end on another day.")


@pytest.mark.parametrize(
    ("accounts", "account", "compared"),
    [
        (["acme"], None, "acme"),
        (["acme", "mine"], None, "mine"),
        (["acme", "mine"], "acme", "acme"),
    ],
)
def test_changes_are_those_of_the_servers_account(
    tmp_path: Path, accounts: list[str], account: str | None, compared: str
) -> None:
    for name in accounts:
        database = database_of(tmp_path, nightly({11: 1}, {11: 9}, account=name))
    assert changes_in(database, account=account)["account"] == compared


def test_several_accounts_are_named(tmp_path: Path) -> None:
    database_of(tmp_path, nightly({11: 1}, {11: 9}, account="acme"))
    file = database_of(tmp_path, nightly({11: 1}, account="mine"))
    note = "not filtered by account; the database has acme, mine"
    assert note in sql(file, "SELECT count(*) FROM keyword_rankings")
    assert "notes" not in sql(file, "SELECT count(*) FROM pulls WHERE account = 'acme'")
    error = changes_in(file)["error"]
    assert error.endswith("; this is about mine, and the database has acme, mine")


# --- Processes


@attrs.frozen
class Started:
    """The started processes, and an event for the first of them."""

    processes: list[Any] = attrs.field(factory=list)
    first: asyncio.Event = attrs.field(factory=asyncio.Event)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    """Note every process that asyncio starts."""
    start: Any = asyncio.create_subprocess_exec
    noted = Started()

    async def create(*command: str, **options: Any) -> Any:
        process = await start(*command, **options)
        noted.processes.append(process)
        noted.first.set()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", create)
    yield noted
    for process in noted.processes:
        assert process.returncode is not None


async def test_an_endless_query_is_ended(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "impatient-python"
    code = "from seorep_async.integrations import questions as q; q.QUERY_SECONDS = 0.1; q.main()"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}"\n')
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(ConfigurationError, match="took longer than 20 seconds; aggregate, or "):
        await answer_in_process(SqlQuestion(database=str(database), sql=ENDLESS))


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of a process's memory")
async def test_a_huge_value_is_refused(database: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"ran out of memory: a query may take 1 GB"):
        await answer_in_process(
            SqlQuestion(database=str(database), sql="SELECT length(repeat('x', 2000000000))")
        )


@pytest.fixture
async def endless_question(database: Path, started: Started) -> asyncio.Task[str]:
    """A question without an end, whose process has started."""
    endless = SqlQuestion(database=str(database), sql=ENDLESS)
    question = asyncio.create_task(answer_in_process(endless))
    await started.first.wait()
    return question


async def test_a_cancelled_question_leaves_no_process(
    endless_question: asyncio.Task[str], started: Started
) -> None:
    endless_question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless_question
    (process,) = started.processes
    assert process.returncode != 0


async def test_a_process_that_is_killed_says_why(
    endless_question: asyncio.Task[str], started: Started
) -> None:
    started.processes[0].kill()  # like a system without free memory
    with pytest.raises(ConfigurationError, match="was ended: a query may take 1 GB"):
        await endless_question


async def test_a_bug_in_a_process_is_a_bug(
    database: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(questions, "__name__", "seorep_async.integrations.no_such_module")
    with pytest.raises(RuntimeError, match="a question's process failed"):
        await answer_in_process(SqlQuestion(database=str(database), sql="SELECT 1"))
    assert "no_such_module" in capfd.readouterr().err


def test_a_process_knows_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEOREP_API_KEY", "canary-7f3a9c51e8b24d06")
    assert "canary" not in str(environment_of_process())
