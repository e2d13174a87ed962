"""Statuses, garbage and connection failures: the error and the number of attempts."""

import asyncio
import pickle
from typing import Any

import aiohttp
import pytest
from aioresponses import aioresponses
from hypothesis import HealthCheck, given, settings, strategies as st

from seorep_async import Attempt, Page, SeoRepClient, Settings
from seorep_async.errors import (
    AttemptTimeoutError,
    AuthenticationError,
    ConnectionFailedError,
    DecodeError,
    InvalidRequestError,
    NotFoundError,
    OutcomeUnknownError,
    ProtocolError,
    RateLimitedError,
    SeoRepError,
    ServerError,
    StatusError,
)
from tests.session.calls import KEY, Connect, ask, failure, failure_of, open_session, write
from tests.session.canary import assert_error_does_not_show_key
from tests.session.fake_time import FakeTime
from tests.session.scripted_server import (
    FINE,
    Connection,
    ScriptedServer,
    Step,
    answer,
    reset,
    then_close,
)

EXCERPT = "because of this"
# Three throttled attempts cost as much as one.
ATTEMPTS = {"permanent": 1, "authentication": 1, "throttle": 4}


def status_under_200(code: int | None) -> bytes:
    return answer({"status": "error", "code": code})


# an answer, the status and the class of its error, and the cause
@pytest.mark.parametrize(
    ("step", "status", "kind", "cause"),
    [
        (300, 300, StatusError, "permanent"),  # without a Location, it is no redirect
        (400, 400, InvalidRequestError, "permanent"),
        (401, 401, AuthenticationError, "authentication"),
        (403, 403, AuthenticationError, "authentication"),
        (404, 404, ProtocolError, "permanent"),
        (501, 501, ServerError, "permanent"),
        (505, 505, ServerError, "permanent"),
        (408, 408, InvalidRequestError, "transient"),
        (500, 500, ServerError, "transient"),
        (502, 502, ServerError, "transient"),
        (503, 503, ServerError, "overload"),
        (429, 429, RateLimitedError, "throttle"),
        (status_under_200(422), 200, InvalidRequestError, "permanent"),
        (status_under_200(403), 200, AuthenticationError, "authentication"),
        (status_under_200(404), 200, NotFoundError, "permanent"),
        (status_under_200(429), 200, RateLimitedError, "throttle"),
        (status_under_200(500), 200, ServerError, "transient"),
        (status_under_200(None), 200, StatusError, "transient"),
        (answer(b'{"data": 1}'), 200, DecodeError, "permanent"),
        (answer(b"<html>"), 200, ProtocolError, "transient"),
        (reset, None, ConnectionFailedError, "transient"),
        (then_close(answer(b'{"da', length=90)), None, ConnectionFailedError, "transient"),
        (then_close(b"no HTTP at all\r\n\r\n"), None, ProtocolError, "transient"),
    ],
)
async def test_an_answer_is_an_error_at_once_or_after_all_attempts(
    step: Any, status: int | None, kind: type[SeoRepError], cause: str, connect: Connect
) -> None:
    seen: list[Attempt] = []
    if isinstance(step, int):
        step = answer(EXCERPT.encode(), status=step)
    client, _ = await connect(forever=step, max_attempts=2, on_attempt=seen.append)
    error = await failure(client, kind)
    assert type(error) is kind
    assert error.status == status
    assert error.method == "GET"
    assert error.path == "/v3/campaigns"
    assert error.body_excerpt == EXCERPT or status in (200, None)
    assert error.attempts == ATTEMPTS.get(cause, 2)
    facts = [(attempt.number, attempt.error, attempt.cause) for attempt in seen]
    assert facts == [(number, kind, cause) for number in range(1, error.attempts + 1)]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_wrong_key_has_advice(status: int, connect: Connect) -> None:
    client, _ = await connect(forever=answer(b"no", status=status))
    error = await failure(client, AuthenticationError)
    assert error.__notes__ == ["pass another api_key, set SEOREP_API_KEY, or run `seorep login`"]


HALF_A_MINUTE = "Tue, 14 Nov 2023 22:13:50 GMT"  # from when the wall clock of the tests begins
BEGIN = "Tue, 14 Nov 2023 22:13:20 GMT"


