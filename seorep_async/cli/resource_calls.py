"""One call of a resource command: ask for missing values, send it, and write the result."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any

import attrs
import click
from rich.text import Text

from seorep_async.cli.connection import Connection, connect
from seorep_async.cli.exit_codes import ExitCode, exit_code_of, explain, service_message, show_error
from seorep_async.cli.options import OutputFormat, field_names
from seorep_async.cli.resource_output import (
    csv_rows,
    json_array,
    json_lines,
    json_object,
    string_of,
    table_of_many,
    table_of_one,
)
from seorep_async.cli.signals import run_in_daemon_thread, run_until_interrupted
from seorep_async.cli.terminal import (
    ask_for_password,
    can_ask,
    read_password,
    stderr_console,
    stdout_is_terminal,
    write_stdout,
)
from seorep_async.client import SeoRepClient
from seorep_async.errors import StatusError, one_line
from seorep_async.models import Page
from seorep_async.paging import ModelListing

_PAGES_AHEAD = 4
_DONE = {"create": "created", "update": "changed", "delete": "deleted"}


@attrs.frozen(kw_only=True)
class ResourceCommand:
    """A method of a resource, as a command.

    Attributes:
        resource: name of the client's attribute.
        label_fields: the fields by which a person recognises an object.
        columns: the default columns of a table of many objects.
        model: the class of the result, or None.
    """

    resource: str
    method: str
    label_fields: tuple[str, ...]
    columns: tuple[str, ...]
    model: type[Any] | None
    parameters: tuple[str, ...]

    @property
    def object_name(self) -> str:
        """The word for an object."""
        return self.resource.removesuffix("s")


def run_command(command: ResourceCommand, options: Mapping[str, Any]) -> ExitCode:
    """Run a command with its options, and return the exit code."""
    connection = connect(options, "try it with `seorep sandbox`")
    # check the whole command line before asking any question
    kind = _format_of(options)
    if command.model is None and not options["yes"] and not can_ask():
        raise click.UsageError("there is no terminal to ask for confirmation; pass --yes to delete without it.")
    arguments = _arguments(command, options)
    try:
        if command.method == "list":
            _list(command, connection, arguments, options, kind)
        elif command.model is None and not options["yes"] and not _confirm(command, connection, arguments["id"]):
            stderr_console().print("Nothing was deleted.")
            return ExitCode.INTERRUPTED
        else:
            _change_or_get(command, connection, arguments, options, kind)
    except StatusError as error:
        show_error(explain(error))
        if quote := service_message(error):
            stderr_console().print(Text(f"The service said: {quote}"))
        return exit_code_of(error)
    return ExitCode.OK


def _format_of(options: Mapping[str, Any]) -> OutputFormat:
    named = options.get("kind")
    if not options.get("as_json"):
        return OutputFormat(named or OutputFormat.TABLE.value)
    if named not in (None, OutputFormat.JSON.value):
        raise click.UsageError(f"--json and --format {named} can't be combined.")
    return OutputFormat.JSON


def _arguments(command: ResourceCommand, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the client's method; a password is prompted for, or read from stdin."""
    arguments = {name: _password(options) if name == "password" else options[name] for name in command.parameters}
    arguments = {name: value for name, value in arguments.items() if value not in (None, ())}
    several: dict[str, list[str]] = {}
    for name, value in options["param"]:
        several.setdefault(name, []).append(value)
    if several:
        extra = {name: values[0] if len(values) == 1 else values for name, values in several.items()}
        arguments["extra_params"] = extra
    return arguments


def _password(options: Mapping[str, Any]) -> str | None:
    ask = options.get("ask_password", True)  # a required password has no option to prompt for it
    if options["password_stdin"]:
        if options.get("ask_password"):
            raise click.UsageError("--ask-password and --password-stdin can't be combined.")
        return read_password()
    return ask_for_password() if ask else None


def _change_or_get(
    command: ResourceCommand,
    connection: Connection,
    arguments: Mapping[str, Any],
    options: Mapping[str, Any],
    kind: OutputFormat,
) -> None:
    number = arguments.get("id")
    try:
        result = run_until_interrupted(_send(command, connection, arguments))
    except KeyboardInterrupt:
        if command.method not in _DONE:
            raise
        subject = f"the {command.object_name}" if number is None else f"{command.object_name} {number}"
        happened = f"{subject} may have been {_DONE[command.method]}"
        stderr_console().print(f"Interrupted; {happened}: check before you repeat it.")
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
    if command.method in _DONE:
        subject = f"{command.object_name} {result.id if number is None else number}"
        stderr_console().print(f"{_DONE[command.method].capitalize()} {subject}.")
    if command.model is not None:
        columns = options["columns"] or field_names(command.model)
        _write_one(result, columns, kind, chosen=options["columns"] is not None)


