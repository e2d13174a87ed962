"""Profiles and keys that can't be used, beside those of `sessions/profiles.txt`: one line, code 2, without the key."""

import os
import signal
from contextlib import nullcontext
from pathlib import Path

import pytest

from seorep_async.cli import profiles
from seorep_async.cli.app import run
from seorep_async.cli.errors import UsageError
from seorep_async.cli.options import Service
from seorep_async.cli.profiles import connect
from tests.cli.running import KEY

ADDRESS = 'base_url = "https://api.example.com"\n'
MANY = 50_000_000
DIGITS = "9" * 5000
NO_FILE = "it is not a regular file of at most 1024 KiB"


def prepare(folder: Path) -> None:
    """Make what the file of profiles may be by mistake."""
    (folder / "huge").write_bytes(KEY.encode())
    os.truncate(folder / "huge", MANY)
    os.mkfifo(folder / "fifo", 0o600)
    (folder / "folder").mkdir()
    (folder / "dangling").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")
    (folder / "zeros").symlink_to("/dev/zero")


KEYS = [
    (f"key = {KEY}", "can't read"),
    (f"key = '{KEY}'\nkey = '{KEY}'", "can't read"),
    ("key_command = 'sleep 30'", "key_command took longer than"),
    (f"key_command = ['sh', '-c', 'echo {KEY}; sleep 30; true']", "key_command took longer than"),
    (
        f"key_command = ['sh', '-c', 'echo {KEY}; exec >&-; sleep 30']",
        "key_command took longer than",
    ),
    (f"key_command = 'yes {KEY}'", "key_command took longer than"),
    (
        f"key_command = ['head', '-c', '{MANY}', '/dev/zero']",
        "key_command of profile acme holds a line break or another control",
    ),
    (f"key_command = ['sh', '-c', 'echo {KEY}; false']", "key_command failed with"),
    ("key_command = ['printf', 's3cr\\351t']", "not UTF-8"),
]
SETTINGS = [
    (
        "account = 'Acme'",
        "base_url of profile acme must be set; or run `seorep login`, or try --sandbox.",
    ),
    (f"{ADDRESS}max_attempts = {DIGITS}", "can't read"),
    (f"{ADDRESS}max_attempts = {'9' * 4000}", "max_attempts must be"),
    (f"{ADDRESS}{'x' * 100_000} = 3", "there is no setting 'xxx"),
]
FILES: list[tuple[bytes | str, str]] = [
    (b"", "there is no profile 'acme' in {config}; it has: none. `seorep login NAME` makes one."),
    (b"[other]\n[third]", "there is no profile 'acme' in {config}; it has: other, third."),
    (
        b"[acme]\nbase_uri = 'x'",
        "profile acme: there is no setting 'base_uri'. Did you mean base_url?",
    ),
    (b"acme = 3", "there is no profile 'acme'"),
    (b"acme = []", "there is no profile 'acme'"),
    (b"[[acme]]\nkey = 'k'", "there is no profile 'acme'"),
    (b"[acme", "can't read {config}: "),
    (b'["acme\\n"]', "there is no profile 'acme'"),
    (f"[acme]\n{ADDRESS}key = 's3cr\xe9t'".encode("latin-1"), "not UTF-8"),
    (f"[acme]\n{ADDRESS}key = '{KEY}'".encode("utf-16"), "not UTF-8"),
    (b"a = " + b"[" * 100_000, "can't read"),
    (b"a = " + b"{a = " * 100_000, "can't read"),
    (b"a." * 5_000 + b"a = 1", "there is no profile 'acme'"),
    (b"x = " + DIGITS.encode(), "can't read"),
    (b"x = 0x" + b"f" * 5000, "there is no profile 'acme'"),
    (b"x = 1e" + DIGITS.encode(), "there is no profile 'acme'"),
    (b"#" * 2_000_000, NO_FILE),
    ("folder", NO_FILE),
    ("fifo", NO_FILE),
    ("zeros", NO_FILE),
    ("loop", "there is no profile 'acme'"),
    ("dangling", "there is no profile 'acme'"),
    ("huge", NO_FILE),
]
CASES: list[tuple[bytes | str, str]] = [
    *((f"[acme]\n{ADDRESS}{lines}\n".encode(), said) for lines, said in KEYS),
    *((f"[acme]\nkey = '{KEY}'\n{lines}\n".encode(), said) for lines, said in SETTINGS),
    *FILES,
]


