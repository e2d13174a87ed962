"""What the commands ask a person for: passwords, and whether to delete; and where there is no person to ask."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.running import Seorep
from tests.cli.terminal_session import terminal

PASSWORD = "0pen-sesame"
WHO = ("--first-name", "A", "--last-name", "B", "--username", "ab", "--role", "client")


# --- Passwords


def test_a_password_is_asked_for_twice_and_not_shown(seorep: Seorep) -> None:
    with seorep.account() as sandbox, terminal("users", "create", *WHO) as person:
        person.wait_for("Password: ")
        assert sandbox.stats.requests == 0
        person.type(f"{PASSWORD}\n")
        person.wait_for("Repeat the password: ")
        person.type("0pen-something\n")
        person.wait_for("do not match")
        for question in ("Password: ", "Repeat the password: "):
            person.wait_for(question)
            person.type(f"{PASSWORD}\n")
        assert person.end() == 0
    assert "Created user 6." in person.shown
    assert "0pen" not in person.shown


def test_a_password_is_not_in_the_process_list(seorep: Seorep) -> None:
    with seorep.account(latency=100.0) as sandbox, terminal("users", "update", "2", "--ask-password") as person:
        for question in ("Password: ", "Repeat the password: "):
            person.wait_for(question)
            person.type(f"{PASSWORD}\n")
        while not sandbox.stats.requests:
            time.sleep(0.01)
        seen = subprocess.run(["ps", "axeww"], capture_output=True, text=True, check=True).stdout
    assert "--ask-password" in seen
    assert PASSWORD not in seen


def test_ctrl_c_at_the_password_is_130(seorep: Seorep) -> None:
    with seorep.account() as sandbox, terminal("users", "create", *WHO) as person:
        person.wait_for("Password: ")
        assert person.interrupt() == 130
        assert sandbox.stats.requests == 0
    assert "Interrupted." in person.shown


@pytest.mark.parametrize("line", [b"0pen sesame", b"0pen sesame\n", b"0pen sesame\r\n", "0pen ßesame ".encode()])
def test_a_password_is_one_line_of_stdin(seorep: Seorep, line: bytes) -> None:
    seorep.give_stdin(line)
    with seorep.account():
        ended = seorep("users", "create", *WHO, "--password-stdin", "--json")
    assert ended.code == 0
    assert "0pen" not in ended.out + ended.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "there is no password on stdin"),
        (b"\n", "there is no password on stdin"),
        (b"0pen\nsesame\n", "there is more than one line on stdin"),
        (b"0pen" * 20_000, "there is more than one line on stdin"),
        (b"0pen\xff", "the password is not valid UTF-8"),
    ],
)
def test_a_wrong_stdin_is_refused_without_showing_it(seorep: Seorep, content: bytes, said: str) -> None:
    seorep.give_stdin(content)
    with seorep.account() as sandbox:
        ended = seorep("users", "update", 2, "--password-stdin")
        assert sandbox.stats.requests == 0
    assert ended.code == 2
    assert said in ended.err
    assert "0pen" not in ended.err


@pytest.mark.parametrize("command", [("create", *WHO), ("update", 2, "--ask-password")])
def test_without_a_terminal_a_password_can_not_be_asked_for(seorep: Seorep, command: tuple[object, ...]) -> None:
    seorep.give_stdin(b"sesame\n")
    with seorep.account():
        ended = seorep("users", *command)
    assert ended.code == 2
    assert "there is no terminal to ask for the password; pass it with --password-stdin" in ended.err


@pytest.mark.parametrize("argument", ["--password", "--password=0pen"])
def test_a_password_is_no_argument(seorep: Seorep, argument: str) -> None:
    with seorep.account():
        ended = seorep("users", "update", 2, argument, "0pen-sesame")
    assert ended.code == 2
    assert "--password-stdin" in ended.err
    assert "0pen" not in ended.err


@pytest.mark.parametrize("command", [("create", *WHO), ("update", 2)])
def test_a_password_is_no_additional_parameter_either(seorep: Seorep, command: tuple[object, ...]) -> None:
    seorep.give_stdin(b"sesame\n")
    with seorep.account() as sandbox:
        ended = seorep("users", *command, "--param", "password=0pen", "--password-stdin")
        assert sandbox.stats.requests == 0
    assert ended.code == 2
    assert "0pen" not in ended.err


def test_a_user_is_changed_without_a_password(seorep: Seorep) -> None:
    with seorep.account():
        assert seorep("users", "update", 2, "--first-name", "Gro").code == 0


# --- Deleting


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 130), ("\x04", 130), (None, 130)])
def test_a_person_is_asked_whether_to_delete(seorep: Seorep, answer: str | None, code: int) -> None:
    with seorep.account():
        with terminal("campaigns", "delete", "2") as person:
            person.wait_for("Delete campaign 2 (Maple Garden, https://www.maple-garden.example)? [y/N]: ")
            if answer is None:
                assert person.interrupt() == code
            else:
                person.type(answer)
                assert person.end() == code
        assert seorep("campaigns", "get", 2).code == (0 if code else 2)
    if answer == "y\n":
        assert "Deleted campaign 2." in person.shown
    elif answer == "\n":
        assert "Nothing was deleted." in person.shown


def test_without_a_terminal_nothing_is_deleted_unless_it_is_sure(seorep: Seorep) -> None:
    seorep.give_stdin(b"y\n")
    with seorep.account() as sandbox:
        ended = seorep("users", "delete", 2)
        assert sandbox.stats.requests == 0
        assert seorep("users", "delete", 2, "--yes").code == 0
    assert ended.code == 2
    assert "pass --yes" in ended.err


def test_a_missing_object_needs_no_confirmation(seorep: Seorep) -> None:
    with seorep.account(), terminal("campaigns", "delete", "99") as person:
        assert person.end() == 2
    assert "there is no such object" in person.shown
    assert "Delete" not in person.shown


# --- On a terminal


@pytest.mark.parametrize("noun", ["campaigns", "users", "keywords", "backlinks"])
def test_a_list_on_a_terminal_fits_into_80_columns(seorep: Seorep, noun: str) -> None:
    more = ("--campaign-id", "1") if noun == "backlinks" else ()
    with seorep.account(), terminal(noun, "list", *more, environment={"TERM": "dumb"}) as person:
        assert person.end() == 0
    header, *lines = person.shown.splitlines()
    assert header.startswith(("id ", "    id "))
    assert len(lines) >= 3
    assert max(len(line) for line in (header, *lines)) <= 80


def test_no_color_leaves_out_colours(seorep: Seorep) -> None:
    with seorep.account(), terminal("campaigns", "get", "99", environment={"NO_COLOR": "1"}) as person:
        assert person.end() == 2
    assert "\x1b[31" not in person.shown
    assert "\x1b[1;31" not in person.shown


def test_a_cut_list_shows_how_many_there_are(seorep: Seorep, tmp_path: Path) -> None:
    with seorep.account(), terminal("campaigns", "list", "--max", "2", environment={"TERM": "dumb"}) as person:
        assert person.end() == 0
    assert person.shown.splitlines()[-1] == "2 of 4 campaigns."