def _confirm(command: ResourceCommand, connection: Connection, number: int) -> bool:
    getting = attrs.evolve(command, method="get")
    found = run_until_interrupted(_send(getting, connection, {"id": number}))
    label = ", ".join(filter(None, (string_of(getattr(found, name)) for name in command.label_fields)))
    return click.confirm(f"Delete {command.object_name} {number} ({one_line(label)})?", err=True)


def _list(
    command: ResourceCommand,
    connection: Connection,
    arguments: Mapping[str, Any],
    options: Mapping[str, Any],
    kind: OutputFormat,
) -> None:
    columns = options["columns"] or (
        command.columns if kind is OutputFormat.TABLE else field_names(command.model or object)
    )
    most = options["most"]
    if most is not None:  # fetch no superfluous pages ahead
        settings = connection.settings
        settings = attrs.evolve(settings, max_concurrency=min(settings.max_concurrency, _PAGES_AHEAD))
        connection = attrs.evolve(connection, settings=settings)
    shown, total = run_until_interrupted(
        _write_pages(command, connection, arguments, columns, kind, options["page"], most)
    )
    if not shown and kind is OutputFormat.TABLE:
        stderr_console().print(f"No {command.resource}.")
    elif kind is OutputFormat.TABLE and stdout_is_terminal() and total is not None and total > shown:
        stderr_console().print(f"{shown:,} of {total:,} {command.resource}.", style="dim")


async def _send(command: ResourceCommand, connection: Connection, arguments: Mapping[str, Any]) -> Any:
    async with connection.client() as client:
        with _status():
            return await _requested(client, command, arguments)


async def _write_pages(
    command: ResourceCommand,
    connection: Connection,
    arguments: Mapping[str, Any],
    columns: Sequence[str],
    kind: OutputFormat,
    number: int | None,
    most: int | None,
) -> tuple[int, int | None]:
    """Write listed objects; return their number, and that of all."""
    waiting: list[Any] = []
    shown, total, header = 0, None, True
    async with connection.client() as client:
        with _status(hidden=kind.is_streamed and stdout_is_terminal()) as update:
            async with aclosing(_pages(_requested(client, command, arguments), number)) as pages:
                async for page in pages:
                    items = page.items if most is None else page.items[: most - shown]
                    shown, total = shown + len(items), page.total_records
                    if kind.is_streamed:
                        await run_in_daemon_thread(partial(_write_many, items, columns, kind, header=header))
                        header = False
                    else:
                        waiting += items
                    update(f"{shown:,} {command.resource}")
                    if shown == most:
                        break
    if not kind.is_streamed or header:
        await run_in_daemon_thread(partial(_write_many, waiting, columns, kind, header=header))
    return shown, total


def _requested(client: SeoRepClient, command: ResourceCommand, arguments: Mapping[str, Any]) -> Any:
    return getattr(getattr(client, command.resource), command.method)(**arguments)


async def _pages(listing: ModelListing[Any], number: int | None) -> AsyncGenerator[Page[Any], None]:
    if number is not None:
        yield await listing.page(number)
        return
    async with aclosing(listing.pages()) as pages:
        async for page in pages:
            yield page


def _write_one(item: Any, columns: Sequence[str], kind: OutputFormat, *, chosen: bool) -> None:
    match kind:
        case OutputFormat.TABLE:
            write_stdout(table_of_one(item, columns, with_empty=chosen), as_data=False)
        case OutputFormat.JSON:
            write_stdout(json_object(item, columns))
        case _:
            _write_many([item], columns, kind, header=True)


def _write_many(items: Sequence[Any], columns: Sequence[str], kind: OutputFormat, *, header: bool) -> None:
    match kind:
        case OutputFormat.TABLE:
            if items:
                write_stdout(table_of_many(items, columns), as_data=False)
        case OutputFormat.JSON:
            write_stdout(json_array(items, columns))
        case OutputFormat.JSON_LINES:
            write_stdout(json_lines(items, columns))
        case OutputFormat.CSV:
            write_stdout(csv_rows(items, columns, header=header))


@contextmanager
def _status(*, hidden: bool = False) -> Iterator[Callable[[str], None]]:
    """Show on a terminal, while the block runs, that a request is under way and how much was received."""
    console = stderr_console()
    if hidden or not console.is_terminal:
        yield lambda received: None
        return
    with console.status("Asking the service…") as status:
        yield lambda received: status.update(Text(f"Asking the service… {received}"))
