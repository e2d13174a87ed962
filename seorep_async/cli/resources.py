"""`seorep campaigns`, `users`, `keywords` and `backlinks`: a command for each method of the client's resources.

Options, types and help are those of the method's signature and docstring.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

import click

from seorep_async.cli.exit_codes import later
from seorep_async.cli.options import Output, Service
from seorep_async.cli.parameters import Command, Opt, command, name_and_value, options_of
from seorep_async.resources import Backlinks, Campaigns, Keywords, Users

_ORDER = ["list", "get", "create", "update", "delete", "login_grant"]
COLUMNS = {
    "campaigns": ["id", "company", "url", "group_title", "status"],
    "users": ["id", "username", "first_name", "last_name", "role", "email"],
    "keywords": ["id", "keyword_phrase", "primary_keyword", "campaign_id"],
    "backlinks": ["id", "title", "status", "date_published", "url"],
}
"""The default columns of a table of many; by the second and third a person recognises one."""


class _Ordered(click.Group):
    """Lists its commands in the order of their addition."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def _group(resource: type[Any]) -> click.Group:
    methods = [getattr(resource, name) for name in dir(resource) if not name.startswith("_")]
    methods.sort(key=lambda method: _ORDER.index(method.__name__))
    model = typing.get_args(typing.get_type_hints(resource.list)["return"])[0]
    name = resource.__name__.lower()
    words = inspect.getdoc(getattr(resource, "create", None)) or ""
    return _Ordered(name, commands=[_command(name, method, model, words) for method in methods])


def _command(resource: str, method: Callable[..., Any], model: Any, words: str) -> Command:
    """Return the command of a method: its own options, explained there or in `words`, and those of every command."""
    hints, verb = typing.get_type_hints(method), method.__name__
    if isinstance(hints["return"], type):  # not the model of the resource, but nothing or a grant
        model = hints["return"]
    skip = {"resource", "verb", "model"} | (set() if verb == "list" else {"page_size", "limit"})
    skip |= {"columns", "format", "json"} if model is type(None) else {"yes"}
    skip |= set() if verb == "update" and "password" in hints else {"ask_password"}  # `create` asks unasked
    skip |= set() if "password" in hints else {"password_stdin"}
    made = command(_call, verb.replace("_", "-"), skip)
    made.params = [*options_of(method, {"extra_params", "limit", "password"}, words), *made.params]
    made.callback = partial(made.callback or _call, resource=resource, verb=verb, model=model)
    summary = (method.__doc__ or "").partition("\n")[0].replace("one object", f"one {resource.removesuffix('s')}")
    made.help = made.short_help = summary
    if verb == "update":
        made.help += " Omitted fields stay as they are; an empty value is sent as empty."
    return made


def _call(
    *,
    resource: str,
    verb: str,
    model: Any,
    page_size: int | None = None,
    limit: int | None = None,
    ask_password: bool = False,
    password_stdin: bool = False,
    param: Annotated[list[str] | None, Opt(metavar="NAME=VALUE", read=name_and_value)] = None,
    yes: Annotated[bool, Opt("-y --yes")] = False,
    columns: Annotated[str | None, Opt(section="Output", metavar="NAMES")] = None,
    output: Output = Output(),
    service: Service = Service(),
    **given: Any,
) -> int:
    """Call a method of the client.

    Args:
        page_size: Objects of one request; the service has a default and a maximum of its own.
        limit: Stop after N objects.
        ask_password: Ask for a new password.
        password_stdin: Read the password from stdin.
        param: Send an undocumented parameter; repeatable; repeat a name for an array.
        yes: Do not ask for confirmation.
        columns: Fields to write, separated by commas; extra holds undocumented ones.
    """
    if ask_password and password_stdin:
        raise click.UsageError("--ask-password and --password-stdin can't be combined.")
    if own := next((one for one in repeated(param or ()) if one.removesuffix("[]") in given), None):
        flag = f"--{own.removesuffix('[]').replace('_', '-')}"
        raise click.UsageError(f"--param {own}: there is an option for it; use {flag}.")
    arguments = {name: value for name, value in given.items() if value not in (None, ())}
    arguments |= {"limit": page_size} if page_size else {}
    arguments |= {"extra_params": repeated(param)} if param else {}
    how = {"limit": limit, "asks": ask_password, "from_stdin": password_stdin, "yes": yes, "columns": columns}
    return int(later("calls", "call")(resource, verb, model, arguments, output.kind, service, **how))


def repeated(pairs: Sequence[Any]) -> dict[str, Any]:
    """Return parameters by their names; a name that is repeated has a list of values."""
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


campaigns: click.Group
users: click.Group
keywords: click.Group
backlinks: click.Group
campaigns, users, keywords, backlinks = (_group(one) for one in (Campaigns, Users, Keywords, Backlinks))
