"""The target of a pull, as `seorep doctor -o FILE` looks at it."""

from __future__ import annotations

import asyncio
import importlib.metadata
import shutil
from pathlib import Path

from rich.filesize import decimal

from seorep_async.cli.findings import Findings
from seorep_async.cli.output import counted, messages
from seorep_async.cli.progress import logged
from seorep_async.cli.pull import Days
from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export.database import WAIT_SECONDS
from seorep_async.export.formats import format_of
from seorep_async.export.pull_to import Place, opened_target
from seorep_async.export.request import ExportRequest
from seorep_async.export.staging import Beginning, StagedPull
from seorep_async.history import open_history
from seorep_async.tables.optional import require

_LEAST_BYTES = 100_000_000
"""Free space below which a disk counts as full."""
_OPEN_SECONDS = 5.0
"""A target that can't be looked at within this time is open in another program."""


async def check_target(findings: Findings, client: SeoRepClient, out: str, window: Days) -> None:
    """Add whether a pull can write a target, without changing anything."""
    try:
        _check_libraries(findings, out)
        _check_space(findings, out)
        with logged(messages(quiet=True)):  # what it waits for is said below
            await _check_file(findings, client, out, window)
    except (ConfigurationError, ExportError, ImportError) as error:
        findings.fail("target", error)


def _check_libraries(findings: Findings, out: str) -> None:
    """Add the versions of the libraries that a format needs."""
    file_format = format_of(Path(out).suffix.lower())
    # the check of the file says what is wrong with the name
    if file_format is None:
        return
    for library in file_format.needs:
        require(library)
    names = dict.fromkeys(library.partition(".")[0] for library in file_format.needs)
    if names:
        versions = [f"{name} {importlib.metadata.version(name)}" for name in names]
        findings.ok("extra", ", ".join(versions))


def _check_space(findings: Findings, out: str) -> None:
    """Compare the free space with the size of the target, which a pull writes anew beside it."""
    target = Path(out)
    folder = target.absolute().parent
    # the check of the file says that there is no folder
    if not folder.is_dir():
        return
    free = shutil.disk_usage(folder).free
    size = target.stat().st_size if target.is_file() else 0
    space = f"{decimal(free)} free in {folder}"
    if free < _LEAST_BYTES:
        findings.fail("space", ExportError(f"the disk is full: {space}"))
    elif free < 2 * size:
        findings.note("space", f"{space}; a pull writes the target's {decimal(size)} anew")
    else:
        findings.ok("space", space)


async def _check_file(findings: Findings, client: SeoRepClient, out: str, window: Days) -> None:
    # the checks of a real pull, which stop before its first request
    request = ExportRequest.of(client, None, window, {})
    try:
        async with (
            asyncio.timeout(_OPEN_SECONDS),
            opened_target(client, request, Place(out, {}), Beginning(only_look=True)) as target,
        ):
            staged = target.staging.earlier_pull
    except TimeoutError:
        problem = f"{out} is open in another program"
        findings.note("target", f"{problem}; a pull waits up to {WAIT_SECONDS:g} s for it")
        return
    findings.ok("target", await asyncio.to_thread(_state_of, out))
    if staged is not None:
        findings.note("staged", _words_of_staged(staged))


def _state_of(out: str) -> str:
    path = Path(out)
    if not path.exists() or not path.stat().st_size:
        return f"{out} will be new"
    size = decimal(path.stat().st_size)
    if path.suffix.lower() != ".duckdb":
        return f"{out} ({size}) will be replaced"
    query = (
        "SELECT count(*), max_by(snapshot_date, started_at), max_by(version, started_at) FROM pulls"
    )
    with open_history(out) as database:
        ((count, night, version),) = database.connection.execute(query).fetchall()
    pulls = counted(count, "pull")
    return f"{out} ({size}) has {pulls}, the last of the night {night}, by seorep {version}"


def _words_of_staged(staged: StagedPull) -> str:
    state = "ended with failures" if staged.ended else "is unfinished"
    reports = counted(staged.reports, "report")
    window = f"{staged.start_date} to {staged.end_date}"
    return f"a pull of {window} {state}, with {reports} stored"
