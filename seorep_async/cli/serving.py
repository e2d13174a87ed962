"""What is served until it is interrupted: the embedded sandbox on a port, tools for agents on stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

import click

from seorep_async.cli.connection import Connection
from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.signals import run_in_daemon_thread, run_until_interrupted
from seorep_async.cli.terminal import stderr_console, write_stdout
from seorep_async.integrations.mcp import mcp_server
from seorep_async.sandbox import Sandbox
from seorep_async.tables.optional import require


def build(options: Mapping[str, Any]) -> Sandbox:
    """Return the sandbox of the options; one out of its range is a UsageError."""
    try:
        return Sandbox(**options)
    except ValueError as error:
        # the sandbox's message begins with the option's name
        raise click.UsageError(f"--{error}".replace("_", "-")) from None


def serve(options: Mapping[str, Any]) -> ExitCode:
    sandbox = build(options)
    try:
        run_until_interrupted(_serve_sandbox(sandbox))
    except KeyboardInterrupt:  # the usual way to end it
        stderr_console().print(f"\nStopped after {sandbox.stats.requests:,} requests.")
    return ExitCode.OK


async def _serve_sandbox(sandbox: Sandbox) -> None:
    try:
        await sandbox.__aenter__()
    except OSError as error:
        problem = os.strerror(error.errno) if error.errno else str(error)
        raise click.UsageError(f"can't use port {sandbox.port} ({problem}); choose another with --port.") from None
    try:
        write_stdout(_welcome(sandbox) + "\n")
        await asyncio.Event().wait()
    finally:
        await sandbox.__aexit__(None, None, None)


def _welcome(sandbox: Sandbox) -> str:
    address, key = sandbox.base_url, sandbox.api_key
    return f"""\
Sandbox with {sandbox.campaigns:,} campaigns of {sandbox.keywords:,} keywords, until Ctrl-C
  Address  {address}
  API key  {key}

Try it:
curl --user {shlex.quote(f":{key}")} '{address}/v3/campaigns?limit=2'

Pull from it:
export SEOREP_BASE_URL={address}
export SEOREP_API_KEY={shlex.quote(key)}
seorep pull
"""


_CHUNK = 1 << 16


async def serve_agents(connection: Connection, history: str, account: str | None) -> ExitCode:
    """Serve agents until stdin ends."""
    stdio = require("mcp.server.stdio")
    account = connection.account if account is None else account
    async with connection.opened() as client:
        server = mcp_server(client, history, account=account)
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
    begun: list[bytes] = []  # of a line, which may be long
    while data := await run_in_daemon_thread(partial(os.read, 0, _CHUNK)):
        *ends, rest = data.split(b"\n")
        for end in ends:
            yield b"".join([*begun, end]).decode("utf-8", "replace")
            begun.clear()
        begun.append(rest)
