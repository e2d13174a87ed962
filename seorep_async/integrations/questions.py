"""Answer questions about a database, each in a separate process that can be killed.

A query may exceed DuckDB's own memory limit, and can't always be interrupted. The operating system
limits a process, and when it is killed, nothing that it opened stays open.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
from asyncio.subprocess import PIPE
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from seorep_async.errors import ConfigurationError, SeoRepError
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
"""The time limit for a question, from the moment when its process has imported everything."""
_OUT_OF_TIME = 3
"""The exit code of a process that has reached this limit."""
_MEMORY = 2**30
"""The bytes that the process of a question may allocate."""
_LIMITS = {
    "memory_limit": "768MiB",
    "max_temp_directory_size": "0B",
    # by default, one for each core: the stacks of a hundred threads would exceed the system's limit
    "threads": "4",
}
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
"""The maximum number of campaigns that an answer names for each reason."""
MOST_CHANGES = 100
_IN_TOOL_WORDS = (
    (
        r"pull the last 30 days each night \(seorep pull [^)]*\)",
        "call pull for 30 days that end on another day",
    ),
    # a pull makes missing tables
    (
        r"(it has no table \w+|no pull wrote it); name a database that pulls wrote.*",
        "no pull wrote it: call pull first",
    ),
    (r"; name a database that pulls wrote.*", ""),
    (r" \(seorep pull [^)]*\)", ""),
    (
        r"pass that name as account=…, or begin a new account with force=True|give this account a "
        "name of its own with account=…",
        "the user must start this server with another --account",
    ),
    (r"restart=True", "restart true"),
    (r", with retry_failed=True", ""),
    (r"ids can't be combined with groups=.*list them", "name campaign_ids or a group, not both"),
    (
        r"\b(key|or) was refused\b",
        r"\1 was refused; the user may have to give this server another key",
    ),
    (r'a datetime\.date, a day "YYYY-MM-DD"', 'a day "YYYY-MM-DD"'),
    (
        r"several accounts; name one with account=…:",
        "several accounts; the user must start this server with the --account of one of them; the "
        "tool history sees them all:",
    ),
    (
        r"name one with account=…",
        "the user must start this server with the --account of one of them",
    ),
    (r"(\w+)=…", r"\1"),
)
"""Phrases of the library's messages, and their replacements for an agent, which has only tools."""
_PLAIN_TYPES = re.compile("BOOLEAN|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|VARCHAR")
"""The types of DuckDB whose values are values of JSON."""
_QUOTED_LINE = re.compile(r"\n+LINE ")
"""The beginning of a line that DuckDB's errors quote from our query."""


class SqlQuestion(msgspec.Struct, tag="sql", kw_only=True):
    """SQL to run on a database."""

    database: str
    sql: str


class ChangesQuestion(msgspec.Struct, tag="changes", kw_only=True):
    """Two days of a database to compare.

    Attributes:
        account: the account to compare. Without it, `default_account` is used if the database has
            it, otherwise the only account of the database.
        options: the options of `changes`.
        by_campaign: whether the changes of each campaign are counted instead of listed.
    """

    database: str
    account: str | None
    default_account: str
    options: dict[str, Any]
    by_campaign: bool = False


Question: TypeAlias = SqlQuestion | ChangesQuestion


class Reply(msgspec.Struct):
    """The result of a process. It has an answer, or the message of an error."""

    answer: str = ""
    error: str | None = None


def in_tool_words(problem: str, database: str) -> str:
    """Reword a message for an agent, which calls tools and knows no options or paths."""
    folder = os.path.join(os.path.dirname(database), "")
    problem = problem.replace(folder, "")
    for pattern, replacement in _IN_TOOL_WORDS:
        problem = re.sub(pattern, replacement, problem)
    return problem


# --- The side of the server


async def answer_in_process(question: Question) -> str:
    """Answer a question in a separate process, which ends with this call.

    Raises:
        ConfigurationError: the question is wrong, took too much time or memory, or the database
            can't be read.
        RuntimeError: the process failed.
    """
    # -P: no module of the working directory may replace one of ours
    command = [sys.executable, "-P", "-m", __name__]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, env=environment_of_process()
    )
    try:
        output, _ = await process.communicate(msgspec.json.encode(question))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    # Python exits with 1 after an exception, whose traceback is on stderr
    if process.returncode == 1:
        raise RuntimeError("a question's process failed")
    if process.returncode == _OUT_OF_TIME:
        raise ConfigurationError(
            f"the query took longer than {QUERY_SECONDS:g} seconds; aggregate, or select less"
        )
    # no reply: something else, probably the memory limit, ended the process
    if not output:
        raise ConfigurationError(_out_of_memory("the process of the query was ended"))
    reply = msgspec.json.decode(output, type=Reply)
    if reply.error is not None:
        raise ConfigurationError(reply.error)
    return reply.answer


