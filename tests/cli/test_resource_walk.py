"""Resources from creation to deletion through the commands, and what these ask a person for."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Seorep, terminal
from tests.sandbox import calls

NEW: dict[str, dict[str, Any]] = {
    "campaigns": calls.NEW[calls.CAMPAIGNS],
    "users": {k: v for k, v in calls.NEW[calls.USERS].items() if k not in ("password", "email_credentials")},
    "backlinks": calls.NEW[calls.BACKLINKS],
}
CHANGES = {path.rpartition("/")[2]: values for path, values in calls.CHANGES.items()}
LISTED_BY = {
    "campaigns": ("--filter", "Wren & Søn"),
    "users": ("--filter", "ida"),
    "backlinks": ("--campaign-id", "2", "--search", "Ten wrens"),
}


def options(values: dict[str, Any]) -> list[str]:
    return [word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {one: value for one, value in values.items() if one != name}


@pytest.mark.parametrize("encoding", ["form", "json", "query"])
@pytest.mark.parametrize("noun", NEW)
def test_a_walk(seorep: Seorep, monkeypatch: pytest.MonkeyPatch, noun: str, encoding: str) -> None:
    monkeypatch.setenv("SEOREP_REQUEST_ENCODING", encoding)
    new, changes = NEW[noun], CHANGES[noun]

    def ask(*arguments: object) -> Any:
        ended = seorep(noun, *arguments)
        assert ended.code == 0, ended.err
        return json.loads(ended.out) if ended.out else ended.err

    with seorep.account():
        seorep.give_stdin(b"pass w0rd\n")
        password = ["--password-stdin"] if noun == "users" else []
        created = ask("create", *options(new), *password, "--json")
        assert created.items() >= without(new, "group_title").items()
        number = created["id"]
        (listed,) = ask("list", *LISTED_BY[noun], "--json")
        assert listed["id"] == number
        assert ask("get", number, "--json").items() >= without(new, "campaign_id").items()
        seorep.give_stdin(b"other w0rd")
        changed = ask("update", number, *options(changes), *password, "--json")
        for answer in (changed, ask("get", number, "--json")):
            assert {name: answer[name] or "" for name in changes} == changes
        assert ask("delete", number, "--yes") == f"Deleted {noun[:-1]} {number}.\n"
        gone = seorep(noun, "get", number)
        assert (gone.code, gone.out) == (2, "")
        assert gone.err.startswith(f"Error: {noun[:-1]} {number}: there is no such object (status 404)\n")


# --- Passwords


PASSWORD = "0pen-sesame"
WHO = ("--first-name", "A", "--last-name", "B", "--username", "ab", "--role", "client")


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


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (b"0pen" * 20_000, ["--password-stdin"], "there is more than one line on stdin"),
        (b"", ["--password", "0pen-sesame"], "--password-stdin"),
        (b"", ["--password=0pen", "0pen-sesame"], "--password-stdin"),
    ],
)
def test_a_refused_password_is_not_shown(seorep: Seorep, content: bytes, options: list[str], said: str) -> None:
    seorep.give_stdin(content)
    with seorep.account() as sandbox:
        ended = seorep("users", "update", "2", *options)
    assert (ended.code, sandbox.stats.requests, "0pen" in ended.err) == (2, 0, False)
    assert said in ended.err


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
