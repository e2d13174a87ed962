"""The options of the embedded sandbox, for `seorep sandbox` and for `-s`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import attrs
import click

from seorep_async.cli.errors import UsageError, near
from seorep_async.cli.options import Opt, options_of
from seorep_async.sandbox import Sandbox

_PORT = 8764
_ONLY_IN_PYTHON = ("reports", "clock")
OPTIONS: dict[str, Any] = {
    field.name: field.type for field in attrs.fields(Sandbox) if field.init and field.name not in _ONLY_IN_PYTHON
}
"""The type of each option, by its name in `Sandbox`."""
_EMBEDDED = [name.replace("_", "-") for name in OPTIONS if name not in ("api_key", "host", "port")]
"""Those that `-s` takes."""


def _ids(value: str) -> dict[int, int]:
    """Read ids, each with its status after a colon; without one it is 500."""
    pairs = (one.partition(":") for one in value.split(","))
    return {int(id_): int(status or 500) for id_, _, status in pairs}


_IDS = ("IDS", _ids, "a list of ids such as 3,5")
_READ: dict[Any, tuple[str, Callable[[str], Any], str]] = {
    int: ("N", int, "an integer"),
    float: ("SECONDS", float, "a number of seconds"),
    OPTIONS["failing"]: _IDS,
    OPTIONS["forbidden"]: _IDS,
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
        except ValueError:
            raise UsageError(f"{option.format(shown)}: {value!r} is not {expected}.") from None
    try:
        return Sandbox(**values)
    except ValueError as error:
        name, blank, problem = str(error).partition(" ")  # it begins with the option's name
        raise UsageError(option.format(name.replace("_", "-") + blank + problem)) from None


@asynccontextmanager
async def started(sandbox: Sandbox) -> AsyncGenerator[Sandbox]:
    """Run a sandbox, on the same port each time if that is free: a pull resumes from the same address only."""
    async with AsyncExitStack() as ending:
        try:
            sandbox.port = _PORT
            await ending.enter_async_context(sandbox)
        except OSError:
            sandbox.port = 0
            await ending.enter_async_context(sandbox)
        yield sandbox


def options() -> Iterator[click.Parameter]:
    """Yield the options of `seorep sandbox`; their defaults are the sandbox's own, but for the port."""
    default = Sandbox(port=8765)
    own = {name: Opt(metavar=_READ[kind][0], read=str) for name, kind in OPTIONS.items() if kind in _READ}
    for option in options_of(Sandbox, _ONLY_IN_PYTHON, own=own):
        value = getattr(default, str(option.name))
        if isinstance(option, click.Option) and isinstance(value, int | str) and value not in (0, ""):
            option.help = f"{option.help}  [default: {value}]"
        yield option
