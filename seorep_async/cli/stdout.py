"""Data on stdout, and what becomes of it when nobody reads on or the disk is full."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import select
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar, cast

import click
from rich.console import Console
from rich.text import Text

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.export import ExportError

T = TypeVar("T")


def stdout_is_terminal() -> bool:
    """Tell whether a person reads stdout."""
    return sys.stdout is not None and sys.stdout.isatty()


def stdout_width() -> int | None:
    """Return how many cells a line of the terminal has, or None where there is no terminal."""
    return Console().width if stdout_is_terminal() else None


def styled(lines: Iterable[Text]) -> str:
    """Return lines with the styles that stdout can show, if any."""
    # not on stdout itself: what goes wrong there is for `write_stdout` to tell
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=stdout_is_terminal(), highlight=False)
    for line in lines:
        console.print(line, soft_wrap=True)
    return shown.getvalue()


def write_stdout(text: str, *, as_data: bool = True) -> None:
    """Write to stdout at once.

    Args:
        text: what.
        as_data: in UTF-8 wherever it goes, as data is; otherwise in the terminal's encoding.

    Raises:
        click.exceptions.Exit: who reads has had enough.
        ExportError: it can't be written.
    """
    encoding = "utf-8" if as_data or sys.stdout is None else sys.stdout.encoding
    write_stdout_bytes(text.encode(encoding, "replace"))


def write_stdout_bytes(data: bytes) -> None:
    """Write bytes to stdout at once; raises as `write_stdout`."""
    if sys.stdout is None:
        raise ExportError("can't write to stdout: it is closed")
    try:
        sys.stdout.flush()
        # past the buffer, whose lock a thread that is left behind would hold as the interpreter ends
        stream = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
        left = memoryview(data)
        while left:
            written = stream.write(left)
            if written is None:  # it does not wait for its reader by itself
                select.select([], [stream], [])
            left = left[written or 0 :]
    except OSError as error:
        # Python must not try to write the rest at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
        raise ExportError(f"can't write to stdout: {error.strerror or error}") from None


async def in_daemon(step: Callable[[], T]) -> T:
    """Do a step that may wait for a reader for ever, in a thread that is left behind when this is cancelled.

    Answers must not time out meanwhile, and `asyncio.to_thread` would be waited for at the end.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(cast(T, result))

    def work() -> None:
        result, failed = None, None
        try:
            result = step()
        except BaseException as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop has been closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=work, name="seorep-stdout", daemon=True).start()
    return await done
