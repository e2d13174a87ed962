"""What may be written, and what is refused of a write; `tests/resources/test_answers.py` has the whole life of each."""

from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.sandbox.calls import (
    BACKLINKS,
    CAMPAIGN,
    CAMPAIGN_BY_DATE,
    CAMPAIGNS,
    CHANGES,
    FEEDS,
    KEYWORD_BY_DATE,
    LINKS,
    NEW,
    RIGHT_KEY,
    USERS,
    Caller,
    calling,
)

LISTS = {CAMPAIGNS: CAMPAIGNS, USERS: USERS, BACKLINKS: f"{LINKS}?campaign_id=2"}


@pytest.mark.parametrize(("path", "id_"), [(CAMPAIGNS, 2), (USERS, 2), (BACKLINKS, 200_002)])
async def test_seeded_records_change_and_go_like_created_ones(
    path: str, id_: int, call: Caller
) -> None:
    before = [record["id"] for record in (await call.get(LISTS[path]))["data"]]
    changed = await call.written("PUT", f"{path}/{id_}", CHANGES[path])
    assert CHANGES[path].items() <= changed.items()
    assert [record["id"] for record in (await call.get(LISTS[path]))["data"]] == before
    gone = await call.send(f"{path}/{id_}", method="DELETE")
    assert (gone.status, gone.body, gone.headers.get("Content-Type")) == (204, b"", None)
    if path != CAMPAIGNS:
        before.remove(id_)
        assert [record["id"] for record in (await call.get(LISTS[path]))["data"]] == before


@pytest.mark.parametrize("path", NEW)
async def test_an_empty_update_changes_nothing_and_ids_are_new(path: str, call: Caller) -> None:
    first = (await call.create(path))["id"]
    before = await call.get(f"{path}/{first}")
    await call.written("PUT", f"{path}/{first}", {})
    assert await call.get(f"{path}/{first}") == before
    await call.send(f"{path}/{first}", method="DELETE")
    assert (await call.create(path))["id"] == first + 1


async def test_only_what_must_be_given_need_be(call: Caller) -> None:
    campaign = await call.written("POST", CAMPAIGNS, {"url": "u", "company": "c"})
    user = await call.written("POST", USERS, {k: v for k, v in NEW[USERS].items() if k != "email"})
    required = ("campaign_id", "title", "url", "status", "date_published")
    backlink = await call.written(
        "POST", BACKLINKS, {name: NEW[BACKLINKS][name] for name in required}
    )
    assert (await call.get(f"{CAMPAIGNS}/{campaign['id']}"))["data"]["group_title"] is None
    assert (campaign["scope"], campaign["date_modified"]) == ("domain", None)
    assert (user["email"], user["campaign_access"]) == ("", "restricted")
    assert {backlink[name] for name in ("link_type", "target_anchor", "target_url", "notes")} == {
        ""
    }
    assert backlink["domain_authority"] == backlink["page_authority"] == 0


async def test_what_is_written_bears_the_clock_s_time() -> None:
    now = datetime(2023, 4, 5, 6, 7, 8, 9)
    async with calling(clock=lambda: now) as call:
        campaign, user, backlink = [
            await call.create(path) for path in (CAMPAIGNS, USERS, BACKLINKS)
        ]
        now = datetime(2023, 4, 6)
        updated = await call.written("PUT", f"{CAMPAIGNS}/{campaign['id']}", {"scope": "page"})
        grant = (await call.get(f"{USERS}/{user['id']}/loginGrant"))["data"]
    assert (
        campaign["date_created"]
        == user["date_created"]
        == updated["date_created"]
        == "2023-04-05 06:07:08"
    )
    assert (campaign["date_modified"], updated["date_modified"]) == (None, "2023-04-06 00:00:00")
    assert backlink["date_created"] == "2023-04-05"
    assert grant["time"] == "2023-04-06 00:00:00"


async def test_a_created_campaign_has_no_keywords_backlinks_or_ranks(call: Caller) -> None:
    id_ = (await call.create(CAMPAIGNS))["id"]
    assert await call.feed(CAMPAIGN, campaign_id=id_) == []
    assert {
        row["engineARanking"] for row in await call.feed(CAMPAIGN_BY_DATE, campaign_id=id_)
    } == {None}
    assert (await call.get("/v3/keywords", campaign_id=id_))["data"] == []
    assert (await call.get(LINKS, campaign_id=id_))["data"] == []


