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
from seorep_async.cli.signals import run_in_daemon_thread, run_until_interrupted
from seorep_async.cli.terminal import (
    ask_for_password,
    confirmed,
    formatted,
    formatted_one,
    read_password,
    stderr_console,
    stdout_is_terminal,
    string_of,
    write_stdout,
)
from seorep_async.client import SeoRepClient
from seorep_async.errors import StatusError, one_line
from seorep_async.models import Page
from seorep_async.paging import ModelListing

_PAGES_AHEAD = 4
_DONE = {"create": "created", "update": "changed", "delete": "deleted"}


@attrs.frozen
class Call:
    """A call of a client's method, with the options of the command."""

    resource: Resource
    method: Method
    options: Mapping[str, Any]

    def run(self) -> ExitCode:
        """Send the request, write the result, and return the exit code."""
        connection, kind = connect(self.options, otherwise="try it with `seorep sandbox`"), _format_of(self.options)
        arguments = self._arguments()
        asks = self.method.model is None and not self.options["yes"]
        try:
            if self.method.name == "list":
                self._list(connection, arguments, kind)
            elif asks and not confirmed(partial(self._question, connection, arguments["id"])):
                return ExitCode.INTERRUPTED
            else:
                self._change_or_get(connection, arguments, kind)
        except StatusError as error:
            show_error(explain(error))
            if quote := service_message(error):
                stderr_console().print(Text(f"The service said: {quote}"))
            return exit_code_of(error)
        return ExitCode.OK

    @property
    def _object_name(self) -> str:
        return self.resource.name.removesuffix("s")

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of the client's method; a password is prompted for, or read from stdin."""
        options, names = self.options, [parameter.name for parameter in self.method.parameters]
        arguments = {name: _password(options) if name == "password" else options[name] for name in names}
        arguments = {name: value for name, value in arguments.items() if value not in (None, ())}
        several: dict[str, list[str]] = {}
        for name, value in options["param"]:
            several.setdefault(name, []).append(value)
        if several:
            extra = {name: values[0] if len(values) == 1 else values for name, values in several.items()}
            arguments["extra_params"] = extra
        return arguments

    def _change_or_get(self, connection: Connection, arguments: Mapping[str, Any], kind: OutputFormat) -> None:
        """Send a request about one object, and write the response."""
        number, done = arguments.get("id"), _DONE.get(self.method.name)
        try:
            result = run_until_interrupted(self._send(connection, self.method.name, arguments))
        except KeyboardInterrupt:
            if done is None:
                raise
            subject = f"the {self._object_name}" if number is None else f"{self._object_name} {number}"
            stderr_console().print(f"Interrupted; {subject} may have been {done}: check before you repeat it.")
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
        if done is not None:
            number = result.id if number is None else number
            stderr_console().print(f"{done.capitalize()} {self._object_name} {number}.")
        if self.method.model is not None:
            chosen = self.options["columns"]
            text = formatted_one(result, chosen or field_names(self.method.model), kind, with_empty=chosen is not None)
            write_stdout(text, as_data=kind is not OutputFormat.TABLE)

    def _question(self, connection: Connection, number: int) -> str:
        """Fetch the object, so that a person recognises what would be deleted."""
        found = run_until_interrupted(self._send(connection, "get", {"id": number}))
        label = ", ".join(filter(None, (string_of(getattr(found, name)) for name in self.resource.label_fields)))
        return f"Delete {self._object_name} {number} ({one_line(label)})?"

    async def _send(self, connection: Connection, verb: str, arguments: Mapping[str, Any]) -> Any:
        async with connection.opened() as client:
            with _status():
                return await self._requested(client, verb, arguments)

    def _requested(self, client: SeoRepClient, verb: str, arguments: Mapping[str, Any]) -> Any:
        return getattr(getattr(client, self.resource.name), verb)(**arguments)

    def _list(self, connection: Connection, arguments: Mapping[str, Any], kind: OutputFormat) -> None:
        if (most := self.options["most"]) is not None:  # no superfluous pages ahead
            settings = connection.settings
            settings = attrs.evolve(settings, max_concurrency=min(settings.max_concurrency, _PAGES_AHEAD))
            connection = attrs.evolve(connection, settings=settings)
        shown, total = run_until_interrupted(self._write_pages(connection, arguments, kind, most))
        if not shown and kind is OutputFormat.TABLE:
            page = self.options["page"]
            stderr_console().print(f"No {self.resource.name}{'' if page is None else f' on page {page}'}.")
        elif kind is OutputFormat.TABLE and stdout_is_terminal() and total is not None and total > shown:
            stderr_console().print(f"{shown:,} of {total:,} {self.resource.name}.", style="dim")

    async def _write_pages(
        self, connection: Connection, arguments: Mapping[str, Any], kind: OutputFormat, most: int | None
    ) -> tuple[int, int | None]:
        """Write listed objects; return their number, and that of all."""
        in_table = kind is OutputFormat.TABLE
        columns = self.options["columns"] or (
            self.resource.columns if in_table else field_names(self.method.model or object)
        )
        waiting: list[Any] = []
        shown, total, header = 0, None, True
        async with connection.opened() as client:
            with _status(hidden=kind.is_streamed and stdout_is_terminal()) as update:
                listing = self._requested(client, "list", arguments)
                async with aclosing(_pages(listing, self.options["page"])) as pages:
                    async for page in pages:
                        items = page.items if most is None else page.items[: most - shown]
                        shown, total = shown + len(items), page.total_records
                        if kind.is_streamed:
                            await run_in_daemon_thread(partial(_write, items, columns, kind, header=header))
                            header = False
                        else:
                            waiting += items
                        update(f"{shown:,} {self.resource.name}")
                        if shown == most:
                            break
        if not kind.is_streamed or header:
            await run_in_daemon_thread(partial(_write, waiting, columns, kind, header=header))
        return shown, total


def _format_of(options: Mapping[str, Any]) -> OutputFormat:
    named = options.get("kind")
    if not options.get("as_json"):
        return OutputFormat(named or OutputFormat.TABLE.value)
    if named not in (None, OutputFormat.JSON.value):
        raise click.UsageError(f"--json and --format {named} can't be combined.")
    return OutputFormat.JSON


def _password(options: Mapping[str, Any]) -> str | None:
    ask = options.get("ask_password", True)  # a required password has no option to prompt for it
    if options["password_stdin"]:
        if options.get("ask_password"):
            raise click.UsageError("--ask-password and --password-stdin can't be combined.")
        return read_password()
    return ask_for_password() if ask else None


async def _pages(listing: ModelListing[Any], number: int | None) -> AsyncGenerator[Page[Any], None]:
    if number is not None:
        yield await listing.page(number)
        return
    async with aclosing(listing.pages()) as pages:
        async for page in pages:
            yield page


def _write(items: Sequence[Any], columns: Sequence[str], kind: OutputFormat, *, header: bool) -> None:
    if items or kind is not OutputFormat.TABLE:
        write_stdout(formatted(items, columns, kind, header=header), as_data=kind is not OutputFormat.TABLE)


@contextmanager
def _status(*, hidden: bool = False) -> Generator[Callable[[str], None], None, None]:
    """Show on a terminal, while the block runs, that a request is under way and how much was received."""
    console = stderr_console()
    if hidden or not console.is_terminal:
        yield lambda received: None
        return
    with console.status("Asking the service…") as status:
        yield lambda received: status.update(Text(f"Asking the service… {received}"))
