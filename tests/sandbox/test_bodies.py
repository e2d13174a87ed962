"""What is refused of a write, and how the three encodings mix."""

from typing import Any

import pytest

from tests.sandbox.calls import BACKLINKS, CAMPAIGNS, NEW, RIGHT_KEY, USERS, Caller

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
            assert (value, reply.status, reply.json()["message"].split(" must be ")[0]) == (value, 400, name)


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        (CAMPAIGNS, "url", ""),
        (USERS, "username", ""),
        (BACKLINKS, "title", ""),
        (BACKLINKS, "status", ""),
        (BACKLINKS, "date_published", "tomorrow"),
    ],
)
async def test_an_update_is_held_to_the_same_rules(path: str, name: str, value: str, call: Caller) -> None:
    one = f"{path}/{(await call.create(path))['id']}"
    before = await call.get(one)
    reply = await call.write("PUT", one, {name: value})
    assert (reply.status, reply.json()["message"].split(" must be ")[0]) == (400, name)
    assert await call.get(one) == before


BAD_BODIES: tuple[tuple[int, dict[str, str], bytes], ...] = (
    (400, JSON, b"{"),
    (400, JSON, b"[]"),
    (400, JSON, b"null"),
    (400, JSON, b"\xff"),
    (400, JSON, b'{"url": "\\ud800"}'),
    (400, JSON, b"[" * 100_000),
    (400, JSON, b'{"url": ' + b"9" * 10_000 + b"}"),
    (400, FORM, b"\xff"),
    (400, FORM, b"url"),
    (400, FORM, b"&&=&;"),
    (415, {"Content-Type": "text/plain"}, b"url=u&company=c"),
    (415, {"Content-Type": "application/json-patch+json"}, b"{}"),
    (415, {"Content-Type": "nonsense"}, b"{}"),
    (415, {"Content-Type": "multipart/form-data; boundary=x"}, b"--x--"),
    (415, {**JSON, "Content-Encoding": "gzip"}, b"\x1f\x8b"),
    (400, {"Content-Type": "text/plain"}, b""),
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
            assert (response.status, (await response.json())["code"]) == (status, status), content[:50]
    assert (await call.get(CAMPAIGNS))["metadata"]["total_records"] == 6


@pytest.mark.parametrize("body", ["data", "json"])
async def test_the_body_counts_where_the_query_says_something_else(body: str, call: Caller) -> None:
    query = {"company": "from the query", "url": "from the query"}
    reply = await call.send(CAMPAIGNS, query, method="POST", body={body: {"company": "from the body"}})
    assert (reply.json()["data"]["company"], reply.json()["data"]["url"]) == ("from the body", "from the query")


@pytest.mark.parametrize("encoding", ["form", "json", "query"])
async def test_fields_that_are_not_known_are_ignored(encoding: str, call: Caller) -> None:
    record = await call.written("POST", CAMPAIGNS, {**NEW[CAMPAIGNS], "id": "9", "account_id": "5"}, encoding)
    assert (record["id"], record["account_id"]) != (9, 5)


@pytest.mark.parametrize("path", NEW)
async def test_each_write_is_carried_out_once_and_counted(path: str, call: Caller) -> None:
    ids = [(await call.create(path, username=f"user {number}"))["id"] for number in range(3)]
    assert ids == [ids[0], ids[0] + 1, ids[0] + 2]
    assert call.sandbox.stats.per_operation == {f"POST {path}": 3}
