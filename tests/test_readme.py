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
PROGRAMS = [example for example in EXAMPLES if "asyncio.run" in example]
TESTS = [example for example in EXAMPLES if "async def test_" in example]


def test_every_example_is_a_program_or_a_test() -> None:
    assert len(PROGRAMS) >= 2
    assert len(PROGRAMS) + len(TESTS) == len(EXAMPLES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Where the examples run, one after the other: some read what others wrote."""
    return tmp_path_factory.mktemp("readme")


async def output_of(*command: str, folder: pathlib.Path, **environment: str) -> str:
    here = {"PYTHONPATH": str(README.parent)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-X", "dev", "-W", "error", *command, cwd=folder,
        env=os.environ | here | environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


@pytest.mark.parametrize("example", PROGRAMS)
async def test_an_example_runs_without_a_warning(example: str, folder: pathlib.Path) -> None:
    async with Sandbox(campaigns=12, keywords=30, seed=1, shape="mixed", rows="mixed") as sandbox:
        service = {"SEOREP_BASE_URL": sandbox.base_url, "SEOREP_API_KEY": sandbox.api_key}
        assert await output_of("-c", example, folder=folder, **service)


@pytest.mark.parametrize("example", TESTS)
async def test_an_example_of_a_test_passes(example: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_example.py").write_text(example, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n", encoding="utf-8")
    plugin = [] if "seorep_async.pytest_plugin" in installed_plugins() else ["-p", "seorep_async.pytest_plugin"]
    output = await output_of("-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, str(tmp_path), folder=tmp_path)
    assert "1 passed" in output


def installed_plugins() -> set[str]:
    from importlib.metadata import entry_points

    return {entry.value for entry in entry_points(group="pytest11")}
