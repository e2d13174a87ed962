"""Expected texts in files. `RENEW_GOLDEN=1 python -m pytest -n 0 -m '' FILE` writes those of today.

In a page, a question begins with `$`, or with `>>>` if it is an expression that must raise an
error. The lines after it are the answer.
"""

import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs


def assert_golden(path: Path, text: str) -> None:
    """Compare a text with that of a file, or write it."""
    if os.environ.get("RENEW_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@attrs.define
class Page:
    """A page whose questions are asked again. Comments and empty lines are kept."""

    path: Path
    lines: list[str] = attrs.field(factory=list)

    def questions(self) -> Iterator[str]:
        """Yield each question. The lines of its answer must be added before the next one."""
        for line in self.path.read_text(encoding="utf-8").splitlines():
            mark, _, question = line.partition(" ")
            is_question = mark in ("$", ">>>")
            if is_question or not line or line.startswith("#"):
                self.lines.append(line)
            if is_question:
                yield question

    def compare(self) -> None:
        assert_golden(self.path, "".join(f"{line}\n" for line in self.lines))


async def error_of(expression: str, names: dict[str, Any]) -> str:
    """Return the error of an expression, or the value that it has in place of one."""
    try:
        value = eval(expression, names)  # noqa: S307
        while inspect.isawaitable(value):
            value = await value
    except Exception as error:
        return _described(error)
    return f"taken: {value!r}"


def _described(error: Exception) -> str:
    name = type(error).__name__
    subject = getattr(error, "argument", None) or getattr(error, "field_path", None)
    if subject:
        name += f" of {subject}"
    # Addresses and folders differ from run to run.
    message = re.sub("0x[0-9a-f]+|127.0.0.1:[0-9]+", "…", f"{name}: {error}")
    return message.replace(os.getcwd(), "FOLDER")
