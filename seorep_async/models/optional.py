"""Libraries that come with an extra, imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any

EXTRAS = {"pyarrow": "arrow", "duckdb": "duckdb", "pandas": "pandas", "polars": "polars"}
"""The extra that brings each library."""


def need(library: str) -> Any:
    """Import a library of an extra.

    Raises:
        ImportError: it is not installed; the message says how to get it.
    """
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise ImportError(
            f"this needs {library}: pip install 'seorep-async[{EXTRAS[library]}]'", name=library
        ) from None
