"""moto's S3 server as a process of its own, on a free port; what it holds is asked of it over HTTP."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import obstore
from obstore.store import S3Store

SECRET = "the-secret-of-the-bucket"
_SIGNED = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"


@attrs.frozen
class S3:
    """A running server.

    Attributes:
        port: its port on this machine.
    """

    port: int

    @property
    def options(self) -> dict[str, str]:
        """The `storage_options` for it."""
        return {
            "endpoint": f"http://127.0.0.1:{self.port}",
            "access_key_id": "x",
            "secret_access_key": SECRET,
            "region": "us-east-1",
            "allow_http": "true",
        }

    @property
    def environment(self) -> dict[str, str]:
        """The same as variables of the environment."""
        named = {f"AWS_{name.upper()}": value for name, value in self.options.items()}
        return named | {"AWS_ENDPOINT_URL": named.pop("AWS_ENDPOINT")}

    def bucket(self) -> Bucket:
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        self.ask("PUT", f"/{name}")
        return Bucket(self, name)

    def ask(self, method: str, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request(method, path, headers={"Authorization": _SIGNED})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        assert answer.status < 300, body
        return body


@attrs.frozen
class Bucket:
    server: S3
    name: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}"

    @property
    def store(self) -> Any:
        options = self.server.options
        client = {"allow_http": options.pop("allow_http")}
        return S3Store(self.name, client_options=client, **options)  # type: ignore[arg-type]

    def objects(self) -> dict[str, bytes]:
        """Return every object that can be seen."""
        while True:
            found = [entry["path"] for piece in obstore.list(self.store) for entry in piece]
            try:
                return {path: bytes(obstore.get(self.store, path).bytes()) for path in sorted(found)}
            except FileNotFoundError:  # a DELETE of a killed process was still under way: list again
                continue

    def remove(self) -> None:
        for path in self.objects():
            obstore.delete(self.store, path)
        self.server.ask("DELETE", f"/{self.name}")


@contextmanager
def running_s3() -> Iterator[S3]:
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"Running on http://127\.0\.0\.1:(\d+)", line):
                break
        # requests are logged, and an unread pipe would fill up
        process.stderr.close()
        assert found is not None
        yield S3(int(found[1]))
    finally:
        process.kill()
        process.wait()
