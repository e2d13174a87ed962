"""The embedded sandbox: built from the command's options, and served on a port."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Mapping
from typing import Any

import click

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.signals import run_until_interrupted
from seorep_async.cli.terminal import stderr_console, write_stdout
from seorep_async.sandbox import Sandbox


def build(options: Mapping[str, Any]) -> Sandbox:
    """Return the sandbox of the options; one out of its range is a UsageError."""
    try:
        return Sandbox(**options)
    except ValueError as error:
        # the sandbox's message begins with the option's name
        name, colon, problem = re.fullmatch(r"(\w+)(:?) (.*)", str(error), re.DOTALL).groups()  # type: ignore[union-attr]
    raise click.UsageError(f"--{name.replace('_', '-')}{colon} {problem.replace('_', '-')}")


def serve(options: Mapping[str, Any]) -> ExitCode:
    """Serve a sandbox until it is interrupted."""
    sandbox = build(options)
    try:
        run_until_interrupted(_serve(sandbox))
    except KeyboardInterrupt:  # the usual way to end it
        stderr_console().print(f"\nStopped after {sandbox.stats.requests:,} requests.")
    return ExitCode.OK


async def _serve(sandbox: Sandbox) -> None:
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
