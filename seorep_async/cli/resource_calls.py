"""One call of a resource command: ask for missing values, send it, and write the result."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any

import attrs
import click
from rich.text import Text

from seorep_async.cli.connection import Connection, connect
from seorep_async.cli.exit_codes import ExitCode, exit_code_of, explain, service_message, show_error
from seorep_async.cli.options import OutputFormat, field_names
from seorep_async.cli.resource_methods import Method, Resource
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


def run_command(resource: Resource, method: Method, options: Mapping[str, Any]) -> ExitCode:
    """Run a method as a command with its options, and return the exit code."""
    connection = connect(options, "try it with `seorep sandbox`")
    # check the whole command line before asking any question
    kind = _format_of(options)
    if method.model is None and not options["yes"] and not can_ask():
        raise click.UsageError("there is no terminal to ask for confirmation; pass --yes to delete without it.")
    call = _Call(resource, method, connection, _arguments(method, options), options, kind)
    try:
        if method.name == "list":
            call.list_objects()
        elif method.model is None and not options["yes"] and not call.confirm():
            stderr_console().print("Nothing was deleted.")
            return ExitCode.INTERRUPTED
        else:
            call.change_or_get()
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


def _arguments(method: Method, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the client's method; a password is prompted for, or read from stdin."""
    names = [parameter.name for parameter in method.parameters]
    arguments = {name: _password(options) if name == "password" else options[name] for name in names}
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


@attrs.frozen
class _Call:
    """A call of a method with its arguments, and the command's options."""

    resource: Resource
    method: Method
    connection: Connection
    arguments: Mapping[str, Any]
    options: Mapping[str, Any]
    kind: OutputFormat

    def change_or_get(self) -> None:
        """Send a request about one object, and write the response."""
        number, done = self.arguments.get("id"), _DONE.get(self.method.name)
        try:
            result = run_until_interrupted(self._send(self.method.name, self.arguments))
        except KeyboardInterrupt:
            if done is None:
                raise
            subject = f"the {self.resource.object_name}" if number is None else f"{self.resource.object_name} {number}"
            happened = f"{subject} may have been {done}"
            stderr_console().print(f"Interrupted; {happened}: check before you repeat it.")
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
        if done is not None:
            changed = f"{self.resource.object_name} {result.id if number is None else number}"
            stderr_console().print(f"{done.capitalize()} {changed}.")
        if self.method.model is not None:
            columns = self.options["columns"] or field_names(self.method.model)
            _write_one(result, columns, self.kind, chosen=self.options["columns"] is not None)

    def confirm(self) -> bool:
        """Show the object, and ask whether to delete it."""
        number = self.arguments["id"]
        found = run_until_interrupted(self._send("get", {"id": number}))
        label = ", ".join(filter(None, (string_of(getattr(found, name)) for name in self.resource.label_fields)))
        return click.confirm(f"Delete {self.resource.object_name} {number} ({one_line(label)})?", err=True)

    def list_objects(self) -> None:
        """List objects, and write them."""
        shown, total = run_until_interrupted(self._write_pages())
        name = self.resource.name
        if not shown and self.kind is OutputFormat.TABLE:
            stderr_console().print(f"No {name}.")
        elif self.kind is OutputFormat.TABLE and stdout_is_terminal() and total is not None and total > shown:
            stderr_console().print(f"{shown:,} of {total:,} {name}.", style="dim")

    async def _send(self, name: str, arguments: Mapping[str, Any]) -> Any:
        async with self.connection.client() as client:
            with _status():
                return await self._requested(client, name, arguments)

    async def _write_pages(self) -> tuple[int, int | None]:
        """Write listed objects; return their number, and that of all."""
        kind, most = self.kind, self.options["most"]
        in_table = kind is OutputFormat.TABLE
        columns = self.options["columns"] or (
            self.resource.columns if in_table else field_names(self.method.model or object)
        )
        waiting: list[Any] = []
        shown, total, header = 0, None, True
        async with self._listing_client(most) as client:
            with _status(hidden=kind.is_streamed and stdout_is_terminal()) as update:
                listing = self._requested(client, "list", self.arguments)
                async with aclosing(_pages(listing, self.options["page"])) as pages:
                    async for page in pages:
                        items = page.items if most is None else page.items[: most - shown]
                        shown, total = shown + len(items), page.total_records
                        if kind.is_streamed:
                            await run_in_daemon_thread(partial(_write_many, items, columns, kind, header=header))
                            header = False
                        else:
                            waiting += items
                        update(f"{shown:,} {self.resource.name}")
                        if shown == most:
                            break
        if not kind.is_streamed or header:
            await run_in_daemon_thread(partial(_write_many, waiting, columns, kind, header=header))
        return shown, total

    def _listing_client(self, most: int | None) -> SeoRepClient:
        """Return a client that fetches no superfluous pages ahead."""
        settings = self.connection.settings
        if most is not None:
            settings = attrs.evolve(settings, max_concurrency=min(settings.max_concurrency, _PAGES_AHEAD))
        return attrs.evolve(self.connection, settings=settings).client()

    def _requested(self, client: SeoRepClient, name: str, arguments: Mapping[str, Any]) -> Any:
        return getattr(getattr(client, self.resource.name), name)(**arguments)


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
def _status(*, hidden: bool = False) -> Generator[Callable[[str], None], None, None]:
    """Show on a terminal, while the block runs, that a request is under way and how much was received."""
    console = stderr_console()
    if hidden or not console.is_terminal:
        yield lambda received: None
        return
    with console.status("Asking the service…") as status:
        yield lambda received: status.update(Text(f"Asking the service… {received}"))
