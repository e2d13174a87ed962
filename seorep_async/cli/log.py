"""The library's log: on stderr with `--verbose`, as JSON lines with `--log-file`."""

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


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds")
        fields = {"time": moment, "level": record.levelname, "message": record.getMessage()}
        fields |= {name: value for name, value in vars(record).items() if name not in _OWN_FIELDS}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


class _LogFile(logging.Handler):
    """Appends a line for each record until that fails: a full disk must not stop the pull."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(_JsonLines())
        self._descriptor = descriptor
        self.problem: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.problem is None:
            try:
                os.write(self._descriptor, f"{self.format(record)}\n".encode())
            except OSError as error:
                self.problem = error.strerror


class _Lines(logging.Handler):
    """Prints records above the progress bar."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.DEBUG)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        time = dt.datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        self._console.print(Text(f"{time} {one_line(in_shell_words(record.getMessage()))}", style="dim"))


@contextlib.contextmanager
def written_log(console: Console, *, verbose: bool, file: str | None) -> Generator[None]:
    """Write what the library logs while the block runs; a file is opened at once, for its owner only, and appended to.

    Raises:
        click.UsageError: the file can't be opened.
    """
    library = logging.getLogger("seorep_async")
    level = library.level
    with contextlib.ExitStack() as ending:
        handlers: list[logging.Handler] = [_Lines(console)] if verbose else []
        if file is not None:
            handlers.append(ending.enter_context(_opened(console, file)))
        for handler in handlers:
            library.addHandler(handler)
            ending.callback(library.removeHandler, handler)
        if handlers:
            library.setLevel(logging.DEBUG)
            ending.callback(library.setLevel, level)
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
            problem = f" the log in {one_line(path)} is incomplete: {handler.problem}"
            print_hanging(console, Text.assemble(("Warning:", "yellow"), problem), 2)
