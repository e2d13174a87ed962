"""Row 41: real proxies in front of the sandbox. They refuse, close, compress or cut."""

import asyncio
import logging
import math
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme

from seorep_async import SeoRepError
from seorep_async.sandbox import Sandbox
from tests.faults.conftest import Check
from tests.faults.proxies import Proxy, haproxy, needs, nginx
from tests.faults.run import Results, opened, results_of
from tests.session.calls import KEY
from tests.session.canary import assert_error_does_not_show_key, assert_key_is_not_in

pytestmark = pytest.mark.heavy

CAMPAIGNS = 60
FEW = 20
PAGES = 5
SLOW = pytest.mark.slow
ALONE = pytest.mark.alone

Disturb = Callable[[Proxy], Coroutine[Any, Any, None]]


async def pull(base_url: str, campaigns: int, ca: bytes | None = None) -> Results:
    # Larger pages would take a third of the requests, and often too few to meet a limit.
    async with opened(base_url, ca, page_size=None) as client:
        results = await results_of(client, campaigns)
    for result in results.values():
        if isinstance(result, SeoRepError):
            assert_error_does_not_show_key(result)
    return results


@asynccontextmanager
async def service(**options: Any) -> AsyncIterator[Sandbox]:
    account: dict[str, Any] = {"campaigns": CAMPAIGNS, "keywords": 25 * PAGES, "shape": "mixed"}
    async with Sandbox(api_key=KEY, **account, **options) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def expected() -> Results:
    async def pull_directly() -> Results:
        async with service() as sandbox:
            return await pull(sandbox.base_url, CAMPAIGNS)

    return asyncio.run(pull_directly())


@pytest.fixture
def pull_through(
    caplog: pytest.LogCaptureFixture, expected: Results, check: Check
) -> Callable[..., Coroutine[Any, Any, None]]:
    """Pull through a proxy, compare with the sandbox itself, and look for the key in every log.

    Amplification counts the requests that the proxy saw, without its own refusals. `refused` is
    the share of requests that the proxy may refuse; if it may refuse any, it must refuse at least
    one. `seconds` is a limit of the time.
    """

    async def through(
        name: str,
        proxying: AbstractAsyncContextManager[Proxy],
        *,
        campaigns: int = CAMPAIGNS,
        ca: bytes | None = None,
        disturb: Disturb | None = None,
        refused: float | None = None,
        seconds: float = math.inf,
    ) -> None:
        async with proxying as proxy:
            with caplog.at_level(logging.DEBUG):
                disturbing = asyncio.create_task(disturb(proxy)) if disturb else None
                begun = time.monotonic()
                results = await pull(proxy.base_url, campaigns, ca)
                duration = time.monotonic() - begun
                if disturbing is not None:
                    disturbing.cancel()
                    with suppress(asyncio.CancelledError):
                        await disturbing
        seen = proxy.seen()
        refusals = seen[429, True] + seen[503, True]
        assert_key_is_not_in(caplog.text + proxy.logs())
        ids = range(1, campaigns + 1)
        wrong_ids = [id_ for id_ in ids if results.get(id_) != expected[id_]]
        figures: dict[str, Any] = {
            "wrong_reports": (len(wrong_ids), 0),
            "amplification": ((seen.total() - refusals) / (campaigns * PAGES), 1.06),
        }
        if refused is not None:
            figures["refused"] = (refusals / seen.total(), refused)
        if refused:
            figures["limit_never_met"] = (refusals == 0, 0)
        if seconds < math.inf:
            figures["seconds"] = (duration, seconds)
        check("41", name, **figures)

    return through


GZIP = "gzip on; gzip_types application/json; gzip_min_length 0; gzip_proxied any;"


async def reload_each_second(proxy: Proxy) -> None:
    while True:
        await asyncio.sleep(1)
        proxy.send(signal.SIGHUP)


async def stop_for_3_s(proxy: Proxy) -> None:
    await asyncio.sleep(0.5)
    await proxy.stop()
    await asyncio.sleep(3)
    await proxy.start()


async def freeze_for_3_s(proxy: Proxy) -> None:
    await asyncio.sleep(0.5)
    proxy.send(signal.SIGSTOP)
    try:
        await asyncio.sleep(3)
    finally:
        proxy.send(signal.SIGCONT)


