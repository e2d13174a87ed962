"""Questions about a database. A separate process, which can be killed, answers each.

A query may exceed DuckDB's own memory limit, and can't always be interrupted. The operating system
limits a process, and when it is killed, nothing that it opened stays open.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import threading
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any, TypeAlias

import attrs
import msgspec

from seorep_async.errors import ConfigurationError, SeoRepError, short_repr
from seorep_async.export.schema import first_line
from seorep_async.history import open_history
from seorep_async.history.comparing import (
    Changes,
    Comparison,
    ComparisonRequest,
    campaigns_by_reason,
    compare,
)
from seorep_async.history.counting import CountedChanges, count_changes
from seorep_async.history.source import History, listed
from seorep_async.tables.columns import fits
from seorep_async.tables.optional import require
from seorep_async.tables.text import excerpt

if sys.platform != "win32":
    import resource

QUERY_SECONDS = 20.0
"""The time limit for a question, from the moment when its process is ready."""
START_SECONDS = 60.0
"""The time limit for the start of a process. Its imports take many seconds on a busy machine."""
_READY = b"ready\n"
"""The first line of a process, sent once everything is imported."""
_MEMORY = 2**30
"""The bytes that the process of a question may allocate."""
_LIMITS = {"memory_limit": "768MiB", "max_temp_directory_size": "0B"}
"""DuckDB's own limits. Its errors explain more than those of a process without memory."""
_LOCK_SECONDS = 10.0
"""How long a question waits while a pull writes the database."""
_COLUMNS_OF_CHANGES = (
    "company",
    "keyword_phrase",
    "location",
    "engine",
    "kinds",
    "before",
    "after",
    "campaign_id",
    "keyword_id",
)
_COLUMNS_OF_COUNTS = (
    "company",
    "campaign_id",
    "changes",
    "places",
    "rose",
    "fell",
    "found",
    "lost",
    "entered_top_3",
    "left_top_3",
    "entered_top_10",
    "left_top_10",
    "new",
    "removed",
)
_MOST_IDS = 20
"""The most campaigns that an answer names for each reason why they were not compared."""
MOST_CHANGES = 100
_IN_TOOL_WORDS = (
    (
        r"pull the last 30 days each night \(seorep pull [^)]*\)",
        "call pull for 30 days that end on another day",
    ),
    # a pull makes missing tables
    (
        r"(it has no table \w+|no pull wrote it); name a database that pulls wrote \(\.duckdb\)",
        "no pull wrote it: call pull first",
    ),
    (r"; name a database that pulls wrote \(\.duckdb\)", ""),
    (r"give this account a name of its own with account=…", "this server needs another account"),
    (r"restart=True", "restart true"),
    (r"(\w+)=…", r"\1"),
)
"""The library's advice, and its counterpart for an agent, which has tools but no options."""
_TYPES_OF_JSON = {
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "HUGEINT",
    "UHUGEINT",
    "FLOAT",
    "DOUBLE",
    "VARCHAR",
}
_ACCOUNT = re.compile(r"\baccount\b", re.IGNORECASE)
_EXPLAIN = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*+EXPLAIN\b", re.IGNORECASE | re.DOTALL)
"""The beginning of an EXPLAIN, after spaces and comments."""

_PIVOT_QUERY = re.compile(
    r"(\s|\(|--[^\n]*\n|/\*.*?\*/)*+(PIVOT|SELECT|FROM|WITH|DESCRIBE|SUMMARIZE)\b",
    re.IGNORECASE | re.DOTALL,
)
"""The beginning of a query, after spaces, parentheses and comments."""


class SqlQuestion(msgspec.Struct, tag="sql", kw_only=True):
    """One SELECT to run on a database, and the name of the server's account."""

    database: str
    sql: str
    account: str


class ChangesQuestion(msgspec.Struct, tag="changes", kw_only=True):
    """Two days of a database to compare; `options` are those of `changes`.

    With `by_campaign`, the changes of each campaign are counted.

    Without `account`, the only account of the database is used, or `default_account`.
    """

    database: str
    account: str | None
    default_account: str
    options: dict[str, Any]
    by_campaign: bool = False