def environment_of_process() -> dict[str, str]:
    """Return an environment that finds the same modules and contains no API key."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("SEOREP_")
    }
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return environment


# --- The side of the process


def main() -> None:
    """Read a question from stdin, and write the reply to stdout."""
    # imported before the time limit begins, because a busy machine takes long for it
    require("duckdb")
    question: Question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    # A query can't always be interrupted. This also ends a process whose server was killed.
    timer = threading.Timer(QUERY_SECONDS, os._exit, [_OUT_OF_TIME])
    timer.daemon = True
    timer.start()
    _limit_memory()
    sys.stdout.buffer.write(msgspec.json.encode(reply_to(question)))


def _limit_memory() -> None:
    if sys.platform != "win32":  # on Windows, only DuckDB's own limit applies
        _, hard_limit = resource.getrlimit(resource.RLIMIT_DATA)
        limit = _MEMORY if hard_limit == resource.RLIM_INFINITY else min(_MEMORY, hard_limit)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard_limit))


def reply_to(question: Question) -> Reply:
    """Answer a question in this process."""
    duckdb = require("duckdb")
    try:
        with open_history(question.database, limits=_LIMITS, wait_seconds=WAIT_SECONDS) as history:
            if isinstance(question, SqlQuestion):
                return Reply(_answer_query(history, question))
            return Reply(_answer_comparison(history, question))
    except SeoRepError as error:
        return Reply(error=str(error))
    except (duckdb.OutOfMemoryException, MemoryError):
        # DuckDB's own words are about blocks and files
        return Reply(error=_out_of_memory("the query ran out of memory"))
    except duckdb.Error as error:
        return Reply(error=f"DuckDB: {_QUOTED_LINE.split(str(error))[0]}")


def _out_of_memory(problem: str) -> str:
    return f"{problem}: a query may take {_MEMORY >> 30} GB; aggregate more, or select less"


def _answer_query(history: History, question: SqlQuestion) -> str:
    """Run a query, and return its rows as JSON."""
    # read first: read later on this connection, they would discard the rows of the question
    accounts = history.accounts()
    notes = None
    # a rough check, which does not parse the query
    if len(accounts) > 1 and "account" not in question.sql.lower():
        notes = [f"not filtered by account; the database has {listed(accounts)}"]
    relation = history.connection.sql(_only_statement(question.sql))
    if relation is None:
        raise ConfigurationError("sql must be a query, such as one SELECT")
    # Python has no type for DuckDB's intervals of months or its infinite dates, so only plain types
    # are fetched as they are. DuckDB turns the others into JSON. Columns are named by number, such
    # as `#1`, because two may have the same name.
    columns = []
    json_indexes = []
    for number, type_name in enumerate(map(str, relation.types), 1):
        if _PLAIN_TYPES.fullmatch(type_name):
            columns.append(f"#{number}")
        else:
            columns.append(f"to_json(#{number})")
            json_indexes.append(number - 1)
    # The rows are fetched one by one, because the excerpt has no room for all of them. DuckDB 2
    # can't do that with a relation, so its SQL is executed.
    query = relation.project(", ".join(columns)).sql_query()
    result = history.connection.execute(query)
    rows = _with_json_decoded(iter(result.fetchone, None), json_indexes)
    return excerpt(relation.columns, rows, advice=_select_less, notes=notes)


def _only_statement(sql: str) -> str:
    """Return a statement without the semicolons and comments that follow it.

    Another query encloses it, and DuckDB itself omits a semicolon only if no comment follows.

    Raises:
        ConfigurationError: another statement follows.
    """
    duckdb = require("duckdb")
    encoded = sql.encode()
    end = len(encoded)
    tokens = duckdb.tokenize(sql)
    while tokens:
        start, kind = tokens.pop()
        is_semicolon = encoded[start : start + 1] == b";"
        if kind != duckdb.token_type.comment and not is_semicolon:
            break
        end = start
    # statements are not counted, because DuckDB 1.4 divides a PIVOT into two
    if any(encoded[start : start + 1] == b";" for start, _ in tokens):
        raise ConfigurationError("sql must be one SELECT; ask the others in their own calls")
    return encoded[:end].decode()


def _with_json_decoded(
    rows: Iterator[Sequence[Any]], json_indexes: Sequence[int]
) -> Iterator[Sequence[Any]]:
    """Yield rows, with the columns of these indexes decoded from JSON."""
    for row in rows:
        values = list(row)
        for index in json_indexes:
            if values[index] is not None:
                # JSON has no infinite numbers
                values[index] = json.loads(values[index], parse_constant=str)
        yield values


def _select_less(count: int) -> str:
    """Return advice for a query if only this number of its rows fits into an answer."""
    return f"aggregate, select fewer columns, or add ORDER BY and {count} to OFFSET to read on"


def _answer_comparison(history: History, question: ChangesQuestion) -> str:
    """Compare two days, and return the changes or their counts as JSON."""
    account = question.account
    accounts = history.accounts()
    note_on_accounts = ""
    if account is None and question.default_account in accounts:
        account = question.default_account
        if len(accounts) > 1:
            note_on_accounts = f"; this is about {account}, and the database has {listed(accounts)}"
    request = ComparisonRequest.of(account=account, **question.options)
    result: Changes | CountedChanges
    try:
        if question.by_campaign:
            result = count_changes(history, request)
            columns: Sequence[str] = _COLUMNS_OF_COUNTS
            rows: Sequence[Any] = result.campaigns[: request.limit]
            omitted = len(result.campaigns) - len(rows)
        else:
            # `compare` applies the limit itself
            result = compare(history, request)
            columns = _COLUMNS_OF_CHANGES
            rows = result
            omitted = result.total - len(rows)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}{note_on_accounts}") from error
    left_out = []
    if omitted:
        left_out.append(
            f"{omitted} smaller rows; raise limit (to at most {MOST_CHANGES}), or filter"
        )
    if len(result.left_out) > MOST_IDS:
        left_out.append(f"not_compared names at most {MOST_IDS} campaigns for each reason")
    not_compared = {
        reason: campaign_ids[:MOST_IDS]
        for reason, campaign_ids in campaigns_by_reason(result.left_out).items()
    }
    return excerpt(
        columns,
        list(map(attrgetter(*columns), rows)),
        advice=lambda count: "ask for one campaign, group or kind",
        left_out=left_out,
        account=result.account,
        before=str(result.before),
        after=str(result.after),
        changes=result.total,
        campaigns_not_compared=len(result.left_out),
        not_compared=not_compared or None,
        notes=[in_tool_words(note, question.database) for note in result.notes] or None,
    )


if __name__ == "__main__":
    main()
