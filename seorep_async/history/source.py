"""Open a database that pulls wrote, and read its history."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from seorep_async.errors import ConfigurationError, ExportError, short_repr
from seorep_async.export.database_use import THIS_PULL, DatabaseUse, use_of
from seorep_async.export.progress import PERMANENT_ERRORS, RETRYABLE_STATUSES
from seorep_async.export.schema import (
    CHARACTERS_NOT_FOR_DUCKDB,
    NO_DATABASE,
    PATH_NOT_FOR_DUCKDB,
    VIEWS,
    found_columns,
    holder_of,
    may_be_database,
    problems,
    reason_in_one_line,
    why_not_opened,
)
from seorep_async.models import Feed
from seorep_async.plain_values import SURROGATE
from seorep_async.tables.optional import require
from seorep_async.tables.output_tables import all_tables, table_of

if TYPE_CHECKING:
    import duckdb

# All connections of a process to one file share one set of settings, so it is locked at the start.
_SETTINGS = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}
_RETRY_SECONDS = 0.1
WAIT_SECONDS = 10.0
"""The time that `changes`, `report` and other readers wait while a pull writes the database."""

RANKING_DAYS = """
    SELECT DISTINCT least(end_date, greatest(start_date, snapshot_date)) AS as_of
    FROM keyword_rankings
    WHERE account = $account
        AND ($campaign_ids IS NULL OR campaign_id IN (SELECT unnest($campaign_ids::BIGINT[])))
    ORDER BY as_of
"""
"""The ranking days of an account, or of some of its campaigns."""
_PULLED_WINDOWS = """
    WITH feeds AS (
        SELECT unnest($feeds) AS feed, unnest($tables) AS table_name
    ),
    requested_failures AS (
        FROM failures
        WHERE coalesce(list_contains($ids::BIGINT[], campaign_id), true)
            AND coalesce(NOT list_contains($exclude::BIGINT[], campaign_id), true)
    ),
    chosen_pulls AS (
        SELECT
            pulls.start_date,
            pulls.end_date,
            feeds.feed,
            pulls.started_at,
            count(failures.error) AS failed_reports,
            -- an id that is too large for its column is null
            coalesce(
                list(DISTINCT failures.campaign_id ORDER BY failures.campaign_id)
                    FILTER (failures.campaign_id IS NOT NULL),
                []
            ) AS failed_ids,
            count(failures.error) FILTER (
                NOT list_contains($permanent_errors, failures.error)
                OR list_contains($retryable_statuses, failures.status)
            ) AS retryable_reports
        FROM pulls
        JOIN feeds ON list_contains(string_split(pulls.feeds, ','), feeds.feed)
        LEFT JOIN requested_failures AS failures
            USING (account, snapshot_date, start_date, end_date, table_name)
        WHERE pulls.account = $account
            -- a pull of all campaigns includes the campaigns that remain when some are excluded
            AND (selection IS NOT DISTINCT FROM $selection OR (selection IS NULL AND $asks_for_all))
            AND (pulls.compared OR NOT $compared)
        GROUP BY ALL
    ),
    judged_pulls AS (
        SELECT
            *,
            -- the last day had ended, and no failure remains that may succeed later
            started_at::DATE > end_date AND retryable_reports = 0 AS is_complete
        FROM chosen_pulls
    )
    SELECT
        start_date,
        end_date,
        feed,
        bool_or(is_complete),
        max(started_at),
        coalesce(min(failed_reports) FILTER (is_complete), 0),
        coalesce(arg_min(failed_ids, failed_reports) FILTER (is_complete), [])
    FROM judged_pulls
    GROUP BY ALL
