"""Users: unique names, roles, passwords and login grants."""

from urllib.parse import parse_qs, urlsplit

import pytest

from tests.sandbox.calls import NEW, USERS, Caller, calling


async def test_a_username_is_given_once(call: Caller) -> None:
    await call.create(USERS)
    reply = await call.write("POST", USERS, NEW[USERS])
    assert (reply.status, reply.json()["code"]) == (409, 409)
    assert "username" in reply.json()["message"]
    assert (await call.get(USERS))["metadata"]["total_records"] == 6


async def test_a_seeded_user_s_name_is_taken_too(call: Caller) -> None:
    taken = (await call.get(f"{USERS}/3"))["data"]["username"]
    assert (await call.write("POST", USERS, NEW[USERS] | {"username": taken})).status == 409


async def test_an_update_may_repeat_its_own_name_but_not_another_s(call: Caller) -> None:
    taken = (await call.get(f"{USERS}/3"))["data"]["username"]
    assert (await call.write("PUT", f"{USERS}/2", {"username": taken})).status == 409
    assert (await call.write("PUT", f"{USERS}/3", {"username": taken})).status == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_name_is_free_again_once_nobody_has_it(method: str, call: Caller) -> None:
    first = await call.create(USERS)
    await call.write(method, f"{USERS}/{first['id']}", {"username": "somebody else"})
    assert (await call.create(USERS))["username"] == first["username"]


async def test_seeded_usernames_are_unique() -> None:
    async with calling(users=1500, max_limit=2000) as call:
        users = (await call.get(USERS, limit=2000))["data"]
    assert len({user["username"] for user in users}) == len(users) == 1500


@pytest.mark.parametrize("raw", ["role=client&role=admin", "role[]=client&role[]=admin", "role=client,admin"])
async def test_roles_are_understood_in_three_encodings(raw: str) -> None:
    async with calling(users=40) as call:
        everyone = (await call.get(USERS, limit=100))["data"]
        found = (await call.get(f"{USERS}?{raw}&limit=100"))["data"]
    assert found == [user for user in everyone if user["role"] in ("client", "admin")]
    assert 0 < len(found) < 40


@pytest.mark.parametrize("raw", ["role=", "role[]=", "role=,"])
async def test_no_role_means_all_of_them(raw: str, call: Caller) -> None:
    assert (await call.get(f"{USERS}?{raw}"))["metadata"]["total_records"] == 5


@pytest.mark.parametrize("path", [USERS, f"{USERS}/1"])
async def test_no_password_is_ever_shown(path: str, call: Caller) -> None:
    await call.written("PUT", f"{USERS}/1", {"password": "canary"})
    reply = await call.send(path)
    data = reply.json()["data"]
    assert (data[0] if isinstance(data, list) else data)["password"] is None
    assert b"canary" not in reply.body


async def test_each_login_grant_is_new_its_address_has_another_token(call: Caller) -> None:
    grants = [(await call.get(f"{USERS}/3/loginGrant"))["data"] for _ in range(3)]
    inside = [parse_qs(urlsplit(grant["login_url"]).query)["token"][0] for grant in grants]
    assert len({*inside, *(grant["token"] for grant in grants)}) == 6
    assert {(grant["user_id"], grant["origin_user_id"]) for grant in grants} == {(3, 1)}
