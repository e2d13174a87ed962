"""README's nightly script, run unchanged, and the guide's timer and container."""

import datetime as dt
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from seorep_async import guides
from tests.cli.running import Ended, Seorep

pytestmark = pytest.mark.heavy

README = Path(__file__).parents[2] / "README.md"
STAGING = ".rankings.duckdb.acme.pull"
PULL = ("pull", "-o", "rankings.duckdb", "--account", "acme", "--quiet", "--last", "30d")
INTERRUPTED = (*PULL, "--max-requests", "3")
SCRIPT = README.read_text(encoding="utf-8").partition("```sh\n#!/bin/sh\n")[2].partition("```")[0]


def days_ago(number: int) -> dt.date:
    """Return a day as the script counts them, in UTC."""
    return dt.datetime.now(dt.UTC).date() - dt.timedelta(number)


def nightly(
    folder: Path, *, on_sleep: str = "", program: str = "-m seorep_async", **variables: str
) -> tuple[Ended, str]:
    """Run the script, with a `sleep` that takes no time and a `seorep` that is this one.

    Returns:
        How the script ended, and the seconds that it slept.
    """
    programs = {
        "nightly": f"#!/bin/sh\n{SCRIPT}",
        "sleep": f"#!/bin/sh\necho $1 >> {folder}/slept\ntest $1 = 0 || {on_sleep or ':'}\n",
        "seorep": f'#!/bin/sh\nexec {sys.executable} {program} "$@"\n',
    }
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    for name in ("SEOREP_BASE_URL", "SEOREP_API_KEY"):
        variables[name] = os.environ[name]
    lines = [f"{name}={shlex.quote(value)}\n" for name, value in variables.items()]
    (folder / "environment").write_text("".join(lines))
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(README.parent),
        "HOME": str(folder),
    }
    ended = subprocess.run(
        [folder / "nightly"], cwd="/", env=environment, capture_output=True, text=True, check=False
    )
    slept = folder / "slept"
    seconds = slept.read_text() if slept.exists() else ""
    return Ended(ended.returncode, ended.stdout, ended.stderr), seconds


def test_the_second_night_reports_changes(tmp_path: Path, seorep: Seorep) -> None:
    yesterday = days_ago(1)
    with seorep.account(api_key="k3y with a blank, a $ and a '"):
        assert seorep(*PULL, "--snapshot-date", yesterday, today=yesterday).code == 0
        ended, slept = nightly(tmp_path)
    assert (ended.code, slept) == (0, "0\n")
    assert f"acme, {yesterday - dt.timedelta(1)} to {yesterday}: " in ended.out


def test_further_options_are_in_its_environment(tmp_path: Path, seorep: Seorep) -> None:
    with seorep.account(failing={2: 404}):
        assert nightly(tmp_path, OPTIONS="--exclude 2 -c call_timeout=60")[0].code == 0


@pytest.mark.parametrize(("status", "code", "slept"), [(404, 9, "0\n"), (501, 4, "0\n5\n")])
def test_it_sleeps_only_where_a_retry_may_help(
    tmp_path: Path, seorep: Seorep, status: int, code: int, slept: str
) -> None:
    assert "${PAUSES:-0 600 1800}" in SCRIPT
    with seorep.account(failing={2: status}):
        ended, seconds = nightly(tmp_path, PAUSES="0 5")
    assert (ended.code, seconds) == (code, slept)
    assert f"1 report failed; exit code {code}" in ended.err


def test_a_named_night_has_its_days_after_a_killed_one(tmp_path: Path, seorep: Seorep) -> None:
    last_week = days_ago(7)
    with seorep.account():
        assert seorep(*INTERRUPTED, today=last_week).code == 5
        assert (tmp_path / STAGING).exists()
        assert nightly(tmp_path, NIGHT="2023-03-05")[0].code == 0
    query = "SELECT DISTINCT snapshot_date, start_date, end_date FROM keyword_rankings"
    with duckdb.connect(tmp_path / "rankings.duckdb") as opened:
        (days,) = opened.execute(query).fetchall()
    assert [f"{day:%m-%d}" for day in days] == ["03-05", "02-03", "03-04"]


def test_a_lost_night_reports_its_own_changes(tmp_path: Path, seorep: Seorep) -> None:
    with seorep.account(daily=True):
        for night in (dt.date(2023, 3, 4), dt.date(2023, 3, 6)):
            assert seorep(*PULL, "--snapshot-date", night, today=night).code == 0
        assert "acme, 2023-03-03 to 2023-03-04: " in nightly(tmp_path, NIGHT="2023-03-05")[0].out


FAILS_ONCE = """
import os, signal
from pathlib import Path
from seorep_async.cli import main
from seorep_async.errors import ExportError
from seorep_async.export.database import Database
def write(self, contents, folder):
    Path("failed").touch()
    FAILURE
if not Path("failed").exists():
    Database.write = write
main()
"""


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ('raise ExportError("the disk is full")', ": nothing written, ExportError; exit code 7"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "Killed"),
    ],
)
def test_a_failed_write_fetches_nothing_again(
    tmp_path: Path, seorep: Seorep, failure: str, said: str
) -> None:
    (tmp_path / "fails_once.py").write_text(FAILS_ONCE.replace("FAILURE", failure))
    with seorep.account(campaigns=30) as sandbox:
        ended, slept = nightly(tmp_path, program=str(tmp_path / "fails_once.py"))
        assert (ended.code, slept) == (0, "0\n600\n")
        assert said in ended.err
        assert ": 30 campaigns, 180 rows; exit code 0\n" in ended.err
        # the campaigns, a report of each, and the look at one with which a resumed pull begins
        assert sandbox.stats.requests <= 2 + 30 + 1


HOLDS_PIECES = """
import fcntl, sys, time
with open(sys.argv[1], "rb") as pieces:
    fcntl.flock(pieces, fcntl.LOCK_EX)
    print("locked", flush=True)
    time.sleep(300)
"""


def test_it_outlasts_the_pull_of_the_night_before(tmp_path: Path, seorep: Seorep) -> None:
    yesterday = days_ago(1)
    with seorep.account():
        assert seorep(*INTERRUPTED, today=yesterday).code == 5
        other_pull = [sys.executable, "-c", HOLDS_PIECES, str(tmp_path / STAGING / "pieces")]
        with subprocess.Popen(other_pull, stdout=subprocess.PIPE) as at_work:
            assert at_work.stdout is not None
            assert at_work.stdout.readline() == b"locked\n"
            ended, slept = nightly(tmp_path, on_sleep=f"kill {at_work.pid}")
    assert (ended.code, slept) == (0, "0\n600\n")


# --- The guide


def fenced(language: str) -> list[str]:
    page = guides.pages()["command"]
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_timer(tmp_path: Path) -> None:
    script = tmp_path / "nightly"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    names = []
    for unit in fenced("ini"):
        name = unit.partition("\n")[0].removeprefix("# ")
        text = unit.replace("/srv/seo/nightly", str(script)).replace("User=seo", "User=root")
        (tmp_path / name).write_text(text)
        names.append(name)
    assert names == ["nightly.service", "nightly-failed.service", "nightly.timer"]
    ended = subprocess.run(
        ["systemd-analyze", "verify", *(tmp_path / name for name in names)],
        capture_output=True,
        text=True,
        check=False,
    )
    about_ours = [line for line in ended.stderr.splitlines() if "nightly" in line]
    assert (ended.returncode, about_ours) == (0, [])