"""
"""The pulled windows. The last three columns are the values of a `PulledWindow`."""


@attrs.frozen
class History:
    """A database of pulls, as long as it is open.

    Attributes:
        label: the database's name in messages.
        connection: a connection to DuckDB with the eight tables, and the views
            `keyword_rankings_by_day` and `keyword_rankings_latest`. It can neither write nor
            access any other file, and its settings are locked.
    """

    label: str
    connection: duckdb.DuckDBPyConnection

    def accounts(self) -> list[str]:
        """Return the names of the accounts in the database."""
        rows = self.connection.execute("SELECT DISTINCT account FROM pulls ORDER BY account")
        return [name for (name,) in rows.fetchall()]

    def account(self, name: str | None) -> str:
        """Return the account with this name. The default is the only account.

        Raises:
            ConfigurationError: there is no account of this name, or no name and several accounts.
        """
        accounts = self.accounts()
        if name in accounts:
            return name
        if name is None and len(accounts) == 1:
            return accounts[0]
        if name is None:
            problem = f"{self.label} has several accounts; name one with account=…:"
        else:
            problem = f"there is no account {short_repr(name)} in {self.label}; it has"
        raise ConfigurationError(
            f"{problem} {listed(map(short_repr, accounts))}", argument="account"
        )

    def days(self, account: str | None = None) -> list[dt.date]:
        """Return the ranking days of an account, in order. The default is the only account.

        A report of the campaign feed has one ranking day: the last day of its window, or the night
        of its pull if that is earlier.

        Raises:
            ConfigurationError: no name is given, and there are several accounts.
        """
        if account is None:
            account = self.account(name=None)
        values = {"account": account, "campaign_ids": None}
        rows = self.connection.execute(RANKING_DAYS, values)
        return [day for (day,) in rows.fetchall()]


@contextmanager
def open_history(
    database: str | os.PathLike[str],
    *,
    limits: Mapping[str, str] | None = None,
    wait_seconds: float = 0.0,
) -> Generator[History, None, None]:
    """Open a database for reading. No pull can write to it while it is open.

    Several threads may read a database at once, each with its own history.

    Args:
        database: a file that pulls wrote, such as `rankings.duckdb`.
        limits: further settings of DuckDB, such as `memory_limit`.
        wait_seconds: how long to wait while a pull writes the database, another process has it
            open, or this process reads it with other limits.

    Raises:
        ConfigurationError: no pull wrote the file, or its tables were changed.
        ExportError: the database is damaged, or is still in use after `wait_seconds`.
        ImportError: the extra `duckdb` is missing.
    """
    if not isinstance(database, str | os.PathLike):
        problem = f"database must be the path of a file, got {short_repr(database)}"
        raise ConfigurationError(problem, argument="database")
    duckdb = require("duckdb")
    path = Path(database)
    _check_file(path)
    with ExitStack() as stack:
        try:
            connection = _wait_for_connection(stack, path, limits or {}, wait_seconds)
            _check_tables(connection, path)
            _provide_views(connection)
        except duckdb.Error as error:
            problem = why_not_opened(error)
            if problem is not None:
                raise ExportError(f"can't read {path}: {problem}", file=path) from error
            raise _refusal(path, reason_in_one_line(error)) from error
        try:
            yield History(str(path), connection)
        except RuntimeError as error:
            # DuckDB turns the error of a signal's handler into a RuntimeError. If a scheduler may
            # have sent the signal, for a time limit, it does not count as Ctrl-C.
            if "interrupted" in str(error) and not _has_time_limit():
                raise KeyboardInterrupt from error
            raise


def _has_time_limit() -> bool:
    """Return whether a scheduler such as Airflow or Celery may end this work by a signal."""
    # Windows has neither signal
    numbers = [number for number in signal.Signals if number.name in ("SIGALRM", "SIGUSR1")]
    return any(callable(signal.getsignal(number)) for number in numbers)


def _check_file(path: Path) -> None:
    """Refuse a file that DuckDB can't open, or would open as something else."""
    # unlike Path's method, this returns False for a name that is too long
    if not os.path.isfile(path):
        raise _refusal(path, "there is no such file")
    real_path = os.path.realpath(path)
    if SURROGATE.search(real_path):
        raise _refusal(path, "its name is not UTF-8")
    if CHARACTERS_NOT_FOR_DUCKDB & {*real_path}:
        raise _refusal(path, PATH_NOT_FOR_DUCKDB)
    if not may_be_database(path):
        raise _refusal(path, NO_DATABASE)


def _wait_for_connection(
    stack: ExitStack, path: Path, limits: Mapping[str, str], wait_seconds: float
) -> duckdb.DuckDBPyConnection:
    """Open a file for reading as soon as nobody writes it. The stack will close it."""
    settings = {**limits, **_SETTINGS}
    use = use_of(path)
    deadline = time.monotonic() + wait_seconds
    while True:
        is_last_try = time.monotonic() >= deadline
        connection = _connection_if_free(stack, path, settings, use, is_last_try=is_last_try)
        if connection is not None:
            return connection
        time.sleep(_RETRY_SECONDS)


def _connection_if_free(
    stack: ExitStack, path: Path, settings: dict[str, str], use: DatabaseUse, *, is_last_try: bool
) -> duckdb.DuckDBPyConnection | None:
    """Open a file. If it is in use, return None, or raise an error if `is_last_try`."""
    library = require("duckdb")
    with use.opening:
        if use.is_written:
            if is_last_try:
                problem = f"{THIS_PULL} is writing it; run this again when that has ended"
                raise ExportError(f"can't read {path}: {problem}", file=path)
            return None
        # a pull waits until this process has no readers, so a new reader lets it go first
        if use.waiting_pulls and not is_last_try:
            return None
        try:
            # DuckDB would take a relative md:x.duckdb for the address of a service, and DuckDB 1.4
            # would look for the log of a killed pull beside a link
            connection: duckdb.DuckDBPyConnection = library.connect(
                os.path.realpath(path), read_only=True, config=settings
            )
        except library.Error as error:
            # the holder may be another process, or a reader of this process with other limits
            if holder_of(error) is None or is_last_try:
                raise
            return None
        return stack.enter_context(connection)


