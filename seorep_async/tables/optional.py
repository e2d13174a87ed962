"""The one place that imports libraries of the extras, and only when they are needed."""

from __future__ import annotations

import importlib
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
"""The extra that installs a library, where it has another name."""


def require(module: str, *, extra: str | None = None) -> Any:
    """Import a library of an extra, or a module in it.

    Args:
        module: the library, or the module in it.
        extra: the extra that the called method needs, if another one than the library's own.

    Raises:
        ImportError: the library is missing; the message says which extra installs it.
    """
    library = module.partition(".")[0]
    try:
        if are_dates_frozen():
            return _import_with_real_dates(module)
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        extra = extra or _EXTRAS.get(library, library)
        install = f"pip install 'seorep-async[{extra}]', or in a clone: pip install '.[{extra}]'"
        raise ImportError(f"this needs {library}: {install}", name=library) from None


def _import_with_real_dates(module: str) -> Any:
    with real_dates():
        if module == "pyarrow":  # which imports pandas later, by itself
            with suppress(ImportError):
                importlib.import_module("pandas")
        return importlib.import_module(module)
