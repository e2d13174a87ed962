"""Pages of mistakes: a line after `>>>` is evaluated, and awaited; the next line is the error that it ends in."""

import inspect
import os
import re
from typing import Any


async def answered(page: str, known: dict[str, Any]) -> str:
    """Return a page with the errors of today; comments and empty lines stay."""
    lines: list[str] = []
    for line in page.splitlines():
        if line.startswith(">>> "):
            lines += [line, await _error_of(line[4:], known)]
        elif not line or line.startswith("#"):
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


async def _error_of(line: str, known: dict[str, Any]) -> str:
    try:
        found = eval(line, known)  # noqa: S307
        while inspect.isawaitable(found):
            found = await found
    except Exception as error:
        subject = getattr(error, "argument", None) or getattr(error, "field_path", None)
        text = f"{type(error).__name__}{f' of {subject}' if subject else ''}: {error}"
        return re.sub("0x[0-9a-f]+|127.0.0.1:[0-9]+", "…", text).replace(os.getcwd(), "FOLDER")
    return f"taken: {found!r}"
