"""Run a guide's examples, and return the names that they define."""

import ast
import asyncio
import io
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import pytest

from seorep_async.sandbox import Sandbox
from tests.session.calls import KEY
from tests.test_guides import PAGES
from tests.threads import in_a_thread


@contextmanager
def names_of_guide(page: str) -> Generator[dict[str, Any]]:
    """Run the examples of a guide against a sandbox that runs until the block ends.

    The key is a canary. `printed` holds the lines that the examples print.
    """
    mixed: dict[str, Any] = {"shape": "mixed", "rows": "mixed"}
    sandbox = Sandbox(campaigns=12, keywords=30, seed=1, api_key=KEY, forbidden=[12], **mixed)
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with in_a_thread(sandbox) as service, pytest.MonkeyPatch.context() as environment:
        environment.setenv("SEOREP_BASE_URL", service.base_url)
        environment.setenv("SEOREP_API_KEY", KEY)
        with redirect_stdout(printed):
            asyncio.run(_run_examples(page, names))
        yield names | {"printed": printed.getvalue().splitlines(), "sandbox": service}


async def _run_examples(page: str, names: dict[str, Any]) -> None:
    for block in PAGES[page]:
        # Sandboxes started by examples use the canary key as well.
        code = block.code.replace("Sandbox(campaigns", f"Sandbox(api_key={KEY!r}, campaigns")
        compiled = compile(code, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(compiled, names)  # noqa: S307
        if asyncio.iscoroutine(result):
            await result
