"""Findings of `seorep doctor`, written to stdout one by one or collected for JSON."""

from __future__ import annotations

import enum
from typing import Any

import attrs

from seorep_async.cli.errors import ExitCode, code_of, explain, facts_of_error
from seorep_async.cli.output import write_if_read
from seorep_async.errors import one_line


class Level(enum.Enum):
    """How much a finding matters. A fact is neither good nor bad; a lost night needs an alert."""

    OK = "ok"
    FACT = "fact"
    NOTE = "note"
    LOST = "lost"
    FAIL = "fail"


_WORDS = {
    Level.OK: "ok",
    Level.FACT: "",
    Level.NOTE: "note",
    Level.LOST: "LOST",
    Level.FAIL: "FAIL",
}
"""The word of each level on stdout."""


@attrs.frozen
class Finding:
    """One line of `seorep doctor`."""

    level: Level
    subject: str
    message: str


class Findings:
    """The findings so far.

    Args:
        writes: whether each finding is written to stdout at once.
    """

    def __init__(self, *, writes: bool) -> None:
        self._writes = writes
        self._findings: list[Finding] = []
        self._details: dict[str, Any] = {}
        self._error: Exception | None = None

    def add(self, level: Level, subject: str, message: object) -> None:
        """Add a finding. Write it to stdout unless the findings are collected for JSON."""
        finding = Finding(level, subject, one_line(str(message)))
        self._findings.append(finding)
        if self._writes:
            write_if_read(f"{_WORDS[level]:<4}  {subject:<20}{finding.message}\n")

    def ok(self, subject: str, message: object) -> None:
        self.add(Level.OK, subject, message)

    def fact(self, subject: str, message: object) -> None:
        self.add(Level.FACT, subject, message)

    def note(self, subject: str, message: object) -> None:
        self.add(Level.NOTE, subject, message)

    def fail(self, subject: str, error: Exception) -> None:
        """Add the error of a check. The first error gives the exit code."""
        self.add(Level.FAIL, subject, explain(error))
        if self._error is None:
            self._error = error

    def has(self, subject: str) -> bool:
        """Return whether there is a finding about a subject."""
        return any(finding.subject == subject for finding in self._findings)

    def add_details(self, name: str, details: Any) -> None:
        """Add values for programs. Only JSON shows them."""
        self._details[name] = details

    @property
    def code(self) -> ExitCode:
        """The exit code of the first failure, or 0."""
        return ExitCode.OK if self._error is None else code_of(self._error)

    def facts(self) -> dict[str, Any]:
        """Return the findings and their details for JSON."""
        checks = list(map(attrs.asdict, self._findings))
        error = None if self._error is None else facts_of_error(self._error)
        return {"exit_code": int(self.code), "error": error, "checks": checks} | self._details
