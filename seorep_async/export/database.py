"""A DuckDB database as a target: the nights of many accounts, each pull put into it in one transaction."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
import urllib.parse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export.files import (
    Retry,
    Target,
    check_file,
    check_reading,
    refusal,
    shortened,
    sync_folder,
)
from seorep_async.export.formats import Arrow
from seorep_async.export.pieces import made
from seorep_async.export.replacement import arriving_again, covered, quoted, same_key
from seorep_async.export.request import ExportRequest
from seorep_async.export.schema import first_line, found_columns, make_tables, problems, why_closed
from seorep_async.export.staging import Contents
from seorep_async.tables.columns import Table, fits
from seorep_async.tables.optional import require
from seorep_async.tables.output_tables import campaigns_table, table_of

if TYPE_CHECKING:
    import duckdb

WAIT_SECONDS = 60.0
"""How long a database that is open in another program is waited for."""
_RETRY_SECONDS = 0.1
_NOT_FOR_DUCKDB = set("?\\") if os.sep == "/" else set()
_log = logging.getLogger("seorep_async")
_writers: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)
"""DuckDB's lock keeps other processes out of a database; these, other pulls of this process."""


@attrs.frozen
class Database(Target):
    """A database file; other pulls into it are waited for while they write."""

    format: Arrow

    @property
    def staging_folder(self) -> Path:
        """A folder of the account's own, so that accounts of one database don't see each other's."""
        account = urllib.parse.quote(self.request.account, safe="")
        return self.path.with_name(f".{shortened(f'{self.path.name}.{account}')}.pull")

    def row_files(self) -> list[Path]:
        return [self.named]

    def check(self) -> None:
        """Refuse what is no database, and tables that were changed or are another program's."""
        if _NOT_FOR_DUCKDB & {*f"{self.path}{self.staging_folder}"}:
            raise refusal(self.named, r"DuckDB takes no path with a ? or a \ in it; name another")
        check_file(self.named, self.path)
        log = Path(f"{self.path}.wal")
        if self._is_new() and log.exists():  # DuckDB would add it to a new database
            raise refusal(
                self.named,
                f"{log.name} is of a database that was here; put it beside that, or remove it",
            )
        with self._connected() as database:
            for problem in problems(database):
                raise refusal(self.named, f"{problem}, or name another file")

    def check_accounts(self, account_ids: Sequence[int]) -> None:
        """Refuse another account's campaigns under the same name: the service says whose a campaign is."""
        with self._connected() as database:
            _check_accounts(database, self.request, account_ids)
            _warn_of_another_reading(database, self.request)

    def failed(self) -> Retry:
        """Find the requested campaigns that failed in earlier pulls of this night and these days."""
        request = self.request
        same_report = " AND ".join(f"{name} = ${name}" for name in request.labels)
        tables = [table_of(feed).name for feed in request.feeds]
        with self._connected() as database:
            if not {"pulls", "failures"} <= found_columns(database).keys():
                return Retry()
            pulls = database.execute(
                f"""SELECT string_split(feeds, ','), selection, reading
                FROM pulls WHERE {same_report} ORDER BY started_at DESC""",
                request.labels,
            ).fetchall()
            failures = database.execute(
                f"""SELECT DISTINCT campaign_id
                FROM failures
                WHERE {same_report} AND list_contains($tables, table_name)
                    AND campaign_id IS NOT NULL
                ORDER BY campaign_id""",
                {**request.labels, "tables": tables},
            ).fetchall()
        feeds = {feed.value for feed in request.feeds}
        # rows of one night may come from several pulls: the last one that shares a feed decides
        shared = [pull for pull in pulls if feeds.intersection(pull[0])]
        if not shared:
            return Retry()
        refusal = check_reading(request, shared[0][2])
        takes_any = not (request.campaigns or request.groups or request.filter)
        for pulled_feeds, selection, _ in shared:
            is_same_selection = selection == request.selection or (selection is None and takes_any)
            if is_same_selection and feeds.issubset(pulled_feeds):
                ids = [campaign_id for (campaign_id,) in failures if request.takes(campaign_id)]
                return Retry(ids, refusal)
        return Retry(None, refusal)

    def _is_new(self) -> bool:
        return not self.path.exists() or not self.path.stat().st_size

    @contextmanager
    def _connected(self, *, to_write: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open it, once no other program and no other pull has it open; to read one that is not there, an empty one."""
        until, ours = None, _writers[self.path]
        while True:
            with ExitStack() as ending:
                if ours.acquire(timeout=_RETRY_SECONDS):
                    ending.callback(ours.release)
                    file = ":memory:" if self._is_new() and not to_write else self.path
                    try:
                        database = ending.enter_context(_connect(file, is_new=self._is_new()))
                    except require("duckdb").Error as error:
                        if "onflicting lock" not in str(error) or (
                            until and time.monotonic() >= until
                        ):
                            raise self._refusal(error) from error
                    else:
                        yield database
                        return
                    if until is None:
                        _log.warning(
                            "%s is open in another program; waiting up to %d s",
                            self.path,
                            WAIT_SECONDS,
                        )
                        until = time.monotonic() + WAIT_SECONDS
            if self.stop.wait(_RETRY_SECONDS):
                raise ExportError("the pull was cancelled; run it again to write what is staged")

    def _refusal(self, error: Exception) -> Exception:
        if problem := why_closed(error):
            return ExportError(f"can't write {self.named}: {problem}", file=self.path)
        return refusal(self.named, f"{first_line(error)}; name another file")

    def write(self, contents: Contents, folder: Path) -> list[Path]:
        """Replace and add rows in one transaction; a new database appears in one step."""
        try:
            if not self._is_new() or not self._make(contents, folder):
                with self._connected(to_write=True) as database:
                    _fill(database, contents, self.format)
                    try:
                        database.execute("CHECKPOINT")
                    except require(
                        "duckdb"
                    ).Error as error:  # a full disk, or another connection of this process
                        problem = "%s has its new rows, but some are in %s.wal still; keep both together: %s"
                        _log.warning(problem, self.path, self.path.name, first_line(error))
        except require("duckdb").Error as error:
            for unfit in self.format.problems:
                raise unfit from error
            problem = f"can't write {self.named}: {first_line(error)}; nothing has changed in it"
            raise ExportError(problem, file=self.path) from error
        return [self.named] if contents.received else []

    def _make(self, contents: Contents, folder: Path) -> bool:
        """Make the database aside, and link it in place; False if that can't be, as another pull was faster."""
        file = made(folder, "rows.duckdb")
        with _connect(file, is_new=True) as database:
            _fill(database, contents, self.format)
            database.execute("CHECKPOINT")  # closing would do it too, but hide that a disk is full
        with open(file, "rb+") as opened:
            os.fsync(opened.fileno())
        try:
            if self.path.exists() and self._is_new():
                shutil.copymode(self.path, file)
                self.path.unlink()
            os.link(
                file, self.path
            )  # unlike a replacement, it spares one that another pull has made meanwhile
        except OSError:  # or there are no hard links here
            return False
        finally:
            file.unlink()
        sync_folder(self.path.parent)
        return True


def _connect(file: Path | str, *, is_new: bool) -> duckdb.DuckDBPyConnection:
    """Open a file; every DuckDB of the floor can open a new one."""
    config = {"storage_compatibility_version": "v1.0.0"} if is_new else {}
    found: duckdb.DuckDBPyConnection = require("duckdb").connect(str(file), config=config)
    return found


def _fill(database: duckdb.DuckDBPyConnection, contents: Contents, format_: Arrow) -> None:
    """Write all tables in one transaction; an error leaves it open, and closing the database takes it back."""
    database.execute("BEGIN")
    make_tables(database)
    _check_accounts(database, contents.request, contents.staging.plan.account_ids)
    _show_outcomes(database, contents)
    for table in contents.request.tables:
        _replace(database, contents, format_, table)
    database.execute("COMMIT")


def _check_accounts(
    database: duckdb.DuckDBPyConnection, request: ExportRequest, account_ids: Sequence[int]
) -> None:
    if not {"pulls", "campaigns"} <= found_columns(database).keys():
        return
    query = "SELECT DISTINCT account_id FROM campaigns WHERE account = ? AND account_id <> 0"
    known = {id_ for (id_,) in database.execute(query, [request.account]).fetchall()}
    problem = None
    if known and account_ids:
        if known.isdisjoint(account_ids):
            problem = f"of the service's account {min(known)}, and these campaigns are of account {min(account_ids)}"
    else:  # nobody says whose the campaigns are, so that the address is all that is known
        query = (
            "SELECT arg_max(service, started_at) FROM pulls WHERE account = ? HAVING count(*) > 0"
        )
        services = [service for (service,) in database.execute(query, [request.account]).fetchall()]
        if services and services != [request.service]:
            problem = f"of the service {services[0]}, not {request.service}"
    if problem:
        problem = f"it has rows under the account name {request.account} {problem}; give this account a name of its own"
        raise ConfigurationError(
            f"can't write the database: {problem} with account=…", argument="account"
        )


def _warn_of_another_reading(database: duckdb.DuckDBPyConnection, request: ExportRequest) -> None:
    """Log a warning if the account's last night was pulled with other options or engine names."""
    if "pulls" not in found_columns(database):
        return
    last_pull = database.execute(
        "SELECT snapshot_date, reading FROM pulls WHERE account = ? ORDER BY started_at DESC LIMIT 1",
        [request.account],
    ).fetchone()
    if last_pull is None:
        return
    night, reading = last_pull
    if reading is not None and reading != request.reading:
        _log.warning(
            "the last pull of %s into this database, of %s, had other options or engine names: "
            "rows of its nights may mean something else",
            request.account,
            night,
        )


def _show_outcomes(database: duckdb.DuckDBPyConnection, contents: Contents) -> None:
    """Make the relations of `replacement`: what was asked for, what came, what failed."""
    pa, staging, feeds = require("pyarrow"), contents.staging, contents.request.fetched_feeds
    campaigns = [(id_,) for id_ in staging.plan.ids if fits(id_)]
    failed = [(feed.value, id_) for feed in feeds for id_ in staging.failed_ids(feed) if fits(id_)]
    came = feeds if contents.received else ()
    reports = [
        (feed.value, ids[-1]) for feed in came for ids, *_ in staging.records(table_of(feed))
    ]
    keywords = list(staging.keywords()) if contents.received else []
    a_report = [("feed", pa.string()), ("id", pa.int64())]
    for name, rows, columns in (
        ("pulled_campaigns", campaigns, [("id", pa.int64())]),
        ("pulled_reports", reports, a_report),
        ("pulled_failures", failed, a_report),
        ("pulled_keywords", keywords, [("campaign_id", pa.int64()), ("keyword_id", pa.int64())]),
    ):
        batch = pa.RecordBatch.from_struct_array(pa.array(rows, pa.struct(columns)))
        database.register(name, pa.Table.from_batches([batch]))


def _replace(
    database: duckdb.DuckDBPyConnection, contents: Contents, format_: Arrow, table: Table
) -> None:
    """Delete the rows that a pull replaces, and insert its own; only where their keys matter, they are copied first."""
    request, rows = contents.request, "incoming"
    again = arriving_again(table, request)
    database.register(rows, format_.reader(contents.table(table)))
    if again is not None:
        database.execute("CREATE OR REPLACE TEMP TABLE arriving AS FROM incoming")
        if (
            table is campaigns_table()
        ):  # an answer without it does not make an account's campaigns nobody's
            rows_of = {"n": "arriving n", "r": "campaigns r"}
            for one, other in (("n", "r"), ("r", "n")):
                known = f"{rows_of[other]} WHERE {same_key(table)} AND coalesce({one}.account_id, 0) = 0"
                database.execute(
                    f"UPDATE {rows_of[one]} SET account_id = {other}.account_id FROM {known}"
                )
        is_there = f"EXISTS (SELECT 1 FROM {table.name} r WHERE {same_key(table)})"
        rows = f"arriving n WHERE NOT {is_there} ORDER BY n.rowid"
    for condition in (covered(table, request), again):
        if condition is not None:
            where = f"r.account = {quoted(request.account)} AND ({condition})"
            database.execute(f"DELETE FROM {table.name} r WHERE {where}")
    database.execute(f"INSERT INTO {table.name} BY NAME SELECT * FROM {rows}")
