"""`seorep doctor`."""

from __future__ import annotations

import datetime as dt
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from seorep_async import SeoRepClient
from seorep_async.cli.doctor import Level, compare_clocks
from seorep_async.session import Clock
from tests.cli.running import Seorep, serving


def findings(text: str) -> dict[str, str]:
    return {line[6:26].strip(): line[:4].strip() + " " + line[26:] for line in text.splitlines()}


def test_a_healthy_service_passes_every_check(seorep: Seorep) -> None:
    ended = seorep("doctor", "--sandbox")
    said = findings(ended.err)
    assert (ended.code, ended.out) == (0, "")
    assert said["key"] == "ok accepted"
    assert said["clock"] == "ok agrees with the service's"
    assert said["connection"].startswith("ok 127.0.0.1 answered after ")


@pytest.mark.parametrize("shape", ["nested", "flat"])
@pytest.mark.parametrize("rows", ["current", "older"])
def test_it_reports_the_shape_of_the_answers(seorep: Seorep, shape: str, rows: str) -> None:
    said = seorep("doctor", "--sandbox", "--shape", shape, "--rows", rows).err
    assert f"campaign 1: 50 rows, 25 on page 1 of 2, {shape} shape, {rows} rows, no totals" in said
    assert f"keyword 100001: 3 rows, 3 on page 1 of 1, {shape} shape, {rows} rows, totals" in said


def test_undocumented_fields_are_named(seorep: Seorep) -> None:
    assert "undocumented fields, stored in `extra`: type" in seorep("doctor", "--sandbox").err


def test_unknown_names_of_engines_are_noted(seorep: Seorep) -> None:
    ended = seorep("doctor", "--sandbox", "--engine-names", "google,bing,wmt")
    assert (ended.code, ended.err.count("pass --engine-names")) == (0, 1)
    assert findings(ended.err)["engine-names"].startswith("note no column takes engineAMobileRanking; ")
    assert "--engine-names" not in seorep("doctor", "--sandbox").err


def test_it_sends_four_requests_that_only_read(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as sandbox:
        monkeypatch.setenv("SEOREP_BASE_URL", sandbox.base_url)
        monkeypatch.setenv("SEOREP_API_KEY", "sandbox")
        assert seorep("doctor").code == 0
        assert sandbox.stats.requests == 4


def test_missing_variables_are_named(seorep: Seorep) -> None:
    ended = seorep("doctor")
    assert (ended.code, ended.err.split()[:2]) == (2, ["FAIL", "settings"])
    assert "SEOREP_BASE_URL and SEOREP_API_KEY must be set" in ended.err


def test_a_wrong_key_is_3_and_not_shown(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as sandbox:
        monkeypatch.setenv("SEOREP_BASE_URL", sandbox.base_url)
        monkeypatch.setenv("SEOREP_API_KEY", "s3cret-k3y")
        ended = seorep("doctor")
    assert ended.code == 3
    assert "FAIL  responses" in ended.err
    assert "s3cret" not in ended.err


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://127.0.0.1:9", "127.0.0.1:9: Connection refused"),
        ("https://no-such-host.invalid", "no-such-host.invalid:443: "),
    ],
)
def test_an_unreachable_service_is_5(seorep: Seorep, monkeypatch: pytest.MonkeyPatch, address: str, said: str) -> None:
    monkeypatch.setenv("SEOREP_BASE_URL", address)
    monkeypatch.setenv("SEOREP_API_KEY", "key")
    ended = seorep("doctor")
    assert ended.code == 5
    assert said in ended.err


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/s\u00e9o", "https://n\u00f6-such-host.invalid"])
def test_an_address_that_is_not_ascii_is_looked_up(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("SEOREP_BASE_URL", address)
    monkeypatch.setenv("SEOREP_API_KEY", "key")
    ended = seorep("doctor")
    assert ended.code == 5
    assert "FAIL  connection" in ended.err


class Website(BaseHTTPRequestHandler):
    """A web site that is not the service."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        status, body = (200, b"<html>Welcome</html>") if path.startswith("/home/") else (404, b"<html>Not found</html>")
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("path", ["", "/home"], ids=["404", "200"])
def test_a_server_that_is_not_the_service_is_named(seorep: Seorep, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr(SeoRepClient, "_clock", Clock(jitter=lambda: 0.0))
    with ThreadingHTTPServer(("127.0.0.1", 0), Website) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        monkeypatch.setenv("SEOREP_BASE_URL", f"http://127.0.0.1:{server.server_port}{path}")
        monkeypatch.setenv("SEOREP_API_KEY", "key")
        ended = seorep("doctor")
        server.shutdown()
    assert ended.code in (2, 5)
    assert "; check the base URL" in ended.err


def test_an_account_without_campaigns_is_reported(seorep: Seorep) -> None:
    ended = seorep("doctor", "--sandbox", "--campaigns", 0)
    assert ended.code == 0
    assert "not checked, as the account has no campaign" in ended.err


@pytest.mark.parametrize(
    ("date", "level", "words"),
    [
        ("Sat, 01 Jul 2023 12:00:30 GMT", Level.OK, "agrees"),
        ("Sat, 01 Jul 2023 11:00:00 GMT", Level.NOTE, "3,600 s ahead of the service's"),
        ("Sat, 01 Jul 2023 12:02:00 GMT", Level.NOTE, "120 s behind the service's"),
        ("once", Level.NOTE, "does not send its time"),
        ("Sat, 01 Jul 99999999999999999999 12:00:30 GMT", Level.NOTE, "does not send its time"),
        (None, Level.NOTE, "does not send its time"),
    ],
)
def test_clocks_are_compared(date: str | None, level: Level, words: str) -> None:
    found = compare_clocks(date, dt.datetime(2023, 7, 1, 12, 0, tzinfo=dt.UTC))
    assert found.level is level
    assert words in found.message
