"""The guide `web`: statuses, streams, background pulls, and visitors who leave."""

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import starlette.requests
import uvicorn
from fastapi.testclient import TestClient

import seorep_async
from seorep_async import (
    AttemptTimeoutError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    RateLimitedError,
    SeoRepError,
    ServerError,
    StatusError,
    guides,
)
from seorep_async.sandbox import Sandbox
from tests.guide_names import names_of_guide
from tests.session.calls import KEY
from tests.session.canary import assert_key_is_not_in
from tests.threads import in_a_thread


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    with names_of_guide("web") as names:
        yield names


def test_no_response_contains_the_key(names: dict[str, Any]) -> None:
    assert_key_is_not_in("\n".join(names["printed"]))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/campaigns/1", 200),
        ("/campaigns/9999", 404),
        ("/campaigns/0", 422),
        ("/campaigns/12", 403),
        ("/reports?start_date=2023-01-01&end_date=2022-01-01", 422),
        ("/changes?kind=rose", 500),
    ],
)
def test_an_error_has_the_status_of_the_table(
    path: str, status: int, names: dict[str, Any]
) -> None:
    with TestClient(names["app"]) as web:
        assert web.get(path).status_code == status


def test_visitors_see_no_path_and_no_other_account(names: dict[str, Any]) -> None:
    database = names["DATABASE"]
    for argument, shown in {
        "before": "the database has no rankings",
        "account": "the rankings are not available",
    }.items():
        problem = ConfigurationError(f"{database} has no rankings", argument=argument)
        assert names["said"](problem)["message"] == shown


@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "out of time"])
@pytest.mark.parametrize("error_class", [RateLimitedError, ServerError])
async def test_the_wait_of_a_busy_service_is_passed_on(
    error_class: type[StatusError], is_late: bool, names: dict[str, Any]
) -> None:
    error: SeoRepError = error_class("busy", retry_after=1.2)
    if is_late:
        late = DeadlineExceededError("the call timed out", attempts=2)
        late.__cause__ = error
        error = late
    response = await names["answer_error"](
        starlette.requests.Request({"type": "http", "path": "/", "headers": []}), error
    )
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "2"


def test_the_table_and_the_code_name_the_same_statuses(names: dict[str, Any]) -> None:
    rows = re.findall(r"^\| (.*) \| (\d{3}) \|", guides.pages()["web"], re.MULTILINE)
    status_of = names["status_of"]
    for cell, status in rows:
        for name in re.findall(r"`(\w+Error)`", cell):
            details: dict[str, Any] = {"attempts": 0 if "`attempts`" in cell else 1}
            if name == "ConfigurationError" and "`argument`" in cell:
                details["argument"] = "campaign_id"
            if "`status`" in cell:
                details["status"] = 403
            if "`subject`" in cell:
                details["subject"] = "campaign 42"
            error = getattr(seorep_async, name)("it went wrong", **details)
            assert status_of(error) == int(status), cell


