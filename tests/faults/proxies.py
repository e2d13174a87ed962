"""The installed nginx and HAProxy in front of a sandbox, each with a test's own configuration."""

import asyncio
import os
import re
import shutil
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

_SEARCHED = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
_PACKAGES = {"nginx": "nginx-light", "haproxy": "haproxy"}

_NGINX = """
daemon off;
{user}
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log info;
events {{ worker_connections 512; }}
http {{
  log_format seen '$status $upstream_status';
  access_log {folder}/seen.log seen;
  access_log {folder}/combined.log combined;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream sandbox {{ server {upstream}; keepalive 32; }}
  {http}
  server {{
    listen 127.0.0.1:{port} {listen};
    {server}
    location / {{
      proxy_pass http://sandbox;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffers 16 64k;
      {location}
    }}
  }}
}}
"""
_HAPROXY = """
global
  log stdout format raw local0
defaults
  mode http
  log global
  log-format "%ST %[srv_name] %ts"
  timeout connect 2s
  timeout client 30s
  timeout server {timeout_server}
  retries 0
frontend entry
  bind 127.0.0.1:{port}
  {frontend}
  default_backend sandbox
backend sandbox
  {backend}
  server sandbox {upstream}
"""


def needs(program: str) -> pytest.MarkDecorator:
    """Skip tests if a proxy is not installed."""
    reason = f"{program} is not installed: apt-get install {_PACKAGES[program]}"
    return pytest.mark.skipif(_find(program) is None, reason=reason)


class Proxy:
    """A running proxy. Clients use its `base_url`."""

    def __init__(
        self, program: str, configuration: str, folder: Path, port: int, scheme: str = "http"
    ) -> None:
        self.base_url = f"{scheme}://127.0.0.1:{port}"
        self._program = program
        self._folder = folder
        self._port = port
        self._process: asyncio.subprocess.Process | None = None
        self._configuration = folder / f"{program}.conf"
        self._configuration.write_text(configuration, encoding="utf-8")

    async def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        program = _find(self._program)
        assert program is not None
        folder = self._folder
        arguments: list[str | Path] = ["-db", "-f", self._configuration]
        if self._program == "nginx":
            arguments = ["-p", folder, "-e", folder / "error.log", "-c", self._configuration]
        with (self._folder / "out.log").open("ab") as out:
            self._process = await asyncio.create_subprocess_exec(
                program, *arguments, stdout=out, stderr=out, start_new_session=True
            )
        while True:
            assert self._process.returncode is None, self.logs()
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self._port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return

    async def stop(self) -> None:
        """Stop it immediately, with all its connections."""
        if self._process is not None:
            self.send(signal.SIGTERM)
            await self._process.wait()
            self._process = None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to its processes.

        SIGHUP reloads nginx, SIGSTOP and SIGCONT freeze and thaw it.
        """
        assert self._process is not None
        # Only the master process reloads.
        if number is signal.SIGHUP:
            os.kill(self._process.pid, number)
        else:
            os.killpg(self._process.pid, number)

    def seen(self) -> Counter[tuple[int, bool]]:
        """Count the requests by status, and by whether the proxy answered them by itself."""
        counts: Counter[tuple[int, bool]] = Counter()
        if self._program == "nginx":
            lines = re.findall(r"^(\d+) (.+)$", self._read("seen.log"), re.MULTILINE)
            for status, upstream in lines:
                counts[int(status), upstream == "-"] += 1
        else:
            lines = re.findall(r"^(-?\d+) (\S+) (\S\S)$", self._read("out.log"), re.MULTILINE)
            for status, server, state in lines:
                counts[int(status), server == "-" or state != "--"] += 1
        return counts

    def logs(self) -> str:
        """Return everything that it has written, except its configuration."""
        return "".join(self._read(file.name) for file in sorted(self._folder.glob("*.log")))

    def _read(self, name: str) -> str:
        file = self._folder / name
        return file.read_text(encoding="utf-8") if file.exists() else ""


@asynccontextmanager
async def _running(program: str, configuration: str, *where: Any) -> AsyncIterator[Proxy]:
    proxy = Proxy(program, configuration, *where)
    try:
        await proxy.start()
        yield proxy
    finally:
        await proxy.stop()


def nginx(
    upstream: str,
    folder: Path,
    *,
    http: str = "",
    server: str = "",
    location: str = "",
    certificate: trustme.LeafCert | None = None,
) -> AbstractAsyncContextManager[Proxy]:
    """Run nginx in front of a base URL, with a test's own directives in the three blocks.

    With a certificate it serves https.
    """
    scheme = "http"
    listen = ""
    if certificate is not None:
        scheme = "https"
        listen = "ssl"
        certificate.private_key_and_cert_chain_pem.write_to_path(folder / "tls.pem")
        server += f" ssl_certificate {folder}/tls.pem; ssl_certificate_key {folder}/tls.pem;"
    user = ""
    if os.geteuid() == 0:
        user = "user root;"
    port = _free_port()
    configuration = _NGINX.format(
        user=user,
        upstream=upstream.removeprefix("http://"),
        port=port,
        listen=listen,
        folder=folder,
        http=http,
        server=server,
        location=location,
    )
    return _running("nginx", configuration, folder, port, scheme)


def haproxy(
    upstream: str,
    folder: Path,
    *,
    frontend: str = "",
    backend: str = "",
    timeout_server: str = "30s",
) -> AbstractAsyncContextManager[Proxy]:
    """Run HAProxy in front of a base URL, with a test's own lines in front end and back end."""
    port = _free_port()
    configuration = _HAPROXY.format(
        upstream=upstream.removeprefix("http://"),
        port=port,
        frontend=frontend,
        backend=backend,
        timeout_server=timeout_server,
    )
    return _running("haproxy", configuration, folder, port)


def _find(program: str) -> str | None:
    return shutil.which(program, path=_SEARCHED)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
