"""The source of a history: a database or a dataset that pulls left behind, opened only to read."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from seorep_async.errors import ConfigurationError, ExportError, shown
from seorep_async.history.copies import CopiedParts, copied_parts
from seorep_async.history.parts import PartFile, arrow_dataset, committed_parts, newest_rows
from seorep_async.models import Feed
from seorep_async.old_export.atomic_replace import resolve
from seorep_async.old_export.database_file import (
    LATEST_VIEW,
    TYPES,
    all_columns,
    connected,
    first_line,
    shadowing_names,
)
from seorep_async.old_export.formats import Format
from seorep_async.old_export.storage import Storage, is_address, storage_of
from seorep_async.tables.declared import all_tables, campaigns_table, failures_table, pulls_table, table_of
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import duckdb

_SETTINGS = {"enable_external_access": "false", "python_enable_replacements": "false"}
_MOST_NAMED = 10
_OF_CAMPAIGNS = ("account", "campaign_id", "company", "group_title")
_PARTS = "arrow_parts_of_"
_POSSIBLE = "BETWEEN '0001-01-01' AND '9999-12-31'"
"""The condition of a day or time that a pull can have: DuckDB has others, which Python has not."""


@attrs.frozen
class History:
    """What pulls left behind, as long as it is open.

    Attributes:
        label: the source's name in messages.
        connection: a connection to DuckDB with the eight tables, and the view `keyword_rankings_latest`. It can't reach
            any file, and its settings are locked. The tables of a dataset are views of what is committed: as in a
            database, they have one row of each campaign, keyword and date, that of the newest night.
    """

    label: str
    connection: duckdb.DuckDBPyConnection

    def accounts(self) -> list[str]:
        """Return the names of its accounts."""
        return [name for (name,) in self.connection.execute("SELECT DISTINCT account FROM pulls ORDER BY 1").fetchall()]

    def account(self, name: str | None) -> str:
        """Return the only account, if no name is given, or else the named one.

        ConfigurationError: there are several, or none of this name.
        """
        known = self.accounts()
        if name is None and len(known) == 1:
            return known[0]
        if name in known:
            return str(name)
        if name is None:
            names = listed(map(shown, known))
            raise ConfigurationError(f"{self.label} has several accounts; name one with account=…: {names}")
        raise no_account(name, self.label, known)

    def nights(self, account: str) -> list[dt.date]:
        """Return the nights of an account for which the campaign feed was pulled and any row was written, in order."""
        query = f"""SELECT DISTINCT snapshot_date FROM pulls WHERE snapshot_date {_POSSIBLE}
            AND account = ? AND list_contains(string_split(feeds, ','), 'campaign') AND rows > 0 ORDER BY 1"""
        return [night for (night,) in self.connection.execute(query, [account]).fetchall()]

    def known_nights(self, account: str, nights: Iterable[dt.date]) -> str:
        """Return the nights of an account in words, for a message."""
        return f"{self.label} has rankings of {account} of {listed(map(str, nights)) or 'no night'}"


@attrs.frozen
class RankingHistory(History):
    """A history for questions about the rankings of one account; of a dataset, only `pulls` is open until `choose`."""

    parts: CopiedParts | None = None

    def ranked_nights(self, account: str) -> list[dt.date]:
        """Return the nights of an account that have rankings, in order."""
        if self.parts is not None:
            return self.parts.nights(table_of(Feed.CAMPAIGN), account)
        query = "SELECT DISTINCT snapshot_date FROM keyword_rankings WHERE account = ?"
        found = self.connection.execute(f"{query} AND snapshot_date {_POSSIBLE} ORDER BY 1", [account])
        return [night for (night,) in found.fetchall()]

    def choose(self, account: str, nights: Collection[dt.date]) -> None:
        """Open an account's campaigns, and its rankings and failures of some nights."""
        if self.parts is not None:
            for table in (table_of(Feed.CAMPAIGN), failures_table()):
                self.parts.show(table, account, nights)
            self.parts.show(campaigns_table(), account, at_once=_OF_CAMPAIGNS)


@contextmanager
def open_history(
    source: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    limits: Mapping[str, str] | None = None,
) -> Generator[History, None, None]:
    """Open a database or a dataset to read it; a pull can't write a database meanwhile.

    Args:
        source: a file, such as `rankings.duckdb`, or a dataset: a folder, or an address such as `s3://bucket/rankings/`.
        storage_options: of an object store, by obstore's names.
        limits: further settings of DuckDB, such as `memory_limit`.

    Raises:
        ConfigurationError: no pull wrote the source, or it was changed.
        ExportError: it is being written, or is damaged.
        ImportError: an extra is missing.
    """
    with _opened(source, storage_options, _dataset, limits) as history:
        yield history


