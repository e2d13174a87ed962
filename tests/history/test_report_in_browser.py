"""A report in a real browser: its requests when it is opened, and its appearance."""

import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import attrs
import pytest

from seorep_async.history import report
from tests.history.databases import database_of, nightly
from tests.history.test_report import TWO_DAYS

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--proxy-bypass-list=<-loopback>",
)
PAGE = "http://report.example/"
ELSEWHERE = "http://elsewhere.example/"


@attrs.frozen
class Browser:
    """A browser whose requests go to our own proxy, which records them and serves pages."""

    server: ThreadingHTTPServer
    folder: Path
    pages: dict[str, bytes] = attrs.field(factory=dict)
    requests: list[str] = attrs.field(factory=list)

    def open(self, page: bytes, *options: str) -> str:
        """Open a page, and return what the browser prints."""
        self.pages[PAGE] = page
        proxy = f"--proxy-server=127.0.0.1:{self.server.server_port}"
        data = f"--user-data-dir={self.folder}"
        command = [str(CHROMIUM), *FLAGS, proxy, data, *options, PAGE]
        ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        return ended.stdout


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            opened.requests.append(self.path)
            self.send_response(200 if self.path in opened.pages else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(opened.pages.get(self.path, b""))

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        opened = Browser(server, tmp_path / "browser")
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield opened
        server.shutdown()
        serving.join()


@pytest.fixture
def page(tmp_path: Path) -> bytes:
    """A report whose strings from the service would send requests if they became HTML."""
    sends = f"<img src={ELSEWHERE}phrase><script>fetch('{ELSEWHERE}script')</script>"
    source = database_of(tmp_path, nightly(*TWO_DAYS), search_location_canonical_name=sends)
    return report(
        source, out=tmp_path / "page.html", title=sends, engine_names=(sends, "B")
    ).read_bytes()


def test_an_opened_report_requests_nothing(browser: Browser, page: bytes) -> None:
    browser.open(page, "--dump-dom")
    assert [url for url in browser.requests if ".example" in url] == [PAGE]
    browser.open(f"<!DOCTYPE html><img src={ELSEWHERE}image>".encode(), "--dump-dom")
    # The proxy sees requests.
    assert f"{ELSEWHERE}image" in browser.requests
