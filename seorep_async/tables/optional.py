"""The one place that imports libraries of the extras, and only when they are needed."""

from __future__ import annotations

import importlib
import importlib.util
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


def require(module: str, *further: str) -> Any:
    """Import a library of an extra, or a module in it, or raise an ImportError that says how to install it.

    The error also names the extras of missing `further` libraries, which will be needed too.
    """
    library = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        missing = [library, *(one for one in further if importlib.util.find_spec(one) is None)]
        extras = ",".join(EXTRAS[one] for one in missing)
        raise ImportError(
            f"this needs {' and '.join(missing)}: pip install 'seorep-async[{extras}]', "
            f"or in a clone: pip install '.[{extras}]'",
            name=library,
        ) from None