def _check_tables(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Refuse a database that no pull created, or whose tables were changed."""
    columns = found_columns(connection)
    # the error about an unrelated database names the first table
    for table in all_tables():
        if table.name not in columns:
            raise _refusal(path, f"it has no table {table.name}")
    for problem in problems(connection):
        raise _refusal(path, problem)
    if connection.execute("FROM pulls LIMIT 1").fetchone() is None:
        raise _refusal(path, "no pull wrote it")


def _provide_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Hide stored views behind temporary views, because another version may have stored them."""
    for name, query in VIEWS.items():
        connection.execute(f"CREATE TEMP VIEW {name} AS {query}")


def _refusal(path: Path, problem: str) -> ConfigurationError:
    command = "seorep pull -o rankings.duckdb --month 2023-02..2023-03"
    advice = f"name a database that pulls wrote, for example with {command}"
    return ConfigurationError(f"can't read {path}: {problem}; {advice}", argument="database")


@attrs.frozen
class PulledWindow:
    """A window of days pulled into a database.

    Attributes:
        is_complete: whether a pull after its last day left only reports that would fail again.
        started_at: the start of its last pull.
        failed_reports: for a complete window, the number of reports that it lacks.
        failed_ids: the campaigns of these reports.
    """

    is_complete: bool
    started_at: dt.datetime
    failed_reports: int
    failed_ids: list[int]


@contextmanager
def opened(database: str | os.PathLike[str]) -> Generator[History, None, None]:
    """Open a database to read it. DuckDB's errors become an `ExportError`."""
    duckdb = require("duckdb")
    try:
        with open_history(database, wait_seconds=WAIT_SECONDS) as history:
            yield history
    except duckdb.Error as error:
        problem = why_not_opened(error) or reason_in_one_line(error)
        raise ExportError(f"can't read {database}: {problem}") from error


def complete_windows(
    database: str | os.PathLike[str],
    *,
    account: str,
    selection: str | None = None,
    compared: bool = False,
) -> dict[tuple[dt.date, dt.date, Feed], tuple[bool, dt.datetime]]:
    """Return whether each pulled window is complete, and when it was last pulled.

    A window is complete once a pull that began after its last day (UTC) left only reports that
    would fail again: status 403, 404 and other 4xx except 408, 425 and 429, a response that can't
    be decoded, or a value that can't be written.

    Args:
        database: a file that pulls wrote.
        account: the account of the pulls.
        selection: the text in the column `selection` of `pulls`, or None for every campaign.
        compared: whether to count only pulls that requested changes from the previous period.

    Returns:
        By first day, last day and feed: whether the window is complete, and the start of its last
        pull.

    Raises:
        ConfigurationError: no pull wrote the file, or its tables were changed.
        ExportError: the file is damaged, or is still being written after 10 seconds.
        ImportError: the extra `duckdb` is missing.
    """
    windows = pulled_windows(database, account, selection, compared=compared)
    return {key: (window.is_complete, window.started_at) for key, window in windows.items()}


def pulled_windows(
    database: str | os.PathLike[str], account: str, selection: str | None, *, compared: bool
) -> dict[tuple[dt.date, dt.date, Feed], PulledWindow]:
    """Return the pulled windows by first day, last day and feed."""
    choice = json.loads(selection or "{}")
    values = {
        "account": account,
        "selection": selection,
        # all campaigns, or all but some
        "asks_for_all": set(choice) <= {"exclude"},
        "ids": choice.get("ids"),
        "exclude": choice.get("exclude", []),
        "compared": compared,
        "feeds": [feed.value for feed in Feed],
        "tables": [table_of(feed).name for feed in Feed],
        "permanent_errors": PERMANENT_ERRORS,
        "retryable_statuses": RETRYABLE_STATUSES,
    }
    with opened(database) as history:
        rows = history.connection.execute(_PULLED_WINDOWS, values).fetchall()
    return {
        (start_date, end_date, Feed(feed)): PulledWindow(*values_of_window)
        for start_date, end_date, feed, *values_of_window in rows
    }


def listed(names: Iterable[object]) -> str:
    """Return names for a message. If there are more than ten, only five from each end appear."""
    words = [str(name) for name in names]
    # an account may have thousands of campaigns
    if len(words) > 10:
        words[5:-5] = ["…"]
    return ", ".join(words)
