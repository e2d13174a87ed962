"""What the commands refuse, and what they say and exit with when the service fails."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from seorep_async import InvalidRequestError, SeoRepClient
from seorep_async.cli.exit_codes import service_message
from seorep_async.session import Clock
from tests.cli.running import KEY, Seorep, process, shell


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("campaigns get 2147483648", "is not an integer from 1 to"),
        ("campaigns get", "Missing argument 'ID'"),
        ("campaigns create --url u", "Missing option '--company'"),
        ("campaigns list --limit x", "'x' is not an integer"),
        ("campaigns update 1 --request-encoding xml --url u", "'xml' is not one of"),
        ("keywords delete 1", "No such command"),
        ("backlinks list", "Missing option '--campaign-id'"),
        ("backlinks list --campaign-id 1 --status gone", "'gone' is not one of"),
        ("backlinks list --campaign-id 1 --date-string 2023-01-01 1.2.23", "'1.2.23' is not a date"),
    ],
)
def test_it_is_refused_with_2_before_any_request(seorep: Seorep, arguments: str, said: str) -> None:
    with seorep.account() as sandbox:
        ended = seorep(*arguments.split())
        assert sandbox.stats.requests == 0
    assert (ended.code, ended.out) == (2, "")
    assert said in " ".join(ended.err.split())


def test_a_taken_username_is_2_and_quotes_the_service(seorep: Seorep) -> None:
    who = ("--first-name", "A", "--last-name", "B", "--username", "grace.garcia", "--role", "client")
    seorep.give_stdin(b"open sesame")
    with seorep.account():
        ended = seorep("users", "create", *who, "--password-stdin")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines() == [
        "Error: user: the service refused (status 409)",
        "The service said: username is taken: it must be unique",
    ]


def test_a_failing_page_leaves_no_half_document(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SeoRepClient, "_clock", Clock(jitter=lambda: 0.0))
    with seorep.account(campaigns=200, faults="500s=60%"):
        for _ in range(5):
            ended = seorep("campaigns", "list", "--limit", 1, "--json")
            if ended.code:
                break
    assert (ended.code, ended.out) == (5, "")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"status":"error","code":409,"message":"taken"}', "taken"),
        ('{"error": {"message": "bad url", "code": "E7"}}', "bad url"),
        ('{"status":"error","results":{"messages":["one","two"]}}', "one; two"),
        ('{"errors": {"url": ["is empty"], "company": "is short"}}', "url: is empty; company: is short"),
        ('{"url": ["is empty"]}', "url: is empty"),
        ('["no"]', "no"),
        ("plain words", "plain words"),
        ("<html><body>Nope</body></html>", None),
        ('{"message": "cut o…', None),
        ("{}", None),
        (None, None),
        ('{"message": "\\u001b[31mred"}', "\N{REPLACEMENT CHARACTER}[31mred"),
    ],
)
def test_the_service_is_quoted_in_one_readable_line(body: str | None, said: str | None) -> None:
    assert service_message(InvalidRequestError("the service refused", status=400, body_excerpt=body)) == said


def test_a_quote_that_the_message_holds_is_left_out() -> None:
    error = InvalidRequestError("the service says: taken", status=400, body_excerpt='{"message": "taken"}')
    assert service_message(error) is None


def test_a_full_disk_is_7_and_one_line(seorep: Seorep) -> None:
    with seorep.account():
        ended = shell("seorep campaigns list > /dev/full")
    assert (ended.returncode, ended.stderr) == (7, "Error: can't write to stdout: No space left on device\n")


def test_who_stops_reading_is_no_error_to_tell(seorep: Seorep) -> None:
    with seorep.account(campaigns=400, keywords=50):
        ended = shell("seorep keywords list --format csv | head -n 1; exit ${PIPESTATUS[0]}")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("id,")


def test_an_interrupted_write_says_that_it_may_have_happened(seorep: Seorep) -> None:
    update = ("campaigns", "update", "2", "--company", "New")
    with seorep.account(latency=100.0) as sandbox, process(*update) as running:
        while not sandbox.stats.requests:
            assert running.poll() is None
            time.sleep(0.01)
        running.terminate()
        out, err = running.communicate()
    assert (running.returncode, out) == (130, "")
    assert "Interrupted; campaign 2 may have been changed: check before you repeat it.\n" in err


def test_the_key_is_nowhere_in_the_output(seorep: Seorep) -> None:
    with seorep.account(api_key=KEY):
        every: list[Any] = [seorep("campaigns", "list", "--json"), seorep("users", "get", 99), seorep("users", "list")]
    assert KEY not in json.dumps([(ended.out, ended.err) for ended in every])
