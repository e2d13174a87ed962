"""`seorep campaigns`, `users`, `keywords` and `backlinks`: a command for each method of the client's resources.

Options, types and help are those of the method's signature and docstring.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import click

from seorep_async.cli.options import Commands, Opt, Output, Service, command, later, name_and_value
from seorep_async.resources import Backlinks, Campaigns, Keywords, Users

_VERBS = ("list", "get", "create", "update", "delete", "login_grant")


@dataclass(frozen=True)
class Call:
    """How a method is called, and what is shown.

    Args:
        page_size: Objects of one request; the service has a default and a maximum of its own.
        most: Stop after N objects.
        ask_password: Ask for a new password.
        password_stdin: Read the password from stdin.
        param: Send an undocumented parameter; repeatable; repeat a name for an array.
        yes: Do not ask for confirmation.
        columns: Fields to write, separated by commas; extra holds undocumented ones.
    """

    page_size: int | None = None
    most: Annotated[int | None, Opt("--limit")] = None
    ask_password: bool = False
    password_stdin: bool = False
    param: Annotated[list[str] | None, Opt(metavar="NAME=VALUE", read=name_and_value)] = None
    yes: Annotated[bool, Opt("-y --yes")] = False
    columns: Annotated[str | None, Opt(section="Output", metavar="NAMES")] = None


def _group(resource: type[Any]) -> Commands:
    name = resource.__name__.lower()
    methods = {
        verb.replace("_", "-"): getattr(resource, verb)
        for verb in _VERBS
        if hasattr(resource, verb)
    }
    summaries = {verb: _summary(method, name) for verb, method in methods.items()}
    return Commands(name, summaries, lambda verb: _command(name, resource, methods[verb]))


def _summary(method: Callable[..., Any], resource: str) -> str:
    return (
        (method.__doc__ or "")
        .partition("\n")[0]
        .replace("one object", f"one {resource.removesuffix('s')}")
    )


def _command(resource: str, of: type[Any], method: Callable[..., Any]) -> click.Command:
    """Return the command of a method: its own options, explained there or at `create`, and those of every command."""
    hints, verb = typing.get_type_hints(method), method.__name__
    found = hints["return"]
    model = (
        found
        if isinstance(found, type)
        else typing.get_args(typing.get_type_hints(of.list)["return"])[0]
    )
    skip = {"extra_params", "limit", "password"} | (
        set() if verb == "list" else {"page_size", "most"}
    )
    skip |= {"columns", "format", "json"} if model is type(None) else {"yes"}
    skip |= (
        set() if verb == "update" and "password" in hints else {"ask_password"}
    )  # `create` asks unasked
    skip |= set() if "password" in hints else {"password_stdin"}

    def send(
        *, how: Call = Call(), output: Output = Output(), service: Service = Service(), **given: Any
    ) -> None:
        later("calls", "call")(resource, verb, model, how, output.kind, service, given)

    made = command(send, method, skip=skip, words=inspect.getdoc(getattr(of, "create", None)) or "")
    made.help = _summary(method, resource)
    if verb == "update":
        made.help += " Omitted fields stay as they are; an empty value is sent as empty."
    return made


campaigns: Commands = _group(Campaigns)
users: Commands = _group(Users)
keywords: Commands = _group(Keywords)
backlinks: Commands = _group(Backlinks)
