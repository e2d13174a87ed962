"""Pages of mistakes: the line after an example (`>>>`) is the error that the example raises."""

import inspect
import os
import re
from typing import Any


async def with_errors_of_today(page: str, names: dict[str, Any]) -> str:
    """Return a page with the current errors. Comments and empty lines are kept."""
    lines: list[str] = []
    for line in page.splitlines():
        if line.startswith(">>> "):
            lines.append(line)
            lines.append(await _error_of(line.removeprefix(">>> "), names))
        elif not line or line.startswith("#"):
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


async def _error_of(expression: str, names: dict[str, Any]) -> str:
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
