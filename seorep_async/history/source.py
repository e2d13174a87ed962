"""The source of a history: a database that pulls left behind, opened only to read."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from seorep_async.errors import ConfigurationError, ExportError, shown
from seorep_async.export.schema import (
    AS_OF,
    COUNTED_REPORTS,
    VIEWS,
    first_line,
    found_columns,
    holder_of,
    problems,
    why_closed,
)
from seorep_async.models import Feed
from seorep_async.session.retry_policy import cause_of_status
from seorep_async.tables.optional import require
from seorep_async.tables.output_tables import all_tables, table_of

if TYPE_CHECKING:
    import duckdb

_RETRY_SECONDS = 0.1
_SETTINGS = {"enable_external_access": "false", "python_enable_replacements": "false"}
CHOSEN = "account = $account AND ($campaigns IS NULL OR campaign_id IN (SELECT unnest($campaigns::BIGINT[])))"
"""The condition of rows of an account's campaigns; null is every campaign."""
_PERMANENT = (
    "AuthenticationError",
    "NotFoundError",
    "InvalidRequestError",
    "DecodeError",
    "ExportError",  # a value that the format of the target can't hold
)
"""Errors of a report that would fail again."""
_RETRIED = tuple(status for status in range(400, 500) if cause_of_status(status).retryable)


_CAMPAIGNS = """
SELECT campaign_id, company, group_title
FROM (SELECT DISTINCT account, campaign_id FROM keyword_rankings WHERE account = $account)
LEFT JOIN campaigns USING (account, campaign_id)
ORDER BY campaign_id
"""
"""The campaigns of an account that have rankings, with their company and group."""


def fails_again(error: str, status: int | None) -> bool:
    """Return whether a report would fail again, by the name of its error's class and the status of the response."""
    return error in (*_PERMANENT, "RedirectError") and status not in _RETRIED


@attrs.frozen
class History:
    """What pulls left behind, as long as it is open.

    Attributes:
        label: the database's name in messages.
        connection: a connection to DuckDB with the eight tables, and the views `keyword_rankings_by_day` and
            `keyword_rankings_latest`. It can't write, nor reach any other file, and its settings are locked.
    """

    label: str
    connection: duckdb.DuckDBPyConnection

    def accounts(self) -> list[str]:
        """Return the names of its accounts."""
        return [
            name
            for (name,) in self.connection.execute(
                "SELECT DISTINCT account FROM pulls ORDER BY 1"
            ).fetchall()
        ]

    def account(self, name: str | None) -> str:
        """Return the only account, if no name is given, or else the named one.

        Raises:
            ConfigurationError: there are several, or none of this name.
        """
        known = self.accounts()
        if name in known or (name is None and len(known) == 1):
            return known[0] if name is None else name
        problem = f"there is no account {shown(name)} in {self.label}; it has"
        if name is None:
            problem = f"{self.label} has several accounts; name one with account=…:"
        raise ConfigurationError(f"{problem} {listed(map(shown, known))}")

    def days(self, account: str) -> list[dt.date]:
        """Return the days that the rankings of an account speak of, in order.

        A report of the campaign feed speaks of the last day of its window, or of its night if that is earlier.
        """
        return Chosen(self, account, None, account).values(AS_OF)


