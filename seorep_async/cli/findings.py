"""Findings of `seorep doctor`: shown as they come, or collected for JSON."""

from __future__ import annotations

import enum
from typing import Any

import attrs
from rich.console import Console
from rich.text import Text

from seorep_async.cli.errors import ExitCode, code_of, explain, facts_of_error
from seorep_async.errors import one_line


class Level(enum.Enum):
    """How much a finding matters; a fact is neither good nor bad."""

    OK = "ok"
    FACT = "fact"
    NOTE = "note"
    FAIL = "fail"


_LABELS = {
    Level.OK: ("ok", "green"),
    Level.FACT: ("", ""),
    Level.NOTE: ("note", "yellow"),
    Level.FAIL: ("FAIL", "bold red"),
}
"""The word of each level, and its style."""


@attrs.frozen
class Finding:
    """One line of the doctor."""

    level: Level
    subject: str
    message: str


class Findings:
    """The findings so far.

    Args:
        console: shows each finding; a quiet one shows nothing.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._findings: list[Finding] = []
        self._error: Exception | None = None

    def add(self, level: Level, subject: str, message: object) -> None:
        """Add a finding, and show it."""
        finding = Finding(level, subject, one_line(str(message)))
        self._findings.append(finding)
        word, style = _LABELS[level]
        line = Text.assemble((f"{word:<4}", style), f"  {subject:<20}{finding.message}")
        self._console.print(line)

    def ok(self, subject: str, message: object) -> None:
        self.add(Level.OK, subject, message)

    def fact(self, subject: str, message: object) -> None:
        self.add(Level.FACT, subject, message)

    def note(self, subject: str, message: object) -> None:
        self.add(Level.NOTE, subject, message)

    def fail(self, subject: str, error: Exception) -> None:
        """Add the error of a check; the first one gives the exit code."""
        self.add(Level.FAIL, subject, explain(error))
        if self._error is None:
            self._error = error

    @property
    def code(self) -> ExitCode:
        """The exit code: that of the first failure."""
        return ExitCode.OK if self._error is None else code_of(self._error)

    def facts(self) -> dict[str, Any]:
        """Return the findings as JSON has them."""
        checks = [
            {"level": finding.level.value, "subject": finding.subject, "message": finding.message}
            for finding in self._findings
        ]
        error = None if self._error is None else facts_of_error(self._error)
        return {"exit_code": int(self.code), "error": error, "checks": checks}
