"""One call of a resource command: ask for what is missing, send it, and write the result."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from typing import Any

import click

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.options import Format, Service
from seorep_async.cli.output import cell, confirm, fields_of, formatted, formatted_one, messages, password, write
from seorep_async.cli.profiles import Connection, connect
from seorep_async.cli.resources import COLUMNS
from seorep_async.cli.running import in_daemon_thread, wait_for

_PAGES_AHEAD = 4
_DONE = {"create": "created", "update": "changed", "delete": "deleted"}


def call(
    resource: str,
    verb: str,
    model: Any,
    arguments: dict[str, Any],
    kind: Format,
    service: Service,
    *,
    limit: int | None,
    asks: bool,
    from_stdin: bool,
    yes: bool,
    columns: str | None,
) -> int:
    """Call a method of the client, and write what it returns."""
    names = _chosen(columns, model, COLUMNS[resource] if verb == "list" and kind == "table" else [])
    connection = connect(service)
    if from_stdin or asks or (resource, verb) == ("users", "create"):
        arguments["password"] = password(from_stdin=from_stdin)
    if verb == "list":
        return wait_for(_list(connection, resource, arguments, names, kind, limit))
    one, send = resource.removesuffix("s"), partial(_send, connection, resource)
    if verb == "delete" and not yes:
        found = wait_for(send("get", arguments))
        label = ", ".join(cell(getattr(found, name)) for name in COLUMNS[resource][1:3])
        confirm(f"Delete {one} {found.id} ({label})?")
    found, done = wait_for(send(verb, arguments)), _DONE.get(verb)
    if done is not None:
        messages().print(f"{done.capitalize()} {one} {arguments.get('id') or found.id}.")
    if found is not None:
        write(formatted_one(found, names, kind))
    return ExitCode.OK


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
