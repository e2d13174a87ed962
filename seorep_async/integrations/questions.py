"""Questions about a database. A separate process, which can be killed, answers each.

A query may exceed DuckDB's own memory limit, and can't always be interrupted. The operating system
limits a process, and when it is killed, nothing that it opened stays open.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import threading
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from seorep_async.errors import ConfigurationError, SeoRepError, counted, short_repr
from seorep_async.history import open_history
from seorep_async.history.comparing import (
    Changes,
    ComparisonRequest,
    campaigns_by_reason,
    compare,
)
from seorep_async.history.counting import CountedChanges, count_changes
from seorep_async.history.source import WAIT_SECONDS, History, listed
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
"""DuckDB's own limits, which end a query before the system ends its process."""
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
MOST_IDS = 20
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
    (
        r"\b(key|or) was refused\b",
        r"\1 was refused; the user may have to give this server another key",
    ),
    (r'a datetime\.date, a day "YYYY-MM-DD"', 'a day "YYYY-MM-DD"'),
    (
        r"several accounts; name one with account=…:",
        "several accounts; the user must start this server with the option account, which names "
        "one of them; the tool history sees them all:",
    ),
    (r"(\w+)=…", r"\1"),
)
"""Phrases of the library's messages, and their replacements for an agent, which has only tools."""
_PLAIN_TYPES = re.compile("BOOLEAN|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|VARCHAR")
"""The types of DuckDB whose values are values of JSON."""
_UNKNOWN_TABLE = "DuckDB: Catalog Error: Table "
_ACCOUNT = re.compile(r"\baccount\b", re.IGNORECASE)
_READS_ROWS = re.compile(
    # the descriptions of tables belong to no account
    r"\b(FROM(?!\s+(duckdb_|information_schema\.))|PIVOT|SUMMARIZE|TABLE)\b",
    re.IGNORECASE,
)
_RANKS = re.compile(r"engine_[ab](_mobile|_places)?_ranking\b", re.IGNORECASE)
_WITHOUT_0 = re.compile(
    r">\s*0\b|>=\s*[1-9]|BETWEEN\s+[1-9]|NULLIF|(<>|!=)\s*0\b|_ranking\s*=", re.IGNORECASE
)
"""Conditions that seem to exclude ranks of 0."""
_LATEST_DAYS = """
    WITH latest AS (
        SELECT
            campaign_id,
            max(least(end_date, greatest(start_date, snapshot_date))) AS as_of
        FROM keyword_rankings
        WHERE $account IS NULL OR account = $account
        GROUP BY account, campaign_id
    )
    SELECT as_of, count(*)
    FROM latest
    GROUP BY as_of
    ORDER BY as_of DESC
"""
"""The days of keyword_rankings_latest, and how many campaigns have each."""
_MISLEADING = re.compile(r"\n+(?:Did you mean|LINE) ")
"""Where DuckDB's errors begin to suggest other names, or to quote lines of our query."""
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
    """Two days of a database to compare.

    Attributes:
        account: the account to compare. Without it, `default_account` is used if the database has
            it, otherwise the only account of the database.
        options: those of `changes`.
        by_campaign: whether the changes of each campaign are counted instead of listed.
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
    """Return a message for an agent, which has tools but no options and paths."""
    folder = os.path.dirname(database)
    # not the root folder, whose path is a slash, which other words contain as well
    if os.path.dirname(folder) != folder:
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
        output = await _output_of(process, msgspec.json.encode(question))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    # Python exits with 1 after an exception, whose traceback is on stderr
    if process.returncode == 1:
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


async def _output_of(process: Process, question: bytes) -> bytes:
    """Send a question. Return the reply, or nothing if the process ended without one.

    Raises:
        ConfigurationError: the process was not ready in time, or the question took too long.
    """
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the process was started without pipes")
    try:
        async with asyncio.timeout(START_SECONDS):
            with contextlib.suppress(ConnectionError):
                process.stdin.write(question + b"\n")
                await process.stdin.drain()
            await process.stdout.readline()
    except TimeoutError:
        raise ConfigurationError(
            f"the process of the query did not start within {START_SECONDS:g} seconds, so this "
            "machine is busy; ask again later"
        ) from None
    try:
        async with asyncio.timeout(QUERY_SECONDS):
            # stdin stays open, because its end would tell the process that nobody is waiting
            output = await process.stdout.read()
            process.stdin.close()
            await process.wait()
            return output
    except TimeoutError:
        raise ConfigurationError(
            f"the query took longer than {QUERY_SECONDS:g} seconds; aggregate less"
        ) from None


# --- The side of the process


def main() -> None:
    """Read a question from stdin, and write the reply to stdout."""
    # Imported before `_READY` is sent, because QUERY_SECONDS start then. If DuckDB is missing,
    # `reply_to` says so.
    with contextlib.suppress(ImportError):
        require("duckdb")
    question: Question = msgspec.json.decode(sys.stdin.buffer.readline(), type=Question)
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    _limit_memory()
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    sys.stdout.buffer.write(msgspec.json.encode(reply_to(question)))


def _end_with_the_server() -> None:
    # stdin ends with the server
    os.read(0, 1)
    os._exit(0)


def _limit_memory() -> None:
    if sys.platform != "win32":  # there, only DuckDB's own limit applies
        _, hard_limit = resource.getrlimit(resource.RLIMIT_DATA)
        limit = _MEMORY if hard_limit == resource.RLIM_INFINITY else min(_MEMORY, hard_limit)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard_limit))


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
    except (duckdb.OutOfMemoryException, MemoryError):
        # DuckDB's own words are about blocks and files
        return Reply(error=_out_of_memory("the query ran out of memory"))
    except duckdb.Error as error:
        problem = f"DuckDB: {_MISLEADING.split(str(error))[0]}"
        if isinstance(error, duckdb.CatalogException) and problem.startswith(_UNKNOWN_TABLE):
            problem = f"{problem}; SHOW TABLES lists those that do"
        elif isinstance(error, duckdb.BinderException):
            problem = f"{problem}; DESCRIBE lists the columns of a table"
        return Reply(error=problem)


def _out_of_memory(problem: str) -> str:
    return f"{problem}: a query may take {_MEMORY >> 30} GB; aggregate more, or select less"


def _answer_query(question: SqlQuestion) -> str:
    with open_history(question.database, limits=_LIMITS, wait_seconds=WAIT_SECONDS) as history:
        connection = history.connection
        statement = _only_query(connection, question.sql)
        # read before the caller's query, because another query would end that one
        accounts = history.accounts()
        notes = [
            *_notes_on_accounts(accounts, question),
            *_notes_on_ranks_of_0(question.sql),
            *_notes_on_latest_days(history, accounts, question),
        ]
        relation = connection.sql(statement.query)
        # Python has no months and no infinite days, so other types are read as DuckDB's own text.
        # `#1` is the first column, whose name another one may have as well.
        columns = []
        nested_places = []
        for number, kind in enumerate(map(str, relation.types), 1):
            if kind.startswith(("STRUCT", "MAP")) or kind.endswith("]"):
                # DuckDB's own text of a list of tags is no JSON
                columns.append(f"to_json(#{number})")
                nested_places.append(number - 1)
            elif kind.startswith("DECIMAL"):
                columns.append(f"#{number}::DOUBLE")
            elif _PLAIN_TYPES.fullmatch(kind):
                columns.append(f"#{number}")
            else:
                columns.append(f"#{number}::VARCHAR")
        result = connection.execute(relation.project(", ".join(columns)).sql_query())
        rows = _with_nested(iter(result.fetchone, None), nested_places)
        return excerpt(relation.columns, rows, advice=_select_less, notes=notes or None)


def _with_nested(rows: Iterator[Sequence[Any]], places: Sequence[int]) -> Iterator[Sequence[Any]]:
    """Yield rows whose values at some places are JSON as rows with nested values."""
    for row in rows:
        values = list(row)
        for place in places:
            if values[place] is not None:
                # JSON has no infinite numbers
                values[place] = json.loads(values[place], parse_constant=str)
        yield values


def _only_query(connection: Any, sql: str) -> Any:
    """Return the statement in a text if there is only one and it only reads."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or not _only_reads(statements[0]):
        raise ConfigurationError(
            "sql must be one SELECT (or FROM, WITH, VALUES, PIVOT, DESCRIBE, SHOW, SUMMARIZE); ask "
            "for each by itself"
        )
    return statements[0]


