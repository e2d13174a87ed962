"""The exit codes, and the error of a wrong command line."""

from __future__ import annotations

import difflib
import enum
import importlib
from collections.abc import Iterable
from typing import Any


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


def near(word: str, known: Iterable[str]) -> str:
    """Return the question whether a known word was meant, or nothing."""
    found = difflib.get_close_matches(word, list(known), 1)
    return f" Did you mean {found[0]}?" if found else ""


def later(module: str, name: str) -> Any:
    """Return a function of a module of the command, imported only now: help must not wait for aiohttp and rich."""
    return getattr(importlib.import_module(f"seorep_async.cli.{module}"), name)
