"""The work of a pull in progress: kept in a hidden folder beside the target, so that another run can go on with it."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any

import attrs

from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export.errors import UNSTORABLE, export_error, reason, translate_errors
from seorep_async.export.formats import Block, Unit, block_of, unstorable
from seorep_async.export.job import ExportJob
from seorep_async.export.journal import BlockPlace, DoneUnit, Journal, differences, one_at_a_time, refusal
from seorep_async.export.parts import Parts
from seorep_async.export.target import Target
from seorep_async.models import Feed, RankingTotals
from seorep_async.reports import RankingReport
from seorep_async.tables.columns import table_of, totals_values


@attrs.frozen
class Arrived:
    """A report that came.

    Attributes:
        report: the report.
        kept: whether its rows are wanted; or else only the keywords that they name.
        keywords: whether the keywords in its rows are wanted.
    """

    report: RankingReport[Any]
    kept: bool = True
    keywords: bool = False


@attrs.frozen
class Stored:
    """What became of a report that came.

    Attributes:
        rows: rows that are kept now.
        failures: campaign, keyword and error of those that the format can't hold.
    """

    rows: int
    failures: tuple[tuple[int, int | None, ExportError], ...] = ()


class Work:
    """The work folder of one pull, locked to this process while it is open; a context manager.

    Left, it stays if there is a report in it, and goes if there is none.

    Args:
        target: where the pull goes.
        job: what it is asked to bring.
        restart: forget what another run has left.
        retry_failed: go on also with a pull that has ended, with failures.
    """

    def __init__(self, target: Target, job: ExportJob, *, restart: bool = False, retry_failed: bool = False) -> None:
        self.target = target
        self.job = job
        self.folder: Path = target.work_folder
        self._removed = self.folder.with_name(f"{self.folder.name}.done")
        self._restart = restart
        self._retry_failed = retry_failed
        self._open = contextlib.ExitStack()
        self.is_open: bool = False

    def __enter__(self) -> Work:
        """Open it, and go on with what is there.

        Raises:
            ConfigurationError: another pull has left work there that this one can't go on with.
            ExportError: another process is at work on it, or it can't be written.
        """
        try:
            shutil.rmtree(self._removed, ignore_errors=True)
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"can't write {self.target.path}: {reason(error)}") from error
        try:
            with translate_errors(self.folder):
                self.journal: Journal = self._open_journal()
                self._open.callback(self.journal.close)
                self._parts = Parts(self.folder / "rows")
                self._open.callback(self._parts.close)
                self._go_on_or_begin()
        except BaseException:
            self.close()
            # it is not empty, as a rule, but for a moment it may be another's who is opening it
            with contextlib.suppress(OSError, sqlite3.Error), one_at_a_time(self.folder):
                self.folder.rmdir()
            raise
        self.is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.is_open:  # it was removed
            return
        try:
            empty = self.journal.is_empty()
        except sqlite3.Error:
            empty = False
        if empty:
            self.remove()
        else:
            with contextlib.suppress(ExportError):  # whoever goes on looks what is there
                self.sync()
        self.close()

    def close(self) -> None:
        """Close what is open of it; another process can go on with it then."""
        self.is_open = False
        self._open.close()

    def remove(self) -> Path | None:
        """Delete the folder, and what is in it; return what could not be deleted, or None."""
        # renamed first, and while it is locked: half-deleted it would look like the work of a pull that was cut off
        try:
            self.folder.rename(self._removed)
        except OSError:  # some systems don't rename what is open
            with contextlib.suppress(sqlite3.Error):
                self.journal.disown()  # nobody is to go on with it, if it stays
            self.close()
            with contextlib.suppress(OSError):
                self.folder.rename(self._removed)
        shutil.rmtree(self._removed, ignore_errors=True)
        self.close()
        return next((folder for folder in (self.folder, self._removed) if folder.is_dir()), None)

    def store(self, feed: Feed, arrived: Arrived) -> Stored:
        """Write a report, and then note that it is done, with the checksum of its rows.

        It outlives this process from then on, and a power failure after the next `sync`: whoever goes on takes as done
        only what is there with its checksum.

        Raises:
            ExportError: it could not be written; it is not done.
        """
        with translate_errors(self.folder):
            units = self._units(arrived.report) if arrived.kept else []
            block, failures = self._block(feed, units)
            failed = {(campaign_id, keyword_id) for campaign_id, keyword_id, _ in failures}
            kept = [u for u in units if (u.campaign_id, u.report.keyword_id) not in failed]
            place = self._parts.append(block.data) if kept else BlockPlace(0, 0, 0)
            done, start = [], 0
            for unit, length in zip(kept, block.lengths, strict=True):
                done.append(_done(unit, place, start, length))
                start += length
            found: dict[int, Iterable[int]] = {}
            if arrived.keywords:
                found[arrived.report.id] = map(attrgetter("keyword_id"), arrived.report.rows)
            self.journal.add(feed, place, done, found)
        return Stored(sum(unit.rows for unit in done), tuple(failures))

    def sync(self) -> None:
        """Put on the disk what was written.

        Raises:
            ExportError: that was not possible.
        """
        with translate_errors(self.folder):
            self._parts.sync()

    def plan(self, campaigns: Iterable[int]) -> None:
        """Note which campaigns there are.

        Raises:
            ExportError: that could not be written.
        """
        with translate_errors(self.folder):
            self.journal.plan(campaigns)

    @property
    def planned(self) -> bool:
        """Whether the campaigns are known."""
        return bool(self.journal.read("planned"))

    def end(self) -> None:
        """Note that the pull has ended, though not everything came."""
        with translate_errors(self.folder):
            self.journal.note(ended=True)

    @property
    def parts(self) -> Parts:
        """The file of parts."""
        return self._parts

    def _open_journal(self) -> Journal:
        path = self.folder / "journal"
        for _ in range(2):
            try:
                journal = Journal(path)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError) or not self._restart:
                    raise journal_error(self.target, error) from error
                for leftover in self.folder.glob("journal*"):
                    leftover.unlink()
                continue
            if path.exists():
                return journal
            journal.close()  # the process that had it has finished, and deleted it as we opened it
            self.folder.mkdir(exist_ok=True)
        raise _at_work(self.target)

    def _go_on_or_begin(self) -> None:
        if may_resume(self.journal, self.target, self.job, restart=self._restart, retry_failed=self._retry_failed):
            self._mend()
            self.journal.note(ended=False)
            return
        self.journal.empty()
        self._parts.cut(0)
        salt = os.urandom(16)
        self.journal.note(
            parameters=self.job.parameters(self.target),
            key={"salt": salt.hex(), "digest": self.job.fingerprint(salt)},
            begun=dt.datetime.now().astimezone().isoformat(timespec="minutes"),
        )

    def _mend(self) -> None:
        """Take what is not whole as not done, and take off what follows the last whole block."""
        end, torn = 0, []
        for number, block in self.journal.blocks():
            if self._parts.is_whole(block):
                end = max(end, block.start + block.length)
            else:
                torn.append(number)
        self.journal.forget_blocks(torn)
        self._parts.cut(end)

    def _units(self, report: RankingReport[Any]) -> list[Unit]:
        if report.feed is Feed.KEYWORD_BY_DATE:
            return [Unit(campaign_id, report) for campaign_id in self.journal.owners(report.id)]
        return [Unit(report.id, report)]

    def _block(self, feed: Feed, units: Sequence[Unit]) -> tuple[Block, list[tuple[int, int | None, ExportError]]]:
        """Return the units as a block, without those that the format can't hold."""
        table, kind = table_of(feed), self.target.format
        with contextlib.suppress(*UNSTORABLE):
            return block_of(kind, table, units), []
        good, failures = [], []
        for unit in units:
            try:
                block_of(kind, table, [unit])
            except UNSTORABLE as error:
                failures.append((unit.campaign_id, unit.report.keyword_id, unstorable(kind, error)))
            else:
                good.append(unit)
        return block_of(kind, table, good), failures


