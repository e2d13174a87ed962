"""The end of the command: its exit codes, and the message of an error, in the words of the shell."""

from __future__ import annotations

import enum
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from seorep_async.errors import (
    AuthenticationError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    DecodeError,
    ExportError,
    InvalidRequestError,
    NotFoundError,
    PaginationError,
    ProtocolError,
    PullPausedError,
    RedirectError,
    SeoRepError,
    StatusError,
    TransportError,
    one_line,
)

_LONGEST_QUOTE = 300
_OPTIONS = {
    "after": "--to",
    "api_key": "SEOREP_API_KEY",
    "base_url": "the base URL",
    "before": "--from",
    "colours": "--colour and --accent",
    "csv": "--csv-line-end, --csv-bom or --csv-guard",
    "end_date": "--to",
    "extra_params": "--param",
    "feeds": "--feed",
    "id": "ID",
    "start_date": "--from",
    "storage_options": "storage_options of the profile",
}
"""The arguments of the library whose options have other names."""
_MENTIONED = re.compile(r'(Settings\()?\.?\b(?P<name>[a-z_]+)(?:=(?:True|…|"(?P<value>[^"]*)")|\(…\))(?(1)\))')
"""An argument in a message of the library, such as `restart=True`, `account=…` or `key_renewed="3f9a21"`."""
_MESSAGE_FIELDS = ("message", "messages", "error", "errors", "detail", "description", "results")


class ExitCode(enum.IntEnum):
    """The exit codes and their meanings; the same for every command."""

    meaning: str

    OK = 0, "success"
    UNEXPECTED = 1, "unexpected error"
    USAGE = 2, "wrong options or settings, or no such object"
    AUTHENTICATION = 3, "the service refused the API key"
    PARTIAL = 4, "partial: some reports failed, the others were written"
    UNAVAILABLE = 5, "service not available (network, 5xx, 429), or --max-requests: try later"
    SHAPE = 6, "the service's responses have an unexpected shape"
    UNWRITTEN = 7, "the target or stdout could not be written; fetched reports are stored"
    EMPTY = 8, "no campaign was found; nothing is written (--allow-empty: a success)"
    INTERRUPTED = 130, "interrupted (Ctrl-C, SIGTERM, SIGHUP); fetched reports are stored"

    def __new__(cls, code: int, meaning: str) -> ExitCode:
        self = int.__new__(cls, code)
        self._value_, self.meaning = code, meaning
        return self


# click does not wrap paragraphs that begin with "\b"
EXIT_CODES_HELP = "\n".join(["\b", "Exit codes:", *(f"  {code:<3}  {code.meaning}" for code in ExitCode)])


class NoCampaignsError(click.ClickException):
    """A pull had to list its campaigns, and there are none."""


# the first match counts
_CODES: tuple[tuple[tuple[type[BaseException], ...], ExitCode], ...] = (
    ((KeyboardInterrupt, click.Abort), ExitCode.INTERRUPTED),
    ((NoCampaignsError,), ExitCode.EMPTY),
    ((click.ClickException,), ExitCode.USAGE),
    ((ExportError,), ExitCode.UNWRITTEN),
    ((ImportError,), ExitCode.USAGE),
    ((AuthenticationError,), ExitCode.AUTHENTICATION),
    # the caller has to mend these, even if only the service could find them
    ((ConfigurationError, InvalidRequestError, NotFoundError, RedirectError), ExitCode.USAGE),
    ((DecodeError, PaginationError), ExitCode.SHAPE),
    ((TransportError, StatusError, DeadlineExceededError, PullPausedError), ExitCode.UNAVAILABLE),
)


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code for an error that ended the command."""
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), ExitCode.UNEXPECTED)


def show_error(message: str) -> None:
    """Print why the command ends, on stderr: one line in a log, wrapped between words on a terminal."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    message = f"Error: {one_line(message)}"
    if terminal:
        width = shutil.get_terminal_size().columns
        message = textwrap.fill(message, width, break_long_words=False, break_on_hyphens=False)
        if not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "unknown"):
            message = message.replace("Error:", click.style("Error:", "red", bold=True), 1)
    click.echo(message, err=True)


def explain(error: BaseException) -> str:
    """Return the reason for the command's end, and the next step if there is one."""
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, SeoRepError):
        message = f"{error.subject}: {failure_message(error)}" if error.subject else failure_message(error)
        if exit_code_of(error) is ExitCode.AUTHENTICATION:
            return f"{message}; check SEOREP_API_KEY or the profile"
        if isinstance(error, ConnectionFailedError):
            return f"{message}; check the base URL and the network"
        if isinstance(error, ProtocolError):
            return f"{message}; check the base URL, or try again later"
        if isinstance(error, NotFoundError) and error.subject is None and "base URL" not in message:
            return f"{message}; check the base URL"  # the request was for a list, not for an object
        return message
    if isinstance(error, ImportError) and "pip install" in str(error):
        return str(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})" if trace is not None else ""
    return f"unexpected {type(error).__name__}: {error}{where}; this is a bug in seorep, please report it"


def failure_message(error: SeoRepError) -> str:
    """Return the reason for a failure, without its subject, in the words of the shell."""
    facts = [f"status {error.status}"] if error.status is not None else []
    if error.attempts > 1:
        facts.append(f"{error.attempts} attempts")
    return message_of(error) + (f" ({', '.join(facts)})" if facts else "")


def message_of(error: SeoRepError, option: str = "") -> str:
    """Return an error's message in the words of the shell; `option` names the wrong argument, if not its own does."""
    argument = getattr(error, "argument", None)
    if argument is None or not error.message.startswith(argument):
        return in_shell_words(error.message)
    return (option or option_of(argument)) + in_shell_words(error.message.removeprefix(argument))


def option_of(argument: str) -> str:
    """Return the option or variable for an argument of the library."""
    return _OPTIONS.get(argument, f"--{argument.replace('_', '-')}")


def counted(count: int, one: str, several: str = "") -> str:
    """Return a number with its word in singular or plural, by default with an s."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def joined(words: Iterable[str]) -> str:
    """Return words as a list in a sentence: `a, b and c`."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def in_shell_words(message: str) -> str:
    """Return a message of the library that mentions options in place of arguments."""
    message = message.replace("Settings.", "the setting ")
    return _MENTIONED.sub(lambda found: f"{option_of(found['name'])} {found['value'] or ''}".rstrip(), message)


def service_message(error: SeoRepError) -> str | None:
    """Return the service's message about a failure, as one line, or None if it sent nothing readable.

    The reference does not show error bodies (section 7); messages are found under the names that services use.
    """
    body = error.body_excerpt
    if error.status is None or not body or body.startswith("<"):
        return None
    try:
        found = list(dict.fromkeys(_messages(json.loads(body))))
    except (ValueError, RecursionError):
        found = [] if body.startswith(("{", "[")) and body.endswith("…") else [body]
    quote = one_line("; ".join(found))
    # an error made from the body quotes it in its message already
    if not quote or quote in one_line(error.message):
        return None
    return quote if len(quote) <= _LONGEST_QUOTE else f"{quote[:_LONGEST_QUOTE]}…"


def _messages(body: Any) -> Iterator[str]:
    if isinstance(body, str):
        yield body
    elif isinstance(body, list):
        for item in body:
            yield from _messages(item)
    elif isinstance(body, dict):
        known = [name for name in _MESSAGE_FIELDS if name in body]
        for name in known or body:
            # without such fields, each field may be a parameter and its problems
            yield from (message if known else f"{name}: {message}" for message in _messages(body[name]))