# Retry-After, the Date beside it, the jump of our wall clock, and the wait
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("retry_after", "date", "jump", "wait"),
    [
        ("soon", None, 0.0, 0.25),
        ("7", None, 3600.0, 7.0),
        ("7", None, -3600.0, 7.0),
        (HALF_A_MINUTE, None, 20.0, 10.0),
        (HALF_A_MINUTE, None, 3600.0, 0.0),
        (HALF_A_MINUTE, None, -30.0, 60.0),
        (HALF_A_MINUTE, BEGIN, -3600.0, 30.0),
        (HALF_A_MINUTE, BEGIN, 0.0, 30.0),
        (HALF_A_MINUTE, BEGIN, 3600.0, 30.0),
    ],
)
async def test_retry_after_counts_from_the_date_of_the_answer(
    retry_after: str,
    date: str | None,
    jump: float,
    wait: float,
    status: int,
    connect: Connect,
    fake_time: FakeTime,
) -> None:
    async def jumping(connection: Connection) -> None:
        fake_time.wall += jump
        headers = [("Retry-After", retry_after)] + ([("Date", date)] if date else [])
        await connection.send(answer(status=status, headers=headers))

    client, _ = await connect(jumping, FINE, backoff_initial=0.25)
    await ask(client)
    # A busy machine takes some of the wait before it begins.
    assert sum(fake_time.slept) == pytest.approx(wait, abs=0.2)


LONG = "語" * 5000


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(answer({"status": "error", "message": LONG, "code": 404}), id="message"),
        pytest.param(answer(LONG.encode(), status=404), id="body"),
        pytest.param(answer(b'{"data": [{"%s": NaN}]}' % LONG.encode()), id="field"),
        pytest.param(answer(status=302, headers=[("Location", "/" + "ü" * 5000)]), id="address"),
        pytest.param(then_close(f"HTTP/1.1 {LONG}\r\n\r\n".encode()), id="status line"),
    ],
)
async def test_a_long_text_of_the_service_is_cut_by_bytes(step: Step, connect: Connect) -> None:
    client, _ = await connect(forever=step, max_attempts=2)
    error = await failure(client, SeoRepError)
    texts = (
        vars(error).get(name) or ""
        for name in ("message", "body_excerpt", "field_path", "location")
    )
    assert all(len(text.encode()) <= 1000 for text in texts)


STATUS_LINES = [
    b"200 OK",
    b"204 No",
    b"304 No",
    b"100 Continue",
    b"101 Up",
    b"999 x",
    b"000 x",
    b"500",
    b"429 x",
]
HEADERS = [
    b"Content-Length: 2",
    b"Content-Length: 9",
    b"Transfer-Encoding: chunked",
    b"Content-Encoding: gzip",
    b"Content-Encoding: zstd",
    b"Retry-After: 0",
    b"Retry-After: \xff\xfe",
    b"Location: //[",
    b"Upgrade: x",
    b"Connection: upgrade",
    b"Content-Type: \xff",
    b"Set-Cookie: \xff=;;=\x01",
    b"Trailer: x",
    b": x",
]
BODIES = [b"{}", b"0\r\n\r\n", b"2\r\n{}\r\n0\r\n\r\n", b'{"data":[]}']


@given(
    st.binary(max_size=200)
    | st.builds(
        lambda status, headers, body: b"\r\n".join([b"HTTP/1.1 " + status, *headers, b"", body]),
        st.sampled_from(STATUS_LINES),
        st.lists(st.sampled_from(HEADERS), max_size=4),
        st.binary(max_size=20) | st.sampled_from(BODIES),
    )
)
@settings(suppress_health_check=list(HealthCheck))
def test_any_response_raises_only_our_errors(raw: bytes) -> None:
    async def exchange() -> object:
        async with (
            ScriptedServer(forever=then_close(raw)) as server,
            SeoRepClient(server.base_url, KEY, settings=Settings(max_attempts=1)) as client,
        ):
            (result,) = await asyncio.gather(ask(client), return_exceptions=True)
            return result

    result = asyncio.run(exchange())
    assert isinstance(result, Page | SeoRepError)
    assert not isinstance(result, AttemptTimeoutError)
    assert type(pickle.loads(pickle.dumps(result))) is type(result)  # noqa: S301


