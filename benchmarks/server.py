"""The service of the benchmarks: a separate process that only sends prepared responses."""

import asyncio
import gc
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from benchmarks import bodies
from benchmarks.load import AUTHORIZATION, PATH, Load

_REQUEST = re.compile(rb"GET " + re.escape(PATH.encode()) + rb"\?(\S+) HTTP/1\.1\r\n")
_CAMPAIGN = re.compile(rb"(?:^|&)campaign_id=(\d+)")
_PAGE = re.compile(rb"(?:^|&)page=(\d+)")
_KEY = AUTHORIZATION.encode()
_REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"


@contextmanager
def serving(load: Load) -> Iterator[str]:
    """Run a service with this load, and yield its address."""
    command = [sys.executable, "-m", "benchmarks.server", msgspec.json.encode(load).decode()]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        if not address:
            raise RuntimeError(
                f"the server of the benchmark did not start: exit code {server.wait()}"
            )
        try:
            yield address
        finally:
            server.communicate()  # it ends with its standard input


class _Connection(asyncio.Protocol):
    """A connection that stays open. Its requests are answered one after the other."""

    def __init__(self, answers: list[list[bytes]], latency: float) -> None:
        self._answers = answers
        self._latency = latency
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            request, self._received = self._received[: end + 2], self._received[end + 4 :]
            answer = self._answer(request)
            if self._latency:
                asyncio.get_running_loop().call_later(self._latency, self._send, answer)
            else:
                self._send(answer)

    def _answer(self, request: bytes) -> bytes:
        request_line = _REQUEST.match(request)
        if request_line is None or _KEY not in request:
            return _REFUSED
        query = request_line[1]
        campaign = _CAMPAIGN.search(query)
        if campaign is None:
            return _REFUSED
        page = _PAGE.search(query)
        pages = self._answers[(int(campaign[1]) - 1) % len(self._answers)]
        return pages[int(page[1]) - 1 if page else 0]

    def _send(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)


def _with_head(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _serve(answers: list[list[bytes]], latency: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Connection(answers, latency), "127.0.0.1", 0, backlog=1024
    )
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.to_thread(sys.stdin.read)


def _main() -> None:
    load = msgspec.json.decode(sys.argv[1], type=Load)
    answers = [[_with_head(body) for body in pages] for pages in bodies.build(load)]
    gc.freeze()
    gc.disable()
    asyncio.run(_serve(answers, load.latency))


if __name__ == "__main__":
    _main()