Question: TypeAlias = SqlQuestion | ChangesQuestion


class Reply(msgspec.Struct):
    """The result of a process: an answer, or the message of an error."""

    answer: str = ""
    error: str | None = None


def in_tool_words(problem: str, database: str) -> str:
    """Return a message in the words of an agent, which has tools but no options and paths."""
    folder = os.path.dirname(database)
    if os.path.dirname(folder) != folder:  # the root is a slash, which also occurs in other words
        problem = problem.replace(os.path.join(folder, ""), "")
    for words, ours in _IN_TOOL_WORDS:
        problem = re.sub(words, ours, problem)
    return problem


# --- The side of the server


async def ask(question: Question) -> str:
    """Answer a question in a separate process, which ends with this call.

    Raises:
        ConfigurationError: the question is wrong, or took too much time or memory, or its process
            did not start in time.
        ExportError: a pull writes the database.
    """
    process = await asyncio.create_subprocess_exec(
        *_command(), stdin=PIPE, stdout=PIPE, env=environment_of_process()
    )
    try:
        await _start(process, msgspec.json.encode(question))
        output, code = await _finish(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    # Python's exit code for an exception, whose traceback is on stderr
    if code == 1:
        raise RuntimeError("a question's process failed")
    if not output:
        raise ConfigurationError(_out_of_memory("the process of the query was ended"))
    reply = msgspec.json.decode(output, type=Reply)
    if reply.error is not None:
        raise ConfigurationError(reply.error)
    return reply.answer


def _command() -> list[str]:
    # -P: no module of the working directory may replace one of ours
    return [sys.executable, "-P", "-m", __name__]


def environment_of_process() -> dict[str, str]:
    """Return an environment that finds the same modules and contains no API key."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("SEOREP_")
    }
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return environment


async def _start(process: Process, question: bytes) -> None:
    """Send a question, and wait until the process is ready for it or has ended.

    Raises:
        ConfigurationError: the process was not ready in time.
    """
    stdin, stdout = _pipes(process)
    try:
        async with asyncio.timeout(START_SECONDS):
            with contextlib.suppress(ConnectionError):
                stdin.write(question + b"\n")
                await stdin.drain()
            await stdout.readline()
    except TimeoutError:
        raise ConfigurationError(
            f"the process of the query did not start within {START_SECONDS:g} seconds, so this "
            "machine is busy; ask again later"
        ) from None


async def _finish(process: Process) -> tuple[bytes, int]:
    """Return the reply of a process, or nothing if it ended without one, and its exit code.

    Raises:
        ConfigurationError: the question took too long.
    """
    stdin, stdout = _pipes(process)
    try:
        async with asyncio.timeout(QUERY_SECONDS):
            # stdin stays open, because its end would tell the process that nobody is waiting
            output = await stdout.read()
            stdin.close()
            return output, await process.wait()
    except TimeoutError:
        raise ConfigurationError(
            f"the query took longer than {QUERY_SECONDS:g} seconds; aggregate less"
        ) from None


def _pipes(process: Process) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the process was started without pipes")
    return process.stdin, process.stdout


# --- The side of the process


def main() -> None:
    """Read a question from stdin, and write the reply to stdout."""
    # imported before the first word, which starts the clock; the reply says if it is missing
    with contextlib.suppress(ImportError):
        require("duckdb")
    question: Question = msgspec.json.decode(sys.stdin.buffer.readline(), type=Question)
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    _limit_memory()
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    sys.stdout.buffer.write(msgspec.json.encode(reply_to(question)))


def _end_with_the_server() -> None:
    os.read(0, 1)
    os._exit(0)


def _limit_memory() -> None:
    if sys.platform != "win32":  # there, only DuckDB's own limit applies
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        limit = _MEMORY if most == resource.RLIM_INFINITY else min(_MEMORY, most)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def reply_to(question: Question) -> Reply:
    """Answer a question in this process."""
    try:
        duckdb = require("duckdb")
    except ImportError as error:
        return Reply(error=str(error))
    try:
        if isinstance(question, SqlQuestion):
            return Reply(_answer_query(question))
        return Reply(_answer_comparison(question))
    except (SeoRepError, ImportError) as error:
        return Reply(error=str(error))
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        return Reply(error=_out_of_memory(first_line(error) or "Python has no memory left"))
    except duckdb.Error as error:
        problem, guess, _ = str(error).partition("\nDid you mean ")
        if guess and "Table with name" in problem:
            # the nearest of all names is often one of DuckDB's own
            return Reply(error=f"DuckDB: {problem} SHOW TABLES lists those that exist.")
        return Reply(error=f"DuckDB: {error}")


def _out_of_memory(problem: str) -> str:
    return f"{problem}: a query may take {_MEMORY >> 30} GB; aggregate more, or select less"


def _answer_query(question: SqlQuestion) -> str:
    with open_history(question.database, limits=_LIMITS, wait_seconds=_LOCK_SECONDS) as history:
        connection = history.connection
        statement = _only_statement(connection, question.sql)
        # asked first, because a further query would end one whose rows are being read
        notes = _notes_on_accounts(history, question)
        relation = connection.sql(statement.query)
        if statement.type.name == "EXPLAIN":
            # a row for each line, because a long value is cut
            plan = "\n".join(str(row[-1]) for row in relation.fetchall())
            lines = [[line] for line in plan.splitlines()]
            return excerpt(["plan"], lines, advice=_select_less)
        rows = _rows_for_json(connection, relation)
        return excerpt(relation.columns, rows, advice=_select_less, notes=notes)


def _only_statement(connection: Any, sql: str) -> Any:
    """Return the statement in a text if there is only one and it only reads."""
    statements = connection.extract_statements(sql)
    if len(statements) > 1:
        raise ConfigurationError(
            f"sql must be one statement, got {len(statements)}; ask for each by itself"
        )
    if not statements or not _only_reads(connection, statements[0]):
        raise ConfigurationError(
            "sql must be one SELECT (or FROM, WITH, VALUES, PIVOT, DESCRIBE, SHOW, SUMMARIZE, or "
            "EXPLAIN without ANALYZE)"
        )
    return statements[0]


def _rows_for_json(connection: Any, relation: Any) -> Iterator[list[Any]]:
    """Yield the rows of a query as values of JSON."""
    duckdb = require("duckdb")
    # DuckDB's own text, because Python has no months and no infinite days
    columns = []
    for number, kind in enumerate(relation.types, 1):
        is_plain = str(kind) in _TYPES_OF_JSON or str(kind).startswith("DECIMAL")
        columns.append(f"#{number}" if is_plain else f"#{number}::VARCHAR")
    query = relation.project(", ".join(columns)).sql_query()
    try:
        result = connection.execute(query)
        for row in iter(result.fetchone, None):
            yield [_as_number(value) for value in row]
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        # DuckDB points to a line of our query, which contains the sent one
        problem, _, _ = str(error).partition("\n\nLINE ")
        raise ConfigurationError(f"DuckDB: {problem}") from None


def _select_less(count: int) -> str:
    return f"aggregate, select fewer columns, or add LIMIT and OFFSET {count} to read on"


def _notes_on_accounts(history: History, question: SqlQuestion) -> list[str] | None:
    """Return a note for a query that seems to mix the accounts of a database."""
    accounts = history.accounts()
    if len(accounts) < 2 or _ACCOUNT.search(question.sql):
        return None
    names = listed(map(short_repr, accounts))
    note = f"the database has several accounts, {names}, and the query does not filter by account"
    if question.account in accounts:
        note = f"{note}; that of this server is {short_repr(question.account)}"
    return [note]


def _as_number(value: object) -> object:
    """Return decimals and wide integers as JSON numbers if they fit, and otherwise as text."""
    if isinstance(value, Decimal):
        number = float(value)
        return number if Decimal(repr(number)) == value else str(value)
    if isinstance(value, int) and not fits(value):
        return str(value)
    return value


def _only_reads(connection: Any, statement: Any) -> bool:
    """Return whether a statement of DuckDB is a query, or explains one without running it."""
    if statement.type.name == "EXPLAIN":
        start = _EXPLAIN.match(statement.query)
        if start is None:
            return False
        # EXPLAIN ANALYZE runs a query; the text after EXPLAIN is then not a statement
        try:
            explained = connection.extract_statements(statement.query[start.end() :])
        except require("duckdb").ParserException:
            return False
        return len(explained) == 1 and _only_reads(connection, explained[0])
    if statement.type.name == "MULTI":
        # DuckDB executes a PIVOT in two steps, and also a CREATE or COPY that contains one
        return _PIVOT_QUERY.match(statement.query) is not None
    return bool(statement.type.name == "SELECT")


def _answer_comparison(question: ChangesQuestion) -> str:
    request = ComparisonRequest.of(account=question.account, **question.options)
    with open_history(question.database, limits=_LIMITS, wait_seconds=_LOCK_SECONDS) as history:
        accounts = history.accounts()
        if request.account is None and len(accounts) > 1:
            if question.default_account not in accounts:
                names = ", ".join(map(short_repr, accounts))
                raise ConfigurationError(
                    f"the database has several accounts, {names}; this server has no name of one; "
                    "the tool history sees them all"
                )
            request = attrs.evolve(request, account=question.default_account)
        if question.by_campaign:
            counted, notes = count_changes(history, request)
            return _described_counts(counted, notes, request.limit, question.database)
        return _described(compare(history, request), question.database)


def _described_counts(
    counted: CountedChanges, notes: Sequence[str], limit: int | None, database: str
) -> str:
    """Return the answer of a comparison whose changes are counted for each campaign."""
    rows = list(map(attrgetter(*_COLUMNS_OF_COUNTS), counted.campaigns[:limit]))
    omissions = []
    if len(rows) < len(counted.campaigns):
        omissions.append(f"further campaigns: {len(counted.campaigns) - len(rows)}")
    return excerpt(
        _COLUMNS_OF_COUNTS,
        rows,
        advice=lambda count: "ask for one group or kind",
        **_facts_of_comparison(counted, omissions, notes, database),
    )


def _described(comparison: Comparison, database: str) -> str:
    """Return the answer of a comparison."""
    changes = comparison.changes
    rows = list(map(attrgetter(*_COLUMNS_OF_CHANGES), changes))
    omissions = []
    if len(rows) < changes.total:
        smaller_changes = changes.total - len(rows)
        omission = f"{smaller_changes} smaller changes, beyond the limit"
        if len(rows) == MOST_CHANGES:
            omission = f"{omission}: at most {MOST_CHANGES} rows an answer"
        omissions.append(omission)
    return excerpt(
        _COLUMNS_OF_CHANGES,
        rows,
        advice=lambda count: "ask for one campaign, group or kind",
        **_facts_of_comparison(changes, omissions, comparison.notes, database),
    )


def _facts_of_comparison(
    changes: Changes | CountedChanges,
    omissions: Sequence[str],
    notes: Sequence[str],
    database: str,
) -> dict[str, Any]:
    """Return the facts about two days, and the omissions, for `excerpt`."""
    not_compared = {}
    all_omissions = list(omissions)
    for reason, campaign_ids in campaigns_by_reason(changes.left_out).items():
        not_compared[reason] = campaign_ids[:_MOST_IDS]
        if len(campaign_ids) > _MOST_IDS:
            count = len(campaign_ids) - _MOST_IDS
            all_omissions.append(f"{count} ids of campaigns not compared because {reason}")
    return {
        "left_out": all_omissions,
        "account": changes.account,
        "before": str(changes.before),
        "after": str(changes.after),
        "changes": changes.total,
        "campaigns_not_compared": len(changes.left_out),
        "not_compared": not_compared or None,
        "notes": [in_tool_words(note, database) for note in notes] or None,
    }


if __name__ == "__main__":
    main()
