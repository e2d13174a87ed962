"""README's script for every night, as it is pasted, beside a sandbox; `sleep` and `seorep` are found before others."""

import datetime as dt
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import Ended, Seorep

pytestmark = pytest.mark.heavy

README = Path(__file__).parents[2] / "README.md"
IN_THE_WAY = ".rankings.duckdb.127.0.0.1.pull"
"""A file where the staging folder would be, until the script sleeps."""
SCRIPT = README.read_text(encoding="utf-8").partition("```sh\n#!/bin/sh\n")[2].partition("```")[0]


def nightly(folder: Path) -> tuple[Ended, str]:
    """Run the script; return how it ended, and the seconds that it slept."""
    programs = {
        "nightly": f"#!/bin/sh\n{SCRIPT}",
        "sleep": f"#!/bin/sh\necho $1 >> {folder}/slept\ntest $1 = 0 || rm -f {folder / IN_THE_WAY} || :\n",
        "seorep": f'#!/bin/sh\nexec {sys.executable} -m seorep_async "$@"\n',
    }
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    variables = ("SEOREP_BASE_URL", "SEOREP_API_KEY")
    (folder / "environment").write_text(
        "".join(f"{name}={os.environ[name]}\n" for name in variables)
    )
    where = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(README.parent),
        "HOME": str(folder),
    }
    ended = subprocess.run(
        [folder / "nightly"], cwd="/", env=where, capture_output=True, text=True, check=False
    )
    slept = folder / "slept"
    return Ended(
        ended.returncode, ended.stdout, ended.stderr
    ), slept.read_text() if slept.exists() else ""


def test_the_second_night_says_what_changed(tmp_path: Path, seorep: Seorep) -> None:
    yesterday = dt.date.today() - dt.timedelta(1)
    with seorep.account():
        before = ("--last", "30d", "--snapshot-date", yesterday, "-o", "rankings.duckdb", "--quiet")
        assert seorep("pull", *before, today=yesterday).code == 0
        ended, slept = nightly(tmp_path)
    assert (ended.code, slept) == (0, "0\n")
    assert f"127.0.0.1, {yesterday - dt.timedelta(1)} to {yesterday}: " in ended.err


@pytest.mark.parametrize(("status", "code", "slept"), [(404, 9, "0\n"), (501, 4, "0\n600\n1800\n")])
def test_it_sleeps_only_for_what_may_pass(
    tmp_path: Path, seorep: Seorep, status: int, code: int, slept: str
) -> None:
    with seorep.account(failing={2: status}):
        ended, seconds = nightly(tmp_path)
    assert (ended.code, seconds) == (code, slept)


def test_a_second_run_that_could_not_write_pulls_after_all(tmp_path: Path, seorep: Seorep) -> None:
    with seorep.account() as sandbox:
        assert nightly(tmp_path)[0].code == 0
        (tmp_path / IN_THE_WAY).touch()
        before = sandbox.stats.requests
        ended, slept = nightly(tmp_path)
        assert (ended.code, slept) == (0, "0\n0\n600\n")
        assert sandbox.stats.requests > before + 4


def test_months_start_over_where_what_is_staged_is_damaged(tmp_path: Path, seorep: Seorep) -> None:
    folder = tmp_path / ".a.duckdb.acme.pull"
    folder.mkdir(0o700)
    (folder / "pieces").write_bytes(b"no pieces" * 99)
    with seorep.account():
        command = (
            "pull",
            "-o",
            "a.duckdb",
            "--month",
            "2023-01..2023-02",
            "--account",
            "acme",
            "--quiet",
        )
        assert seorep(*command).code != 0
        assert seorep(*command, "--restart").code == 0
