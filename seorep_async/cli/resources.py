"""`seorep campaigns`, `users`, `keywords` and `backlinks`: a command for each method of the client's resources.

Options, types and help are those of the method's signature and docstring.
"""

from __future__ import annotations

import asyncio
import typing
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any

import click

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.options import Format, Output, Service
from seorep_async.cli.output import (
    cell,
    confirm,
    fields_of,
    formatted,
    formatted_one,
    messages,
    password,
    write,
)
from seorep_async.cli.parameters import Command, Opt, command, name_and_value, options_of
from seorep_async.cli.profiles import Connection, connect
from seorep_async.cli.running import in_daemon_thread, wait_for
from seorep_async.resources import Backlinks, Campaigns, Keywords, Users

_PAGES_AHEAD = 4
_ORDER = ["list", "get", "create", "update", "delete", "login_grant"]
_DONE = {"create": "created", "update": "changed", "delete": "deleted"}
_COLUMNS = {
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
    return _Ordered(name, commands=[_command(name, method, model) for method in methods])


def _command(resource: str, method: Callable[..., Any], model: Any) -> Command:
    """Return the command of a method: its own options, and those of every command."""
    hints, verb = typing.get_type_hints(method), method.__name__
    if isinstance(hints["return"], type):  # not the model of the resource, but nothing or a grant
        model = hints["return"]
    skip = {"resource", "verb", "model"} | (set() if verb == "list" else {"page_size", "limit"})
    skip |= {"columns", "format", "json"} if model is type(None) else {"yes"}
    skip |= set() if verb == "update" and "password" in hints else {"ask_password"}  # `create` asks unasked
    skip |= set() if "password" in hints else {"password_stdin"}
    made = command(_call, verb.replace("_", "-"), skip)
    made.params = [*options_of(method, {"extra_params", "limit", "password"}), *made.params]
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
    arguments = {name: value for name, value in given.items() if value not in (None, ())}
    if ask_password and password_stdin:
        raise click.UsageError("--ask-password and --password-stdin can't be combined.")
    names = _chosen(columns, model, _COLUMNS[resource] if verb == "list" and output.kind == "table" else [])
    connection = connect(service)
    if password_stdin or ask_password or (resource, verb) == ("users", "create"):
        arguments["password"] = password(from_stdin=password_stdin)
    arguments |= {"limit": page_size} if page_size else {}
    arguments |= {"extra_params": repeated(param)} if param else {}
    if verb == "list":
        return wait_for(_list(connection, resource, arguments, names, output.kind, limit))
    one, send = resource.removesuffix("s"), partial(_send, connection, resource)
    if verb == "delete" and not yes:
        found = wait_for(send("get", arguments))
        label = ", ".join(cell(getattr(found, name)) for name in _COLUMNS[resource][1:3])
        confirm(f"Delete {one} {found.id} ({label})?")
    found, done = wait_for(send(verb, arguments)), _DONE.get(verb)
    if done is not None:
        messages().print(f"{done.capitalize()} {one} {arguments.get('id') or found.id}.")
    if found is not None:
        write(formatted_one(found, names, output.kind))
    return ExitCode.OK


def repeated(pairs: Sequence[Any]) -> dict[str, Any]:
    """Return parameters by their names; a name that is repeated has a list of values."""
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _chosen(columns: str | None, model: Any, default: list[str]) -> list[str]:
    known = [] if model is type(None) else fields_of(model)
    names = [*dict.fromkeys(one.strip() for one in columns.split(","))] if columns is not None else default or known
    if unknown := next((name for name in names if name not in known), None):
        raise click.UsageError(f"--columns: there is no {unknown!r}; choose from {', '.join(known)}.")
    return names


async def _send(connection: Connection, resource: str, verb: str, arguments: dict[str, Any]) -> Any:
    async with connection.opened() as client:
        try:
            return await getattr(getattr(client, resource), verb)(**arguments)
        except asyncio.CancelledError:
            if verb in _DONE:
                one = resource.removesuffix("s")
                messages().print(f"The {one} may have been {_DONE[verb]}: check before you repeat it.")
            raise


async def _list(
    connection: Connection, resource: str, arguments: Any, columns: list[str], kind: Format, limit: int | None
) -> int:
    """Write listed objects: lines as each page arrives, a table or an array together."""
    most = connection.settings.max_concurrency
    waiting: list[Any] = []
    shown, header = 0, True
    async with connection.opened(max_concurrency=min(most, _PAGES_AHEAD) if limit else most) as client:
        async with aclosing(getattr(client, resource).list(**arguments).pages()) as pages:
            async for page in pages:
                waiting += page.items if limit is None else page.items[: limit - shown]
                shown += len(page.items)
                if kind in ("jsonl", "csv"):
                    await in_daemon_thread(partial(write, formatted(waiting, columns, kind, header=header)))
                    waiting, header = [], False
                if limit is not None and shown >= limit:
                    break
        if header:
            await in_daemon_thread(partial(write, formatted(waiting, columns, kind)))
    if not shown and kind == "table":
        messages().print(f"No {resource}.")
    return ExitCode.OK


campaigns, users, keywords, backlinks = (_group(one) for one in (Campaigns, Users, Keywords, Backlinks))
