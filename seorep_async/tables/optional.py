"""The one place that imports libraries of the extras, and only when they are needed."""

from __future__ import annotations

import importlib
from typing import Any

EXTRAS = {
    "pyarrow": "arrow",
    "duckdb": "duckdb",
    "jinja2": "duckdb",
    "pandas": "pandas",
    "polars": "polars",
    "dlt": "dlt",
    "mcp": "mcp",
    "mcp_types": "mcp",
}
"""The extra that installs each library."""


def require(module: str) -> Any:
    """Import a library of an extra, or a module in it, or raise an ImportError that says how to install it."""
    library = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        install = f"pip install 'seorep-async[{EXTRAS[library]}]', or in a clone: pip install '.[{EXTRAS[library]}]'"
        raise ImportError(f"this needs {library}: {install}", name=library) from None
