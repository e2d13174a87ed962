"""What the command's exit status means."""

from __future__ import annotations

import enum

from seorep_async.errors import (
    AuthenticationError,
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    InvalidRequestError,
    NotFoundError,
    PaginationError,
    RedirectError,
    StatusError,
    TransportError,
)
from seorep_async.export import ExportError


class ExitCode(enum.IntEnum):
    """The exit codes; the same for every command."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    AUTHENTICATION = 3
    PARTIAL = 4
    UNAVAILABLE = 5
    SHAPE = 6
    UNWRITTEN = 7
    INTERRUPTED = 130


_MEANINGS = {
    ExitCode.OK: "everything is there",
    ExitCode.UNEXPECTED: "unexpected error",
    ExitCode.USAGE: "wrong usage or configuration, or nothing like it there",
    ExitCode.AUTHENTICATION: "the API key was refused",
    ExitCode.PARTIAL: "partial: some reports failed, the others are written",
    ExitCode.UNAVAILABLE: "the service is not available: network, 5xx, 429, deadline",
    ExitCode.SHAPE: "the service's answers have an unexpected shape",
    ExitCode.UNWRITTEN: "the target or stdout could not be written: disk full, open elsewhere; what came is kept",
    ExitCode.INTERRUPTED: "interrupted; what came is kept",
}

# click leaves paragraphs alone that begin with "\b"
EXIT_CODES_HELP = "\n".join(["\b", "Exit codes:", *(f"  {code:<3}  {meaning}" for code, meaning in _MEANINGS.items())])

# the first match counts
_CODES: tuple[tuple[tuple[type[Exception], ...], ExitCode], ...] = (
    ((ExportError,), ExitCode.UNWRITTEN),
    ((ImportError,), ExitCode.USAGE),
    ((AuthenticationError,), ExitCode.AUTHENTICATION),
    # what a second try can't mend is the caller's to mend, also where the service had to say so
    ((ConfigurationError, InvalidRequestError, NotFoundError, RedirectError), ExitCode.USAGE),
    ((DecodeError, PaginationError), ExitCode.SHAPE),
    ((TransportError, StatusError, DeadlineExceededError), ExitCode.UNAVAILABLE),
)


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code for an error that ended the command."""
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), ExitCode.UNEXPECTED)
