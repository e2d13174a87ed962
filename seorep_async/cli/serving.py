"""What is served until it is interrupted: the embedded sandbox on a port, tools for agents on stdin and stdout."""

from __future__ import annotations

import asyncio
import io
import shlex
import sys
from collections.abc import AsyncIterator

from seorep_async.cli import embedded
from seorep_async.cli.errors import ExitCode, UsageError
from seorep_async.cli.options import Command, Service
from seorep_async.cli.output import can_ask, messages, write
from seorep_async.cli.profiles import Connection, connect
from seorep_async.cli.running import in_daemon_thread, wait_for
from seorep_async.integrations.mcp import mcp_server
from seorep_async.sandbox import Sandbox
from seorep_async.tables.optional import require


def _serve(**options: str | None) -> ExitCode:
    given = {name: value for name, value in options.items() if value is not None}
    served = embedded.build({"port": "8765"} | given, "--{}")
    try:
        wait_for(_until_interrupted(served))
    except KeyboardInterrupt:  # the usual way to end it
        messages().print(f"\nStopped after {served.stats.requests:,} requests.")
    return ExitCode.OK


sandbox: Command = Command("sandbox", params=[*embedded.options()], callback=_serve)


async def _until_interrupted(served: Sandbox) -> None:
    try:
        async with served:
            write(f"""\
Sandbox with {served.campaigns:,} campaigns of {served.keywords:,} keywords, until Ctrl-C
  Address  {served.base_url}
  API key  {served.api_key}

Try it:
curl --user {shlex.quote(f":{served.api_key}")} '{served.base_url}/v3/campaigns?limit=2'

Pull from it:
export SEOREP_BASE_URL={served.base_url}
export SEOREP_API_KEY={shlex.quote(served.api_key)}
seorep pull
""")
            await asyncio.Event().wait()
    except OSError as error:
        raise UsageError(f"{error.strerror or error}; choose another --host or --port.") from None


def mcp(*, history: str, account: str | None = None, service: Service = Service()) -> int:
    """Serve the history and the service to agents (MCP).

    It speaks the Model Context Protocol on stdin and stdout until stdin ends; an agent's client starts it. `seorep
    guide agents` shows the configuration of such a client, and the tools.

    Args:
        history: Database (.duckdb) that pulls write; it need not exist yet.
        account: Name of the account in every row.  [default: the profile's, or the host]
    """
    return wait_for(_serve_agents(connect(service), history, account))


async def _serve_agents(connection: Connection, history: str, account: str | None) -> int:
    stdio = require("mcp.server.stdio")
    async with connection.opened() as client:
        server = mcp_server(client, history, account=account)
        if can_ask():
            messages().print("An agent's client starts this command, and talks to it. Ctrl-C ends it.")
        try:
            async with stdio.stdio_server(stdin=_lines()) as (reader, writer):
                await server.run(reader, writer, server.create_initialization_options())
        except* BrokenPipeError:
            pass  # the agent's client has ended
    return ExitCode.OK


async def _lines() -> AsyncIterator[str]:
    """Yield the lines of stdin. The SDK's own reader would not let a signal end the process before the next line."""
    if sys.stdin is not None:  # its lock, held by the thread of a read, would be fatal at exit
        stdin = io.BufferedReader(io.FileIO(0, closefd=False))
        while line := await in_daemon_thread(stdin.readline):
            yield line.decode("utf-8", "replace")
