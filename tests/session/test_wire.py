"""Requests on a real socket: who receives the key, and how often requests are sent."""

import asyncio
import base64
from pathlib import Path

import aiohttp
import pytest

from seorep_async import RedirectError, SeoRepClient, Settings
from tests.session.calls import KEY, Connect, OpenClient, StartServer, ask, failure
from tests.session.scripted_server import (
    EMPTY_PAGE,
    FINE,
    Connection,
    Step,
    answer,
    reset,
    then_close,
)

AUTHORIZATION = "Basic " + base64.b64encode(b":" + KEY.encode()).decode()


async def test_request_asks_for_json_and_names_itself(connect: Connect) -> None:
    client, server = await connect(FINE, user_agent="reporting/1.0")
    await client.campaigns.list(filter="a&b=ü/ö +", extra_params={"tag": ["x", "y"]}).page(3)
    (request,) = server.requests
    query = "filter=a%26b%3D%C3%BC%2F%C3%B6%20%2B&tag%5B%5D=x&tag%5B%5D=y&page=3"
    assert request.target == f"/v3/campaigns?{query}"
    assert request.headers == {
        "Host": f"127.0.0.1:{server.port}",
        "Accept": "application/json",
        "Accept-Encoding": "gzip, deflate",
        "User-Agent": "reporting/1.0",
        "Authorization": AUTHORIZATION,
    }


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("is_borrowed", [False, True], ids=["own", "borrowed"])
async def test_a_response_that_came_unasked_answers_no_request(
    is_borrowed: bool, method: str, connect: Connect
) -> None:
    idle = asyncio.Event()
    sent = asyncio.Event()

    async def twice(connection: Connection) -> None:
        await connection.send(FINE)
        await idle.wait()
        await connection.send(answer(EMPTY_PAGE | {"unasked": True}))
        sent.set()

    async with aiohttp.ClientSession() as session:
        client, server = await connect(
            twice, forever=FINE, session=session if is_borrowed else None
        )
        await ask(client)
        idle.set()
        await sent.wait()
        await asyncio.sleep(0.05)  # until the loop has read it
        assert "unasked" not in await client.request(method, "/v3/campaigns")
    assert [request.connection for request in server.requests] == [1, 2]


async def test_cookies_are_not_stored_and_not_sent_back(
    scripted_server: StartServer, open_client: OpenClient
) -> None:
    cookie = ("Set-Cookie", "track=1; Path=/")
    server = await scripted_server(answer(EMPTY_PAGE, headers=[cookie]), FINE)
    # The host has a name, because an IP address has no cookies anyway.
    client = await open_client(f"http://localhost:{server.port}")
    await ask(client)
    await ask(client)
    assert not any("Cookie" in request.headers for request in server.requests)
    assert list(client._session._transport._session_for_reads.cookie_jar) == []


async def test_cookies_and_headers_of_a_borrowed_session_are_not_sent(connect: Connect) -> None:
    headers = {"Authorization": "Basic other", "Accept": "text/html"}
    jar = aiohttp.CookieJar(unsafe=True)
    cookies = {"track": "1"}
    async with aiohttp.ClientSession(headers=headers, cookies=cookies, cookie_jar=jar) as session:
        client, server = await connect(FINE, session=session)
        await ask(client)
    sent = server.requests[0].headers
    assert "Cookie" not in sent
    assert sent.getall("Authorization") == [AUTHORIZATION]
    assert sent.getall("Accept") == ["application/json"]


