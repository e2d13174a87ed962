"""A sandbox in its own thread, because engines block theirs, and a key that must not leak."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from seorep_async.guides import pages
from seorep_async.sandbox import Sandbox
from tests.session.canary import Canary
from tests.threads import in_a_thread

KEY = "canary-7f3a9c51e8b24d06"
CANARY = Canary(KEY)
START = "2023-01-01"
END = "2023-03-31"
NIGHT = "2023-04-01"
WINDOW: Mapping[str, Any] = {
    "start_date": START,
    "end_date": END,
    "snapshot_date": NIGHT,
    "account": "acme",
}
MIXED: Mapping[str, Any] = {
    "campaigns": 8,
    "keywords": 6,
    "seed": 3,
    "shape": "mixed",
    "rows": "mixed",
}


@contextmanager
def served(**options: Any) -> Iterator[Sandbox]:
    """Serve a sandbox. New processes have its address and key in their environment."""
    with (
        in_a_thread(Sandbox(**{**MIXED, "api_key": KEY, **options})) as sandbox,
        patch.dict(os.environ),
    ):
        os.environ |= {"SEOREP_API_KEY": KEY, "SEOREP_BASE_URL": sandbox.base_url}
        yield sandbox


def assert_key_in_no_file(folder: Path) -> None:
    """Assert that no file of a folder has the key in its name or contents."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert files
    for file in files:
        CANARY.assert_not_in(f"{file} {file.read_bytes().decode('latin-1')}")


def names_of_the_guide() -> dict[str, Any]:
    """Return the names that the first block of the guide of engines defines for all recipes."""
    block = re.search(r"^```python\n(.*?)^```", pages()["engines"], re.DOTALL | re.MULTILINE)
    assert block is not None
    names: dict[str, Any] = {"__name__": "guide"}
    exec(block[1], names)  # noqa: S102
    return names
