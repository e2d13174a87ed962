"""The README's Python examples run, against the sandbox."""

from __future__ import annotations

import asyncio
import os
import pathlib
import re
import sys

import pytest

from seorep_async.sandbox import Sandbox

README = pathlib.Path(__file__).parent.parent / "README.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_readme_has_examples() -> None:
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize("example", EXAMPLES)
async def test_an_example_runs_without_a_warning(example: str) -> None:
    async with Sandbox(campaigns=12, keywords=30, seed=1, shape="mixed", rows="mixed") as sandbox:
        environment = os.environ | {"SEOREP_BASE_URL": sandbox.base_url, "SEOREP_API_KEY": sandbox.api_key}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-X", "dev", "-W", "error", "-c", example,
            env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    assert output
