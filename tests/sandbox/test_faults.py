"""Faults: their strings, their choice, and the caller's view of each kind."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from seorep_async import guides
from seorep_async.sandbox import Faults
from seorep_async.sandbox.faults import FAULT_KINDS
from tests.sandbox.calls import CAMPAIGNS, NEW, RIGHT_KEY, Caller, calling, in_flight

ENDLESS = ("hang", "slow")
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("", {}),
        ("resets=5%,500s=5%,cut=2%", {"resets": 0.05, "500s": 0.05, "cut": 0.02}),
        (" resets = 5% , hang=.5 ,", {"resets": 0.05, "hang": 0.5}),
        ("429s=1", {"429s": 1.0}),
        ("slow=0.25%", {"slow": 0.0025}),
    ],
)
def test_faults_are_read_from_a_string(text: str, shares: dict[str, float]) -> None:
    assert Faults.parse(text) == Faults(shares)


def test_every_kind_is_in_the_guide() -> None:
    table = guides.pages()["testing"]
    assert [kind for kind in FAULT_KINDS if f"| `{kind}` |" not in table] == []


def test_the_draw_depends_on_seed_and_number_alone() -> None:
    faults = Faults.parse("resets=5%,500s=20%")
    drawn = [faults.draw(1, number) for number in range(20_000)]
    assert drawn == [faults.draw(1, number) for number in range(20_000)]
    assert drawn != [faults.draw(2, number) for number in range(20_000)]
    counts = Counter(drawn)
    assert 900 < counts["resets"] < 1100
    assert 3800 < counts["500s"] < 4200


async def send_raw(call: Caller, path: str = CAMPAIGNS, method: str = "GET") -> Connection:
    port = int(call.sandbox.base_url.rsplit(":", 1)[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: here",
        "Connection: close",
        f"Authorization: {RIGHT_KEY}",
    ]
    head = "\r\n".join([*lines, "", ""])
    writer.write(head.encode())
    return reader, writer


async def received(call: Caller, path: str = CAMPAIGNS, method: str = "GET") -> bytes:
    """Return everything on the wire until the end of the connection.

    Of an endless fault it is everything within a while.
    """
    is_endless = not call.sandbox.faults.shares.keys().isdisjoint(ENDLESS)
    reader, writer = await send_raw(call, path, method)
    data = b""
    try:
        async with asyncio.timeout(0.3 if is_endless else None):
            while part := await reader.read(65_536):
                data += part
    except TimeoutError:
        data += b"<still open>"
    except ConnectionResetError:
        data += b"<reset>"
    writer.close()
    return data


@pytest.mark.parametrize(
    ("kind", "method", "data"),
    [
        ("resets", "GET", b"<reset>"),
        ("hang", "GET", b"<still open>"),
        ("cut", "DELETE", b"HTTP/1.1 204 "),  # an answer without a body is cut within its head
    ],
)
async def test_nothing_else_comes_on_the_wire(kind: str, method: str, data: bytes) -> None:
    async with calling(faults=f"{kind}=100%") as call:
        assert await received(call, f"{CAMPAIGNS}/1", method) == data


@pytest.mark.parametrize(("kind", "share"), [("cut", 0.5), ("closes", 1)])
async def test_a_cut_or_unannounced_close_ends_a_body(
    kind: str, share: float, call: Caller
) -> None:
    whole = (await call.send(CAMPAIGNS)).body
    call.sandbox.faults = Faults({kind: 1})
    head, _, body = (await received(call)).partition(b"\r\n\r\n")
    assert f"Content-Length: {len(whole)}".encode() in head
    assert b"close" not in head.lower()
    assert body == whole[: int(len(whole) * share)]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize(
    ("kind", "status", "beginning"),
    [
        ("empty", 200, b""),
        ("html", 200, b"<!DOCTYPE html>"),
        ("malformed", 200, b"{"),
        ("errors", 200, b'{"status":"error"'),
        ("redirects", 302, b""),
        ("500s", 500, b'{"status":"error"'),
        ("503s", 503, b'{"status":"error"'),
        ("429s", 429, b'{"status":"error"'),
    ],
)
async def test_other_kinds_are_responses_of_their_own(
    kind: str, status: int, beginning: bytes, method: str
) -> None:
    async with calling(faults=f"{kind}=100%") as call:
        reply = await call.send(f"{CAMPAIGNS}/1", method=method, body={"allow_redirects": False})
    assert (reply.status, reply.body[: len(beginning)]) == (status, beginning)
    if not beginning:
        assert reply.body == b""
    if kind == "malformed":
        with pytest.raises(json.JSONDecodeError):
            reply.json()


@pytest.mark.parametrize("kind", [*FAULT_KINDS, "500s"])
async def test_a_write_is_carried_out_once_but_not_before_a_status(kind: str) -> None:
    async with calling(faults=f"{kind}=100%") as call:
        fields: Any = {"data": NEW[CAMPAIGNS], "allow_redirects": False}
        sending = asyncio.create_task(call.send(CAMPAIGNS, method="POST", body=fields))
        if kind in ENDLESS:
            await in_flight(call, 1)
            call.sandbox.faults = Faults()
            while await call.count(CAMPAIGNS) < 7:
                pass
            sending.cancel()
        await asyncio.wait([sending])
        call.sandbox.faults = Faults()
        campaigns = await call.get(CAMPAIGNS)
        expected = 6 if kind == "500s" else 7
        assert campaigns["metadata"]["total_records"] == expected
        assert call.sandbox.stats.per_operation[f"POST {CAMPAIGNS}"] == 1


@pytest.mark.parametrize("kind", FAULT_KINDS)
async def test_faults_and_clean_answers_are_counted(kind: str) -> None:
    async with calling(faults=f"{kind}=100%") as call:
        await received(call)
        call.sandbox.faults = Faults()
        await call.get(CAMPAIGNS)
        await in_flight(call, 0)
        stats = call.sandbox.stats
    assert (stats.requests, stats.in_flight, stats.faults) == (2, 0, {kind: 1})
