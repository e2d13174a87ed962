"""The key, one plain call, and the types of the fixtures that `tests/conftest.py` describes."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import pytest

from seorep_async import Campaign, Page, SeoRepClient, Settings
from seorep_async.session import Authentication, BaseURL, Request, Session
from tests.session.fake_time import FakeTime
from tests.session.scripted_server import ScriptedServer

E = TypeVar("E", bound=BaseException)

# has characters that base64, URLs, JSON, HTML and Latin-1 encode differently
KEY = 'CANARY/7f3d+09 ä"\\&key-that-nobody-may-see'


# the types of the fixtures with these names, which `tests/conftest.py` describes
StartServer: TypeAlias = Callable[..., Awaitable[ScriptedServer]]
OpenClient: TypeAlias = Callable[..., Awaitable[SeoRepClient]]
Connect: TypeAlias = Callable[..., Awaitable[tuple[SeoRepClient, ScriptedServer]]]
ConnectSession: TypeAlias = Callable[..., Awaitable[tuple[Session, ScriptedServer]]]


async def ask(client: SeoRepClient) -> Page[Campaign]:
    """Make a call of one request: `GET /v3/campaigns?page=1`."""
    return await client.campaigns.list().page(1)


async def failure(client: SeoRepClient, kind: type[E], match: str | None = None) -> E:
    """Make that call, which must fail with an error of a kind, and return the error."""
    return await failure_of(ask(client), kind, match)


async def failure_of(call: Awaitable[Any], kind: type[E], match: str | None = None) -> E:
    """Await a call, which must fail with an error of a kind, and return the error."""
    with pytest.raises(kind, match=match) as caught:
        await call
    return caught.value


def open_session(base_url: str, time: FakeTime, **settings: Any) -> Session:
    """Return a session for requests that no resource makes."""
    return Session(BaseURL(base_url), Authentication(KEY), Settings(**settings), clock=time.clock)


def write(method: str = "POST", body: bytes = b"a=1", subject: str | None = None) -> Request[bytes]:
    """Return a write. A POST must not be repeated once it may have been executed."""
    form = "application/x-www-form-urlencoded"
    return Request(method, "/v3/campaigns", bytes, body=body, content_type=form, subject=subject)