@pytest.mark.parametrize(
    ("status", "elsewhere"),
    [
        pytest.param(300, "/v3/other", id="multiple choices"),
        pytest.param(301, "http://127.0.0.1:{target}/v3/campaigns", id="other port"),
        pytest.param(302, "http://localhost:{target}/v3/campaigns", id="other host"),
        pytest.param(303, "https://127.0.0.1:{target}/v3/campaigns", id="other scheme"),
        pytest.param(304, "/v3/other", id="not modified"),
        pytest.param(305, "http://127.0.0.1:{target}/", id="use a proxy"),
        pytest.param(307, "//127.0.0.1:{target}/v3/campaigns", id="scheme left out"),
        pytest.param(308, "http://127.0.0.1:{own}/v3/other", id="same origin"),
        pytest.param(302, "/v3/other", id="only a path"),
    ],
)
async def test_redirect_is_named_and_never_followed(
    status: int, elsewhere: str, scripted_server: StartServer, open_client: OpenClient
) -> None:
    target = await scripted_server()

    async def redirect(connection: Connection) -> None:
        await connection.send(answer(status=status, headers=[("Location", f"{location}?secret=1")]))

    server = await scripted_server(redirect)
    location = elsewhere.format(target=target.port, own=server.port)
    error = await failure(await open_client(server.base_url), RedirectError, "base_url")
    assert error.status == status
    assert error.location == location
    assert error.attempts == 1
    assert location in str(error)
    assert target.connections == 0


async def test_proxies_and_passwords_of_the_environment_are_ignored(
    scripted_server: StartServer,
    open_client: OpenClient,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    proxy = await scripted_server()
    server = await scripted_server(FINE)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, proxy.base_url)
        monkeypatch.setenv(name.upper(), proxy.base_url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    await ask(await open_client(server.base_url))
    assert proxy.connections == 0
    assert server.requests[0].headers["Authorization"] == AUTHORIZATION


@pytest.mark.parametrize("breaks", [reset, then_close(b"")], ids=["reset", "closed"])
async def test_every_request_is_counted_and_authenticated(breaks: Step, connect: Connect) -> None:
    client, server = await connect(FINE, breaks, FINE, breaks, breaks, FINE)
    for _ in range(3):
        await ask(client)
    assert client.stats.attempts == 6
    for request in server.requests:
        assert request.headers.getall("Authorization") == [AUTHORIZATION]


async def test_a_retry_uses_no_other_old_connection(connect: Connect) -> None:
    together = asyncio.Barrier(4)
    old = set[Connection]()

    async def once(connection: Connection) -> None:
        if connection in old:
            connection.reset()
            return
        old.add(connection)
        if len(old) <= 4:
            await together.wait()
        await connection.send(FINE)

    client, server = await connect(forever=once, max_attempts=2)
    await asyncio.gather(*(ask(client) for _ in range(4)))
    await ask(client)
    assert server.connections == 5


async def test_after_a_new_connection_a_retry_uses_an_old_one(connect: Connect) -> None:
    together = asyncio.Barrier(2)

    async def meet(connection: Connection) -> None:
        await together.wait()
        await connection.send(FINE)

    client, server = await connect(meet, meet, reset, reset, FINE)
    await asyncio.gather(ask(client), ask(client))
    await ask(client)
    assert server.connections == 3


async def test_a_limit_of_connections_fails_no_call(scripted_server: StartServer) -> None:
    accepted = set[Connection]()

    async def allow_four(connection: Connection) -> None:
        accepted.intersection_update(server.open_connections)
        if connection not in accepted and len(accepted) == 4:
            connection.reset()
            return
        accepted.add(connection)
        await asyncio.sleep(0.01)
        await connection.send(FINE)

    server = await scripted_server(forever=allow_four)
    settings = Settings(max_attempts=20, backoff_max=0.1)
    async with SeoRepClient(server.base_url, KEY, settings=settings) as client:
        await asyncio.gather(*(ask(client) for _ in range(100)))


async def test_borrowed_session_is_used_and_stays_open(
    scripted_server: StartServer, open_client: OpenClient
) -> None:
    server = await scripted_server(FINE, FINE)
    async with aiohttp.ClientSession() as session:
        async with SeoRepClient(server.base_url, KEY, session=session) as client:
            await ask(client)
        assert not session.closed
        async with session.get(server.base_url) as response:
            assert response.status == 200
    assert [request.connection for request in server.requests] == [1, 1]
