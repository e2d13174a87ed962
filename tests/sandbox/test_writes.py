"""Executed writes and refused writes.

`requests.txt` has more of them, and `tests/resources/test_answers.py` the life of each record.
"""

from urllib.parse import parse_qs, urlsplit

import pytest

from tests.sandbox.calls import (
    CAMPAIGNS,
    FEEDS,
    LINKS,
    RIGHT_KEY,
    USERS,
    Caller,
)


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
