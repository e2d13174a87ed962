"""`seorep doctor`: is everything there that a pull needs, and what do the service's answers look like?"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli.answers import look_at_answers
from seorep_async.cli.dates import dates_to_pull
from seorep_async.cli.exit_codes import EXIT_CODES_HELP, ExitCode, exit_code_of
from seorep_async.cli.findings import Finding, Verdict
from seorep_async.cli.interruption import run_until_interrupted
from seorep_async.cli.probe import probe
from seorep_async.cli.sandbox_options import given, make_sandbox, sandbox_options
from seorep_async.cli.screen import explain, printable, screen
from seorep_async.client import SeoRepClient
from seorep_async.errors import SeoRepError

_SIGNS = {
    Verdict.GOOD: ("ok  ", "green"),
    Verdict.NOTE: ("note", "yellow"),
    Verdict.BAD: ("FAIL", "bold red"),
    Verdict.FACT: ("    ", ""),
}


@click.command(params=sandbox_options(), epilog=EXIT_CODES_HELP)
@click.option("--sandbox", is_flag=True, help="Look at an embedded sandbox instead of the service.")
@click.pass_obj
def doctor(today: dt.date, /, sandbox: bool, **options: Any) -> ExitCode:
    """Check settings, key, reachability and clock, and tell what the service's answers look like.

    It only reads: one request without the key, and a few for the first campaign.
    """
    if not sandbox and (misplaced := given(options)):
        raise click.UsageError(f"{', '.join(f'--{name}' for name in misplaced)}: only together with --sandbox.")
    return run_until_interrupted(_of_sandbox(today, options) if sandbox else _of_service(today))


async def _of_service(today: dt.date) -> ExitCode:
    console = screen()
    missing = [name for name in ("SEOREP_BASE_URL", "SEOREP_API_KEY") if not os.environ.get(name)]
    if missing:
        _show(console, Finding(Verdict.BAD, "settings", f"{' and '.join(missing)} must be set in the environment"))
        return ExitCode.USAGE
    try:
        client = SeoRepClient()
    except SeoRepError as error:
        _show(console, Finding(Verdict.BAD, "settings", explain(error)))
        return exit_code_of(error)
    return await _examine(client, os.environ["SEOREP_BASE_URL"], today, console)


async def _of_sandbox(today: dt.date, options: Mapping[str, Any]) -> ExitCode:
    async with make_sandbox(options) as sandbox:
        return await _examine(SeoRepClient(sandbox.base_url, sandbox.api_key), sandbox.base_url, today, screen())


async def _examine(client: SeoRepClient, address: str, today: dt.date, console: Console) -> ExitCode:
    _show(console, Finding(Verdict.GOOD, "settings", f"{printable(address)}, and a key"))
    # as the client writes it: a name or a path that is not ASCII is encoded
    reached = await asyncio.to_thread(probe, client.base_url)
    for finding in reached:
        _show(console, finding)
    if any(finding.verdict is Verdict.BAD for finding in reached):
        return ExitCode.UNAVAILABLE
    first, last = dates_to_pull(None, None, today)
    try:
        async with client:
            async for finding in look_at_answers(client, first, last):
                _show(console, finding)
    except SeoRepError as error:
        _show(console, Finding(Verdict.BAD, "answers", explain(error)))
        return exit_code_of(error)
    return ExitCode.OK


def _show(console: Console, finding: Finding) -> None:
    sign, style = _SIGNS[finding.verdict]
    console.print(Text.assemble((sign, style), f"  {finding.subject:<18}{printable(finding.words)}"), soft_wrap=True)