UNKNOWN_NAME = OSError(-2, "Name or service not known")
NO_THREAD = RuntimeError("can't start new thread")


@pytest.fixture(params=[None, UNKNOWN_NAME, NO_THREAD], ids=["refused", "unknown", "no thread"])
def nowhere(
    request: pytest.FixtureRequest, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """Return an address that nothing is ever sent to, and a part of the error."""
    if request.param is None:
        return f"http://127.0.0.1:{unused_tcp_port}", f"127.0.0.1:{unused_tcp_port}"

    async def fail(*_: Any, **__: Any) -> Any:
        raise request.param

    monkeypatch.setattr(aiohttp.ThreadedResolver, "resolve", fail)
    monkeypatch.setattr(aiohttp.DefaultResolver, "resolve", fail)
    part = "no thread could be" if request.param is NO_THREAD else "nowhere.example"
    return "https://nowhere.example", part


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_unsent_request_is_retried(
    method: str, nowhere: tuple[str, str], fake_time: FakeTime
) -> None:
    base_url, said = nowhere
    async with open_session(base_url, fake_time, max_attempts=3) as session:
        error = await failure_of(session.send(write(method)), ConnectionFailedError, said)
    assert error.attempts == 3
    assert session.stats.attempts == 3
    assert_error_does_not_show_key(error)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (aiohttp.ClientConnectionError("Connector is closed."), ConnectionFailedError),
        (aiohttp.ServerDisconnectedError(), ConnectionFailedError),
        (aiohttp.ClientPayloadError("half"), ConnectionFailedError),
        (aiohttp.ConnectionTimeoutError("late"), AttemptTimeoutError),
        (aiohttp.ServerTimeoutError("late"), AttemptTimeoutError),
        (TimeoutError(), AttemptTimeoutError),
        (OSError(101, "unreachable"), ConnectionFailedError),
        (aiohttp.InvalidURL("x"), ProtocolError),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), ProtocolError),
    ],
)
async def test_errors_of_aiohttp_are_ours_and_unsent_only_if_proved(
    raised: Exception,
    kind: type[SeoRepError],
    method: str,
    fake_time: FakeTime,
    seorep_responses: aioresponses,
) -> None:
    seorep_responses.add(
        "https://api.example.com/v3/campaigns", method, exception=raised, repeat=True
    )
    is_repeated = method == "GET" or isinstance(raised, aiohttp.ConnectionTimeoutError)
    async with open_session("https://api.example.com", fake_time, max_attempts=2) as session:
        error = await failure_of(session.send(write(method)), SeoRepError)
    assert type(error if is_repeated else error.__cause__) is kind
    assert error.attempts == 1 + is_repeated


