"""Open the target of a pull and its staging folder, before anything is requested."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import attrs
import msgspec

from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError, SeoRepError, short_repr
from seorep_async.export.database import Database
from seorep_async.export.fetch import Background
from seorep_async.export.files import Files, RetryableFailures, refusal
from seorep_async.export.formats import Arrow, Parquet, Text, WorkbookRows, format_of
from seorep_async.export.lookups import concerns_all
from seorep_async.export.pieces import as_export_errors, drop_staged
from seorep_async.export.request import ExportRequest
from seorep_async.export.staging import Opening, Staging, opened_staging
from seorep_async.export.workbook import WorkbookFile
from seorep_async.plain_values import SURROGATE
from seorep_async.tables.optional import require

_log = logging.getLogger("seorep_async")
AnyTarget: TypeAlias = Files | WorkbookFile | Database
_ENDINGS = (
    "ends in .csv, .jsonl, .xlsx, .parquet or .duckdb (`seorep guide engines` shows how to write "
    "elsewhere)"
)


@attrs.frozen
class OpenTarget:
    """A writable target, and its open staging folder.

    Attributes:
        run: runs a function in the one thread that may use the target and the staging.
        notes: sentences for the summary.
    """

    run: Background
    target: AnyTarget
    staging: Staging
    notes: tuple[str, ...] = ()


@asynccontextmanager
async def opened_target(
    client: SeoRepClient, request: ExportRequest, opening: Opening
) -> AsyncIterator[OpenTarget]:
    """Check a target, and open its staging folder.

    With `retry_failed`, only the failed campaigns are requested, if the target knows them. There
    may be none.
    """
    with Background() as run:
        target, notes = await _checked_target(client, request, opening, run)
        request = target.request
        folder = target.staging_folder
        with as_export_errors(folder):
            # A staged pull of any of these requests is resumed. Otherwise, the last one is started.
            resumable_requests = [request]
            retry = RetryableFailures()
            if opening.retry_failed:
                retry = await run(target.find_retry)
            if retry.campaign_ids is not None:
                resumable_requests.append(request.only(retry.campaign_ids))
            stack = ExitStack()
            try:
                staged = opened_staging(
                    folder, target.format, resumable_requests, opening, retry.refusal
                )
                staging = await run(stack.enter_context, staged)
                # either the target or the staging folder knows an earlier pull of this request
                found_pull = retry.campaign_ids is not None or bool(staging.plan.ids)
                if opening.retry_failed and not found_pull:
                    _log.warning(
                        "retry_failed=…: found no earlier pull of %s to %s with the snapshot date "
                        "%s (for a file, from the same address); everything is fetched",
                        request.start_date,
                        request.end_date,
                        request.snapshot_date,
                    )
                yield OpenTarget(run, target, staging, notes)
            finally:
                await run(stack.close)


async def _checked_target(
    client: SeoRepClient,
    request: ExportRequest,
    opening: Opening,
    run: Background,
) -> tuple[AnyTarget, tuple[str, ...]]:
    """Return a target that a pull may write, and sentences for the summary."""
    # in the background thread, because importing the library of an extra takes long
    target = await run(_target, opening, request, run.stop)
    with as_export_errors(target.staging_folder):
        if opening.restart and not opening.only_look:
            # Before the checks: if one of them fails, the caller may repeat the call without
            # `restart`, and that must not resume the older pull.
            await run(drop_staged, target.staging_folder)
        await run(target.check)
        # only a database remembers account names: use the one that it has for this account
        if isinstance(target, Database) and not request.account_given:
            return await _under_known_name(client, target)
    return target, ()


def _target(opening: Opening, request: ExportRequest, stop: threading.Event) -> AnyTarget:
    """Return the target of a path.

    Raises:
        ConfigurationError: the path can't be a target.
        ImportError: its extra is not installed.
    """
    name = _name_of(opening.out)
    path = Path(name)
    format_ = format_of(path.suffix.lower())
    if format_ is None or "\0" in name:
        raise refusal(name, f"name a file that {_ENDINGS}")
    for library in format_.needs:
        require(library)
    # a link is followed once, so that its target is replaced and the link stays
    real_path = Path(os.path.realpath(path))
    if isinstance(format_, WorkbookRows):
        return WorkbookFile(
            path, real_path, request, stop, format_, opening.force, opening.engine_names
        )
    if isinstance(format_, Text | Parquet):
        return Files(path, real_path, request, stop, format_, opening.force)
    if request.feed_search_param is not None:
        raise ConfigurationError(
            f"search narrows the rows, and the rows found would replace whole reports in {path}; "
            "leave it out, or write to a separate file",
            argument="search",
        )
    return Database(path, real_path, request, stop, Arrow(), opening.force)


def _name_of(out: str | os.PathLike[str]) -> str:
    """Return a target's path as a string. Refuse folders, addresses and names beyond UTF-8."""
    name = out
    if isinstance(name, os.PathLike):
        name = os.fspath(name)
    if not isinstance(name, str):
        raise ConfigurationError(f"out must be a path, got {short_repr(out)}", argument="out")
    if name.endswith(("/", os.sep)) or "://" in name or os.path.isdir(name):
        raise refusal(
            name, f"folders and object stores can't be targets; name a file that {_ENDINGS}"
        )
    if SURROGATE.search(name):
        raise refusal(repr(name), "its name is not UTF-8; name another")
    return name


async def _under_known_name(
    client: SeoRepClient, target: Database
) -> tuple[Database, tuple[str, ...]]:
    """Use the name that a database already has for this account. Return the target and a note.

    The caller has not named the account, so the request names it after the service's host. The host
    may have changed since an earlier pull.

    Raises:
        ConfigurationError: the database has several names for this account.
    """
    if not target.accounts or target.request.account in target.accounts:
        return target, ()
    try:
        page = await client.campaigns.list().page(1)
    except SeoRepError as error:
        if concerns_all(error):
            raise
        return target, ()
    account_ids = {campaign.account_id for campaign in page.items if campaign.account_id}
    names = target.names_of_ids(account_ids)
    if not names:
        return target, ()
    host = target.request.account
    owner = f"the service's account {min(account_ids)}"
    if len(names) > 1:
        raise ConfigurationError(
            f"the database has {' and '.join(names)} for {owner}; name one with account=…",
            argument="account",
        )
    (name,) = names
    note = f"uses the account name {name} instead of {host}: the database has it for {owner}"
    _log.warning("%s", note)
    request = msgspec.structs.replace(target.request, account=name)
    return attrs.evolve(target, request=request), (note,)