async def test_a_deleted_campaign_takes_everything_with_it(call: Caller) -> None:
    created = (await call.create(BACKLINKS))["id"]
    for (
        path,
        query,
    ) in FEEDS.items():  # answered once before, so that nothing is answered from memory
        assert await call.status(path, **query) == 200
    assert (await call.get("/v3/keywords"))["metadata"]["total_records"] == 240
    await call.send(f"{CAMPAIGNS}/2", method="DELETE")
    assert (await call.get("/v3/keywords"))["metadata"]["total_records"] == 200
    for path, query in {**FEEDS, LINKS: {"campaign_id": 2}}.items():
        assert await call.status(path, **query) == 404
    for path in ("/v3/keywords/200001", f"{BACKLINKS}/200001", f"{BACKLINKS}/{created}"):
        assert await call.status(path) == 404


async def test_rankings_stay_when_a_campaign_s_address_changes() -> None:
    async with calling() as first:
        before = await first.feed(KEYWORD_BY_DATE)
    async with calling() as call:
        await call.written("PUT", f"{CAMPAIGNS}/2", {"url": "https://elsewhere.example"})
        assert await call.feed(KEYWORD_BY_DATE) == before


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [(CAMPAIGNS, "group_title", None), (USERS, "email", ""), (BACKLINKS, "target_anchor", "")],
)
async def test_an_empty_value_clears_what_may_be_empty(
    path: str, name: str, value: Any, call: Caller
) -> None:
    record = await call.create(path)
    assert (await call.written("PUT", f"{path}/{record['id']}", {name: ""}))[name] == value


@pytest.mark.parametrize(
    ("path", "status"), [(CAMPAIGNS, 500), (LINKS, 500), (BACKLINKS, 500), (USERS, 200)]
)
async def test_a_failing_campaign_fails_for_writes_too(path: str, status: int) -> None:
    async with calling(failing=[2]) as call:
        if path == LINKS:
            assert await call.status(path, campaign_id=2) == status
        else:
            method, target = ("POST", path) if path == BACKLINKS else ("PUT", f"{path}/2")
            assert (await call.write(method, target, NEW[path])).status == status


# --- Users: unique names, roles, passwords and login grants


async def test_a_username_is_given_once(call: Caller) -> None:
    created, seeded = await call.create(USERS), (await call.get(f"{USERS}/3"))["data"]
    for user in (created, seeded):
        for method, path in (("POST", USERS), ("PUT", f"{USERS}/2")):
            reply = await call.write(method, path, NEW[USERS] | {"username": user["username"]})
            assert (reply.status, reply.json()["code"]) == (409, 409)
            assert "username" in reply.json()["message"]
        own = await call.write("PUT", f"{USERS}/{user['id']}", {"username": user["username"]})
        assert own.status == 200
    assert (await call.get(USERS))["metadata"]["total_records"] == 6


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_name_is_free_again_once_nobody_has_it(method: str, call: Caller) -> None:
    first = await call.create(USERS)
    await call.write(method, f"{USERS}/{first['id']}", {"username": "somebody else"})
    assert (await call.create(USERS))["username"] == first["username"]


@pytest.mark.parametrize(
    "raw", ["role=client&role=admin", "role[]=client&role[]=admin", "role=client,admin"]
)
async def test_roles_are_understood_in_three_encodings(raw: str) -> None:
    async with calling(users=40) as call:
        everyone = (await call.get(USERS, limit=100))["data"]
        found = (await call.get(f"{USERS}?{raw}&limit=100"))["data"]
    assert found == [user for user in everyone if user["role"] in ("client", "admin")]
    assert 0 < len(found) < 40


async def test_no_password_is_ever_shown(call: Caller) -> None:
    await call.written("PUT", f"{USERS}/1", {"password": "canary"})
    for reply in (await call.send(USERS, {"limit": 1}), await call.send(f"{USERS}/1")):
        assert b'"password":null' in reply.body
        assert b"canary" not in reply.body


async def test_each_login_grant_is_new_its_address_has_another_token(call: Caller) -> None:
    grants = [(await call.get(f"{USERS}/3/loginGrant"))["data"] for _ in range(3)]
    inside = [parse_qs(urlsplit(grant["login_url"]).query)["token"][0] for grant in grants]
    assert len({*inside, *(grant["token"] for grant in grants)}) == 6
    assert {(grant["user_id"], grant["origin_user_id"]) for grant in grants} == {(3, 1)}


# --- What is refused of a write, and how the three encodings mix


JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
REQUIRED = {
    CAMPAIGNS: ("url", "company"),
    USERS: ("first_name", "last_name", "username", "password", "role"),
    BACKLINKS: ("campaign_id", "title", "url", "status", "date_published"),
}


