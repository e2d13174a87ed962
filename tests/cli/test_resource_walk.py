"""Create → list → get → update → delete through the commands, in each encoding of what is written."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from tests.cli.running import Seorep

ENCODINGS = ["form", "json", "query"]


@attrs.frozen
class Walk:
    noun: str
    create: dict[str, str]
    changes: dict[str, str]
    listed_by: tuple[str, ...]
    only_when_created: tuple[str, ...] = ()
    not_when_created: tuple[str, ...] = ()


WALKS = [
    Walk(
        "campaigns",
        {"url": "https://ä.example/?a=1&b=2", "company": "Füße & Co", "scope": "domain", "group_title": "New"},
        {"company": "Füße + Söhne", "group_title": ""},
        ("--filter", "Füße"),
        not_when_created=("group_title",),
    ),
    Walk(
        "users",
        {"first_name": "Ada", "last_name": "Byron", "username": "ada", "role": "client", "email": "ada@b.example"},
        {"last_name": "Lovelace", "role": "staff"},
        ("--filter", "ada"),
    ),
    Walk(
        "backlinks",
        {
            "campaign_id": "2",
            "title": "A link",
            "url": "https://l.example",
            "status": "published",
            "date_published": "2023-01-31",
            "link_type": "guest post",
            "target_anchor": "here",
            "target_url": "https://t.example",
            "notes": "x=1&y",
        },
        {"status": "unpublished", "date_published": "2023-02-28", "notes": ""},
        ("--campaign-id", "2", "--search", "A link"),
        only_when_created=("campaign_id",),
    ),
]


def options(values: dict[str, str]) -> list[str]:
    return [word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", value)]


def without(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.noun)
def test_a_walk(seorep: Seorep, monkeypatch: pytest.MonkeyPatch, walk: Walk, encoding: str) -> None:
    monkeypatch.setenv("SEOREP_REQUEST_ENCODING", encoding)

    def ask(*arguments: object) -> Any:
        ended = seorep(walk.noun, *arguments)
        assert ended.code == 0, ended.err
        return json.loads(ended.out) if ended.out else ended.err

    with seorep.account():
        seorep.give_stdin(b"pass w0rd\n")
        password = ["--password-stdin"] if walk.noun == "users" else []
        created = ask("create", *options(walk.create), *password, "--json")
        sent = {name: int(value) if name == "campaign_id" else value for name, value in walk.create.items()}
        assert created.items() >= without(sent, walk.not_when_created).items()
        number = created["id"]

        (listed,) = ask("list", *walk.listed_by, "--json")
        assert listed["id"] == number

        found = ask("get", number, "--json")
        assert found.items() >= without(sent, walk.only_when_created).items()

        seorep.give_stdin(b"other w0rd")
        changed = ask("update", number, *options(walk.changes), *password, "--json")
        for answer in (changed, ask("get", number, "--json")):
            assert {name: answer[name] or "" for name in walk.changes} == walk.changes

        assert ask("delete", number, "--yes") == f"Deleted {walk.noun[:-1]} {number}.\n"
        gone = seorep(walk.noun, "get", number)
        assert (gone.code, gone.out) == (2, "")
        assert gone.err.startswith(f"Error: {walk.noun[:-1]} {number}: there is no such object (status 404)\n")


def test_keywords_are_listed_and_shown(seorep: Seorep) -> None:
    with seorep.account():
        listed = json.loads(seorep("keywords", "list", "--param", "campaign_id=2", "--json").out)
        assert {keyword["campaign_id"] for keyword in listed} == {2}
        assert len(listed) == 6
        assert json.loads(seorep("keywords", "get", listed[0]["id"], "--json").out) == listed[0]


def test_roles_are_sent_as_the_array_encoding_says(seorep: Seorep) -> None:
    with seorep.account():
        for encoding in ("brackets", "repeat", "comma"):
            asked = ("users", "list", "--role", "admin", "--role", "owner", "--array-encoding", encoding, "--json")
            assert {user["role"] for user in json.loads(seorep(*asked).out)} == {"admin"}


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
