"""One call of a resource, or any other: ask for what is missing, send it, and write the result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from operator import attrgetter
from typing import Annotated, Any

import click

from seorep_async.cli.connection import Connection, connect
from seorep_async.cli.options import LARGEST, Format, Opt, Service, name_and_value
from seorep_async.cli.output import (
    as_json,
    cell,
    confirm,
    fields_of,
    formatted,
    messages,
    password,
    write,
)
from seorep_async.cli.resources import Call
from seorep_async.cli.running import in_daemon_thread, wait_for
from seorep_async.errors import DecodeError

COLUMNS = {
    "campaigns": ["id", "company", "url", "group_title", "status"],
    "users": ["id", "username", "first_name", "last_name", "role", "email"],
    "keywords": ["id", "keyword_phrase", "primary_keyword", "campaign_id"],
    "backlinks": ["id", "title", "status", "date_published", "url"],
}
"""The default columns of a table of many; by the second and third a person recognises one."""
_PAGES_AHEAD = 4
_DONE = {"create": "created", "update": "changed", "delete": "deleted"}


def call(
    resource: str,
    verb: str,
    model: Any,
    how: Call,
    kind: Format,
    service: Service,
    given: dict[str, Any],
) -> None:
    """Call a method of the client, and write what it returns."""
    names = _chosen(
        how.columns, model, COLUMNS[resource] if verb == "list" and kind == "table" else []
    )
    arguments = given | {"limit": how.page_size, "extra_params": _repeated(how.param or ())}
    arguments = {name: value for name, value in arguments.items() if value not in (None, (), {})}
    connection = connect(service)
    if how.ask_password or how.password_stdin or (resource, verb) == ("users", "create"):
        arguments["password"] = password(from_stdin=how.password_stdin)
    if verb == "list":
        wait_for(_list(connection, resource, arguments, names, kind, how.most))
        return
    one, done = resource.removesuffix("s"), _DONE.get(verb, "")
    if verb == "delete" and not how.yes:
        found = wait_for(_send(connection, f"{resource}.get", arguments))
        label = ", ".join(cell(getattr(found, name)) for name in COLUMNS[resource][1:3])
        confirm(f"Delete {one} {found.id} ({label})?")
    doubt = done and f"The {one} may have been {done}"
    found = wait_for(_send(connection, f"{resource}.{verb}", arguments, doubt))
    if done:
        messages().print(f"{done.capitalize()} {one} {arguments.get('id') or found.id}.")
    if found is not None:
        write(formatted([found], names, kind, one=True))


def api(
    method: str,
    path: str,
    parameters: Annotated[
        list[str] | None, Opt(metavar="NAME=VALUE...", read=name_and_value)
    ] = None,
    /,
    *,
    yes: Annotated[bool, Opt("-y --yes")] = False,
    service: Service = Service(),
) -> None:
    """Send any request, authenticated and retried, and print the response as JSON.

    GET and DELETE send the parameters in the query, POST and PUT in the body. A name that is repeated is an array. A
    response that is no object, or one to GET that has no data, is refused.

    Args:
        yes: Do not ask for confirmation of a DELETE.

    Examples:
      seorep api GET /v3/campaigns limit=2
      seorep api PUT /v3/campaigns/7 group_title=Retail
      seorep api DELETE /v3/backlinks/700001 --yes
    """
    connection, method = connect(service), method.upper()
    if method == "DELETE" and not yes:
        confirm(f"DELETE {path}?")
    place, doubt = (
        ("params" if method in ("GET", "DELETE") else "body"),
        f"The {method} may have had its effect",
    )
    arguments = {"method": method, "path": path, place: _repeated(parameters or ()) or None}
    write(
        as_json(wait_for(_send(connection, "request", arguments, "" if method == "GET" else doubt)))
    )


def _repeated(pairs: Sequence[Any]) -> dict[str, Any]:
    """Return parameters by their names; a name that is repeated has a list of values."""
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _chosen(columns: str | None, model: Any, default: list[str]) -> list[str]:
    known = [] if model is type(None) else fields_of(model)
    names = (
        [*dict.fromkeys(one.strip() for one in columns.split(","))]
        if columns is not None
        else default or known
    )
    if unknown := [name for name in names if name not in known]:
        raise click.UsageError(
            f"--columns: there is no {unknown[0]!r}; choose from {', '.join(known)}."
        )
    return names


async def _send(
    connection: Connection, method: str, arguments: dict[str, Any], doubt: str = ""
) -> Any:
    """Call a method of the client; where its response is not had, or not understood, say which `doubt` that leaves."""
    async with connection.opened() as client:
        try:
            return await attrgetter(method)(client)(**arguments)
        except (asyncio.CancelledError, DecodeError):
            if doubt:
                messages().print(f"{doubt}: check before you repeat it.")
            raise


async def _list(
    connection: Connection,
    resource: str,
    arguments: Any,
    columns: list[str],
    kind: Format,
    limit: int | None,
) -> None:
    """Write listed objects: lines as each page arrives, a table or an array together."""
    ahead = (
        {"max_concurrency": min(connection.settings.max_concurrency, _PAGES_AHEAD)} if limit else {}
    )
    waiting, most = list[Any](), limit or LARGEST
    shown, header = 0, True
    async with connection.opened(**ahead) as client:
        async with aclosing(getattr(client, resource).list(**arguments).pages()) as pages:
            async for page in pages:
                waiting += page.items[: most - shown]
                shown += len(page.items)
                if kind in ("jsonl", "csv"):
                    await in_daemon_thread(write, formatted(waiting, columns, kind, header=header))
                    waiting, header = [], False
                if shown >= most:
                    break
        if header:
            await in_daemon_thread(write, formatted(waiting, columns, kind))
    if not shown and kind == "table":
        messages().print(f"No {resource}.")