@pytest.mark.parametrize("encoding", ["form", "json", "query"])
async def test_a_required_field_that_is_missing_is_named(encoding: str, call: Caller) -> None:
    for path, name in [(path, name) for path, names in REQUIRED.items() for name in names]:
        fields = {key: value for key, value in NEW[path].items() if key != name}
        reply = await call.write("POST", path, fields, encoding)
        assert (reply.status, reply.json()["message"]) == (400, f"{name} is required")


WRONG_TYPES: dict[str, dict[str, list[Any]]] = {
    CAMPAIGNS: {"url": [5], "company": [None, ["a"]], "group_title": [{}]},
    USERS: {"role": [True]},
    BACKLINKS: {
        "campaign_id": ["2", True, 2.5, 2**31, 10**400, -1],
        "status": ["draft", "Published"],
        "date_published": ["2022-02-30", "2022-02-03 00:00:00", 20220203],
    },
}


async def test_a_field_of_the_wrong_type_in_json_is_named(call: Caller) -> None:
    for path, fields in WRONG_TYPES.items():
        for name, value in ((name, value) for name, values in fields.items() for value in values):
            reply = await call.write("POST", path, NEW[path] | {name: value}, "json")
            assert (value, reply.status, reply.json()["message"].split(" must be ")[0]) == (
                value,
                400,
                name,
            )


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        *(
            (CAMPAIGNS, "url", ""),
            (USERS, "username", ""),
            (BACKLINKS, "title", ""),
            (BACKLINKS, "status", ""),
        ),
        (BACKLINKS, "date_published", "tomorrow"),
    ],
)
async def test_an_update_is_held_to_the_same_rules(
    path: str, name: str, value: str, call: Caller
) -> None:
    one = f"{path}/{(await call.create(path))['id']}"
    before = await call.get(one)
    reply = await call.write("PUT", one, {name: value})
    assert (reply.status, reply.json()["message"].split(" must be ")[0]) == (400, name)
    assert await call.get(one) == before


BAD_BODIES: tuple[tuple[int, dict[str, str], bytes], ...] = (
    *((400, JSON, b"{"), (400, JSON, b"[]"), (400, JSON, b"null"), (400, JSON, b"\xff")),
    *(
        (400, JSON, b'{"url": "\\ud800"}'),
        (400, JSON, b"[" * 100_000),
        (400, JSON, b'{"url": ' + b"9" * 10_000 + b"}"),
    ),
    *((400, FORM, b"\xff"), (400, FORM, b"url"), (400, FORM, b"&&=&;")),
    (415, {"Content-Type": "text/plain"}, b"url=u&company=c"),
    *(
        (415, {"Content-Type": "application/json-patch+json"}, b"{}"),
        (415, {"Content-Type": "nonsense"}, b"{}"),
    ),
    (415, {"Content-Type": "multipart/form-data; boundary=x"}, b"--x--"),
    *(
        (400, {**JSON, "Content-Encoding": "gzip"}, b"\x1f\x8b"),
        (400, {"Content-Type": "text/plain"}, b""),
    ),
    (413, JSON, b" " * 300_000),
)


async def test_a_body_that_is_no_form_and_no_object_is_refused(call: Caller) -> None:
    for status, headers, content in BAD_BODIES:
        async with call.session.post(
            call.sandbox.base_url + CAMPAIGNS,
            data=content,
            headers={"Authorization": RIGHT_KEY, **headers},
            skip_auto_headers=["Content-Type"],
        ) as response:
            assert (response.status, (await response.json())["code"]) == (status, status), content[
                :50
            ]
    assert (await call.get(CAMPAIGNS))["metadata"]["total_records"] == 6


@pytest.mark.parametrize("body", ["data", "json"])
async def test_the_body_counts_where_the_query_says_something_else(body: str, call: Caller) -> None:
    query = {"company": "from the query", "url": "from the query"}
    reply = await call.send(
        CAMPAIGNS, query, method="POST", body={body: {"company": "from the body"}}
    )
    assert (reply.json()["data"]["company"], reply.json()["data"]["url"]) == (
        "from the body",
        "from the query",
    )


@pytest.mark.parametrize("encoding", ["form", "json", "query"])
async def test_fields_that_are_not_known_are_ignored(encoding: str, call: Caller) -> None:
    record = await call.written(
        "POST", CAMPAIGNS, {**NEW[CAMPAIGNS], "id": "9", "account_id": "5"}, encoding
    )
    assert (record["id"], record["account_id"]) != (9, 5)