@attrs.frozen
class Chosen:
    """The rankings that a question is about: those of some campaigns of an account, or of all (None), and a name."""

    history: History
    account: str
    campaigns: Sequence[int] | None
    name: str

    @classmethod
    def of(cls, history: History, account: str, campaign: int | None, group: str | None) -> Chosen:
        """Select one campaign, the campaigns of a group, or all campaigns of an account.

        Raises:
            ConfigurationError: the account has no such group.
        """
        rows = history.connection.execute(_CAMPAIGNS, {"account": account}).fetchall()
        companies = {id_: (company or "").strip() for id_, company, _ in rows}
        titles = {id_: (title or "").strip() for id_, _, title in rows}
        if campaign is not None:
            name = companies.get(campaign) or f"campaign {campaign}"
            return cls(history, account, [campaign], name)
        if group is None:
            return cls(history, account, list(companies) or None, account)
        wanted = group.strip().casefold()
        ids = [id_ for id_, title in titles.items() if title and title.casefold() == wanted]
        if not ids:
            others = listed(sorted(set(filter(None, titles.values())))) or "none"
            problem = f"{history.label} has no rankings of group {shown(group)}; it has {others}"
            raise ConfigurationError(problem, argument="group")
        return cls(history, account, ids, titles[ids[0]])

    def execute(self, query: str, **values: object) -> duckdb.DuckDBPyConnection:
        """Run a query that has `CHOSEN` in it, with its values."""
        values |= {"account": self.account, "campaigns": self.campaigns}
        return self.history.connection.execute(query, values)

    def values(self, column: str, rows: str = "keyword_rankings") -> list[Any]:
        """Return the different values of a column, in order."""
        query = f"SELECT DISTINCT {column} FROM {rows} WHERE {CHOSEN} ORDER BY 1"
        return [value for (value,) in self.execute(query).fetchall()]

    def known_days(self) -> list[dt.date]:
        """Return the days of these rankings; ConfigurationError: there is none."""
        if days := self.values(AS_OF):
            return days
        others = attrs.evolve(self, campaigns=None).values("campaign_id")
        advice = (
            f"it has campaigns {listed(others)}" if others else "pull the feed campaign into it"
        )
        if errors := self.values("error", "(FROM failures WHERE table_name = 'keyword_rankings')"):
            advice = f"its reports failed ({listed(errors)})"
        raise ConfigurationError(
            f"{self.history.label} has no keyword rankings of {self.name}; {advice}"
        )

    @property
    def more_days(self) -> str:
        """How each night has a day of its own."""
        return f"pull the last 30 days each night (seorep pull --last 30d -o {Path(self.history.label).name})"

    def repeated_nights(self) -> str | None:
        """Return a sentence about the last nights, if several speak of the same day."""
        query = f"""SELECT max({AS_OF}) FROM keyword_rankings WHERE {CHOSEN}
            GROUP BY snapshot_date ORDER BY snapshot_date DESC"""
        days = [day for (day,) in self.execute(query).fetchall()]
        same = next((number for number, day in enumerate(days) if day != days[0]), len(days))
        if same < 2:
            return None
        return f"The last {same:,} nights speak of one day, {days[0]}. To have a day for each night, {self.more_days}."

    def differing_windows(self, before: dt.date, after: dt.date) -> str | None:
        """Return a sentence about the windows of two days, if their lengths differ by more than three days."""
        query = f"""WITH counted AS (SELECT * FROM ({COUNTED_REPORTS}) WHERE {CHOSEN})
            SELECT e.start_date, e.end_date, l.start_date, l.end_date FROM counted AS e JOIN counted AS l
                USING (account, campaign_id) WHERE e.as_of = $before AND l.as_of = $after
                AND abs((e.end_date - e.start_date) - (l.end_date - l.start_date)) > 3
            GROUP BY ALL ORDER BY count(*) DESC, 1, 2, 3, 4 LIMIT 1"""
        for first, last, other_first, other_last in self.execute(
            query, before=before, after=after
        ).fetchall():
            windows = f"from {first} to {last}, those of {after} in a window from {other_first} to {other_last}"
            return f"The ranks of {before} were found in a window {windows}: windows of other lengths compare badly."
        return None


@contextmanager
def open_history(
    database: str | os.PathLike[str],
    *,
    limits: Mapping[str, str] | None = None,
    wait_seconds: float = 0.0,
) -> Generator[History, None, None]:
    """Open a database to read it; a pull can't write it meanwhile.

    Args:
        database: a file that pulls wrote, such as `rankings.duckdb`.
        limits: further settings of DuckDB, such as `memory_limit`.
        wait_seconds: how long to wait for a pull, or another program, that has the database open.

    Raises:
        ConfigurationError: no pull wrote the file, or its tables were changed.
        ExportError: it is being written.
        ImportError: the extra `duckdb` is missing.
    """
    if not isinstance(database, str | os.PathLike):
        raise ConfigurationError(
            f"database must be the path of a file, got {shown(database)}", argument="database"
        )
    duckdb, path = require("duckdb"), Path(database)
    if not os.path.isfile(path):  # unlike Path's own, it is false for a name that is too long
        raise _refusal(path, "there is no such file")
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(_connect(path, wait_seconds))
            _check_tables(connection, path)
            for (
                name,
                view,
            ) in VIEWS.items():  # for this connection, if no pull of this version has added them
                connection.execute(f"CREATE TEMP VIEW {name} AS {view}")
            for name, value in {**(limits or {}), "lock_configuration": "true"}.items():
                connection.execute(f"SET {name} = '{value}'")
        except duckdb.Error as error:
            if problem := why_closed(error):
                raise ExportError(f"can't read {path}: {problem}", file=path) from error
            raise _refusal(path, first_line(error)) from error
        try:
            yield History(str(path), connection)
        except RuntimeError as error:
            if "interrupted" in str(error):  # DuckDB's word for a signal
                raise KeyboardInterrupt from error
            raise


