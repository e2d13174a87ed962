"""The options of the embedded sandbox, for `seorep sandbox` and for `-s`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import click

from seorep_async.cli.exit_codes import UsageError, near
from seorep_async.sandbox import Sandbox

_PORT = 8764
OPTIONS: dict[str, tuple[str, str]] = {
    "campaigns": ("N", "Campaigns of the account; their ids are 1 to N."),
    "keywords": ("N", "Keywords of each campaign; their ids are campaign id x 100,000 + 1, 2, …"),
    "users": ("N", "Users of the account; their ids are 1 to N."),
    "backlinks": ("N", "Backlinks of each campaign."),
    "seed": ("N", "The same seed gives the same account."),
    "shape": ("SHAPE", "Shape of the feeds' responses: nested, flat or mixed."),
    "rows": ("ROWS", "Format of the rows: current, older or mixed."),
    "latency": ("SECONDS", "Minimum time of each response."),
    "rate_limit": (
        "LIMIT",
        "Refuse requests over a limit: 20/s, 100/10s or at-once=8. Add options after commas: fixed-window, "
        "sliding-window, burst=40, status=503, retry-after=seconds.",
    ),
    "faults": ("SHARES", "Faults to inject, such as resets=2%,500s=3%."),
    "failing": ("IDS", "Always respond with 500 for these campaigns, such as 3,5; or with another status: 3:404."),
    "forbidden": ("IDS", "Always respond with 403 for these campaigns."),
    "default_limit": ("N", "Records of a page if a request names no limit."),
    "max_limit": ("N", "Most records of a page."),
    "api_key": ("KEY", "The key to let in."),
    "host": ("ADDRESS", "Address to listen on."),
    "port": ("N", "Port to listen on; 0 for a free one."),
}
"""The metavar and the help of each option, by its name in `Sandbox`."""


def _ids(value: str) -> dict[int, int]:
    """Read ids, each with its status after a colon; without one it is 500."""
    pairs = (one.partition(":") for one in value.split(","))
    return {int(id_): int(status or 500) for id_, _, status in pairs}


_READ: dict[str, tuple[Callable[[str], Any], str]] = {
    "N": (int, "an integer"),
    "SECONDS": (float, "a number of seconds"),
    "IDS": (_ids, "a list of ids such as 3,5"),
}
"""What reads a string, and what it expects, by the metavar of the option."""


def build(given: Mapping[str, str], option: str = "-s {}") -> Sandbox:
    """Return the sandbox of some options, as strings; one out of its range is a UsageError that names the `option`."""
    values = {}
    for name, value in given.items():
        if name not in OPTIONS:
            advice = near(name, OPTIONS) or f" The options are {', '.join(OPTIONS)}."
            raise UsageError(f"the sandbox has no option {name!r}.{advice}")
        read, expected = _READ.get(OPTIONS[name][0], (str, ""))
        try:
            values[name] = read(value)
        except ValueError:
            raise UsageError(f"{option.format(name)}: {value!r} is not {expected}.") from None
    try:
        return Sandbox(**values)
    except ValueError as error:
        raise UsageError(option.format(error)) from None  # it begins with the option's name


@asynccontextmanager
async def started(sandbox: Sandbox) -> AsyncGenerator[None]:
    """Run a sandbox, on the same port each time if that is free: a pull resumes from the same address only."""
    async with AsyncExitStack() as ending:
        try:
            sandbox.port = sandbox.port or _PORT
            await ending.enter_async_context(sandbox)
        except OSError:
            sandbox.port = 0
            await ending.enter_async_context(sandbox)
        yield


def options() -> list[click.Parameter]:
    """Return the options of `seorep sandbox`; their defaults are the sandbox's own, but for the port."""
    default = Sandbox(port=8765)
    made: list[click.Parameter] = []
    for name, (metavar, words) in OPTIONS.items():
        value = getattr(default, name)
        shown = f"  [default: {value}]" if isinstance(value, int | str) and value not in (0, "") else ""
        made.append(click.Option([f"--{name.replace('_', '-')}"], metavar=metavar, help=words + shown))
    return made