async def test_the_query_of_an_unwritten_body_is_not_shown(
    fake_time: FakeTime, seorep_responses: aioresponses
) -> None:
    address = "https://api.example.com/v3/campaigns"
    problem = f"Can not write request body for {address}?note=private"
    seorep_responses.post(address, exception=aiohttp.ClientOSError(None, problem))
    async with open_session("https://api.example.com", fake_time) as session:
        error = await failure_of(session.send(write()), OutcomeUnknownError, "request body")
    assert "private" not in f"{error} {error.__cause__}"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_programming_error_is_raised_unchanged(
    method: str, fake_time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def mistaken(*_: Any, **__: Any) -> Any:
        raise TypeError("unexpected argument")

    monkeypatch.setattr(aiohttp.ClientSession, "_request", mistaken)
    async with open_session("https://api.example.com", fake_time) as session:
        error = await failure_of(session.send(write(method)), TypeError, "unexpected argument")
    assert "mistaken" in error.__notes__[0]
    assert fake_time.slept == []
    assert_error_does_not_show_key(error)


HTML = b"<html><h1>Not Found</h1></html>"
NO_OBJECT = "there is no such object"
NO_SERVICE = "this does not look like the service; check the address"


@pytest.mark.parametrize(
    ("path", "message", "body"),
    [
        ("/v3/campaigns", NO_SERVICE, HTML),
        ("/v3/campaigns", NO_SERVICE, b"not found"),
        ("/v3/campaigns", NO_SERVICE, b'{"detail": "Not Found"}'),
        ("/v3/campaigns/42", NO_SERVICE, HTML),
        ("/v3/campaigns/42", NO_OBJECT, b""),
        ("/v3/campaigns/42", NO_OBJECT, b" \n"),
        ("/v3/campaigns/42", NO_OBJECT, b'"gone"'),
        ("/v3/campaigns/42", NO_OBJECT, b"[" * 10_000),
        ("/v3/campaigns/42", NO_OBJECT, b'{"status": "error", "message": "gone"}'),
    ],
)
async def test_404_of_something_else_names_the_wrong_server(
    path: str, message: str, body: bytes, connect: Connect
) -> None:
    client, _ = await connect(answer(body, status=404))
    # a visitor's 404 must not come from a wrong address
    kind = ProtocolError if message == NO_SERVICE else NotFoundError
    error = await failure_of(client.request("GET", path), kind)
    assert error.message.partition("; the service said: ")[0] == message
    assert (error.status, error.retryable) == (404, False)


TEXT = {"text/plain": b"default backend - 404", "text/html": HTML, "application/xml": b"<Error/>"}


def page(status: int, kind: str = "text/html") -> bytes:
    return answer(TEXT[kind], status=status, headers=[("Content-Type", kind)])


@pytest.mark.parametrize(("status", "kind"), [(403, "text/html"), *((404, kind) for kind in TEXT)])
async def test_a_foreign_answer_once_the_key_has_worked_is_waited_out(
    status: int, kind: str, connect: Connect
) -> None:
    refusals = [page(status, kind)] * 2
    client, server = await connect(page(403), FINE, *refusals, FINE)
    await failure(client, AuthenticationError)
    await ask(client)
    await ask(client)
    assert len(server.requests) == 5


@pytest.mark.parametrize(
    ("status", "advice"), [(403, "or the key was revoked"), (404, "or there is no such object")]
)
async def test_a_lasting_foreign_answer_is_not_about_the_object(
    status: int, advice: str, connect: Connect
) -> None:
    client, _ = await connect(FINE, *[page(status)] * 4, max_attempts=2)
    await ask(client)
    words = f"something in front of the service answered, .* {advice}"
    error = await failure_of(client.campaigns.get(1), RateLimitedError, words)
    assert error.status == status
    assert error.retryable is True


# PHP frameworks in debug mode add a trace to their errors.
LONG_TRACE = b'{"message": "none", "trace": ["%s"]}' % (b"x" * 2_000_000)


@pytest.mark.parametrize(
    "step",
    [
        answer(b"", status=404),
        answer(b" \r\n", status=404),
        answer(b'"gone"', status=404),
        answer(b'{"message": "none"}', status=404),
        pytest.param(answer(LONG_TRACE, status=404), id="a long trace"),
        pytest.param(answer(LONG_TRACE[:40] + LONG_TRACE[-100_000:], status=404), id="a trace"),
        page(406),
        page(410),
    ],
)
async def test_any_other_refusal_is_final(step: bytes, connect: Connect) -> None:
    client, server = await connect(FINE, step)
    await ask(client)
    error = await failure(client, StatusError, NO_OBJECT if b"404" in step[:20] else None)
    assert len(server.requests) == 2
    assert error.retryable is False


@pytest.mark.parametrize(
    ("successes", "attempts", "message"),
    [(0, 2, "does not look like the service; check the address"), (1, 4, "not complete JSON")],
)
async def test_a_firewall_page_at_first_contact_is_retried_once(
    successes: int, attempts: int, message: str, connect: Connect
) -> None:
    client, server = await connect(*[FINE] * successes, *[page(200)] * attempts, max_attempts=4)
    for _ in range(successes):
        await ask(client)
    await failure(client, ProtocolError, message)
    assert len(server.requests) == successes + attempts


GRANT = "GET a grant"
SAFE = ("GET", "PUT", "DELETE")
METHODS = (*SAFE, "POST", "PATCH", GRANT)


async def send(client: SeoRepClient, method: str) -> object:
    if method == GRANT:
        return await client.users.login_grant(7)
    return await client.request(method, "/v3/campaigns/7")


async def test_a_403_may_mean_the_key_until_it_has_worked(connect: Connect) -> None:
    campaign = answer({"data": {"id": 7, "account_id": 1, "url": "u", "company": "c"}})
    forbidden = answer({"status": "error", "message": "no"}, status=403)
    client, _ = await connect(forbidden, campaign, forbidden)
    with pytest.raises(AuthenticationError, match=r"campaign 7: .*, or was refused; the service"):
        await client.campaigns.get(7)
    await client.campaigns.get(7)
    with pytest.raises(
        AuthenticationError, match="campaign 7: this API key has no access to it; the"
    ):
        await client.campaigns.get(7)


# The methods that are sent again after a status, without and with Retry-After, and the error of the
# others: an OutcomeUnknownError only if the service may have carried the request out.
@pytest.mark.parametrize("has_pause", [False, True])
@pytest.mark.parametrize(
    ("status", "without_pause", "with_pause", "kind"),
    [
        (401, (), (), AuthenticationError),
        (404, (), (), NotFoundError),
        (501, (), (), ServerError),
        (400, (), ("GET",), InvalidRequestError),
        (409, (), ("GET",), InvalidRequestError),
        (420, (), ("GET",), InvalidRequestError),
        (403, (), SAFE, StatusError),  # with a pause, a RateLimitedError
        (425, ("GET",), ("GET",), InvalidRequestError),
        (408, SAFE, SAFE, OutcomeUnknownError),
        (500, SAFE, SAFE, OutcomeUnknownError),
        (520, SAFE, SAFE, OutcomeUnknownError),
        (429, METHODS, METHODS, None),
        (503, SAFE, METHODS, OutcomeUnknownError),
    ],
)
async def test_each_status_is_answered_by_a_repeat_or_by_none(
    connect: Connect,
    status: int,
    without_pause: tuple[str, ...],
    with_pause: tuple[str, ...],
    kind: type[SeoRepError],
    has_pause: bool,
) -> None:
    headers = [("Retry-After", "1")] if has_pause else []
    refusal = answer({"status": "error", "message": "no"}, status=status, headers=headers)
    grant = answer({"data": {"user_id": 7, "token": "t", "login_url": "https://example.com"}})
    resent_methods = with_pause if has_pause else without_pause
    for method in METHODS:
        client, server = await connect(refusal, grant)
        if method in resent_methods:
            await send(client, method)
            assert len(server.requests) == 2, method
        else:
            with pytest.raises(kind):
                await send(client, method)
            assert len(server.requests) == 1, method


@pytest.mark.parametrize("status", [403, 404])
@pytest.mark.parametrize("method", METHODS)
async def test_a_foreign_page_does_not_say_that_a_post_did_nothing(
    connect: Connect, status: int, method: str
) -> None:
    client, server = await connect(FINE, page(status), FINE)
    await ask(client)
    if method in SAFE:
        await send(client, method)
        assert len(server.requests) == 3
        return
    with pytest.raises(OutcomeUnknownError, match="something in front of the service"):
        await send(client, method)
    assert len(server.requests) == 2


async def test_a_postponed_post_says_when_it_may_be_sent_again(connect: Connect) -> None:
    client, _ = await connect(answer(status=403, headers=[("Retry-After", "7")]))
    call = client.campaigns.create("u", "c")
    error = await failure_of(call, RateLimitedError, "asks to try again later")
    assert error.retry_after == 7
    assert error.retryable is True


async def test_too_early_is_asked_once_more(connect: Connect) -> None:
    client, server = await connect(*[answer(status=425)] * 2)
    await failure(client, InvalidRequestError)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            b'{"status": "error", "message": "the range is over 1,200 months"}',
            "the service said: the range is over 1,200 months",
        ),
        (b'{"error": {"code": 7, "message": "no limit"}}', "the service said: no limit"),
        (b'{"errors": [{"detail": "a"}, {"detail": "b"}]}', "the service said: a; b"),
        (b'{"status":"error","results":{"messages":["too long"]}}', "the service said: too long"),
        (b'{"error": "x", "message": "x"}', "the service said: x"),
        (b"", None),
        (b"no", None),
        (b'{"status": "error"}', None),
        (b'{"error": true}', None),
        (b"[1]", None),
    ],
)
async def test_an_error_has_the_reason_of_the_service(
    body: bytes, reason: str | None, connect: Connect
) -> None:
    client, _ = await connect(answer(body, status=400))
    error = await failure(client, InvalidRequestError)
    assert error.message == "; ".join(filter(None, ("the service refused the request", reason)))
