"""The proxy of the settings carries requests without seeing the key, and its password is secret."""

import asyncio
import base64
import pickle
import ssl
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import unquote

import aiohttp
import pytest
import trustme
from yarl import URL

from seorep_async import ConfigurationError, ConnectionFailedError, SeoRepClient, Settings
from tests.processes import run_python
from tests.session.calls import Connect, OpenClient, ask, failure
from tests.session.canary import Canary, assert_key_is_not_in
from tests.session.scripted_server import FINE, ScriptedServer, Step, answer

PASSWORD = "pr0xy-passw0rd"
CREDENTIALS = base64.b64encode(f"user:{PASSWORD}".encode()).decode()
CANARY = Canary(PASSWORD, CREDENTIALS)
REFUSAL = answer(f"no such user: user:{PASSWORD}".encode(), status=407)


async def tunnel(
    heads: list[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Open a tunnel like a proxy, and keep the head of the request."""
    heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
    upstream, downstream = await asyncio.open_connection(*heads[-1].split()[1].split(":"))
    writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
    await asyncio.gather(copy(reader, downstream), copy(upstream, writer))


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


@pytest.fixture
def through_proxy(connect: Connect, open_client: OpenClient) -> Connect:
    """Return a function that opens a client of an HTTP service behind a proxy, and the proxy."""

    async def connected(
        step: Step, credentials: str = f"user:{PASSWORD}"
    ) -> tuple[SeoRepClient, ScriptedServer]:
        _, proxy = await connect(step)
        address = f"http://{credentials}@127.0.0.1:{proxy.port}"
        options = {"proxy": address, "allow_insecure_http": True}
        return await open_client("http://api.example.com:81", **options), proxy

    return connected


async def test_a_request_goes_through_the_proxy(through_proxy: Connect) -> None:
    client, proxy = await through_proxy(FINE)
    await ask(client)
    (request,) = proxy.requests
    assert request.target == "http://api.example.com:81/v3/campaigns?page=1"
    assert request.headers["Proxy-Authorization"] == f"Basic {CREDENTIALS}"


async def test_the_proxy_of_an_https_service_sees_no_key(connect: Connect) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    heads = list[str]()
    authority.configure_trust(trusting)
    proxy = await asyncio.start_server(partial(tunnel, heads), "127.0.0.1", 0)
    address = f"http://user:{PASSWORD}@127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session,
        proxy,
    ):
        client, server = await connect(FINE, tls=context, session=session, proxy=address)
        await ask(client)
        assert len(server.requests) == 1
    assert [head.split()[0] for head in heads] == ["CONNECT"]
    assert f"Basic {CREDENTIALS}" in heads[0]
    assert_key_is_not_in(heads[0])


async def test_our_own_session_sends_the_proxy_no_key(
    open_client: OpenClient, connect: Connect, unused_tcp_port: int
) -> None:
    _, proxy = await connect(forever=REFUSAL)
    address = f"http://user:{PASSWORD}@127.0.0.1:{proxy.port}"
    nowhere = f"http://user:{PASSWORD}@127.0.0.1:{unused_tcp_port}"
    for at, said in (
        (address, r"refused to connect \(status 407\); check user and password in Settings\.proxy"),
        (nowhere, "could not be opened"),
    ):
        client = await open_client("https://api.example.com", proxy=at, max_attempts=2)
        CANARY.assert_not_shown_by(await failure(client, ConnectionFailedError, said))
        CANARY.assert_not_in(f"{client!r} {client.settings!r}")
    assert {request.method for request in proxy.requests} == {"CONNECT"}
    for request in proxy.requests:
        assert "Authorization" not in request.headers
        assert_key_is_not_in(str(request.headers))


async def test_a_407_without_a_tunnel_is_an_error_of_the_proxy(through_proxy: Connect) -> None:
    client, _ = await through_proxy(REFUSAL)
    error = await failure(client, ConnectionFailedError, "the proxy refused the request")
    CANARY.assert_not_shown_by(error)
    assert error.status == 407


ABANDONED = """
import asyncio, gc, sys
from seorep_async import SeoRepClient, Settings

async def send(port, password):
    settings = Settings(proxy=f"http://user:{password}@127.0.0.1:{port}")
    client = await SeoRepClient("http://127.0.0.1:9", "key", settings=settings).open()
    return client, asyncio.create_task(client.campaigns.get(1))

async def main(password):
    arrived = asyncio.Event()

    async def hang(reader, writer):
        await reader.readuntil(b"\\r\\n\\r\\n")
        arrived.set()
        await asyncio.Event().wait()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    abandoned = await send(server.sockets[0].getsockname()[1], password)
    await arrived.wait()
    return abandoned

loop = asyncio.new_event_loop()
abandoned = loop.run_until_complete(main(sys.argv[1]))
loop.close()
del abandoned
gc.collect()
"""


def test_no_warning_of_an_abandoned_request_shows_the_password() -> None:
    result = run_python("-X", "dev", "-W", "always", "-c", ABANDONED, PASSWORD)
    assert "Unclosed connection" in result.stderr
    CANARY.assert_not_in(result.stderr)


PRIVATE = f"http://user:{PASSWORD}@proxy.example:3128"


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"proxy": PRIVATE, "max_concurrency": 0}, id="another setting"),
        pytest.param({"proxy": f"x{PRIVATE}"}, id="the address"),
        pytest.param({"proxy": PRIVATE.encode()}, id="bytes"),
        pytest.param({"proxy": URL(PRIVATE)}, id="a URL"),
        pytest.param({"prxy": PRIVATE}, id="a misspelt name"),
        pytest.param({"proxies": {"https": PRIVATE}}, id="a dictionary"),
    ],
)
def test_refused_settings_do_not_show_the_password(values: dict[str, Any]) -> None:
    with pytest.raises((ConfigurationError, TypeError)) as caught:
        Settings(**values)
    CANARY.assert_not_shown_by(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        f"user:{PASSWORD}@proxy.example:3128",
        f"//user:{PASSWORD}@proxy.example:3128",
        f"http:/user:{PASSWORD}@proxy.example",
        f"http:\\\\user:{PASSWORD}@proxy.example",
        f"{PASSWORD}@proxy.example",
        f"user:{PASSWORD}://@proxy.example",
        f"user:{PASSWORD}%40proxy.example:3128",
        f"http://user:{PASSWORD}",
        f"http://user:{PASSWORD}\uff20proxy.example",
        f"http://user:{PASSWORD}@[::1",
        f"http://user:{PASSWORD}@[::1]:99999",
        f"http://user:p@{PASSWORD}@proxy.example:port",
        f"http://user:p#{PASSWORD}@proxy.example",
        f"socks5://user:{PASSWORD}@proxy.example",
    ],
)
def test_a_refused_address_does_not_show_the_password(address: str) -> None:
    with pytest.raises(ConfigurationError, match="proxy must be an address such as") as caught:
        Settings(proxy=address)
    CANARY.assert_not_shown_by(caught.value)


@pytest.mark.parametrize(
    ("address", "shown_address"),
    [
        ("http://proxy.example:3128", "http://proxy.example:3128"),
        (f"http://:{PASSWORD}@proxy.example", "http://***@proxy.example"),
        (f"http://{PASSWORD}@proxy.example", "http://***@proxy.example"),
        (f"http://user:p@{PASSWORD}@proxy.example", "http://***@proxy.example"),
        (f"https://user:%40{PASSWORD}@[::1]:3128", "https://***@[::1]:3128"),
    ],
)
def test_a_valid_address_is_shown_without_credentials(address: str, shown_address: str) -> None:
    assert f"proxy={shown_address!r}" in repr(Settings(proxy=address))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"api_key": PRIVATE.encode()}, "api_key must be of type str, got bytes"),
        ({"settings": {"proxy": PRIVATE}}, "settings must be of type Settings, got dict"),
    ],
)
def test_an_argument_of_a_wrong_type_is_not_shown(arguments: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as caught:
        SeoRepClient("https://api.example.com", **{"api_key": "key", **arguments})
    CANARY.assert_not_shown_by(caught.value)


@pytest.mark.parametrize("password", ["p%40ss", "päss", "", "a:b", "%C3%A4%2F"])
async def test_a_password_of_any_characters_reaches_the_proxy(
    password: str, through_proxy: Connect
) -> None:
    client, proxy = await through_proxy(FINE, f"us%20er:{password}")
    await ask(client)
    header = proxy.requests[0].headers["Proxy-Authorization"].removeprefix("Basic ")
    assert base64.b64decode(header).decode() == f"us er:{unquote(password)}"


def test_settings_with_the_password_of_a_proxy_are_not_pickled() -> None:
    with pytest.raises(TypeError, match="a proxy password can't be pickled"):
        pickle.dumps(Settings(proxy=f"http://user:{PASSWORD}@proxy.example:3128"))
    plain = Settings(proxy="http://proxy.example:3128")
    assert pickle.loads(pickle.dumps(plain)) == plain  # noqa: S301
