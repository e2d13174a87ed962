"""Executed writes and refused writes.

`tests/resources/test_answers.py` has the whole life of each record.
"""

from datetime import datetime
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.sandbox.calls import (
    BACKLINKS,
    CAMPAIGNS,
    FEEDS,
    LINKS,
    NEW,
    RIGHT_KEY,
    USERS,
    Caller,
    calling,
)

REQUIRED = {
    CAMPAIGNS: ("url", "company"),
    USERS: ("first_name", "last_name", "username", "password", "role"),
    BACKLINKS: ("campaign_id", "title", "url", "status", "date_published"),
}


async def test_only_required_fields_are_needed(call: Caller) -> None:
    campaign = await call.written("POST", CAMPAIGNS, {"url": "u", "company": "c"})
    required_user = {name: NEW[USERS][name] for name in REQUIRED[USERS]}
    user = await call.written("POST", USERS, required_user)
    required_backlink = {name: NEW[BACKLINKS][name] for name in REQUIRED[BACKLINKS]}
    backlink = await call.written("POST", BACKLINKS, required_backlink)
    assert (campaign["scope"], campaign["date_modified"]) == ("domain", None)
    assert (user["email"], user["campaign_access"]) == ("", "restricted")
    assert (backlink["notes"], backlink["page_authority"]) == ("", 0)


async def test_a_written_record_has_the_time_of_the_clock() -> None:
    now = datetime(2023, 4, 5, 6, 7, 8, 9)
    async with calling(clock=lambda: now) as call:
        campaign = await call.create(CAMPAIGNS)
        backlink = await call.create(BACKLINKS)
        now = datetime(2023, 4, 6)
        updated = await call.written("PUT", f"{CAMPAIGNS}/{campaign['id']}", {"scope": "page"})
    assert campaign["date_created"] == updated["date_created"] == "2023-04-05 06:07:08"
    assert (campaign["date_modified"], updated["date_modified"]) == (None, "2023-04-06 00:00:00")
    assert backlink["date_created"] == "2023-04-05"


async def test_deleting_a_campaign_deletes_its_objects(call: Caller) -> None:
    # Each feed is answered once before, because the service remembers recent results.
    for path, query in FEEDS.items():
        assert await call.status(path, **query) == 200
    assert await call.count("/v3/keywords") == 240
    await call.send(f"{CAMPAIGNS}/2", method="DELETE")
    assert await call.count("/v3/keywords") == 200
    for path, query in {**FEEDS, LINKS: {"campaign_id": 2}}.items():
        assert await call.status(path, **query) == 404
    assert await call.status("/v3/keywords/200001") == 404


# --- Users: unique names, roles, passwords and login grants


async def test_a_username_can_be_used_once(call: Caller) -> None:
    created = await call.create(USERS)
    seeded = await call.data(f"{USERS}/3")
    for user in (created, seeded):
        username = {"username": user["username"]}
        for method, path in (("POST", USERS), ("PUT", f"{USERS}/2")):
            reply = await call.write(method, path, NEW[USERS] | username)
            assert (reply.status, reply.json()["code"]) == (409, 409)
            assert "username" in reply.json()["message"]
        own_name = await call.write("PUT", f"{USERS}/{user['id']}", username)
        assert own_name.status == 200
    assert await call.count(USERS) == 6


@pytest.mark.parametrize(
    "raw", ["role=client&role=admin", "role[]=client&role[]=admin", "role=client,admin"]
)
async def test_roles_are_understood_in_three_encodings(raw: str) -> None:
    async with calling(users=40) as call:
        every_user = await call.data(USERS, limit=100)
        users = await call.data(f"{USERS}?{raw}&limit=100")
    assert users == [user for user in every_user if user["role"] in ("client", "admin")]
    assert 0 < len(users) < 40


async def test_no_password_is_ever_shown(call: Caller) -> None:
    await call.written("PUT", f"{USERS}/1", {"password": "canary"})
    for reply in (await call.send(USERS, {"limit": 1}), await call.send(f"{USERS}/1")):
        assert b'"password":null' in reply.body
        assert b"canary" not in reply.body


async def test_each_login_grant_is_new_its_address_has_another_token(call: Caller) -> None:
    grants = [await call.data(f"{USERS}/3/loginGrant") for _ in range(3)]
    tokens = {grant["token"] for grant in grants}
    for grant in grants:
        query = parse_qs(urlsplit(grant["login_url"]).query)
        tokens.add(query["token"][0])
    assert len(tokens) == 6
    assert {(grant["user_id"], grant["origin_user_id"]) for grant in grants} == {(3, 1)}


# --- What is refused of a write, and how the three encodings mix


JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


TEXT = {"Content-Type": "text/plain"}


@pytest.mark.parametrize(
    ("status", "headers", "content"),
    [
        pytest.param(400, JSON, b"{", id="cut JSON"),
        pytest.param(400, JSON, b"[]", id="a list"),
        pytest.param(400, JSON, b"\xff", id="not UTF-8"),
        pytest.param(400, JSON, b'{"url": "\\ud800"}', id="half a surrogate"),
        pytest.param(400, JSON, b"[" * 100_000, id="deep JSON"),
        pytest.param(400, JSON, b'{"url": ' + b"9" * 10_000 + b"}", id="a long number"),
        pytest.param(400, FORM, b"\xff", id="a form that is not UTF-8"),
        pytest.param(400, FORM, b"url", id="a name without a value"),
        pytest.param(400, {**JSON, "Content-Encoding": "gzip"}, b"\x1f\x8b", id="cut gzip"),
        pytest.param(400, TEXT, b"", id="nothing"),
        pytest.param(415, TEXT, b"url=u&company=c", id="text"),
        pytest.param(415, {"Content-Type": "nonsense"}, b"{}", id="nonsense"),
        pytest.param(
            415,
            {"Content-Type": "multipart/form-data; boundary=x"},
            b"--x--",
            id="multipart",
        ),
        pytest.param(413, JSON, b" " * 300_000, id="too large"),
    ],
)
async def test_a_body_must_be_a_form_or_a_json_object(
    call: Caller, status: int, headers: dict[str, str], content: bytes
) -> None:
    async with call.session.post(
        call.sandbox.base_url + CAMPAIGNS,
        data=content,
        headers={"Authorization": RIGHT_KEY, **headers},
        skip_auto_headers=["Content-Type"],
    ) as response:
        assert response.status == status
        assert (await response.json())["code"] == status
    assert await call.count(CAMPAIGNS) == 6
