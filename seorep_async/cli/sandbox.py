"""The embedded sandbox of `-s`, and the sandbox of `seorep sandbox`."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import attrs

from seorep_async.cli.errors import ExitCode, UsageError
from seorep_async.cli.output import messages, write
from seorep_async.cli.running import wait_for
from seorep_async.errors import suggestion
from seorep_async.sandbox import Sandbox

_EMBEDDED_PORT = 8764
"""The port of `-s`. It is fixed because a pull resumes only from the same address."""
_NOT_EMBEDDED = ("api_key", "host", "port")
"""Options of `seorep sandbox` that `-s` does not take."""


@dataclass(frozen=True)
class _Reader:
    """Reads the value of an option. `expected` describes valid values in words."""

    read: Callable[[str], Any]
    expected: str


def _read_boolean(text: str) -> bool:
    """Read true or false.

    Raises:
        ValueError: it is neither.
    """
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _read_ids(text: str) -> list[int]:
    return list(map(int, text.split(",")))


def _read_statuses(text: str) -> dict[int, int]:
    """Read campaign ids such as `3,5:404`. An id without a status gets 500."""
    statuses = {}
    for part in text.split(","):
        campaign_id, _, status = part.partition(":")
        statuses[int(campaign_id)] = int(status or 500)
    return statuses


_STRING = _Reader(str, "a string")
_BY_TYPE: Mapping[Any, _Reader] = {
    bool: _Reader(_read_boolean, "true or false"),
    float: _Reader(float, "a number of seconds"),
    int: _Reader(int, "an integer"),
    Collection[int]: _Reader(
        _read_ids, "a list of ids such as 3,5; only the option failing takes a status"
    ),
    Mapping[int, int] | Collection[int]: _Reader(_read_statuses, "a list of ids such as 3,5:404"),
}
_ONLY_IN_PYTHON = ("reports", "clock")
READERS: Mapping[str, _Reader] = {
    option.name: _BY_TYPE.get(option.type, _STRING)
    for option in attrs.fields(Sandbox)
    if option.init and option.name not in _ONLY_IN_PYTHON
}
"""The options of the sandbox, by their names in `Sandbox`."""


def build_embedded(options: Mapping[str, str]) -> Sandbox:
    """Make the sandbox of `-s NAME=VALUE`.

    Raises:
        UsageError: an option is unknown, or its value is wrong.
    """
    # -s takes no api-key, host or port: the sandbox has its usual ones
    choices = [_as_option(name) for name in READERS if name not in _NOT_EMBEDDED]
    for name in options:
        option_name = _as_option(name)
        if option_name not in choices:
            advice = suggestion(option_name, choices) or f" The options are {', '.join(choices)}."
            raise UsageError(f"-s: an embedded sandbox has no option {option_name!r}.{advice}")
    return _sandbox_of(options, prefix="-s ")


def _sandbox_of(options: Mapping[str, str], prefix: str) -> Sandbox:
    """Make a sandbox from the texts of its options. Errors show `prefix` before an option."""
    values = {}
    for name, text in options.items():
        reader = READERS[name]
        try:
            values[name] = reader.read(text)
        except ValueError:
            raise UsageError(
                f"{prefix}{_as_option(name)}: {text!r} is not {reader.expected}."
            ) from None
    try:
        return Sandbox(**values)
    except ValueError as error:
        # the message begins with the option's name, perhaps with a colon after it
        name, _, problem = str(error).partition(" ")
        raise UsageError(f"{prefix}{_as_option(name)} {problem}") from None


def _as_option(name: str) -> str:
    return name.replace("_", "-")


async def start_embedded(sandbox: Sandbox, stack: AsyncExitStack) -> Sandbox:
    """Run a sandbox until a stack is closed, on its usual port if that is free."""
    sandbox.port = _EMBEDDED_PORT
    try:
        return await stack.enter_async_context(sandbox)
    except OSError:
        sandbox.port = 0
        return await stack.enter_async_context(sandbox)


def serve(options: Mapping[str, str | bool | None]) -> ExitCode:
    """Run a sandbox until Ctrl-C."""
    texts = {name: str(value) for name, value in options.items() if value not in (None, False)}
    sandbox = _sandbox_of(texts, prefix="--")
    try:
        wait_for(_serve_until_interrupted(sandbox))
    except KeyboardInterrupt:
        messages().print(f"\nStopped after {sandbox.stats.requests:,} requests.")
    except OSError as error:
        raise UsageError(f"{error.strerror or error}; choose another --host or --port.") from None
    return ExitCode.INTERRUPTED


async def _serve_until_interrupted(sandbox: Sandbox) -> None:
    async with sandbox:
        write(_description(sandbox))
        await asyncio.Event().wait()


def _description(sandbox: Sandbox) -> str:
    """Return the address and the key of a running sandbox, and commands that use it."""
    user = shlex.quote(f":{sandbox.api_key}")
    key = shlex.quote(sandbox.api_key)
    return f"""\
Sandbox with {sandbox.campaigns:,} campaigns of {sandbox.keywords:,} keywords, until Ctrl-C
  Address  {sandbox.base_url}
  API key  {sandbox.api_key}

Try it:
curl --user {user} '{sandbox.base_url}/v3/campaigns?limit=2'

Pull from it:
export SEOREP_BASE_URL={sandbox.base_url}
export SEOREP_API_KEY={key}
seorep pull
"""