def _only_reads(statement: Any) -> bool:
    """Return whether a statement of DuckDB is a query."""
    if statement.type.name == "MULTI":
        # DuckDB executes a PIVOT in two steps, and also a CREATE or COPY that contains one
        return _PIVOT_QUERY.match(statement.query) is not None
    return bool(statement.type.name == "SELECT")


def _select_less(count: int) -> str:
    return f"aggregate, select fewer columns, or add ORDER BY and OFFSET {count} to read on"


def _notes_on_accounts(accounts: Sequence[str], question: SqlQuestion) -> list[str]:
    """Return a note for a query that seems to mix the accounts of a database."""
    if len(accounts) < 2 or _ACCOUNT.search(question.sql) or not _READS_ROWS.search(question.sql):
        return []
    names = listed(map(short_repr, accounts))
    note = f"the database has several accounts, {names}, and the query does not filter by account"
    if question.account in accounts:
        note = f"{note}; this server has {short_repr(question.account)}"
    return [note]


def _notes_on_ranks_of_0(sql: str) -> list[str]:
    """Return a note for a query that seems to count ranks of 0 as the best ones."""
    if not _RANKS.search(sql) or _WITHOUT_0.search(sql):
        return []
    return [
        "a rank of 0 means not ranked, and the query does not exclude it: write BETWEEN 1 AND 10, "
        "not <= 10, or nullif(rank, 0)"
    ]


