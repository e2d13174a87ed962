"""Run a guide's examples, and return the names that they define."""

import io
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import pytest

from seorep_async.sandbox import Sandbox
from tests.session.calls import KEY
from tests.test_guides import PAGES, run_page
from tests.threads import in_a_thread


@contextmanager
def names_of_guide(page: str) -> Generator[dict[str, Any]]:
    """Run the examples of a guide against a sandbox that runs until the block ends.

    The key is a canary. `printed` holds the lines that the examples print.
    """
    mixed: dict[str, Any] = {"shape": "mixed", "rows": "mixed"}
    sandbox = Sandbox(campaigns=12, keywords=30, seed=1, api_key=KEY, forbidden=[12], **mixed)
    printed = io.StringIO()
    with in_a_thread(sandbox) as service, pytest.MonkeyPatch.context() as environment:
        environment.setenv("SEOREP_BASE_URL", service.base_url)
        environment.setenv("SEOREP_API_KEY", KEY)
        # Sandboxes started by examples use the canary key as well.
        own_key = f"Sandbox(api_key={KEY!r}, campaigns"
        examples = [
            block._replace(code=block.code.replace("Sandbox(campaigns", own_key))
            for block in PAGES[page]
        ]
        with redirect_stdout(printed):
            names = run_page(examples, page)
        yield names | {"printed": printed.getvalue().splitlines(), "sandbox": service}
