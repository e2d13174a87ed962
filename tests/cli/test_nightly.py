"""The README's script for every night, run by the shell with a `seorep` that ends as it is told."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
(SCRIPT,) = re.findall(r"^```sh\n(#!/bin/sh\n.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
FIRST, AGAIN = "--quiet --restart", "--quiet --retry-failed"


def nightly(folder: Path, *codes: int) -> tuple[int, list[str]]:
    """Run the script; return its exit status, and what it ran: pulls, and waits between them."""
    stubs = {
        "seorep": 'echo "$SEOREP_API_KEY: $*" >> log; read code < codes; sed -i 1d codes; exit $code',
        "sleep": 'echo "sleep $*" >> log',
    }
    for name, lines in stubs.items():
        (folder / name).write_text(f"#!/bin/sh\n{lines}\n")
        (folder / name).chmod(0o755)
    (folder / "codes").write_text("".join(f"{code}\n" for code in codes))
    (folder / "environment").write_text("SEOREP_API_KEY=key\n")
    (folder / "nightly").write_text(SCRIPT.replace("/srv/seo", str(folder)))
    environment = {"PATH": f"{folder}:{os.environ['PATH']}"}
    ended = subprocess.run(["sh", folder / "nightly"], env=environment, check=False)
    said = (folder / "log").read_text().splitlines()
    pulls = [re.sub(r"^key: pull (.*) -o rankings\.parquet$", r"\1", line) for line in said]
    return ended.returncode, pulls


@pytest.mark.parametrize("code", [0, 1, 2, 3, 6, 130])
def test_a_permanent_failure_is_not_tried_again(tmp_path: Path, code: int) -> None:
    assert nightly(tmp_path, code) == (code, [FIRST])


@pytest.mark.parametrize("code", [4, 5, 7])
def test_a_transient_failure_is_retried_after_a_while(tmp_path: Path, code: int) -> None:
    assert nightly(tmp_path, code, 0) == (0, [FIRST, "sleep 600", AGAIN])


def test_the_last_try_gives_the_exit_status_at_once(tmp_path: Path) -> None:
    assert nightly(tmp_path, 5, 4, 4) == (4, [FIRST, "sleep 600", AGAIN, "sleep 1800", AGAIN])
