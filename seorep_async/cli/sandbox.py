"""`seorep sandbox`: the embedded service on a port."""

from __future__ import annotations

import asyncio
import os
import shlex
from typing import Any

import click

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.interruption import run_until_interrupted
from seorep_async.cli.sandbox_options import make_sandbox, sandbox_options
from seorep_async.cli.screen import screen
from seorep_async.cli.stdout import write_stdout
from seorep_async.sandbox import Sandbox

_PORT = click.Option(
    ["--port"],
    type=click.INT,
    default=8765,
    show_default=True,
    metavar="N",
    help="Port to listen on; 0 for a free one.",
)
_API_KEY = click.Option(["--api-key"], default="sandbox", show_default=True, help="The key to let in.")


@click.command(params=[_PORT, _API_KEY, *sandbox_options()])
def sandbox(**options: Any) -> ExitCode:
    """Serve the embedded service on this machine until Ctrl-C."""
    served = make_sandbox(options)
    try:
        run_until_interrupted(_serve(served))
    except KeyboardInterrupt:  # the way to end it, so no failure
        screen().print(f"\nStopped after {served.stats.requests:,} requests.")
    return ExitCode.OK


async def _serve(served: Sandbox) -> None:
    try:
        await served.__aenter__()
    except OSError as error:
        problem = os.strerror(error.errno) if error.errno else str(error)
        raise click.UsageError(f"port {served.port} can't be used ({problem}); choose another with --port.") from None
    try:
        write_stdout(_welcome(served) + "\n")
        await asyncio.Event().wait()
    finally:
        await served.__aexit__(None, None, None)


def _welcome(served: Sandbox) -> str:
    address, key = served.base_url, served.api_key
    return f"""\
Sandbox with {served.campaigns:,} campaigns of {served.keywords:,} keywords, until Ctrl-C
  Address  {address}
  API key  {key}

Try it:
curl --user {shlex.quote(f":{key}")} '{address}/v3/campaigns?limit=2'

Pull from it:
export SEOREP_BASE_URL={address}
export SEOREP_API_KEY={shlex.quote(key)}
seorep pull
"""
