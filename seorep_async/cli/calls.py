"""The commands that list objects, get one object, or send any other request."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Coroutine, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

import click

from seorep_async.cli.connection import Connection, connect
from seorep_async.cli.formatting import fields_of, format_object, format_objects
from seorep_async.cli.options import LARGEST, Service
from seorep_async.cli.output import as_json, can_ask, confirm, messages, write
from seorep_async.cli.resources import COLUMNS
from seorep_async.cli.running import in_daemon_thread, wait_for
from seorep_async.errors import DecodeError
from seorep_async.models import Backlink, Campaign, Keyword, User
from seorep_async.secret import Secret

T = TypeVar("T")

MODELS: dict[str, type[Any]] = {
    "campaigns": Campaign,
    "users": User,
    "keywords": Keyword,
    "backlinks": Backlink,
}
_PAGES_AHEAD = 4
"""The largest number of concurrent requests for a list with `--limit`."""
_SLOW_SECONDS = 10.0
_SLOW = (
    "Still waiting. If the sandbox runs in this notebook, it can't respond while !seorep blocks "
    "the notebook: run seorep in a terminal instead."
)
_FROM_STDIN = "@-"
_METHODS_WITH_QUERY = ("GET", "DELETE")


def list_objects(
    resource: str,
    service: Service,
    *,
    format: str,
    columns: str | None,
    limit: int | None,
    page_size: int | None,
    param: Sequence[tuple[str, str]],
    **filters: Any,
) -> None:
    """Write the objects of a list.

    JSON lines and CSV are written page by page, tables and JSON arrays at the end.
    """
    default = COLUMNS[resource] if format == "table" else None
    names = _chosen_columns(columns, MODELS[resource], default)
    arguments = {name: value for name, value in filters.items() if value not in (None, ())}
    arguments |= {"limit": page_size, "extra_params": _by_name(param) or None}
    _wait_with_note_if_slow(
        _write_list(connect(service), resource, arguments, names, format, limit)
    )


def _wait_with_note_if_slow(work: Coroutine[Any, Any, T]) -> T:
    """Run a call to its end. Print a note if it takes long."""
    note = threading.Timer(_SLOW_SECONDS, messages().print, [_SLOW])
    note.daemon = True
    note.start()
    try:
        return wait_for(work)
    finally:
        note.cancel()


async def _write_list(
    connection: Connection,
    resource: str,
    arguments: Any,
    columns: Sequence[str],
    format: str,
    limit: int | None,
) -> None:
    """Fetch a list, and write its objects page by page, or all of them at the end."""
    concurrency = connection.settings.max_concurrency
    # more concurrent requests would fetch pages beyond the limit
    if limit is not None:
        concurrency = min(concurrency, _PAGES_AHEAD)
    most_objects = limit or LARGEST
    writes_each_page = format in ("jsonl", "csv")
    objects = []
    received = 0
    has_written = False
    async with connection.opened(max_concurrency=concurrency) as client:
        listing = getattr(client, resource).list(**arguments)
        async with aclosing(listing.pages()) as pages:
            async for page in pages:
                objects += page.items[: most_objects - received]
                received += len(page.items)
                if writes_each_page:
                    # the reader gets each page as it arrives, and may stop reading
                    text = format_objects(objects, columns, format, header=not has_written)
                    await in_daemon_thread(write, text)
                    objects = []
                    has_written = True
                if received >= most_objects:
                    break
        if not has_written:
            await in_daemon_thread(write, format_objects(objects, columns, format))
    if not received and format == "table":
        messages().print(f"No {resource}.")


def get_object(
    resource: str,
    service: Service,
    *,
    id: int,
    format: str,
    columns: str | None,
    param: Sequence[tuple[str, str]],
) -> None:
    """Write one object."""
    names = _chosen_columns(columns, MODELS[resource])
    item = _wait_with_note_if_slow(_get(connect(service), resource, id, _by_name(param) or None))
    write(format_object(item, names, format))


async def _get(connection: Connection, resource: str, id: int, extra_params: Any) -> Any:
    async with connection.opened() as client:
        return await getattr(client, resource).get(id, extra_params=extra_params)


def send_any(
    service: Service,
    *,
    method: str,
    path: str,
    parameters: Sequence[tuple[str, str]],
    yes: bool,
) -> None:
    """Send a request, and write the response as JSON."""
    connection = connect(service)
    method = method.upper()
    # a value of @- is read from stdin
    values = _by_name(_with_value_of_stdin(parameters)) or None
    if method == "DELETE" and not yes:
        confirm(f"DELETE {path}?")
    # GET and DELETE send values in the query. For other methods, `Settings.request_encoding`
    # decides where they go.
    argument = "params" if method in _METHODS_WITH_QUERY else "body"
    response = _wait_with_note_if_slow(_request(connection, method, path, {argument: values}))
    write(as_json(response))


async def _request(connection: Connection, method: str, path: str, values: Any) -> Any:
    """Send a request. If it fails but may have taken effect, print a warning."""
    async with connection.opened() as client:
        try:
            return await client.request(method, path, **values)
        except (asyncio.CancelledError, DecodeError):
            # the response is missing or can't be understood, but the request may have taken
            # effect
            if method != "GET":
                messages().print(f"The {method} may have taken effect: check before you repeat it.")
            raise


def _with_value_of_stdin(parameters: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Replace the value `@-` with a line of stdin, which keeps passwords off the command line."""
    return [
        (name, _line_of_stdin(name) if value == _FROM_STDIN else value)
        for name, value in parameters
    ]


def _line_of_stdin(name: str) -> Secret:
    """Read the value of a parameter from stdin."""
    if can_ask():
        raise click.UsageError(
            f"{name}=@-: stdin is a terminal, which would show the value; pipe it in."
        )
    # a second parameter finds nothing left to read
    lines = [] if sys.stdin is None else sys.stdin.buffer.read().splitlines()
    if len(lines) != 1 or not lines[0]:
        raise click.UsageError(f"{name}=@-: stdin must contain exactly one line: the value.")
    try:
        return Secret(lines[0].decode())
    except UnicodeDecodeError:
        # the UsageError is raised below: raised here, its context would contain the value
        pass
    raise click.UsageError(f"{name}=@-: stdin is not UTF-8.")


def _by_name(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return parameters by name. If a name is repeated, its values become a list."""
    parameters: dict[str, list[str]] = {}
    for name, value in pairs:
        parameters.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in parameters.items()}


def _chosen_columns(
    columns: str | None, model: type[Any], default: Sequence[str] | None = None
) -> list[str]:
    """Return the columns that `--columns` names, or the default ones, or all."""
    fields = fields_of(model)
    if columns is None:
        return list(default or fields)
    names = list(dict.fromkeys(name.strip() for name in columns.split(",")))
    for name in names:
        if name not in fields:
            choices = ", ".join(fields)
            raise click.UsageError(f"--columns: there is no {name!r}; choose from {choices}.")
    return names
