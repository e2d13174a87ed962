"""`seorep doctor`: run the checks one after the other, and print each result."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from seorep_async.cli.checks import CheckResult, Level, check_answers, check_connection
from seorep_async.cli.failures import ExitCode, exit_code_of, explain
from seorep_async.cli.humanise import printable
from seorep_async.cli.options import dates_to_pull, missing_account
from seorep_async.cli.signals import run_until_interrupted
from seorep_async.cli.terminal import print_hanging, stderr_console
from seorep_async.client import SeoRepClient
from seorep_async.errors import NotFoundError, ProtocolError, SeoRepError

if TYPE_CHECKING:
    from seorep_async.sandbox import Sandbox

_STYLES = {Level.OK: "green", Level.NOTE: "yellow", Level.FAIL: "bold red", Level.FACT: ""}


def run_doctor(sandbox: Sandbox | None, today: dt.date) -> ExitCode:
    """Check a sandbox, or the service that the environment names."""
    return run_until_interrupted(_check_service(today) if sandbox is None else _check_sandbox(sandbox, today))


async def _check_service(today: dt.date) -> ExitCode:
    console = stderr_console()
    if missing := missing_account():
        _show(console, CheckResult(Level.FAIL, "settings", missing))
        return ExitCode.USAGE
    try:
        client = SeoRepClient()
    except SeoRepError as error:
        _show(console, CheckResult(Level.FAIL, "settings", explain(error)))
        return exit_code_of(error)
    return await _check(client, os.environ["SEOREP_BASE_URL"], today, console)


async def _check_sandbox(sandbox: Sandbox, today: dt.date) -> ExitCode:
    async with sandbox:
        client = SeoRepClient(sandbox.base_url, sandbox.api_key)
        return await _check(client, sandbox.base_url, today, stderr_console())


async def _check(client: SeoRepClient, address: str, today: dt.date, console: Console) -> ExitCode:
    _show(console, CheckResult(Level.OK, "settings", f"{address}, and a key"))
    # as the client writes it: a name or a path that is not ASCII is encoded
    connection = await asyncio.to_thread(check_connection, client.base_url)
    for result in connection:
        _show(console, result)
    if any(result.level is Level.FAIL for result in connection):
        return ExitCode.UNAVAILABLE
    first, last = dates_to_pull(None, None, today)
    listed = False
    try:
        async with client:
            async for result in check_answers(client, first, last):
                listed = True
                _show(console, result)
    except SeoRepError as error:
        _show(console, CheckResult(Level.FAIL, "answers", explain(error)))
        if not listed and isinstance(error, NotFoundError | ProtocolError) and "SEOREP_BASE_URL" not in explain(error):
            advice = "this does not look like the service; check SEOREP_BASE_URL"
            _show(console, CheckResult(Level.NOTE, "answers", advice))
        return exit_code_of(error)
    return ExitCode.OK


def _show(console: Console, result: CheckResult) -> None:
    line = f"  {result.subject:<18}{printable(result.message)}"
    print_hanging(console, Text.assemble((f"{result.level.value:<4}", _STYLES[result.level]), line), 24)
