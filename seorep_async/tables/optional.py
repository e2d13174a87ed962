"""The one place where libraries of the extras are imported, and only when something needs them."""

from __future__ import annotations

import importlib
from typing import Any

EXTRAS = {
    "pyarrow": "arrow",
    "duckdb": "duckdb",
    "pandas": "pandas",
    "polars": "polars",
    "obstore": "cloud",
    "dlt": "dlt",
}
"""The extra that installs each library."""


def require(module: str) -> Any:
    """Import a library of an extra, or a module in it.

    Raises:
        ImportError: it is not installed; the message says how to install it.
    """
    library = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        extra = EXTRAS[library]
        raise ImportError(
            f"this needs {library}: pip install 'seorep-async[{extra}]', or in a clone: pip install '.[{extra}]'",
            name=library,
        ) from None
