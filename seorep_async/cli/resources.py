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

import attrs
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
_DONE = {"create": "created", "update": "changed", "delete": "deleted"}
_COLUMNS = {
    "campaigns": ("id", "company", "url", "group_title", "status"),
    "users": ("id", "username", "first_name", "last_name", "role", "email"),
    "keywords": ("id", "keyword_phrase", "primary_keyword", "campaign_id"),
    "backlinks": ("id", "title", "status", "date_published", "url"),
}
"""The default columns of a table of many; by the second and third a person recognises one."""


class _Ordered(click.Group):
    """Lists its commands in the order of their addition."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def _group(resource: type[Any]) -> click.Group:
    methods = [method for name, method in vars(resource).items() if not name.startswith("_")]
    methods.sort(key=lambda method: (method.__name__ != "list", method.__name__ != "get"))
    name = resource.__name__.lower()
    return _Ordered(name, commands=[_command(name, method) for method in methods])


def _command(resource: str, method: Callable[..., Any]) -> Command:
    """Return the command of a method: its own options, and those of every command."""
    hints = typing.get_type_hints(method)
    model = next(iter(typing.get_args(hints["return"])), hints["return"])
    unneeded = set() if method.__name__ == "list" else {"page_size", "limit"}
    unneeded |= {"columns", "format", "json"} if model is type(None) else {"yes"}
    # `create` asks for a password; `update` must be told to
    unneeded |= {"ask_password"} if "email_credentials" in hints or "password" not in hints else set()
    unneeded |= set() if "password" in hints else {"password_stdin"}

    def call(
        *,
        page_size: int | None = None,
        limit: int | None = None,
        ask_password: bool = False,
        password_stdin: bool = False,
        param: Annotated[list[str] | None, Opt(metavar="NAME=VALUE", read=name_and_value)] = None,
        yes: Annotated[bool, Opt("-y --yes")] = False,
        columns: Annotated[str | None, Opt(section="Output", metavar="NAMES", read=partial(_columns, model))] = None,
        output: Output = Output(),
        service: Service = Service(),
        **given: Any,
    ) -> int:
        """The options of every command.

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
        if password_stdin or ask_password or ("password" in hints and method.__name__ == "create"):
            arguments["password"] = password(from_stdin=password_stdin)
        if page_size is not None:
            arguments["limit"] = page_size
        if param:
            arguments["extra_params"] = repeated(param)
        how = _Call(resource, method.__name__, model, connect(service), output.kind, columns, limit, yes)
        return wait_for(how.run(arguments))

    made = command(call, method.__name__.replace("_", "-"), unneeded)
    own = options_of(method, {"extra_params", "limit", "password"})
    made.params = [*own, *made.params]
    summary = (method.__doc__ or "").partition("\n")[0]
    made.short_help = summary
    further = (
        " Omitted fields stay as they are; an empty value is sent as empty." if method.__name__ == "update" else ""
    )
    made.help = summary + further
    return made


def repeated(pairs: Sequence[Any]) -> dict[str, Any]:
    """Return parameters by their names; a name that is repeated has a list of values."""
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _columns(model: type[Any], value: str) -> tuple[str, ...]:
    known = fields_of(model)
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    for name in names:
        if name not in known:
            raise click.BadParameter(f"there is no {name!r}; choose from {', '.join(known)}.")
    return names


@attrs.frozen
class _Call:
    """A call of a method of the client, and how its result is written."""

    resource: str
    verb: str
    model: type[Any]
    connection: Connection
    kind: Format
    columns: Sequence[str] | None
    limit: int | None
    yes: bool

    async def run(self, arguments: dict[str, Any]) -> int:
        settings = self.connection.settings
        ahead = {"max_concurrency": min(settings.max_concurrency, _PAGES_AHEAD)} if self.limit else {}
        async with self.connection.opened(**ahead) as client:
            methods, one = getattr(client, self.resource), self.resource.removesuffix("s")
            if self.verb == "list":
                await self._list(methods.list(**arguments))
                return ExitCode.OK
            if self.verb == "delete" and not self.yes:
                found = await methods.get(arguments["id"])
                label = ", ".join(cell(getattr(found, name)) for name in _COLUMNS[self.resource][1:3])
                confirm(f"Delete {one} {found.id} ({label})?")
            done = _DONE.get(self.verb)
            try:
                found = await getattr(methods, self.verb)(**arguments)
            except asyncio.CancelledError:
                if done is not None:
                    messages().print(f"The {one} may have been {done}: check before you repeat it.")
                raise
        if done is not None:
            messages().print(f"{done.capitalize()} {one} {arguments.get('id') or found.id}.")
        if found is not None:
            write(formatted_one(found, self.columns or fields_of(self.model), self.kind))
        return ExitCode.OK

    async def _list(self, listing: Any) -> None:
        """Write listed objects: lines as each page arrives, a table or an array together."""
        columns = self.columns or (_COLUMNS[self.resource] if self.kind == "table" else fields_of(self.model))
        waiting: list[Any] = []
        shown, streamed, header = 0, self.kind in ("jsonl", "csv"), True
        async with aclosing(listing.pages()) as pages:
            async for page in pages:
                waiting += page.items if self.limit is None else page.items[: self.limit - shown]
                shown += len(page.items)
                if streamed:
                    await in_daemon_thread(partial(write, formatted(waiting, columns, self.kind, header=header)))
                    waiting, header = [], False
                if self.limit is not None and shown >= self.limit:
                    break
        if header:
            await in_daemon_thread(partial(write, formatted(waiting, columns, self.kind)))
        if not waiting and self.kind == "table":
            messages().print(f"No {self.resource}.")


campaigns, users, keywords, backlinks = (_group(one) for one in (Campaigns, Users, Keywords, Backlinks))
