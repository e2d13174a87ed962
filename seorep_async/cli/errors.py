"""Errors of the library in the words of the shell, and their exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from seorep_async.cli.exit_codes import ExitCode, UsageError
from seorep_async.cli.output import messages
from seorep_async.errors import (
    AuthenticationError,
    ConfigurationError,
    ConnectionFailedError,
    DecodeError,
    ExportError,
    InvalidRequestError,
    NotFoundError,
    PaginationError,
    ProtocolError,
    RedirectError,
    SeoRepError,
    one_line,
)

_OPTIONS = {
    "after": "--to",
    "api_key": "SEOREP_API_KEY",
    "base_url": "the base URL",
    "before": "--from",
    "end_date": "--to",
    "extra_params": "--param",
    "feeds": "--feed",
    "groups": "--group",
    "id": "ID",
    "ids": "--campaign",
    "limit": "--page-size",
    "start_date": "--from",
}
"""The arguments of the library whose options have other names."""
_MENTIONED = re.compile(r'\b(?P<name>[a-z_]+)=(?:True|…|"(?P<value>[^"]*)")')
"""An argument in a message of the library, such as `restart=True` or `start_date="2023-01-01"`."""
_CODES: tuple[tuple[tuple[type[BaseException], ...], ExitCode], ...] = (  # the first match counts
    ((KeyboardInterrupt,), ExitCode.INTERRUPTED),
    ((click.ClickException, ImportError, UsageError), ExitCode.USAGE),
    ((ExportError,), ExitCode.UNWRITTEN),
    ((AuthenticationError,), ExitCode.AUTHENTICATION),
    # the caller has to mend these, even if only the service could find them
    ((ConfigurationError, InvalidRequestError, NotFoundError, RedirectError), ExitCode.USAGE),
    ((DecodeError, PaginationError), ExitCode.SHAPE),
    ((SeoRepError,), ExitCode.UNAVAILABLE),
)
_HINTS: tuple[tuple[type[SeoRepError], str], ...] = (
    (AuthenticationError, "; check SEOREP_API_KEY or the profile"),
    (ConnectionFailedError, "; check the base URL and the network"),
    (ProtocolError, "; check the base URL, or try again later"),
)
_SAID = ("message", "messages", "error", "errors", "detail", "description", "results")
_LONGEST_QUOTE = 300


def code_of(error: BaseException) -> ExitCode:
    """Return the exit code for an error that ended the command."""
    found = next((code for kinds, code in _CODES if isinstance(error, kinds)), ExitCode.UNEXPECTED)
    return getattr(error, "exit_code", found) if isinstance(error, UsageError) else found


def failed(error: Exception) -> ExitCode:
    """Print why the command ends, and return its exit code."""
    console = messages()
    console.print("Error: ", style="bold red", end="")
    console.print(explain(error))
    if isinstance(error, SeoRepError) and (said := service_message(error)):
        console.print(f"The service said: {said}")
    return code_of(error)


def explain(error: BaseException) -> str:
    """Return the reason for the command's end, and the next step if there is one, as one line."""
    if isinstance(error, click.ClickException):
        return one_line(error.format_message())
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, UsageError) or (isinstance(error, ImportError) and "pip install" in str(error)):
        return one_line(str(error))
    if isinstance(error, SeoRepError):
        facts = [f"status {error.status}"] if error.status is not None else []
        facts += [f"{error.attempts} attempts"] if error.attempts > 1 else []
        subject = f"{error.subject}: " if error.subject else ""
        hint = next((hint for kind, hint in _HINTS if isinstance(error, kind)), "")
        if isinstance(error, NotFoundError) and error.subject is None and "base URL" not in error.message:
            hint = "; check the base URL"  # the request was for a list, not for an object
        known = f" ({', '.join(facts)})" if facts else ""
        return one_line(f"{subject}{reason(error)}{known}{hint}")
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})" if trace is not None else ""
    return one_line(f"unexpected {type(error).__name__}: {error}{where}; this is a bug in seorep, please report it")


def reason(error: SeoRepError, option: str = "") -> str:
    """Return an error's message in the words of the shell; `option` names the wrong argument, if not its own does."""
    argument = getattr(error, "argument", None)
    message = error.message
    if argument is not None and message.startswith(argument):
        return (option or option_of(argument)) + in_shell_words(message.removeprefix(argument))
    return in_shell_words(message)


def option_of(argument: str) -> str:
    """Return the option or variable for an argument of the library."""
    return _OPTIONS.get(argument, f"--{argument.replace('_', '-')}")


def in_shell_words(message: str) -> str:
    """Return a message of the library that mentions options in place of arguments."""
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
    if not quote or quote in one_line(error.message):  # an error made from the body quotes it in its message already
        return None
    return quote if len(quote) <= _LONGEST_QUOTE else f"{quote[:_LONGEST_QUOTE]}…"


def _messages(body: Any) -> Iterator[str]:
    if isinstance(body, str):
        yield body
    elif isinstance(body, list):
        for item in body:
            yield from _messages(item)
    elif isinstance(body, dict):
        known = [name for name in _SAID if name in body]
        for name in known or body:
            # without such fields, each field may be a parameter and its problems
            yield from (message if known else f"{name}: {message}" for message in _messages(body[name]))
