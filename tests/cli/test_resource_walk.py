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


def test_keywords_are_listed_and_shown(seorep: Seorep) -> None:
    with seorep.account():
        listed = json.loads(seorep("keywords", "list", "--param", "campaign_id=2", "--json").out)
        assert {keyword["campaign_id"] for keyword in listed} == {2}
        assert len(listed) == 6
        assert json.loads(seorep("keywords", "get", listed[0]["id"], "--json").out) == listed[0]


def test_every_parameter_of_a_list_is_sent(seorep: Seorep) -> None:
    with seorep.account(campaigns=3):
        asked = ("backlinks", "list", "--campaign-id", 1, "--date-string", "2000-01-01", "2030-01-01", "--json")
        every = json.loads(seorep(*asked, "--sort-metric", "id", "--sort-direction", "desc", "--limit", 1).out)
        assert [link["id"] for link in every] == [100003, 100002, 100001]
        assert json.loads(seorep(*asked[:-2], "2000-01-02", "--json").out) == []
        published = json.loads(seorep(*asked, "--status", "published", "--link-type", "all").out)
        assert published == [link for link in reversed(every) if link["status"] == "published"]


def test_a_login_grant_goes_to_stdout_only(seorep: Seorep) -> None:
    with seorep.account():
        ended = seorep("users", "login-grant", 2, "--json")
        shown = seorep("users", "login-grant", 2).out
    grant = json.loads(ended.out)
    assert (ended.code, ended.err) == (0, "")
    assert list(grant) == ["token", "login_url", "user_id", "time", "origin_user_id"]
    assert grant["user_id"] == 2
    assert grant["token"]
    assert [line.split()[0] for line in shown.splitlines()] == list(grant)


# --- Questions: passwords, and whether to delete


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


NO_TERMINAL = "there is no terminal to ask for the password; pass it with --password-stdin"
CREATE, UPDATE = ("create", *WHO), ("update", "2")
STDIN = "--password-stdin"


@pytest.mark.parametrize(
    ("content", "command", "said"),
    [
        (b"", (*UPDATE, STDIN), "there is no password on stdin"),
        (b"\n", (*UPDATE, STDIN), "there is no password on stdin"),
        (b"0pen\nsesame\n", (*UPDATE, STDIN), "there is more than one line on stdin"),
        (b"0pen" * 20_000, (*UPDATE, STDIN), "there is more than one line on stdin"),
        (b"0pen\xff", (*UPDATE, STDIN), "the password is not valid UTF-8"),
        (b"0pen\n", CREATE, NO_TERMINAL),
        (b"0pen\n", (*UPDATE, "--ask-password"), NO_TERMINAL),
        (b"", (*UPDATE, "--password", "0pen-sesame"), STDIN),
        (b"", (*UPDATE, "--password=0pen", "0pen-sesame"), STDIN),
        (b"0pen\n", (*CREATE, "--param", "password=0pen", STDIN), ""),
        (b"0pen\n", (*UPDATE, "--param", "password=0pen", STDIN), ""),
    ],
)
def test_a_password_is_refused_without_being_shown(
    seorep: Seorep, content: bytes, command: tuple[str, ...], said: str
) -> None:
    seorep.give_stdin(content)
    with seorep.account() as sandbox:
        ended = seorep("users", *command)
        assert sandbox.stats.requests == 0
    assert ended.code == 2
    assert said in ended.err
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