def configure(folder: Path, content: bytes | str) -> None:
    """Write the configuration file, or make it another kind of file."""
    prepare(folder)
    if isinstance(content, str):
        (folder / content).rename(folder / "config.toml")
    else:
        (folder / "config.toml").write_bytes(content)
        (folder / "config.toml").chmod(0o600)


def name_of(value: object) -> str:
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return ascii(text.removeprefix(f"[acme]\n{ADDRESS}").removeprefix(f"[acme]\nkey = '{KEY}'\n"))[
        1:40
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("seorep_async.cli.profiles.COMMAND_SECONDS", 60.0)
    (tmp_path / "seorep").mkdir()
    return tmp_path / "seorep"


@pytest.mark.parametrize(("content", "said"), CASES, ids=[name_of(content) for content, _ in CASES])
def test_it_is_refused_in_one_line(
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    content: bytes | str,
    said: str,
) -> None:
    configure(folder, content)
    if "took longer" in said:
        monkeypatch.setattr("seorep_async.cli.profiles.COMMAND_SECONDS", 0.5)
    code = run(["pull", "--profile", "acme"])
    out, err = capfd.readouterr()
    assert (code, out) == (2, "")
    assert said.replace("{config}", str(folder / "config.toml")) in err
    assert (err[:7], err.count("\n"), KEY in err) == ("Error: ", 1, False)
    assert len(err) < 1500


@pytest.mark.parametrize(
    ("mode", "key", "is_refused"),
    [
        (0o600, f"key = '{KEY}'", False),
        (0o644, "key_command = 'echo k'", False),
        (0o644, f"key = '{KEY}'", True),
        (0o640, f"key = '{KEY}'", True),
        (0o620, "key_command = 'echo k'", True),
        (0o602, "key_command = 'echo k'", True),
    ],
)
def test_a_file_that_others_can_use_is_refused(
    folder: Path, mode: int, key: str, is_refused: bool
) -> None:
    configure(folder, f"[acme]\n{ADDRESS}{key}\n".encode())
    (folder / "config.toml").chmod(mode)
    with pytest.raises(UsageError, match="chmod 600") if is_refused else nullcontext():
        connect(Service(profile="acme"))


@pytest.mark.parametrize("bom", ["", "\N{BYTE ORDER MARK}"])
def test_a_byte_order_mark_is_no_part_of_a_profile_or_a_key(folder: Path, bom: str) -> None:
    (folder / "key").write_text(f"{bom}{KEY}\r\nmore\n", encoding="utf-8")
    configure(folder, f"{bom}[acme]\r\n{ADDRESS}key_command = 'cat {folder / 'key'}'\n".encode())
    assert connect(Service(profile="acme")).api_key == KEY


def test_what_a_command_prints_after_the_key_is_ignored(folder: Path) -> None:
    configure(
        folder, f"[acme]\n{ADDRESS}key_command = ['sh', '-c', 'echo {KEY}; seq 99999']\n".encode()
    )
    assert connect(Service(profile="acme")).api_key == KEY


def test_a_process_that_a_command_leaves_behind_holds_nothing_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "COMMAND_SECONDS", 3600.0)
    command = f"sleep 60 & echo $! > {folder}/left; echo {KEY}"
    configure(folder, f"[acme]\n{ADDRESS}key_command = ['sh', '-c', '{command}']\n".encode())
    assert connect(Service(profile="acme")).api_key == KEY
    os.kill(int((folder / "left").read_text()), signal.SIGKILL)