def may_resume(journal: Journal, target: Target, job: ExportJob, *, restart: bool, retry_failed: bool) -> bool:
    """Tell whether a pull goes on with what is in a journal, or begins anew.

    Raises:
        ConfigurationError: it would go on, but the other one was begun otherwise.
    """
    begun = journal.read("parameters")
    if begun is None or restart or (journal.read("ended") and not retry_failed):
        return False
    told = differences(begun, job.parameters(target))
    key = journal.read("key")
    if key is None or job.fingerprint(bytes.fromhex(key["salt"])) != key["digest"]:
        told.append("another API key (another account's, or an older one of the same)")
    if told:
        raise refusal(target.path, told)
    return True


def journal_error(target: Target, error: sqlite3.Error) -> ExportError:
    """Return the error for a journal that could not be opened."""
    if not isinstance(error, sqlite3.OperationalError):
        return export_error(target.work_folder, "its journal is damaged; begin anew with restart=True (--restart)")
    return _at_work(target) if "locked" in str(error) else export_error(target.work_folder, str(error))


def _at_work(target: Target) -> ExportError:
    return export_error(target.path, "another pull is writing it; wait for its end")


def _done(unit: Unit, place: BlockPlace, start: int, length: int) -> DoneUnit:
    report = unit.report
    totals = None if report.totals is None else totals_as_json(report.totals)
    return DoneUnit(unit.campaign_id, report.id, place, start, length, len(report.rows), totals)


def totals_as_json(totals: RankingTotals) -> str:
    """Return a report's totals as the journal keeps them: a list of the values."""
    return json.dumps(totals_values(totals))