@needs("nginx")
@pytest.mark.parametrize(
    ("campaigns", "rate", "burst", "delay", "status", "latency", "refused", "times_ideal"),
    [
        # The 16 in flight when the bucket runs dry are 16 % of 100 pages.
        pytest.param(FEW, 30, 20, "nodelay", 503, 0, 0.26, math.inf, marks=ALONE),
        pytest.param(CAMPAIGNS, 200, 40, "nodelay", 429, 0, 0.10, 1.6, marks=SLOW),
        pytest.param(CAMPAIGNS, 200, 40, "nodelay", 503, 0, 0.10, 1.6, marks=SLOW),
        pytest.param(CAMPAIGNS, 20, 20, "nodelay", 503, 0, 0.10, 1.6, marks=SLOW),
        # nginx delays: the requests in flight have room in a queue of 20, and not in one of 8.
        pytest.param(CAMPAIGNS, 20, 20, "", 503, 0, 0, 1.6, marks=SLOW),
        pytest.param(CAMPAIGNS, 20, 8, "", 503, 0, 0.10, 1.6, marks=SLOW),
        # One at a time takes 10 times as long.
        pytest.param(CAMPAIGNS, 50, 0, "", 503, 0.2, 0.10, 9.0, marks=SLOW),
    ],
)
async def test_nginx_limits_the_rate(
    campaigns: int,
    rate: int,
    burst: int,
    delay: str,
    status: int,
    latency: float,
    refused: float,
    times_ideal: float,
    pull_through: Any,
    tmp_path: Path,
) -> None:
    zone = (
        f"limit_req_zone $binary_remote_addr zone=rate:1m rate={rate}r/s; "
        f"limit_req_status {status};"
    )
    limit = f"limit_req zone=rate {delay};"
    if burst:
        limit = f"limit_req zone=rate burst={burst} {delay};"
    seconds = times_ideal * (campaigns * PAGES - burst) / rate
    async with service(latency=latency) as sandbox:
        proxying = nginx(sandbox.base_url, tmp_path, http=zone, location=limit)
        name = f"nginx limit_req {rate}/s, burst {burst} {delay}, {status}"
        await pull_through(name, proxying, campaigns=campaigns, refused=refused, seconds=seconds)


@needs("nginx")
@pytest.mark.parametrize("status", [pytest.param(503, marks=ALONE), pytest.param(429, marks=SLOW)])
async def test_nginx_limits_requests_at_once(
    status: int, pull_through: Any, tmp_path: Path
) -> None:
    zone = f"limit_conn_zone $binary_remote_addr zone=at_once:1m; limit_conn_status {status};"
    async with service(latency=0.05) as sandbox:
        proxying = nginx(sandbox.base_url, tmp_path, http=zone, location="limit_conn at_once 8;")
        await pull_through(f"nginx limit_conn 8, {status}", proxying, refused=0.10)


@needs("nginx")
@pytest.mark.parametrize(
    ("name", "server", "latency", "disturb"),
    [
        ("5 requests a connection", "keepalive_requests 5;", 0, None),
        ("gzip", GZIP, 0, None),
        pytest.param("reload each second", "", 0.15, reload_each_second, marks=ALONE),
        pytest.param("stopped for 3 s", "", 0.1, stop_for_3_s, marks=SLOW),
        pytest.param("frozen for 3 s", "", 0.1, freeze_for_3_s, marks=SLOW),
    ],
)
async def test_nginx_closes_compresses_reloads_and_stops(
    name: str,
    server: str,
    latency: float,
    disturb: Disturb | None,
    pull_through: Any,
    tmp_path: Path,
) -> None:
    async with service(latency=latency) as sandbox:
        proxying = nginx(sandbox.base_url, tmp_path, server=server)
        await pull_through(f"nginx, {name}", proxying, disturb=disturb)


@needs("nginx")
async def test_nginx_ends_tls(pull_through: Any, tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    async with service() as sandbox:
        proxying = nginx(sandbox.base_url, tmp_path, certificate=certificate)
        await pull_through("nginx, TLS", proxying, ca=authority.cert_pem.bytes())


@needs("haproxy")
@pytest.mark.parametrize(
    ("name", "backend", "timeout_server", "faults"),
    [
        pytest.param("timeout server under 2 % hangs", "", "2s", "hang=2%", marks=ALONE),
        ("http-server-close", "option http-server-close", "30s", ""),
    ],
)
async def test_haproxy_times_out_and_closes(
    name: str, backend: str, timeout_server: str, faults: str, pull_through: Any, tmp_path: Path
) -> None:
    async with service(faults=faults) as sandbox:
        proxying = haproxy(
            sandbox.base_url, tmp_path, backend=backend, timeout_server=timeout_server
        )
        await pull_through(f"HAProxy, {name}", proxying)


@needs("haproxy")
@pytest.mark.slow
@pytest.mark.parametrize(("rate", "status"), [(200, 429), (200, 503), (20, 503)])
async def test_haproxy_limits_the_rate_by_a_stick_table(
    rate: int, status: int, pull_through: Any, tmp_path: Path
) -> None:
    frontend = f"""
  stick-table type ip size 1k expire 10s store http_req_rate(1s)
  http-request track-sc0 src
  http-request deny deny_status {status} if {{ sc_http_req_rate(0) gt {rate} }}"""
    async with service() as sandbox:
        proxying = haproxy(sandbox.base_url, tmp_path, frontend=frontend)
        # A slow limit is found by more refusals: it may cost 12 %.
        refused = 0.12 if rate == 20 else 0.10
        name = f"HAProxy stick table {rate}/s, {status}"
        await pull_through(name, proxying, refused=refused)
