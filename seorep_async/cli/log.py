"""The library's log: warnings, on stderr with `--verbose`, as JSON lines with `--log-file`."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
import os
from collections.abc import Generator

import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli.exit_codes import in_shell_words
from seorep_async.cli.terminal import print_hanging
from seorep_async.errors import one_line

_OWN_FIELDS = {*vars(logging.makeLogRecord({})), "message", "asctime"}
_LIBRARY = logging.getLogger("seorep_async")


class _Warnings(logging.Handler):
    """Collects warnings, each once and in the words of the shell."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        warning = one_line(in_shell_words(record.getMessage()))
        self.found.extend([warning] * (warning not in self.found))


class _Lines(logging.Handler):
    """Prints records above the progress bar."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.DEBUG)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        time = dt.datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        self._console.print(Text(f"{time} {one_line(in_shell_words(record.getMessage()))}", style="dim"))


class _LogFile(logging.Handler):
    """Appends a line of JSON for each record until that fails: a full disk must not stop the pull."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(logging.DEBUG)
        self._descriptor = descriptor
        self.problem: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.problem is not None:
            return
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
        fields = {"time": moment, "level": record.levelname, "message": record.getMessage()}
        fields |= {name: value for name, value in vars(record).items() if name not in _OWN_FIELDS}
        if record.exc_info:
            fields["exception"] = logging.Formatter().formatException(record.exc_info)
        try:
            os.write(self._descriptor, f"{json.dumps(fields, default=str)}\n".encode())
        except OSError as error:
            self.problem = error.strerror


@contextlib.contextmanager
def shown_warnings(console: Console) -> Generator[list[str]]:
    """Collect the library's warnings, and print them at the end."""
    warnings = _Warnings()
    _LIBRARY.addHandler(warnings)
    try:
        yield warnings.found
    finally:
        _LIBRARY.removeHandler(warnings)
        for warning in warnings.found:
            _print_warning(console, warning)


@contextlib.contextmanager
def written_log(console: Console, *, verbose: bool, file: str | None) -> Generator[None]:
    """Write what the library logs while the block runs; a file is opened at once, and only its owner may read it."""
    with contextlib.ExitStack() as ending:
        handlers: list[logging.Handler] = [_Lines(console)] if verbose else []
        if file is not None:
            handlers.append(ending.enter_context(_opened(console, file)))
        if handlers:
            ending.callback(_LIBRARY.setLevel, _LIBRARY.level)
            _LIBRARY.setLevel(logging.DEBUG)
        for handler in handlers:
            _LIBRARY.addHandler(handler)
            ending.callback(_LIBRARY.removeHandler, handler)
        yield


@contextlib.contextmanager
def _opened(console: Console, path: str) -> Generator[_LogFile]:
    try:
        # a pipe that nobody reads must not hold the command up
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o600)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise click.UsageError(f"--log-file: can't open {one_line(path)}: {reason}.") from None
    handler = _LogFile(descriptor)
    try:
        yield handler
    finally:
        os.close(descriptor)
        if handler.problem is not None:
            _print_warning(console, f"the log in {one_line(path)} is incomplete: {handler.problem}")


def _print_warning(console: Console, warning: str) -> None:
    print_hanging(console, Text.assemble(("Warning:", "yellow"), f" {warning}"), 2)