def _connect(path: Path, wait_seconds: float) -> Any:
    """Open a file to read it, as soon as no other program writes it."""
    duckdb = require("duckdb")
    until = time.monotonic() + wait_seconds
    while True:
        try:
            return duckdb.connect(str(path.absolute()), read_only=True, config=_SETTINGS)
        except duckdb.Error as error:
            if holder_of(error) is None or time.monotonic() >= until:
                raise
        time.sleep(_RETRY_SECONDS)


@contextmanager
def asked(database: str | os.PathLike[str]) -> Generator[History, None, None]:
    """Open a database for this package's own questions, whose errors are an `ExportError`."""
    duckdb = require("duckdb")
    try:
        with open_history(database) as history:
            yield history
    except duckdb.Error as error:
        raise ExportError(f"can't read {database}: {first_line(error)}") from error


def complete_windows(
    database: str | os.PathLike[str],
    *,
    account: str,
    selection: str | None = None,
    compared: bool = False,
) -> dict[tuple[dt.date, dt.date, Feed], tuple[bool, dt.datetime]]:
    """Return the pulls so far: first day, last day and feed → whether they are complete, and the last pull's start.

    They are complete once a pull that began after the last day (UTC) left only failures that would fail again: status
    403, 404 and other 4xx but 408 and 429, a response that can't be decoded, or a value that can't be written.

    Args:
        database: a file that pulls wrote.
        account: whose pulls.
        selection: as in the table `pulls`; None is every campaign.
        compared: whether only pulls count that requested changes from the previous period.

    Raises:
        ConfigurationError: no pull wrote the file, or its tables were changed.
        ExportError: it is being written, or is damaged.
        ImportError: the extra `duckdb` is missing.
    """
    query = f"""SELECT p.start_date, p.end_date, known.feed, max(p.started_at),
            bool_or(p.started_at::DATE > p.end_date AND NOT EXISTS (FROM failures f WHERE f.account = p.account
                AND f.snapshot_date = p.snapshot_date AND f.start_date = p.start_date AND f.end_date = p.end_date
                AND f.table_name = known.table_name AND (f.error NOT IN {_PERMANENT} OR f.status IN {_RETRIED})))
        FROM pulls p, (SELECT unnest($feeds) AS feed, unnest($tables) AS table_name) known
        WHERE p.account = $account AND list_contains(string_split(p.feeds, ','), known.feed)
            AND p.selection IS NOT DISTINCT FROM $selection AND (p.compared OR NOT $compared) GROUP BY ALL"""
    feeds, tables = [feed.value for feed in Feed], [table_of(feed).name for feed in Feed]
    values = {
        "account": account,
        "selection": selection,
        "compared": compared,
        "feeds": feeds,
        "tables": tables,
    }
    with asked(database) as history:
        found = history.connection.execute(query, values).fetchall()
    return {
        (first, last, Feed(name)): (complete, began) for first, last, name, began, complete in found
    }


def listed(names: Iterable[object]) -> str:
    """Return names for a message, of more than ten the first and the last ones."""
    every = [str(one) for one in names]
    if len(every) > 10:
        every[5:-5] = ["…"]
    return ", ".join(every)


def _check_tables(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Refuse a database that is not a pull's, or that was changed so that no pull takes it either."""
    found = found_columns(connection)
    lacking = [f"it has no table {table.name}" for table in all_tables() if table.name not in found]
    for problem in (*lacking, *problems(connection)):
        raise _refusal(path, problem)
    if not connection.execute("SELECT EXISTS (FROM pulls)").fetchall()[0][0]:
        raise _refusal(path, "no pull wrote it")


def _refusal(path: Path, problem: str) -> ConfigurationError:
    named = f"can't read {path}: {problem}; name a database that pulls wrote (.duckdb)"
    return ConfigurationError(named, argument="database")
