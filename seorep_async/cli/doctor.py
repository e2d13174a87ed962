"""`seorep doctor`: run the checks one after the other, and print each result."""

from __future__ import annotations

import asyncio
import datetime as dt
import enum
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli.checks import CheckResult, Level, check_answers, check_connection
from seorep_async.cli.connection import Connection
from seorep_async.cli.failures import ExitCode, exit_code_of, explain
from seorep_async.cli.humanise import printable
from seorep_async.cli.options import dates_to_pull
from seorep_async.cli.signals import run_until_interrupted
from seorep_async.cli.terminal import print_hanging, stderr_console
from seorep_async.client import SeoRepClient
from seorep_async.errors import NotFoundError, ProtocolError, SeoRepError
from seorep_async.settings import Settings

if TYPE_CHECKING:
    from seorep_async.sandbox import Sandbox

_STYLES = {Level.OK: "green", Level.NOTE: "yellow", Level.FAIL: "bold red", Level.FACT: ""}


def check_service(connect: Callable[[], Connection], today: dt.date) -> ExitCode:
    """Check a service, and show which connection is in force."""
    console = stderr_console()
    try:
        connection = connect()
        client = connection.client()
    except click.ClickException as error:
        _show(console, CheckResult(Level.FAIL, "settings", error.message))
        return ExitCode.USAGE
    _show(console, CheckResult(Level.OK, "settings", f"{connection.base_url}, and a key"))
    for subject, message in _in_force(connection):
        _show(console, CheckResult(Level.FACT, subject, message))
    return run_until_interrupted(_check(client, today, console))


def check_sandbox(sandbox: Sandbox, settings: Settings, today: dt.date) -> ExitCode:
    """Check a sandbox."""

    async def run() -> ExitCode:
        async with sandbox:
            client = SeoRepClient(sandbox.base_url, sandbox.api_key, settings=settings)
            _show(console, CheckResult(Level.OK, "settings", f"{sandbox.base_url}, and a key"))
            return await _check(client, today, console)

    console = stderr_console()
    return run_until_interrupted(run())


def _in_force(connection: Connection) -> Iterator[tuple[str, str]]:
    """Give each value that is not a default, and where it was given."""
    if connection.account is not None:
        yield "account", connection.account
    for name, source in connection.sources.items():
        match name:
            case "base_url":
                value = "the address"
            case "key":
                value = "the key"
            case _:
                found = getattr(connection.settings, name)
                value = str(found.value if isinstance(found, enum.Enum) else found)
        yield name.replace("_", "-"), f"{value}, from {source}"


async def _check(client: SeoRepClient, today: dt.date, console: Console) -> ExitCode:
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
        if not listed and isinstance(error, NotFoundError | ProtocolError) and "the base URL" not in explain(error):
            advice = "this does not look like the service; check the base URL"
            _show(console, CheckResult(Level.NOTE, "answers", advice))
        return exit_code_of(error)
    return ExitCode.OK


def _show(console: Console, result: CheckResult) -> None:
    line = f"  {result.subject:<20}{printable(result.message)}"
    print_hanging(console, Text.assemble((f"{result.level.value:<4}", _STYLES[result.level]), line), 26)
