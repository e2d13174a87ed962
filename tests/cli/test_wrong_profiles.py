"""Profiles and keys that can't be used, beside those of `sessions/profiles.txt`: one line, code 2, without the key."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from seorep_async.cli.application import run
from seorep_async.cli.connection import connect

from seorep_async.cli import keys
from tests.cli.running import KEY, NO_OPTIONS

ADDRESS = 'base_url = "https://api.example.com"\n'
MANY = 50_000_000
DIGITS = "9" * 5000


def prepare(folder: Path) -> None:
    """Make what a `key_file` may name by mistake."""
    for name, content in {
        "empty": b"",
        "blank": b"\nkey\n",
        "nul": f"{KEY}\0\n".encode(),
        "latin-1": b"s3cr\xe9t\n",
        "utf-16": f"{KEY}\n".encode("utf-16"),
        "spaces": f"{KEY} \n".encode(),
        "long": KEY.encode() * 10_000,
        "huge": KEY.encode(),
        "public": KEY.encode(),
    }.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o644 if name == "public" else 0o600)
    os.truncate(folder / "huge", MANY)
    os.mkfifo(folder / "fifo", 0o600)
    (folder / "folder").mkdir()
    (folder / "dangling").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")
    (folder / "zeros").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "socket"))


KEYS = [
    (f"key = {KEY}", "can't read"),
    (f"key = '{KEY}'\nkey = '{KEY}'", "can't read"),
    ("", "profile acme: there is no key; set one of key_command, key_file, key_env."),
    ("key_file = '~nobody/key'", "can't read key_file /"),
    ('key_file = "key\\u0000"', "can't read key_file"),
    ("key_file = 'missing'", "No such file or directory"),
    (f"key_file = '{'x' * 500}'", "File name too long"),
    ("key_file = 'empty'", "the first line of the file is empty"),
    ("key_file = 'blank'", "the first line of the file is empty"),
    ("key_file = 'nul'", "key_file of profile acme holds"),
    ("key_file = 'latin-1'", "not UTF-8"),
    ("key_file = 'utf-16'", "not UTF-8"),
    ("key_file = 'spaces'", "key_file of profile acme begins or ends with a space"),
    ("key_file = 'long'", "more than 64 KiB"),
    ("key_file = 'huge'", "more than 64 KiB"),
    ("key_file = 'public'", "others can read or change"),
    ("key_file = 'fifo'", "it is not a regular file"),
    ("key_file = 'folder'", "Is a directory"),
    ("key_file = 'dangling'", "No such file or directory"),
    ("key_file = 'loop'", "Too many levels of symbolic links"),
    ("key_file = 'zeros'", "it is not a regular file"),
    ("key_file = 'socket'", "No such device or address"),
    ("key_command = 'sleep 30'", "key_command took longer than"),
    (f"key_command = ['sh', '-c', 'echo {KEY}; sleep 30; true']", "key_command took longer than"),
    (f"key_command = ['sh', '-c', 'echo {KEY}; exec >&-; sleep 30']", "key_command took longer than"),
    (f"key_command = 'yes {KEY}'", "more than 64 KiB"),
    (f"key_command = ['head', '-c', '{MANY}', '/dev/zero']", "more than 64 KiB"),
    (f"key_command = ['sh', '-c', 'yes {KEY}; true']", "more than 64 KiB"),
    ("key_command = ['printf', 's3cr\\351t']", "not UTF-8"),
]
SETTINGS = [
    ("account = 'Acme'", "base_url of profile acme must be set; or try --sandbox."),
    (f"{ADDRESS}max_attempts = {DIGITS}", "can't read"),
    (f"{ADDRESS}max_attempts = {'9' * 4000}", "max_attempts must be"),
    (f"{ADDRESS}{'x' * 100_000} = 3", "unknown setting 'xxx"),
]
FILES: list[tuple[bytes | str, str]] = [
    (b"", "there is no profile 'acme' in {config}; it has: none."),
    (b"[other]\n[third]", "there is no profile 'acme' in {config}; it has: other, third."),
    (b"[acme]\nbase_uri = 'x'", "profile acme: unknown setting 'base_uri'; did you mean base_url?"),
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
    (b"#" * 2_000_000, "more than 1024 KiB"),
    ("folder", "Is a directory"),
    ("fifo", "it is not a regular file"),
    ("zeros", "it is not a regular file"),
    ("loop", "does not exist"),
    ("dangling", "does not exist"),
    ("huge", "more than 1024 KiB"),
    ("public", "can't read"),
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
    return ascii(text.removeprefix(f"[acme]\n{ADDRESS}").removeprefix(f"[acme]\nkey = '{KEY}'\n"))[1:40]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("seorep_async.cli.keys._COMMAND_SECONDS", 60.0)
    (tmp_path / "seorep").mkdir()
    return tmp_path / "seorep"


@pytest.mark.parametrize(("content", "said"), CASES, ids=[name_of(content) for content, _ in CASES])
def test_it_is_refused_in_one_line(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, content: bytes | str, said: str
) -> None:
    configure(folder, content)
    if "took longer" in said:
        monkeypatch.setattr("seorep_async.cli.keys._COMMAND_SECONDS", 0.5)
    code = run(["pull", "--profile", "acme"])
    out, err = capfd.readouterr()
    assert (code, out) == (2, "")
    assert said.replace("{config}", str(folder / "config.toml")) in err
    assert (err[:7], err.count("\n"), KEY in err) == ("Error: ", 1, False)
    assert len(err) < 1500


@pytest.mark.parametrize("bom", ["", "\N{BYTE ORDER MARK}"])
@pytest.mark.parametrize("key", ["key_file = 'key'", "key_command = 'cat {key}'"])
def test_a_byte_order_mark_is_no_part_of_a_profile_or_a_key(
    folder: Path, monkeypatch: pytest.MonkeyPatch, bom: str, key: str
) -> None:
    (folder / "key").write_text(f"{bom}{KEY}\r\nmore\n", encoding="utf-8")
    (folder / "key").chmod(0o600)
    configure(folder, f"{bom}[acme]\r\n{ADDRESS}{key.format(key=folder / 'key')}\n".encode())
    assert connect({**NO_OPTIONS, "profile": "acme"}).api_key == KEY


def test_a_process_that_a_command_leaves_behind_holds_nothing_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def collect_late(*given: Any) -> None:
        time.sleep(0.2)
        collect(*given)

    collect = keys._collect
    monkeypatch.setattr(keys, "_collect", collect_late)
    monkeypatch.setattr(keys, "_COMMAND_SECONDS", 3600.0)
    command = f"sleep 60 & echo $! > {folder}/left; echo {KEY}"
    configure(folder, f"[acme]\n{ADDRESS}key_command = ['sh', '-c', '{command}']\n".encode())
    assert connect({**NO_OPTIONS, "profile": "acme"}).api_key == KEY
    left = (folder / "left").read_text().strip()
    assert subprocess.run(["ps", "-o", "stat=", "-p", left], capture_output=True, check=True).stdout[:1] == b"S"
    os.kill(int(left), signal.SIGKILL)
