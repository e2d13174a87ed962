"""The guide `web`: statuses, streams, background pulls, and visitors who leave."""

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
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
from tests.golden import Page
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


def test_both_applications_answer_as_on_the_page(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ask the questions of `web.txt`, a page as `tests.golden` describes it.

    `key` changes the key of an account. `serve` has the options of a sandbox, and starts both
    applications. `log` shows the log. Any other question is an application, a method and a path.
    Its answer has the status, and beginning and end of each line.
    """
    names["jobs"].clear()
    page = Page(Path(__file__).with_name("web.txt"))
    with contextlib.ExitStack() as running:
        for question in page.questions():
            command, _, words = question.partition(" ")
            if command == "key":
                account, key = words.split()
                monkeypatch.setitem(names["KEYS"], account, key)
            elif command == "serve":
                running.close()
                sandbox = Sandbox(api_key=KEY, **json.loads(words))
                service = running.enter_context(in_a_thread(sandbox))
                monkeypatch.setenv("SEOREP_BASE_URL", service.base_url)
                webs = {
                    name: running.enter_context(TestClient(names[name]))
                    for name in ("app", "accounts")
                }
            elif command == "log":
                messages = [
                    record.getMessage() for record in caplog.records if record.name == "web"
                ]
                page.lines += [f"! {message}" for message in messages]
                caplog.clear()
            else:
                answer = webs[command].request(*words.split())
                page.lines.append(str(answer.status_code))
                for line in answer.text.splitlines():
                    # How often progress is reported depends on the machine.
                    if line and '"running": true' not in line:
                        page.lines.append(f"> {line[:40]}…{line[40:][-300:]}")
    page.compare()


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("before", "the database has no rankings"),
        ("account", "the rankings are not available"),
    ],
)
def test_visitors_see_no_path_and_no_other_account(
    argument: str, shown: str, names: dict[str, Any]
) -> None:
    problem = ConfigurationError(f"{names['DATABASE']} has no rankings", argument=argument)
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