@contextmanager
def open_rankings(
    source: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> Generator[RankingHistory, None, None]:
    """Open a database or a dataset for this package's own questions; arguments and errors as of `open_history`."""
    try:
        with _opened(source, storage_options, _copied_dataset) as history:
            yield history
    except require("duckdb").Error as error:
        raise ExportError(f"can't read {os.fspath(source)}: {first_line(error)}") from error


def pulled_feeds(
    source: str | os.PathLike[str],
    *,
    account: str,
    selection: str | None,
    compared: bool,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[tuple[dt.date, dt.date, Feed], tuple[bool, dt.datetime]]:
    """Return the pulls so far: first day, last day and feed → whether they are complete, and the last pull's start.

    They are complete once a pull that began after the last day (UTC) fetched them without a failure. Pulls count if
    they have this `selection`, None being every campaign, and if `compared`, only those that requested changes from the
    previous period. Other arguments and errors are as of `open_history`.
    """
    complete = "bool_or(failures = 0 AND started_at::DATE > end_date)"
    query = f"""SELECT start_date, end_date, known.feed, {complete}, max(started_at)
        FROM (SELECT * FROM pulls WHERE started_at {_POSSIBLE}), unnest($feeds::VARCHAR[]) known(feed)
        WHERE list_contains(string_split(feeds, ','), known.feed) AND account = $account
        AND selection IS NOT DISTINCT FROM $selection AND (compared OR NOT $compared) GROUP BY ALL"""
    values = {"account": account, "selection": selection, "compared": compared, "feeds": [one.value for one in Feed]}
    with open_rankings(source, storage_options=storage_options) as history:
        found = history.connection.execute(query, values).fetchall()
    return {(first, last, Feed(name)): (complete, began) for first, last, name, complete, began in found}


@contextmanager
def _opened(
    source: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None,
    dataset: Callable[[str, Storage], AbstractContextManager[RankingHistory]],
    limits: Mapping[str, str] | None = None,
) -> Generator[RankingHistory, None, None]:
    if not isinstance(source, str | os.PathLike) or not isinstance(place := os.fspath(source), str) or "\0" in place:
        raise ConfigurationError(f"source must be a path or an address, got {shown(source)}")
    duckdb, storage = require("duckdb"), storage_of(place, storage_options)
    is_dataset = is_address(place) or Path(place).is_dir()
    with ExitStack() as opened:
        try:
            history = opened.enter_context(dataset(place, storage) if is_dataset else _database(place))
            for name, value in {**(limits or {}), "lock_configuration": "true"}.items():
                history.connection.execute(f"SET {name} = '{value}'")
            known = history.connection.execute("FROM pulls SELECT 1 LIMIT 1").fetchall()  # computes no column
        except duckdb.Error as error:
            raise _refusal(place, first_line(error)) from error
        if not known:
            raise _refusal(place, "no pull wrote it")
        try:
            yield history
        except RuntimeError as error:
            if "interrupted" in str(error):  # DuckDB's name for a signal
                raise KeyboardInterrupt from error
            raise


def database_path(place: str) -> Path:
    """Return the path of a database's file; ConfigurationError: there is no file, or one of rows."""
    path = resolve(Path(place))
    if not path.is_file():
        raise _refusal(place, "there is no such file")
    if path.suffix.lower() in {kind.value for kind in Format} - {Format.DUCKDB.value}:
        raise _refusal(place, "it holds rows, and no database")
    return path


def listed(names: Iterable[str]) -> str:
    """Return names for a message, of many the last ones."""
    every = list(names)
    return ", ".join(["…", *every[-_MOST_NAMED:]] if len(every) > _MOST_NAMED else every)


def no_account(name: str, label: Path | str, known: Iterable[str]) -> ConfigurationError:
    """Return the error for an account that is not among those known."""
    names = listed(map(shown, sorted(known))) or "none"
    return ConfigurationError(f"there is no account {shown(name)} in {label}; it has {names}")


@contextmanager
def _database(place: str) -> Generator[RankingHistory, None, None]:
    path = database_path(place)
    with connected(path, path, to_read=_SETTINGS) as database:
        for problem in shadowing_names(database):
            raise _refusal(place, problem)
        found = all_columns(database)
        for table in all_tables():
            for column in table.columns:
                held = found.get(table.name, {}).get(column.name)
                if held is None or held.type != TYPES[column.type]:
                    problem = f"its table {table.name} has no column {column.name} of type {TYPES[column.type]}"
                    raise _refusal(place, f"{problem}; if it is a pull's, pull into it again")
        yield RankingHistory(place, database)


@contextmanager
def _copied_dataset(place: str, storage: Storage) -> Generator[RankingHistory, None, None]:
    with copied_parts(committed_parts(storage)) as parts:
        parts.show(pulls_table(), at_once=[column.name for column in pulls_table().columns])
        yield RankingHistory(place, parts.connection, parts)


@contextmanager
def _dataset(place: str, storage: Storage) -> Generator[RankingHistory, None, None]:
    duckdb, pa = require("duckdb"), require("pyarrow")
    parts = [PartFile(one) for one in committed_parts(storage)]
    with duckdb.connect(config=_SETTINGS) as database:
        # DuckDB doesn't know how many rows the parts have, and would guess wrong: joins stay as a query has them
        database.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        for table in all_tables():
            of_table = [part for part in parts if part.stored.table == table.name]
            database.register(f"{_PARTS}{table.name}", arrow_dataset(table, of_table))
            database.execute(f"CREATE VIEW {table.name} AS FROM {_PARTS}{table.name} {newest_rows(table)}")
        database.execute(LATEST_VIEW)
        try:
            yield RankingHistory(place, database)
        except (duckdb.Error, pa.ArrowException, ConfigurationError) as error:  # the last is `_opened`'s, for the first
            for part in parts:
                part.check(error)
            raise


def _refusal(place: str, problem: str) -> ConfigurationError:
    return ConfigurationError(f"can't read {place}: {problem}; name a database or a dataset that a pull wrote")
