"""The options of an embedded sandbox, which two commands share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import click

from seorep_async.sandbox import Sandbox

_DEFAULTS = {field.name: field.default for field in attrs.fields(Sandbox)}


class SandboxOption(click.Option):
    """An option of the sandbox's, told from those of the command that it is on."""


def _option(name: str, kind: object, words: str, metavar: str | None = None) -> SandboxOption:
    # no default of its own: whether one was given matters, and the sandbox has the defaults
    return SandboxOption([f"--{name}"], type=kind, metavar=metavar, help=f"{words}  [default: {_DEFAULTS[name]}]")


_OPTIONS = (
    _option("campaigns", click.INT, "How many campaigns the account has; their ids are 1 to this.", "N"),
    _option("keywords", click.INT, "How many keywords each campaign has.", "N"),
    _option("shape", click.Choice(["nested", "flat", "mixed"]), "Envelope of the feeds' answers."),
    _option("rows", click.Choice(["current", "older", "mixed"]), "Variant of the feeds' rows."),
    _option("seed", click.INT, "The same seed gives the same data.", "N"),
    _option("latency", click.FLOAT, "Seconds that each answer takes at least.", "SECONDS"),
    SandboxOption(
        ["--rate-limit"], type=click.FLOAT, metavar="N", help="Requests a second; over it the answer is 429."
    ),
    SandboxOption(["--faults"], metavar="SHARES", help="Faults to meet, such as resets=2%,500s=3%."),
    SandboxOption(
        ["--failing"], type=click.INT, multiple=True, metavar="ID", help="Campaign that always answers 500; repeatable."
    ),
)


def sandbox_options() -> list[click.Parameter]:
    """Return the sandbox's options, for a command's `params`."""
    return list(_OPTIONS)


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the sandbox's options that were given."""
    return {name: value for name, value in options.items() if value not in (None, ())}


def make_sandbox(options: Mapping[str, Any]) -> Sandbox:
    """Build the sandbox that the options describe.

    Raises:
        click.UsageError: one is out of its range.
    """
    try:
        return Sandbox(**given(options))
    except ValueError as error:
        # the sandbox's message begins with the option's name
        name, _, problem = str(error).replace("per_second", "rate_limit", 1).partition(" ")
        colon = ":" if name.endswith(":") else ""
        raise click.UsageError(f"--{name.removesuffix(':').replace('_', '-')}{colon} {problem}") from None
