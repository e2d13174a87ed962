"""Errors in the words of the shell, and their exit codes."""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Iterable

import click

from seorep_async import errors
from seorep_async.errors import SeoRepError, one_line


class ExitCode(enum.IntEnum):
    """The exit codes and their meanings; the same for every command."""

    meaning: str

    OK = 0, "success"
    UNEXPECTED = 1, "a bug: please report the traceback"
    USAGE = 2, "wrong options or settings, or no such object"
    AUTHENTICATION = 3, "the service refused the API key"
    PARTIAL = 4, "some reports failed, and may succeed later: repeat with --retry-failed"
    UNAVAILABLE = 5, "service not available (network, 5xx), or --max-requests: repeat it later"
    SHAPE = 6, "the service's responses have an unexpected shape"
    UNWRITTEN = 7, "the target or stdout could not be written; fetched reports are stored"
    EMPTY = 8, "no campaign was found; nothing is written"
    REFUSED = 9, "some reports failed, and would fail again (403, 404): don't repeat it"
    INTERRUPTED = 130, "interrupted (Ctrl-C, SIGTERM, SIGHUP): repeat it to resume"

    def __new__(cls, code: int, meaning: str) -> ExitCode:
        self = int.__new__(cls, code)
        self._value_, self.meaning = code, meaning
        return self


class UsageError(Exception):
    """The command line or the configuration is wrong; nothing was sent."""

    exit_code = ExitCode.USAGE


_OPTIONS = {
    "after": "--to",
    "api_key": "SEOREP_API_KEY",
    "before": "--from",
    "database": "--history",
    "end_date": "--to",
    "engine_names": "report_engines",
    "extra_params": "--param",
    "groups": "--group",
    "id": "ID",
    "ids": "--campaign",
    "limit": "--page-size",
    "method": "METHOD",
    "password": "the password",
    "path": "PATH",
    "start_date": "--from",
}
"""The arguments of the library whose options have other names."""
_CODES: tuple[tuple[tuple[type[BaseException], ...], ExitCode], ...] = (  # the first match counts
    ((KeyboardInterrupt,), ExitCode.INTERRUPTED),
    ((click.ClickException, ImportError), ExitCode.USAGE),
    ((errors.ExportError,), ExitCode.UNWRITTEN),
    ((errors.AuthenticationError,), ExitCode.AUTHENTICATION),
    # the caller has to mend these, even if only the service could find them
    ((errors.ConfigurationError, errors.RedirectError), ExitCode.USAGE),
    ((errors.InvalidRequestError, errors.NotFoundError), ExitCode.USAGE),
    ((errors.DecodeError, errors.PaginationError), ExitCode.SHAPE),
    ((SeoRepError,), ExitCode.UNAVAILABLE),
)
_HINTS: tuple[tuple[type[SeoRepError], str], ...] = (
    (errors.AuthenticationError, "; check the key"),
    (errors.ConnectionFailedError, "; check the address and the network"),
    (errors.ProtocolError, "; check the address, or try again later"),
)


def code_of(error: BaseException) -> ExitCode:
    """Return the exit code for an error that ended the command."""
    if isinstance(error, UsageError):
        return error.exit_code
    if isinstance(error, errors.InvalidRequestError) and error.retryable:  # 408
        return ExitCode.UNAVAILABLE
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), ExitCode.UNEXPECTED)


def explain(error: BaseException) -> str:
    """Return the reason for the command's end, and the next step if there is one, as one line."""
    if isinstance(error, click.ClickException):
        return one_line(error.format_message())
    if not isinstance(error, SeoRepError):
        return one_line(str(error)) or "interrupted"
    facts = [f"status {error.status}"] if error.status is not None else []
    facts += [f"{error.attempts} attempts"] if error.attempts > 1 else []
    known = f" ({', '.join(facts)})" if facts else ""
    hint = next((hint for kind, hint in _HINTS if isinstance(error, kind)), "")
    if isinstance(error, errors.NotFoundError) and not re.search(
        r"\d$|address", f"{error.message} {error.path}"
    ):
        hint = "; check the address"  # the request was for a list, not for an object
    return one_line(f"{f'{error.subject}: ' if error.subject else ''}{reason(error)}{known}{hint}")


def reason(error: SeoRepError, option: str = "") -> str:
    """Return an error's message in the words of the shell; `option` names the wrong argument, if not its own does."""
    argument, message = getattr(error, "argument", None), in_shell_words(error.message)
    if argument is None or not message.startswith(argument):
        return message
    return (option or option_of(argument)) + message.removeprefix(argument)


def option_of(argument: str) -> str:
    """Return the option or variable for an argument of the library."""
    return _OPTIONS.get(argument, f"--{argument.replace('_', '-')}")


def in_shell_words(message: str) -> str:
    """Return a message of the library that mentions options in place of settings and arguments."""
    message = message.replace(".page(…)", "--limit")
    message = re.sub(
        r"Settings\.(\w+)(, or the seconds of client\.timeout\(\))?", r"-c \1", message
    )
    message = re.sub(
        r"Settings\((\w+)=(\w+|…)\)", lambda found: f"-c {found[1]}={found[2].lower()}", message
    )
    return re.sub(r"(?<!-c )\b([a-z_]+)=(?:True|…)", lambda found: option_of(found[1]), message)


def near(word: str, known: Iterable[str]) -> str:
    """Return the question whether a known word was meant, or nothing."""
    found = difflib.get_close_matches(word, list(known), 1)
    return f" Did you mean {found[0]}?" if found else ""
