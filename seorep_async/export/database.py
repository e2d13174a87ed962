"""A DuckDB database as a target, for the nights of many accounts.

Each pull is added in one transaction. A night is the snapshot date of an account's pull.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import shutil
import time
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from seorep_async.errors import ConfigurationError, ExportError, suggestion
from seorep_async.export.database_use import DatabaseUse, use_of
from seorep_async.export.files import (
    RetryableFailures,
    Target,
    check_file,
    check_row_options,
    discard,
    has_content,
    refusal,
    shortened,
    sync_file,
    sync_folder,
)
from seorep_async.export.formats import Arrow
from seorep_async.export.pieces import unfinished_path
from seorep_async.export.replacement import (
    CAMPAIGN_RULE,
    MONTH_RULE,
    OUTDATED_REPORTS,
    STATEMENTS,
)
from seorep_async.export.request import ExportRequest
from seorep_async.export.schema import (
    CHARACTERS_NOT_FOR_DUCKDB,
    DAMAGED,
    NO_DATABASE,
    PATH_NOT_FOR_DUCKDB,
    THIS_PROGRAM,
    found_columns,
    holder_of,
    is_cut_off,
    is_damaged,
    make_tables,
    may_be_database,
    problems,
    reason_in_one_line,
    why_not_opened,
)
from seorep_async.export.staging import CANCELLED, Contents
from seorep_async.models import Feed
from seorep_async.tables.columns import fits
from seorep_async.tables.optional import require
from seorep_async.tables.output_tables import table_of

if TYPE_CHECKING:
    import duckdb

_log = logging.getLogger("seorep_async")
WAIT_SECONDS = 60.0
"""How long a pull waits for a database that another program, or this one, has open."""
_RETRY_SECONDS = 0.1

_ARROW_TYPES = {
    "table_name": "string",
    "feed": "string",
    "campaign_id": "int64",
    "keyword_id": "int64",
}
"""The columns of `failed_reports`, in order, and their Arrow types. The other relations about the
pull have some of them.
"""
_ACCOUNTS = """
    SELECT
        account,
        coalesce(ids, []),
        arg_max(service, started_at),
        arg_max(snapshot_date, started_at),
        arg_max_null(reading, started_at)
    FROM pulls
    LEFT JOIN (
        -- an id of 0 or null is no account
        SELECT account, list(DISTINCT account_id) FILTER (account_id <> 0) AS ids
        FROM campaigns
        GROUP BY account
    ) USING (account)
    GROUP BY account, ids
    ORDER BY account
"""
"""The name of each account, and the values of its `KnownAccount`."""
_PULLS_OF_FEEDS = """
    SELECT
        reading,
        (selection IS NOT DISTINCT FROM $selection OR (selection IS NULL AND $asks_for_all))
            AND list_has_all(string_split(feeds, ','), $feeds)
    FROM pulls
    WHERE account = $account AND snapshot_date = $snapshot_date
        AND start_date = $start_date AND end_date = $end_date
        AND list_has_any(string_split(feeds, ','), $feeds)
    ORDER BY started_at DESC
"""
"""The night's pulls of the requested days that have a requested feed, the latest first.

The second column is whether the pull requested all that is requested now.
"""
_FAILED_CAMPAIGNS = """
    SELECT DISTINCT campaign_id
    FROM failures
    WHERE account = $account AND snapshot_date = $snapshot_date
        AND start_date = $start_date AND end_date = $end_date
        AND list_contains($tables, table_name)
        AND campaign_id IS NOT NULL
        AND coalesce(list_contains($ids::BIGINT[], campaign_id), true)
        AND NOT list_contains($exclude::BIGINT[], campaign_id)
    ORDER BY campaign_id
"""
"""The requested campaigns that failed in the night's pulls of the requested days and feeds."""


