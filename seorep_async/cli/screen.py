"""Messages for the person at the terminal, all on stderr."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from seorep_async.cli.exit_codes import ExitCode, exit_code_of
from seorep_async.errors import ConnectionFailedError, SeoRepError

_NO_WRAPPING = 1_000_000


def screen() -> Console:
    """Return a console on stderr as it is now; it is a terminal only if stderr is one, whatever the environment."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    # in a log, one message is one line
    return Console(stderr=True, force_terminal=terminal, highlight=False, width=None if terminal else _NO_WRAPPING)


def show_error(text: str) -> None:
    """Say in one line that the command ends, and why."""
    screen().print(Text.assemble(("Error: ", "bold red"), printable(text)))


def printable(text: str) -> str:
    """Return a text as one line that does nothing to a terminal: what a service sends may hold control characters."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in " ".join(text.split()))


def reason(error: SeoRepError) -> str:
    """Return why something failed, in one line, without saying what it happened to."""
    facts = [f"status {error.status}"] if error.status is not None else []
    if error.attempts > 1:
        facts.append(f"{error.attempts} attempts")
    return error.message + (f" ({', '.join(facts)})" if facts else "")


def explain(error: Exception) -> str:
    """Return what ended the command, and the next step where there is one."""
    if isinstance(error, SeoRepError):
        told = f"{error.subject}: {reason(error)}" if error.subject else reason(error)
        if exit_code_of(error) is ExitCode.AUTHENTICATION:
            return f"{told}; check SEOREP_API_KEY"
        if isinstance(error, ConnectionFailedError):
            return f"{told}; check SEOREP_BASE_URL and the network"
        return told
    if isinstance(error, ImportError) and "pip install" in str(error):
        return str(error)
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" ({Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno})" if place is not None else ""
    return f"unexpected {type(error).__name__}: {error}{where}; this is a fault of seorep, please report it"
