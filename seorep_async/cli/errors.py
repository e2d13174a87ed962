"""Error messages in terms of the command's options, and exit codes."""

from __future__ import annotations

import enum
import os
import re
from typing import Any

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
    UNAVAILABLE = 5, "the service failed (network, 5xx), or --max-requests ran out: try later"
    SHAPE = 6, "the service's responses have an unexpected shape"
    UNWRITTEN = 7, "the target or stdout could not be written; fetched reports are stored"
    EMPTY = 8, "no campaign was found; nothing is written"
    REFUSED = 9, "some reports failed, and would fail again (403, 404): don't retry them"
    ALERT = 10, "with --exit-code: changes found a change, or doctor a missing night"
    BUSY = 11, "another pull into this target is running: try again later"
    INTERRUPTED = 130, "interrupted (Ctrl-C, SIGTERM, SIGHUP): repeat the command to resume"

    def __new__(cls, code: int, meaning: str) -> ExitCode:
        self = int.__new__(cls, code)
        self._value_ = code
        self.meaning = meaning
        return self


class UsageError(Exception):
    """An error that the user can correct, such as a wrong option or setting."""

    exit_code = ExitCode.USAGE


_OPTIONS = {
    "after": "--to",
    "api_key": "SEOREP_API_KEY",
    "before": "--from",
    "body": "NAME=VALUE",
    "database": "--history",
    "end_date": "--to",
    "extra_params": "--param",
    "groups": "--group",
    "id": "ID",
    "ids": "--campaign",
    "limit": "--page-size",
    "method": "METHOD",
    "params": "NAME=VALUE",
    "path": "PATH",
    "start_date": "--from",
}
"""The command's names for arguments that the library calls differently."""
_CODES: tuple[tuple[ExitCode, tuple[type[BaseException], ...]], ...] = (
    (ExitCode.INTERRUPTED, (KeyboardInterrupt, click.Abort)),
    (ExitCode.UNWRITTEN, (errors.ExportError,)),
    (ExitCode.AUTHENTICATION, (errors.AuthenticationError,)),
    (ExitCode.USAGE, (click.ClickException, ImportError, errors.ConfigurationError)),
    # the caller has to correct these, even if only the service could detect them
    (ExitCode.USAGE, (errors.InvalidRequestError, errors.NotFoundError)),
    (ExitCode.SHAPE, (errors.DecodeError, errors.PaginationError)),
    (ExitCode.UNAVAILABLE, (SeoRepError,)),
)
"""The classes of errors for each exit code; the first match counts."""
_HINTS: tuple[tuple[type[SeoRepError], str], ...] = (
    (
        errors.ConnectionFailedError,
        "; check the address and the network, and that the server runs",
    ),
    (
        errors.AttemptTimeoutError,
        "; check the address. If a notebook runs the sandbox, use a terminal, not a cell with !",
    ),
    (errors.ProtocolError, "; check the address, or try again later"),
)


def code_of(error: BaseException) -> ExitCode:
    """Return the exit code for an error that ended the command."""
    if isinstance(error, UsageError):
        return error.exit_code
    # another pull is using the target, so nothing was fetched yet
    if isinstance(error, errors.ExportError) and error.retryable:
        return ExitCode.BUSY
    # for example, a 408, or a list that changed while it was read
    if isinstance(error, errors.InvalidRequestError | errors.PaginationError) and error.retryable:
        return ExitCode.UNAVAILABLE
    if isinstance(error, SeoRepError) and error.is_of_wrong_address:
        return ExitCode.USAGE
    for code, kinds in _CODES:
        if isinstance(error, kinds):
            return code
    return ExitCode.UNEXPECTED


def facts_of_error(error: BaseException) -> dict[str, Any]:
    """Return the exit code, the kind and the message of an error, for JSON."""
    code = code_of(error)
    kind = type(error).__name__
    message = explain(error)
    if isinstance(error, click.UsageError):
        # a program should not have to know the classes of click
        kind = "UsageError"
    elif code is ExitCode.INTERRUPTED:
        kind = "Interrupted"
        message = "interrupted"
    return {"code": int(code), "kind": kind, "message": message}


def explain(error: BaseException) -> str:
    """Return one line. It says why the command ended, and the next step if there is one."""
    if isinstance(error, click.ClickException):
        return one_line(error.format_message())
    if not isinstance(error, SeoRepError):
        return one_line(str(error)) or "interrupted"
    parts = []
    if error.subject:
        parts.append(f"{error.subject}: ")
    parts.append(reason(error))
    facts = []
    if error.status is not None:
        facts.append(f"status {error.status}")
    if error.attempts > 1:
        facts.append(f"{error.attempts} attempts")
    if facts:
        parts.append(f" ({', '.join(facts)})")
    parts.append(_hint(error))
    return one_line("".join(parts))


def _hint(error: SeoRepError) -> str:
    """Return the next step, or an empty string."""
    # the message says it already
    if error.message.endswith("check the address"):
        return ""
    if isinstance(error, errors.NotFoundError):
        # A missing object, whose path ends with its id, means a wrong id. A missing list means a
        # wrong address, unless the message says so already.
        names_object = re.search(r"\d$", error.path or "")
        says_address = "address" in error.message
        return "" if names_object or says_address else "; check the address"
    if isinstance(error, errors.AuthenticationError):
        return f"; {_advice_on_key(error)}"
    for kind, hint in _HINTS:
        if isinstance(error, kind):
            return hint
    return ""


def _advice_on_key(error: SeoRepError) -> str:
    """Return the next step after the service refused the key."""
    advice = "run seorep login, or seorep login NAME for the profile NAME"
    variable = _OPTIONS["api_key"]
    if variable in os.environ:
        advice = f"correct {variable}, or if you passed --profile NAME, run seorep login NAME"
    # the key may be right, but not for this campaign
    if error.status == 403 and error.subject:
        advice = f"if other ids are refused as well, {advice}"
    return advice


def reason(error: SeoRepError, source: str = "") -> str:
    """Return an error's message in terms of the command's options.

    Args:
        source: where the wrong value comes from; by default, its option.
    """
    argument = getattr(error, "argument", None)
    message = with_option_names(error.message)
    if argument is None or not message.startswith(argument):
        return message
    return (source or option_of(argument)) + message.removeprefix(argument)


def option_of(argument: str) -> str:
    """Return the option or variable for an argument of the library."""
    return _OPTIONS.get(argument, f"--{argument.replace('_', '-')}")


def with_option_names(message: str) -> str:
    """Return a message of the library with options in place of settings and arguments."""
    # Messages name settings as Settings.name or Settings(name=…), and arguments as name=True or
    # name=…, so that they can be told from ordinary words.

    # .page(…) becomes --limit
    message = message.replace(".page(…)", "--limit")
    # Settings.page_size becomes -c page_size. The command has no client.timeout(), so advice about
    # that is dropped.
    message = re.sub(
        r"Settings\.(\w+)(, or the seconds of client\.timeout\(\))?", r"-c \1", message
    )
    # The number is dropped: with several months, it is not the option's value, but the number
    # of requests that earlier months left over.
    message = re.sub(r"max_requests=\d+", option_of("max_requests"), message)
    # Settings(name=True) becomes -c name=true
    message = re.sub(
        r"Settings\((\w+)=(\w+|…)\)",
        lambda match: f"-c {match[1]}={match[2].lower()}",
        message,
    )
    # name=True and name=… become --name, except in the settings rewritten above
    return re.sub(r"(?<!-c )\b([a-z_]+)=(?:True|…)", lambda match: option_of(match[1]), message)
