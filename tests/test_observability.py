"""The guide `observability`: its spans, metrics and log lines are right, and hold no key."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.guide_names import names_of_guide
from tests.session.canary import assert_key_is_not_in


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    with names_of_guide("observability") as names:
        yield names


def test_spans_are_the_attempts_and_their_parent_has_the_retries(names: dict[str, Any]) -> None:
    *children, parent = names["exporter"].get_finished_spans()
    assert {span.parent.span_id for span in children} == {parent.context.span_id}
    statuses = Counter(span.attributes["http.status_code"] for span in children)
    events = [dict(event.attributes) for event in parent.events]
    assert statuses[500] == sum(event["cause"] == "transient" for event in events) > 0
    assert statuses[200] == 10
    assert all(event["waited"] > 0 for event in events if event["number"] > 1)


def test_prometheus_reads_the_metrics(names: dict[str, Any]) -> None:
    exposed = "\n".join(line for line in names["printed"] if line.startswith(("seorep_", "# ")))
    samples = {}
    for family in text_string_to_metric_families(exposed):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            samples[sample.name, labels] = sample.value
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
    assert {(attempt.status, attempt.cause) for attempt in names["failed"]} == {(500, "transient")}


def test_no_span_metric_or_log_line_contains_the_key(names: dict[str, Any]) -> None:
    for span in names["exporter"].get_finished_spans():
        assert_key_is_not_in(span.to_json())
    assert_key_is_not_in("\n".join(names["printed"]))
    assert_key_is_not_in(repr(names["failed"]))
