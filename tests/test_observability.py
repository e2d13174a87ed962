"""The guide `observability`: its spans, metrics and log lines are right, and hold no key."""

import ast
import asyncio
import io
import json
from collections import Counter
from contextlib import redirect_stdout
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from seorep_async.sandbox import Sandbox
from tests.session.calls import KEY
from tests.session.canary import assert_key_is_not_in
from tests.test_guides import PAGES
from tests.threads import in_a_thread


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """The names that the guide's snippets define, with all lines that they printed as `printed`."""
    defined: dict[str, Any] = {}
    with (
        in_a_thread(
            Sandbox(campaigns=12, keywords=30, seed=1, shape="mixed", rows="mixed", api_key=KEY)
        ) as service,
        pytest.MonkeyPatch.context() as environment,
        redirect_stdout(io.StringIO()) as printed,
    ):
        environment.setenv("SEOREP_BASE_URL", service.base_url)
        environment.setenv("SEOREP_API_KEY", KEY)
        asyncio.run(run_snippets(defined))
    return defined | {"printed": printed.getvalue().splitlines()}


async def run_snippets(defined: dict[str, Any]) -> None:
    for block in PAGES["observability"]:
        faulty = block.code.replace("Sandbox(campaigns", f"Sandbox(api_key={KEY!r}, campaigns")
        code = compile(faulty, "observability", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, defined)  # noqa: S307
        if asyncio.iscoroutine(result):
            await result


def test_spans_are_the_attempts_and_their_parent_has_the_retries(names: dict[str, Any]) -> None:
    *children, parent = names["exporter"].get_finished_spans()
    assert {span.parent.span_id for span in children} == {parent.context.span_id}
    statuses = Counter(span.attributes["http.status_code"] for span in children)
    events = [dict(event.attributes) for event in parent.events]
    assert statuses[500] == sum(event["cause"] == "transient" for event in events) > 0
    assert statuses[200] == 10
    assert all(event["waited"] > 0 for event in events if event["number"] > 1)


def test_metrics_are_what_prometheus_reads(names: dict[str, Any]) -> None:
    exposed = "\n".join(line for line in names["printed"] if line.startswith(("seorep_", "# ")))
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(exposed)
        for sample in family.samples
    }
    count = samples["seorep_attempt_seconds_count", (("method", "GET"), ("outcome", "success"))]
    assert count == samples["seorep_wait_seconds_count", ()] > 0
    assert samples["seorep_concurrency", ()] == 16
    assert samples["seorep_in_flight", ()] == 0


def test_log_lines_are_json_with_fields(names: dict[str, Any]) -> None:
    lines = [json.loads(text) for text in names["printed"] if text.startswith("{")]
    assert lines
    assert {(line["level"], line["status"], line["cause"]) for line in lines} == {
        ("debug", 500, "transient")
    }
    assert all(
        {"method", "path", "attempt", "seconds", "delay", "event"} <= line.keys() for line in lines
    )


def test_failed_attempts_are_seen(names: dict[str, Any]) -> None:
    assert names["failed"]
    assert {(one.status, one.cause) for one in names["failed"]} == {(500, "transient")}


def test_no_span_metric_or_line_holds_the_key(names: dict[str, Any]) -> None:
    for span in names["exporter"].get_finished_spans():
        assert_key_is_not_in(span.to_json())
    assert_key_is_not_in("\n".join(names["printed"]))
    assert_key_is_not_in(repr(names["failed"]))


def test_a_pull_in_the_background_is_followed_to_its_end(names: dict[str, Any]) -> None:
    (line,) = [text for text in names["printed"] if "data: " in text]
    end = {"total": 3, "reports": 2, "failures": 1, "running": False}
    assert json.loads(line.partition("data: ")[2]) == end


def test_the_end_of_the_service_cancels_its_pulls(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    many = {"campaign": list(range(1, 3000))}
    with in_a_thread(Sandbox(campaigns=12, api_key=KEY)) as service:
        monkeypatch.setenv("SEOREP_BASE_URL", service.base_url)
        with TestClient(names["app"]) as web:
            numbers = [web.post("/acme/pulls", params=many).json() for _ in range(2)]
            web.delete(f"/pulls/{numbers[0]}")
            assert web.get(f"/pulls/{numbers[0]}").text.endswith('"running": false}\n\n')
        assert [names["jobs"][number][0].cancelled() for number in numbers] == [True, True]
