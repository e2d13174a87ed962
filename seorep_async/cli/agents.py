"""`seorep mcp`: the tools for agents, on stdin and stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from functools import partial

from seorep_async.cli.connection import Connection
from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.signals import run_in_daemon_thread, run_until_interrupted
from seorep_async.cli.terminal import stderr_console
from seorep_async.export.storage import is_address
from seorep_async.integrations.mcp import mcp_server
from seorep_async.tables.optional import require

_CHUNK = 1 << 16


def serve_agents(connection: Connection, history: str, account: str | None) -> ExitCode:
    """Serve agents until stdin ends."""
    return run_until_interrupted(_serve(connection, history, account))


async def _serve(connection: Connection, history: str, account: str | None) -> ExitCode:
    stdio = require("mcp.server.stdio")
    options = connection.storage_options if is_address(history) else None
    account = connection.account if account is None else account
    async with connection.opened() as client:
        server = mcp_server(client, history, account=account, service=connection.service, storage_options=options)
        if sys.stdin is not None and sys.stdin.isatty():
            stderr_console().print("An agent's client starts this command, and talks to it. Ctrl-C ends it.")
        try:
            async with stdio.stdio_server(stdin=_lines()) as (reader, writer):
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
