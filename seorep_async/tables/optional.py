"""The one place that imports libraries of the extras, and only when they are needed."""

from __future__ import annotations

import importlib
from typing import Any

_EXTRAS = {"pyarrow": "arrow", "jinja2": "duckdb", "mcp_types": "mcp"}
"""The extra that installs a library, where it has another name."""


def require(module: str) -> Any:
    """Import a library of an extra, or a module in it, or raise an ImportError that says how to install it."""
    library = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        extra = _EXTRAS.get(library, library)
        install = f"pip install 'seorep-async[{extra}]', or in a clone: pip install '.[{extra}]'"
        raise ImportError(f"this needs {library}: {install}", name=library) from None