@attrs.frozen
class Database(Target):
    """A database file. A pull waits while another pull, or another program, has it open.

    Attributes:
        accounts: the accounts in the database, by name; empty until `check`.
    """

    format: Arrow
    force: bool = False
    accounts: dict[str, KnownAccount] = attrs.field(factory=dict)

    @property
    def staging_folder(self) -> Path:
        """The staging folder. Each account has its own, so the reports of two never mix."""
        account = urllib.parse.quote(self.request.account, safe="")
        return self.path.with_name(f".{shortened(f'{self.path.name}.{account}')}.pull")

    def other_staging_folders(self) -> list[Path]:
        """Return the staging folders of other accounts for this database."""
        # `staging_folder` gives them names of the form .DATABASE.ACCOUNT.pull, and cuts a long name
        # at its end. If the cut falls within the database's own name, they are not found.
        folders = []
        for folder in sorted(self.path.parent.glob(".*.pull")):
            is_for_us = folder.name.startswith(f".{self.path.name}.")
            if is_for_us and folder != self.staging_folder:
                folders.append(folder)
        return folders

    def check(self) -> None:
        """Refuse a file that is not a database, and tables that were changed or are not ours."""
        if CHARACTERS_NOT_FOR_DUCKDB & {*str(self.path), *str(self.staging_folder)}:
            raise refusal(self.out, f"{PATH_NOT_FOR_DUCKDB}; name another")
        check_file(self.out, self.path)
        if not has_content(self.path):
            self._refuse_log_without_database()
            return
        with self._connected() as database:
            # one problem at a time
            for problem in problems(database):
                raise refusal(self.out, f"{problem}, or name another file")
            self.accounts.update(_accounts(database))
            # a pull would fill the missing end with its own rows, and so hide the damage
            if self.accounts and is_cut_off(database, self.path):
                raise ExportError(f"can't write {self.out}: {DAMAGED}", file=self.path)

    def _refuse_log_without_database(self) -> None:
        """Refuse a log that is left from an earlier database. Called if there is no database."""
        # A crash leaves a log, and somebody may then remove only the database. DuckDB would replay
        # the log into the new database.
        log = Path(f"{self.path}.wal")
        if log.exists():
            problem = f"{log.name} belongs to a database that was here"
            raise refusal(self.out, f"{problem}; put it beside that database, or remove it")

    def check_accounts(self, account_ids: Sequence[int]) -> None:
        """Refuse another account's campaigns under the same name, and a name that looks misspelt.

        Any other new name, and a change of options or engine names, are only logged.

        Args:
            account_ids: the service's ids of the accounts that the campaigns belong to.
        """
        known_account = self.accounts.get(self.request.account)
        if known_account is not None:
            known_account.check_owner(self.request, account_ids)
            known_account.warn_of_other_options(self.request)
        elif self.accounts:
            self._check_new_name(account_ids)

    def _check_new_name(self, account_ids: Sequence[int]) -> None:
        """Refuse a new name that resembles the one that the database has for the same account.

        Any other new name begins an account, with a warning.
        """
        name = self.request.account
        own_names = self.names_of_ids(account_ids)
        problem = f"the database has no account {name} yet"
        if own_names:
            problem += f", and has these campaigns under {' and '.join(own_names)}"
        if suggestion(name, own_names) and not self.force:
            raise ConfigurationError(
                f"{problem}; pass that name as account=…, or begin a new account with force=True",
                argument="account",
            )
        advice = ""
        if own_names:
            names = " or ".join(own_names)
            advice = f"; to go on with {names} instead, stop it, and pass that name as account=…"
        _log.warning("%s; this pull begins account %s%s", problem, name, advice)

    def notes_on_new_account(self) -> tuple[str, ...]:
        """Return a note if this pull begins an account beside others."""
        name = self.request.account
        if not self.accounts or name in self.accounts:
            return ()
        return (f"begins account {name} beside {' and '.join(self.accounts)}",)

    def names_of_ids(self, account_ids: Iterable[int]) -> list[str]:
        """Return the names under which the database has any of these account ids."""
        return [
            name
            for name, account in self.accounts.items()
            if not account.ids.isdisjoint(account_ids)
        ]

    def find_retry(self) -> RetryableFailures:
        """Find the campaigns that failed in earlier pulls of this night and these days.

        There is something to retry only if one of these pulls requested all that is requested now.
        """
        request = self.request
        # a retry of a pull of all campaigns may exclude campaigns that can't succeed
        asks_for_all = request.campaigns is None and not request.groups and request.filter is None
        parameters = {
            **request.labels,
            "feeds": [feed.value for feed in request.feeds],
            "tables": [table_of(feed).name for feed in request.feeds],
            "selection": request.selection,
            "asks_for_all": asks_for_all,
            # None for all campaigns
            "ids": request.campaigns and [*request.campaigns],
            "exclude": [*request.exclude],
        }
        with self._connected() as database:
            if not {"pulls", "failures"} <= found_columns(database).keys():
                return RetryableFailures()
            pulls = _ask(database, _PULLS_OF_FEEDS, parameters)
            failures = _ask(database, _FAILED_CAMPAIGNS, parameters)
        # Pulls are sorted, the latest first. The rows that stay are from the last pull that
        # requested everything, or from later ones. So all of these pulls must have the same row
        # options as the request.
        first_error = None
        for row_options, has_requested_all in pulls:
            first_error = first_error or check_row_options(request, row_options)
            if has_requested_all:
                return RetryableFailures([campaign_id for (campaign_id,) in failures], first_error)
        return RetryableFailures()

    @contextmanager
    def _connected(self, *, to_write: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open the database once no other pull and no other program has it open."""
        with ExitStack() as stack:
            database = self._open_when_free(stack, to_write=to_write)
            with self._damage_refused():
                yield database

    def _open_when_free(self, stack: ExitStack, *, to_write: bool) -> duckdb.DuckDBPyConnection:
        """Wait until the database can be opened, and open it until the stack is closed."""
        deadline = None
        use = use_of(self.path)
        with ExitStack() as wait:
            # `_opened` returns None while another pull of this process has the lock. That wait has
            # no limit, because that pull will end. `_opened` raises an error while another program,
            # or this program outside of a pull, has the file open. That wait is limited.
            while True:
                try:
                    database = self._opened(stack, use, to_write=to_write)
                    if database is not None:
                        return database
                except require("duckdb").Error as error:
                    # frees the lock, so that other pulls can wait at the same time
                    stack.close()
                    holder = holder_of(error)
                    is_over_limit = deadline is not None and time.monotonic() >= deadline
                    if holder is None or is_over_limit:
                        raise self._error_from(error) from error
                    # the minute begins when the database is first found to be open elsewhere
                    if deadline is None:
                        deadline = time.monotonic() + WAIT_SECONDS
                        self._begin_to_wait(wait, use, holder)
                if self.stop.wait(_RETRY_SECONDS):
                    raise ExportError(CANCELLED)

    def _begin_to_wait(self, wait: ExitStack, use: DatabaseUse, holder: str) -> None:
        """Log that this pull waits. Until `wait` is closed, new readers in this process wait."""
        _log.warning("%s is open in %s; waiting up to %d s", self.path, holder, WAIT_SECONDS)
        if holder == THIS_PROGRAM:
            wait.enter_context(use.waiting())

    def _opened(
        self, stack: ExitStack, use: DatabaseUse, *, to_write: bool
    ) -> duckdb.DuckDBPyConnection | None:
        """Open the database until the stack is closed. Return None if another pull has the lock.

        A database that was removed meanwhile is read as an empty database in memory.
        """
        if not use.pull.acquire(timeout=_RETRY_SECONDS):
            return None
        stack.callback(use.pull.release)
        is_new = not has_content(self.path)
        if not is_new and not may_be_database(self.path):
            raise refusal(self.out, f"{NO_DATABASE}; name another file, or restore a backup")
        # a check must not create the file, because a refused pull would leave it behind
        file = ":memory:" if is_new and not to_write else self.path
        with use.opening:
            database = _connect(file, is_new=is_new)
            stack.enter_context(use.writing())
            return stack.enter_context(database)

    @contextmanager
    def _damage_refused(self) -> Iterator[None]:
        """Refuse a database if a query finds damage that opening the file did not find."""
        try:
            yield
        except require("duckdb").Error as error:
            if is_damaged(error):
                raise self._error_from(error) from error
            raise

    def _error_from(self, error: Exception) -> Exception:
        """Return our error for DuckDB's error on opening or reading the file."""
        reason = why_not_opened(error)
        if reason is None:
            return refusal(self.out, f"{reason_in_one_line(error)}; name another file")
        return ExportError(f"can't write {self.out}: {reason}", file=self.path)

    def write(self, contents: Contents, folder: Path) -> list[Path]:
        """Replace and add rows in one transaction; a new database appears in one step."""
        duckdb = require("duckdb")
        try:
            # if another pull creates the database meanwhile, rows are added to that one
            if has_content(self.path) or not self._make(contents, folder):
                with self._connected(to_write=True) as database:
                    _fill(database, contents, self.format)
                    self._checkpoint(database)
        except duckdb.Error as error:
            # DuckDB passes on only the text of our errors, such as the error about a damaged piece,
            # so the first of them is raised itself
            for original in self.format.problems:
                raise original from error
            problem = f"can't write {self.out}: {reason_in_one_line(error)}"
            advice = "free some space" if "No space left" in problem else "correct that"
            raise ExportError(
                f"{problem}; nothing has changed in it, and the fetched reports are kept: "
                f"{advice}, and run this again",
                file=self.path,
            ) from error
        return [self.out] if contents.received else []

    def _checkpoint(self, database: duckdb.DuckDBPyConnection) -> None:
        """Move the committed rows from the log into the file.

        A full disk or another connection of this process may prevent it; nothing is lost then.
        """
        try:
            database.execute("CHECKPOINT")
        except require("duckdb").Error as error:
            _log.warning(
                "%s has its new rows, but some are still in %s.wal; keep both together: %s",
                self.path,
                self.path.name,
                reason_in_one_line(error),
            )

    def _make(self, contents: Contents, folder: Path) -> bool:
        """Create a new database in a temporary file, and link it in place.

        Return False if that is impossible: another pull has created one, or the file system has no
        hard links.
        """
        file = unfinished_path(folder, "rows.duckdb")
        with _connect(file, is_new=True) as database:
            _fill(database, contents, self.format)
            # closing does the same, but hides the error of a full disk
            database.execute("CHECKPOINT")
        sync_file(file)
        try:
            # an empty file may be in place, and its permissions are kept
            with suppress(OSError):
                shutil.copymode(self.path, file)
            # an empty file is removed, but not a database that another pull has just created
            if not has_content(self.path):
                self.path.unlink(missing_ok=True)
            os.link(file, self.path)
        except OSError:
            return False
        finally:
            discard(file)
        sync_folder(self.path.parent)
        return True


def _connect(file: Path | str, *, is_new: bool) -> duckdb.DuckDBPyConnection:
    """Open a database file; a new one gets a format that every supported DuckDB can open."""
    config = {"storage_compatibility_version": "v1.0.0"} if is_new else {}
    database: duckdb.DuckDBPyConnection = require("duckdb").connect(str(file), config=config)
    return database


@attrs.frozen
class KnownAccount:
    """An account in a database.

    Attributes:
        ids: its ids in the service.
        service, night, row_options: the values of its last pull. The row options are None if an
            older version made that pull, because it did not record them.
    """

    ids: set[int] = attrs.field(converter=set)
    service: str
    night: dt.date
    row_options: str | None

    def check_owner(self, request: ExportRequest, account_ids: Sequence[int]) -> None:
        """Refuse campaigns of another account of the service, or of another service."""
        if self.ids and account_ids:
            if not self.ids.isdisjoint(account_ids):
                return
            owner = f"of the service's account {min(self.ids)}"
            problem = f"{owner}, and these campaigns are of account {min(account_ids)}"
        else:
            # one of the accounts has no known id, so only the addresses can be compared
            if self.service == request.service:
                return
            problem = f"of the service {self.service}, not {request.service}"
        raise ConfigurationError(
            f"can't write the database: it has rows under the account name {request.account} "
            f"{problem}; give this account a name of its own with account=…",
            argument="account",
        )

    def warn_of_other_options(self, request: ExportRequest) -> None:
        """Log a warning if the account's last pull had other options or engine names."""
        if self.row_options in (None, request.row_options):
            return
        _log.warning(
            "the last pull of %s into this database, on the night of %s, had other options or "
            "engine names: its rows may mean something else",
            request.account,
            self.night,
        )


def _accounts(database: duckdb.DuckDBPyConnection) -> dict[str, KnownAccount]:
    """Return the accounts with pulls, by name."""
    if not {"pulls", "campaigns"} <= found_columns(database).keys():
        return {}
    return {name: KnownAccount(*facts) for name, *facts in database.execute(_ACCOUNTS).fetchall()}


def _fill(database: duckdb.DuckDBPyConnection, contents: Contents, format_: Arrow) -> None:
    """Write all tables in one transaction.

    An error leaves the transaction open, and closing the database rolls it back.
    """
    request = contents.request
    database.execute("BEGIN")
    make_tables(database)
    # checked again, because another pull may have used this name since the first check
    known_account = _accounts(database).get(request.account)
    if known_account is not None:
        known_account.check_owner(request, contents.staging.plan.account_ids)
    _register_outcomes(database, contents)
    parameters = {
        **request.labels,
        "tables": [table_of(feed).name for feed in request.feeds],
        "selection": request.selection,
        # stored in the column `reading`
        "reading": request.row_options,
    }
    for statement in (MONTH_RULE, CAMPAIGN_RULE, OUTDATED_REPORTS):
        _ask(database, statement, parameters)
    for table in request.tables:
        database.register("incoming", format_.reader(contents.source_of(table)))
        for statement in STATEMENTS[table.name]:
            _ask(database, statement, parameters)
    database.execute("COMMIT")


def _ask(
    database: duckdb.DuckDBPyConnection, statement: str, parameters: dict[str, Any]
) -> list[tuple[Any, ...]]:
    """Execute a statement with the parameters that occur in it, and return its rows."""
    # DuckDB refuses values for other parameters
    values = {name: value for name, value in parameters.items() if f"${name}" in statement}
    return database.execute(statement, values).fetchall()


def _register_outcomes(database: duckdb.DuckDBPyConnection, contents: Contents) -> None:
    """Register the relations that the statements of `replacement` read."""
    staging = contents.staging
    pulled_reports = []
    failed_reports = []
    # if nothing was received, no rows are replaced
    if contents.received:
        for feed in staging.request.fetched_feeds:
            # a campaign's report names its keywords, even if the keywords' reports failed
            source = Feed.CAMPAIGN if feed is Feed.KEYWORD_BY_DATE else feed
            pulled_reports += [
                (table_of(feed).name, report.record.ids[0])
                for report in staging.staged_reports(table_of(source))
            ]
        failed_reports = [
            (table.name, table.feed.value, campaign_id, keyword_id)
            for table, campaign_id, keyword_id, _ in staging.failed_reports()
            if fits(campaign_id)
        ]
    pulled_campaigns = [(id_,) for id_ in staging.plan.ids if fits(id_)]
    _register(database, "pulled_campaigns", ["campaign_id"], pulled_campaigns)
    _register(database, "pulled_reports", ["table_name", "campaign_id"], pulled_reports)
    _register(database, "failed_reports", [*_ARROW_TYPES], failed_reports)


def _register(
    database: duckdb.DuckDBPyConnection,
    name: str,
    columns: Sequence[str],
    rows: Iterable[tuple[Any, ...]],
) -> None:
    """Let DuckDB read rows as a relation with this name."""
    pa = require("pyarrow")
    schema = pa.schema([(column, _ARROW_TYPES[column]) for column in columns])
    dictionaries = [dict(zip(columns, row, strict=True)) for row in rows]
    database.register(name, pa.Table.from_pylist(dictionaries, schema=schema))
