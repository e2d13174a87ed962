"""Import the libraries of the extras when they are needed, with a clear error if one is missing."""

from __future__ import annotations

import importlib
import json
from contextlib import suppress
from typing import Any

from seorep_async.plain_values import are_dates_frozen, real_dates

_EXTRAS = {
    "pyarrow": "arrow",
    "jinja2": "duckdb",
    "xlsxwriter": "excel",
    "openpyxl": "excel",
    "mcp_types": "mcp",
}
"""The extra that installs a library, if their names differ."""


def require(module: str, *, extra: str | None = None) -> Any:
    """Import a library of an extra, or a module in it.

    Args:
        module: the library, or the module in it.
        extra: the extra to name in the error, if the library belongs to several.

    Raises:
        ImportError: the library is missing. The message names the extra that installs it.
    """
    library = module.partition(".")[0]
    try:
        # under freezegun, the library would be imported with fake dates
        if are_dates_frozen():
            return _import_with_real_dates(module)
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        extra = extra or _EXTRAS.get(library, library)
        problem = f"this needs {library}: {install_command(extra)}"
        raise ImportError(problem, name=library) from None


def install_command(extra: str) -> str:
    """Return the command that installs an extra.

    If this package was installed from a local path, the command names that path.
    """
    local_source = _local_source()
    if local_source is None:
        return f"pip install 'seorep-async[{extra}]', or in a clone: pip install '.[{extra}]'"
    return f"pip install 'seorep-async[{extra}] @ {local_source}'"


def _local_source() -> str | None:
    """Return the `file:` URL from which pip installed this package, or None for another source."""
    # importing `importlib.metadata` is slow, and only a missing extra needs it
    metadata = importlib.import_module("importlib.metadata")
    with suppress(metadata.PackageNotFoundError):
        text = metadata.distribution("seorep-async").read_text("direct_url.json")
        url: str = json.loads(text or "{}").get("url", "")
        return url if url.startswith("file:") else None
    return None


def _import_with_real_dates(module: str) -> Any:
    """Import a module while freezegun's fake dates are removed."""
    with real_dates():
        # otherwise pyarrow would import pandas later, with fake dates
        if module == "pyarrow":
            with suppress(ImportError):
                importlib.import_module("pandas")
        return importlib.import_module(module)
