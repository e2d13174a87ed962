"""`seorep doctor`."""

from __future__ import annotations

import datetime as dt
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from seorep_async import SeoRepClient
from seorep_async.cli.doctor import Level, compare_clocks
from seorep_async.session import Clock
from tests.cli.running import Seorep


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("https://no-such-host.invalid", "no-such-host.invalid:443: "),
        ("http://127.0.0.1:9/s\u00e9o", "FAIL  connection"),
        ("https://n\u00f6-such-host.invalid", "FAIL  connection"),
    ],
)
def test_an_unreachable_service_is_5(seorep: Seorep, monkeypatch: pytest.MonkeyPatch, address: str, said: str) -> None:
    monkeypatch.setenv("SEOREP_API_KEY", "key")
    ended = seorep("doctor", "--base-url", address)
    assert ended.code == 5
    assert said in ended.err


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
    found, said = compare_clocks(date, dt.datetime(2023, 7, 1, 12, 0, tzinfo=dt.UTC))
    assert found is level
    assert words in said