def _notes_on_latest_days(
    history: History, accounts: Sequence[str], question: SqlQuestion
) -> list[str]:
    """Return a note for a query of the latest ranks, if they mix several days."""
    if "keyword_rankings_latest" not in question.sql.lower() or "as_of" in question.sql.lower():
        return []
    account = question.account if question.account in accounts else None
    rows = history.connection.execute(_LATEST_DAYS, {"account": account}).fetchall()
    if len(rows) < 2:
        return []
    days = listed(f"{day} ({counted(campaigns, 'campaign')})" for day, campaigns in rows)
    return [f"keyword_rankings_latest mixes days: {days}; to use one, filter by as_of"]


def _answer_comparison(question: ChangesQuestion) -> str:
    with open_history(question.database, limits=_LIMITS, wait_seconds=WAIT_SECONDS) as history:
        account = question.account
        if account is None and question.default_account in history.accounts():
            account = question.default_account
        request = ComparisonRequest.of(account=account, **question.options)
        if question.by_campaign:
            counts, notes = count_changes(history, request)
            campaigns = counts.campaigns[: request.limit]
            omitted = len(counts.campaigns) - len(campaigns)
            facts = _facts_of_comparison(counts, omitted, notes, question)
            return _described(campaigns, _COLUMNS_OF_COUNTS, facts)
        # `compare` applies the limit itself
        changes, notes = compare(history, request)
        omitted = changes.total - len(changes)
        facts = _facts_of_comparison(changes, omitted, notes, question)
        return _described(changes, _COLUMNS_OF_CHANGES, facts)


def _described(rows: Sequence[object], columns: Sequence[str], facts: Mapping[str, Any]) -> str:
    values = list(map(attrgetter(*columns), rows))
    advice = "ask for one campaign, group or kind"
    return excerpt(columns, values, advice=lambda count: advice, **facts)


def _facts_of_comparison(
    result: Changes | CountedChanges,
    omitted: int,
    notes: Sequence[str],
    question: ChangesQuestion,
) -> dict[str, Any]:
    """Return the facts of a comparison, and what it leaves out, for `excerpt`."""
    omissions = []
    if omitted:
        advice = "filter for others"
        if question.options["limit"] < MOST_CHANGES:
            advice = f"raise limit (to at most {MOST_CHANGES}), or filter"
        omissions.append(f"{omitted} smaller ones; {advice}")
    not_compared = {}
    for reason, campaign_ids in campaigns_by_reason(result.left_out).items():
        not_compared[reason] = campaign_ids[:MOST_IDS]
        if len(campaign_ids) > MOST_IDS:
            count = len(campaign_ids) - MOST_IDS
            omissions.append(f"{count} ids of campaigns not compared because {reason}")
    return {
        "left_out": omissions,
        "account": result.account,
        "before": str(result.before),
        "after": str(result.after),
        "changes": result.total,
        "campaigns_not_compared": len(result.left_out),
        "not_compared": not_compared or None,
        "notes": [in_tool_words(note, question.database) for note in notes] or None,
    }


if __name__ == "__main__":
    main()
