"""The checks of a pull's target by `seorep doctor -o FILE`."""

from __future__ import annotations

import asyncio
import importlib.metadata
import shutil
from pathlib import Path

import attrs
from rich.filesize import decimal

from seorep_async.cli.findings import Findings
from seorep_async.cli.nights import add_nights
from seorep_async.cli.output import messages
from seorep_async.cli.progress import logged
from seorep_async.cli.pull import Window
from seorep_async.cli.summary import staged_in_words
from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, ExportError, counted
from seorep_async.export.database import WAIT_SECONDS, Database
from seorep_async.export.files import has_content
from seorep_async.export.formats import format_of
from seorep_async.export.opening import opened_target
from seorep_async.export.request import ExportOptions, ExportRequest
from seorep_async.export.schema import DAMAGED, lacks_rows
from seorep_async.export.staging import Opening, staged_in
from seorep_async.history.source import opened
from seorep_async.tables.optional import require

_LEAST_BYTES = 20_000_000
"""Free space below which hardly any pull can be staged."""
_OPEN_SECONDS = 5.0
"""The time limit for opening a target, because a pull would wait much longer."""


async def check_target(
    findings: Findings,
    client: SeoRepClient,
    out: str,
    window: Window,
    account: str | None = None,
) -> None:
    """Find out whether a pull can write a target, without changing anything.

    Args:
        account: the account's name, if one was given.
    """
    try:
        _check_libraries(findings, out)
        _check_space(findings, out)
        await _check_file(findings, client, out, window, account)
    except (ConfigurationError, ExportError, ImportError) as error:
        findings.fail("target", error)


def _check_libraries(findings: Findings, out: str) -> None:
    """Add the versions of the libraries that a format needs."""
    file_format = format_of(Path(out).suffix.lower())
    # `_check_file` reports a wrong name
    if file_format is None:
        return
    for library in file_format.needs:
        require(library)
    names = dict.fromkeys(library.partition(".")[0] for library in file_format.needs)
    if names:
        versions = [f"{name} {importlib.metadata.version(name)}" for name in names]
        findings.ok("extra", ", ".join(versions))


def _check_space(findings: Findings, out: str) -> None:
    """Compare the free space with the size of the target, because a pull writes a new one."""
    target = Path(out)
    folder = target.absolute().parent
    # `_check_file` reports a missing folder
    if not folder.is_dir():
        return
    free = shutil.disk_usage(folder).free
    size = target.stat().st_size if target.is_file() else 0
    space = f"{decimal(free)} free in {folder}"
    if free < max(size, _LEAST_BYTES):
        findings.fail("space", ExportError(f"too little space for a pull: only {space}"))
    else:
        findings.ok("space", space)


async def _check_file(
    findings: Findings,
    client: SeoRepClient,
    out: str,
    window: Window,
    account: str | None,
) -> None:
    """Open a target as a pull does, and report its state, its nights and staged pulls."""
    # A real pull makes the same checks before its first request. The account is always named,
    # because a database that has it under two names would otherwise be refused before its nights
    # are checked.
    options: ExportOptions = {"account": account or client.account}
    # None: all campaigns
    request = ExportRequest.of(client, None, window, options)
    warnings = []
    try:
        # warnings about waits are reported as findings, so they are not printed
        with logged(messages(quiet=True)) as warnings:
            async with (
                asyncio.timeout(_OPEN_SECONDS),
                opened_target(client, request, Opening(out, only_look=True)) as target,
            ):
                staged_pull = target.staging.earlier_pull
                checked_target = target.target
    except ExportError as error:
        if not error.retryable:
            raise
        # a night that is being pulled is not a fault
        await _note_in_use(findings, client, out, account, error.message)
        return
    except TimeoutError:
        # perhaps DuckDB first reads the log of a killed program, or the disk is slow
        words = f"opening {out} takes over {_OPEN_SECONDS:g} s"
        # the warning names the program that has it open, and ends with how long a pull waits
        if warnings:
            problem = warnings[-1].rpartition(";")[0]
            words = f"{problem}; a pull waits up to {WAIT_SECONDS:g} s for it"
        await _note_in_use(findings, client, out, account, words)
        return
    has_pulls = isinstance(checked_target, Database) and bool(checked_target.accounts)
    findings.ok("target", await asyncio.to_thread(_state_in_words, out, has_pulls=has_pulls))
    if has_pulls:
        today = client.now().date()
        await asyncio.to_thread(add_nights, findings, out, account, today)
    if staged_pull is not None:
        advice = "" if staged_pull.ended else "; the same command without --restart resumes it"
        findings.note("staged", f"{staged_in_words(attrs.asdict(staged_pull))}{advice}")
    if isinstance(checked_target, Database):
        await asyncio.to_thread(_add_other_staged, findings, checked_target)


async def _note_in_use(
    findings: Findings, client: SeoRepClient, out: str, account: str | None, problem: str
) -> None:
    """Report why a target can't be opened now, and its nights if it is a readable database.

    A program that only reads a database blocks a pull, but not another reader.
    """
    findings.note("target", problem)
    if Path(out).suffix.lower() != ".duckdb":
        return
    try:
        await asyncio.to_thread(add_nights, findings, out, account, client.now().date())
    except (ConfigurationError, ExportError) as error:
        findings.note("nights", f"not checked: {error.message}")


def _add_other_staged(findings: Findings, database: Database) -> None:
    """Report pulls that are staged for a database under the names of other accounts."""
    for folder in database.other_staging_folders():
        try:
            staged = staged_in(folder, database.format, database.request)
        except ExportError as error:
            findings.note("staged", error.message)
            continue
        if staged is not None:
            findings.note("staged", staged_in_words(attrs.asdict(staged)))


def _state_in_words(out: str, *, has_pulls: bool) -> str:
    """Return what a target contains, and what a pull will do to it."""
    path = Path(out)
    if not has_content(path):
        return f"{out} will be created"
    size = decimal(path.stat().st_size)
    if path.suffix.lower() != ".duckdb":
        return f"{out} ({size}) will be replaced"
    if not has_pulls:
        return f"{out} ({size}) has no pull yet; its contents will be kept"
    query = "SELECT count(*), max_by(version, started_at) FROM pulls"
    # waits, because another doctor may have it open for a moment
    with opened(out) as database:
        ((count, version),) = database.connection.execute(query).fetchall()
        if lacks_rows(database.connection, path):
            raise ExportError(f"can't read {out}: {DAMAGED}", file=path)
    return f"{out} ({size}) has {counted(count, 'pull')}, the last by seorep {version}"