@pytest.mark.parametrize(
    ("cause", "status"),
    [
        (ConnectionFailedError("refused"), 502),
        (ServerError("failed", status=500), 502),
        (RateLimitedError("busy", retry_after=3), 503),
        (AttemptTimeoutError("slow"), 504),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_call_out_of_time_has_the_status_of_its_cause(
    cause: SeoRepError, status: int, names: dict[str, Any]
) -> None:
    error = DeadlineExceededError("the call timed out", attempts=3)
    error.__cause__ = cause
    assert names["status_of"](error) == status


def test_an_outage_is_not_an_empty_list(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Sandbox(campaigns=2, failing=(1, 2), api_key=KEY)
    with in_a_thread(failing) as service:
        monkeypatch.setenv("SEOREP_BASE_URL", service.base_url)
        with TestClient(names["app"]) as web:
            response = web.get("/reports?start_date=2023-01-01&end_date=2023-03-31")
    assert response.status_code == 502
    assert response.json()["message"] == "the rankings are not available"


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/acme/campaigns/12", "/acme/campaigns/12"),
        ("/acme/rankings?campaign=12&start_date=2023-01-01&end_date=2023-03-31", "acme"),
    ],
    ids=["a call", "a stream"],
)
def test_hidden_messages_are_logged_with_the_account(
    path: str, place: str, names: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with TestClient(names["accounts"]) as web:
        answer = web.get(path).text
    assert "the rankings are not available" in answer
    (message,) = [record.getMessage() for record in caplog.records if record.name == "web"]
    assert message.startswith(f"{place}: AuthenticationError: campaign 12: no access: ")


def test_the_failures_of_a_pull_are_one_line_in_the_log(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with in_a_thread(Sandbox(campaigns=4, forbidden=(2, 3, 4), api_key=KEY)) as service:
        monkeypatch.setenv("SEOREP_BASE_URL", service.base_url)
        with TestClient(names["app"]) as web:
            answer = web.get("/reports?start_date=2023-01-01&end_date=2023-03-31").json()
    assert answer["rows"]
    assert [failure["campaign_id"] for failure in answer["failures"]] == [2, 3, 4]
    (message,) = [record.getMessage() for record in caplog.records if record.name == "web"]
    assert message.startswith("/reports: AuthenticationError: campaign 2: ")
    assert message.endswith(" (1 of 3)")


def test_an_account_whose_key_is_refused_is_not_healthy(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with TestClient(names["accounts"]) as web:
        assert web.get("/acme/health").json() == "ok"
    monkeypatch.setitem(names["KEYS"], "globex", "refused")
    with TestClient(names["accounts"]) as web:
        assert web.get("/globex/health").status_code == 502
        assert web.get("/acme/health").status_code == 200


def test_a_pull_in_the_background_is_followed_to_its_end(names: dict[str, Any]) -> None:
    (line,) = [line for line in names["printed"] if "data: " in line]
    end = json.loads(line.partition("data: ")[2])
    assert end.pop("error")["error"] == "NotFoundError"
    counts = {"total": 3, "reports": 2, "failures": 1}
    assert end == counts | {"cancelled": False, "running": False}


def test_a_background_pull_shows_and_logs_a_refused_key(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(names["KEYS"], "acme", "a-revoked-key")
    with in_a_thread(Sandbox(campaigns=2, api_key=KEY)) as service:
        monkeypatch.setenv("SEOREP_BASE_URL", service.base_url)
        with TestClient(names["accounts"]) as web:
            number = web.post("/acme/pulls", params={"campaign": [1, 2]}).json()
            followed = web.get(f"/pulls/{number}").text
    assert '"error": "AuthenticationError"' in followed
    assert "acme: AuthenticationError: " in caplog.text


@pytest.mark.parametrize("path", ["/unknown/campaigns/1", "/pulls/999", "/pulls/-1"])
def test_an_unknown_account_or_pull_is_a_404(path: str, names: dict[str, Any]) -> None:
    with TestClient(names["accounts"]) as web:
        assert web.get(path).status_code == 404


def test_the_end_of_the_service_cancels_its_pulls(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    many = {"campaign": list(range(1, 3000))}
    with in_a_thread(Sandbox(campaigns=12, api_key=KEY)) as service:
        monkeypatch.setenv("SEOREP_BASE_URL", service.base_url)
        with TestClient(names["accounts"]) as web:
            numbers = [web.post("/acme/pulls", params=many).json() for _ in range(2)]
            web.delete(f"/pulls/{numbers[0]}")
            followed = web.get(f"/pulls/{numbers[0]}").text
            assert followed.endswith('"cancelled": true, "running": false}\n\n')
        assert [names["jobs"][number][0].cancelled() for number in numbers] == [True, True]


# --- A visitor who leaves


@contextlib.asynccontextmanager
async def serving(app: Any) -> AsyncIterator[int]:
    """Serve an application with uvicorn on a free port."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=0)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:  # noqa: ASYNC110, uvicorn has no event for it
        await asyncio.sleep(0.005)
    yield listener.getsockname()[1]
    server.should_exit = True
    await task


async def test_a_disconnected_visitor_ends_the_pull(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Sandbox(campaigns=400, keywords=5, api_key=KEY, latency=0.05)
    with in_a_thread(slow) as service:
        monkeypatch.setenv("SEOREP_BASE_URL", service.base_url)
        async with serving(names["app"]) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            path = "/reports?start_date=2023-01-01&end_date=2023-03-31"
            writer.write(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            while service.stats.requests < 30:  # noqa: ASYNC110, no event tells
                await asyncio.sleep(0.005)
            writer.close()
            while service.stats.in_flight:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            assert service.stats.requests < 200
