"""`seorep mcp`: the tools for agents, on stdin and stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from seorep_async.cli.connection import Connection
from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.signals import run_in_daemon_thread, run_until_interrupted
from seorep_async.cli.terminal import stderr_console
from seorep_async.client import SeoRepClient
from seorep_async.export.storage import is_address
from seorep_async.integrations.mcp import mcp_server
from seorep_async.settings import Settings
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    from seorep_async.sandbox import Sandbox

_CHUNK = 1 << 16


def serve_service(connection: Connection, history: str, account: str | None) -> ExitCode:
    """Serve agents until stdin ends."""
    options = connection.storage_options if is_address(history) else None
    account = connection.account if account is None else account
    return run_until_interrupted(_serve(connection.client(), history, account, None, options))


def serve_sandbox(sandbox: Sandbox, settings: Settings, service: str, history: str, account: str | None) -> ExitCode:
    """Serve agents a sandbox until stdin ends; the name `service` tells it from others, as its port changes."""

    async def run() -> ExitCode:
        async with sandbox:
            client = SeoRepClient(sandbox.base_url, sandbox.api_key, settings=settings)
            return await _serve(client, history, "sandbox" if account is None else account, service, None)

    return run_until_interrupted(run())


async def _serve(
    client: SeoRepClient,
    history: str,
    account: str | None,
    service: str | None,
    storage_options: Mapping[str, Any] | None,
) -> ExitCode:
    stdio = require("mcp.server.stdio")
    server = mcp_server(client, history, account=account, service=service, storage_options=storage_options)
    if sys.stdin is not None and sys.stdin.isatty():
        stderr_console().print("An agent's client starts this command, and talks to it. Ctrl-C ends it.")
    try:
        async with client, stdio.stdio_server(stdin=_lines()) as (reader, writer):
            await server.run(reader, writer, server.create_initialization_options())
    except* BrokenPipeError:
        pass  # the agent's client has ended
    return ExitCode.OK


async def _lines() -> AsyncIterator[str]:
    """Yield the lines of stdin. The SDK's own reader would not let a signal end the process before the next line."""
    rest = b""
    while data := await run_in_daemon_thread(partial(os.read, 0, _CHUNK)):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
