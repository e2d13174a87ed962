"""`seorep api`: any request, authenticated and retried."""

from __future__ import annotations

from typing import Annotated, Any

import click

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.options import Service
from seorep_async.cli.output import as_json, confirm, write
from seorep_async.cli.parameters import Opt, name_and_value
from seorep_async.cli.profiles import Connection, connect
from seorep_async.cli.resources import repeated
from seorep_async.cli.running import wait_for


def _method(value: str) -> str:
    if value.upper() not in ("GET", "POST", "PUT", "DELETE"):
        raise click.BadParameter(f"{value!r} is not one of GET, POST, PUT, DELETE.")
    return value.upper()


def api(
    method: Annotated[str, Opt(read=_method)],
    path: str,
    parameters: Annotated[list[str] | None, Opt(metavar="NAME=VALUE...", read=name_and_value)] = None,
    /,
    *,
    yes: Annotated[bool, Opt("-y --yes")] = False,
    service: Service = Service(),
) -> int:
    """Send any request, authenticated and retried, and print the response as JSON.

    GET and DELETE send the parameters in the query, POST and PUT in the body. A name that is repeated is an array.

    Args:
        yes: Do not ask for confirmation of a DELETE.

    Examples:
      seorep api GET /v3/campaigns limit=2
      seorep api PUT /v3/campaigns/7 group_title=Retail
      seorep api DELETE /v3/backlinks/700001 --yes
    """
    connection = connect(service)
    if method == "DELETE" and not yes:
        confirm(f"DELETE {path}?")
    return wait_for(_send(connection, method, path, repeated(parameters or ())))


async def _send(connection: Connection, method: str, path: str, parameters: dict[str, Any]) -> int:
    place = "params" if method in ("GET", "DELETE") else "body"
    async with connection.opened() as client:
        found = await client.request(method, path, **{place: parameters or None})
    write(as_json(found))
    return ExitCode.OK
