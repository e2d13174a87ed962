"""The embedded sandbox: its options for `-s`, its run beside a pull, and `seorep sandbox`."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import attrs
import click

from seorep_async.cli.errors import ExitCode, UsageError, near
from seorep_async.cli.options import Command, Opt, options_of
from seorep_async.cli.output import messages, write
from seorep_async.cli.running import wait_for
from seorep_async.sandbox import Sandbox

_PORT = 8764
_ONLY_IN_PYTHON = ("reports", "clock")
OPTIONS: dict[str, Any] = {
    field.name: field.type
    for field in attrs.fields(Sandbox)
    if field.init and field.name not in _ONLY_IN_PYTHON
}
"""The type of each option, by its name in `Sandbox`."""
_EMBEDDED = [name.replace("_", "-") for name in OPTIONS if name not in ("api_key", "host", "port")]
"""Those that `-s` takes."""


def _ids(value: str) -> dict[int, int]:
    """Read ids, each with its status after a colon; without one it is 500."""
    pairs = (one.partition(":") for one in value.split(","))
    return {int(id_): int(status or 500) for id_, _, status in pairs}


_IDS = ("IDS", _ids, "a list of ids such as 3,5")
_TRUTHS = {"true": True, "false": False}
_READ: dict[Any, tuple[str, Callable[[str], Any], str]] = {
    int: ("N", int, "an integer"),
    float: ("SECONDS", float, "a number of seconds"),
    bool: ("", lambda value: _TRUTHS[value.lower()], "true or false"),
    OPTIONS["failing"]: _IDS,
    OPTIONS["forbidden"]: _IDS,
    OPTIONS["large_limit"]: ("HOW", str, "a string"),
}
"""The metavar of a type, what reads a string, and what it expects."""


def build(given: Mapping[str, str], option: str = "-s {}") -> Sandbox:
    """Return the sandbox of some options, as strings; one out of its range is a UsageError that names the `option`."""
    values = {}
    for name, value in given.items():
        shown = name.replace("_", "-")
        if option == "-s {}" and shown not in _EMBEDDED:
            advice = near(shown, _EMBEDDED) or f" The options are {', '.join(_EMBEDDED)}."
            raise UsageError(f"-s: an embedded sandbox has no option {shown!r}.{advice}")
        _, read, expected = _READ.get(OPTIONS[name], ("", str, ""))
        try:
            values[name] = read(value)
        except (ValueError, KeyError):
            raise UsageError(f"{option.format(shown)}: {value!r} is not {expected}.") from None
    try:
        return Sandbox(**values)
    except ValueError as error:
        name, blank, problem = str(error).partition(" ")  # it begins with the option's name
        raise UsageError(option.format(name.replace("_", "-") + blank + problem)) from None


async def started(sandbox: Sandbox, until: AsyncExitStack) -> Sandbox:
    """Run a sandbox, on the same port each time if that is free: a pull resumes from the same address only."""
    sandbox.port = _PORT
    try:
        return await until.enter_async_context(sandbox)
    except OSError:
        sandbox.port = 0
        return await until.enter_async_context(sandbox)


def _serve(**options: str | bool | None) -> ExitCode:
    set_options = {name: str(value) for name, value in options.items() if value is not None}
    served = build(set_options, "--{}")
    try:
        wait_for(_until_interrupted(served))
    except KeyboardInterrupt:
        messages().print(f"\nStopped after {served.stats.requests:,} requests.")
    except OSError as error:
        raise UsageError(f"{error.strerror or error}; choose another --host or --port.") from None
    return ExitCode.INTERRUPTED


async def _until_interrupted(served: Sandbox) -> None:
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


def _options() -> Iterator[click.Parameter]:
    """Yield the options of `seorep sandbox`; their defaults are the sandbox's own, but for the port."""
    default = Sandbox(port=8765)
    own = {
        name: Opt(metavar=_READ[kind][0], read=str)
        for name, kind in OPTIONS.items()
        if kind in _READ and kind is not bool
    }
    for option in options_of(Sandbox, _ONLY_IN_PYTHON, own=own):
        value = getattr(default, str(option.name))
        if (
            isinstance(option, click.Option)
            and isinstance(value, int | str)
            and value not in (0, "")
        ):
            option.default, option.show_default = str(value), True
        yield option


sandbox: Command = Command("sandbox", params=[*_options()], callback=_serve)
