r"""In a service of your own: every attempt in sight, metrics, traces, logs, and an endpoint.

## Every attempt

`on_attempt` is called after every attempt, retries, cancelled ones and the probe of a key included, with an `Attempt`:
what was requested, the number of the attempt, status, error and cause, bytes, seconds, and how long it had waited.
`client.stats` adds them up.

```python
from seorep_async.sandbox import Sandbox

failed: list[Attempt] = []


def note(attempt: Attempt) -> None:
    if attempt.error is not None:
        failed.append(attempt)


async with Sandbox(campaigns=9, faults="500s=20%", seed=1) as faulty:
    async with SeoRepClient(faulty.base_url, faulty.api_key, on_attempt=note) as watched:
        async with watched.rankings.pull(range(1, 10), "2023-01-01", "2023-03-31") as outcomes:
            print([outcome.ok async for outcome in outcomes])

print([(attempt.subject, attempt.number, attempt.status, attempt.cause) for attempt in failed])
```

It is called in the task of the call, after the response was read, and can change nothing: what it raises is logged. No
path, subject or error class holds a secret, and there is no query. An attempt whose response was lost has no status; it
may have reached the service.

## Prometheus

A histogram of the attempts, and gauges of the present limits:

```python
import math

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest

registry = CollectorRegistry()
seconds = Histogram("seorep_attempt_seconds", "Time of an attempt.", ["method", "outcome"], registry=registry)
waited = Histogram("seorep_wait_seconds", "Time that a request waited before an attempt.", registry=registry)
in_flight = Gauge("seorep_in_flight", "Attempts in flight.", registry=registry)
concurrency = Gauge("seorep_concurrency", "Attempts that may be in flight.", registry=registry)
pace = Gauge("seorep_pace", "Attempts a second that the service accepts.", registry=registry)


def measure(attempt: Attempt) -> None:
    outcome = attempt.cause or ("success" if attempt.error is None else "cancelled")
    seconds.labels(attempt.method, outcome).observe(attempt.seconds)
    waited.observe(attempt.waited)


async with SeoRepClient(on_attempt=measure) as measured:
    in_flight.set_function(lambda: measured.stats.in_flight)
    concurrency.set_function(lambda: measured.stats.concurrency)
    pace.set_function(lambda: measured.stats.pace or math.nan)  # None: no limit was found
    await measured.campaigns.list()
    print(generate_latest(registry).decode())  # what your endpoint /metrics returns
```

Leave `path` and `subject` out of labels, or replace the ids in them: each value would be a series of its own.

## OpenTelemetry

The instrumentor of aiohttp gives a span for each attempt, as a child of yours, also within pulls, with no line of this
package. What it can't know are the retries and the waits; `on_attempt` adds them to the span around the call:

```python
from opentelemetry import trace
from opentelemetry.instrumentation.aiohttp_client import AioHttpClientInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()  # in a service, one that sends
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
AioHttpClientInstrumentor().instrument(  # before a client is opened
    tracer_provider=provider,
    url_filter=lambda url: str(url.with_query(None)),  # a search may be private
)


def add_event(attempt: Attempt) -> None:
    if attempt.cause is not None or attempt.number > 1:
        facts = {"number": attempt.number, "cause": attempt.cause or "", "waited": attempt.waited}
        trace.get_current_span().add_event("attempt", facts)


async with Sandbox(campaigns=3, faults="500s=40%", seed=1) as faulty:
    async with SeoRepClient(faulty.base_url, faulty.api_key, on_attempt=add_event) as traced:
        with provider.get_tracer("reports").start_as_current_span("ten calls"):
            for _ in range(10):
                await traced.campaigns.list()

AioHttpClientInstrumentor().uninstrument()
*children, parent = exporter.get_finished_spans()
print(len(children), "attempts;", [dict(event.attributes or {}) for event in parent.events])
```

## Structured logs

The logger is `seorep_async`. Its records have fields (`extra=`), by which handlers filter and JSON formatters write:

| level | record | fields |
| --- | --- | --- |
| DEBUG | a retry | those of the attempt, and `delay`, the seconds before the next |
| INFO | the first decrease of the pace | those of the attempt, and `pace` |
| INFO | fewer requests at once than asked for | those of the attempt, and `concurrency` |
| INFO | the end of a pull | `ids`, `reports`, `failures`, `seconds` |
| ERROR | an exception of `on_attempt` | those of the attempt |

Those of the attempt are `method`, `path`, `subject`, `status`, `attempt` (its number), `cause` and `seconds`.

With structlog, as JSON; `seorep pull --log-file FILE` writes the same without it:

```python
import logging
import sys

import structlog

handler = logging.StreamHandler(sys.stdout)
handler.setFormatter(
    structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.ExtraAdder()],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(),
        ],
    )
)
log = logging.getLogger("seorep_async")
log.addHandler(handler)
log.setLevel(logging.DEBUG)
async with Sandbox(campaigns=3, faults="500s=40%", seed=1) as faulty:
    async with SeoRepClient(faulty.base_url, faulty.api_key) as logged:
        for _ in range(10):
            await logged.campaigns.list()

log.removeHandler(handler)
log.setLevel(logging.NOTSET)
```

## A web service of many accounts

One aiohttp session and one `Limits` serve the clients of all accounts. An endpoint for FastAPI streams the rankings of
campaigns as JSON lines. Each line has one member, so that nobody takes a failure for a row: `row`, `failure` or, in the
last line, `end`. A stream without `end` was cut short.

```python
import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import date
from typing import Annotated

import aiohttp
from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, StreamingResponse

from seorep_async import ConfigurationError, KeywordRanking, Limits, Pull, SeoRepClient

KEYS = {name: os.environ["SEOREP_API_KEY"] for name in ("acme", "globex")}  # in yours, each has its own
jobs: list[tuple[asyncio.Task[None], dict[str, int]]] = []


@asynccontextmanager
async def clients(app: FastAPI) -> AsyncGenerator[dict[str, dict[str, SeoRepClient]], None]:
    connector, limits = aiohttp.TCPConnector(limit=0), Limits()  # where the service limits your address
    async with aiohttp.ClientSession(connector=connector) as session, AsyncExitStack() as stack:
        opened: dict[str, SeoRepClient] = {}
        for name, key in KEYS.items():
            client = SeoRepClient(api_key=key, account=name, session=session, limits=limits)
            opened[name] = await stack.enter_async_context(client)
        yield {"clients": opened}
        running = [task for task, _ in jobs if task.cancel()]
        await asyncio.gather(*running, return_exceptions=True)


app = FastAPI(lifespan=clients)


@app.exception_handler(ConfigurationError)
async def bad_input(request: Request, error: ConfigurationError) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=422)


@app.get("/{account}/campaigns/{campaign}")
async def company(request: Request, account: str, campaign: int) -> str:
    client = request.state.clients[account]
    with client.timeout(2.0):  # it gets its turn beside all pulls
        return (await client.campaigns.get(campaign)).company


@app.get("/{account}/rankings")
async def rankings(
    request: Request, account: str, campaign: Annotated[list[int], Query()], start_date: date, end_date: date
) -> StreamingResponse:
    client = request.state.clients[account]
    pull = client.rankings.pull(campaign, start_date, end_date)  # bad input is refused here
    return StreamingResponse(json_lines(pull), media_type="application/x-ndjson")


async def json_lines(pull: Pull[KeywordRanking]) -> AsyncIterator[bytes]:
    rows = failures = 0
    async with pull as outcomes:  # a slow reader slows the pull, and one that stops ends it
        async for outcome in outcomes:
            if outcome.report is not None:
                rows += len(outcome.report.rows)
                yield b"".join(b'{"row":%b}\n' % line for line in outcome.report.to_jsonl().splitlines())
            else:
                failures += 1
                error = {"error": type(outcome.error).__name__, "message": str(outcome.error)}
                yield json.dumps({"failure": {"campaign_id": outcome.id, **error}}).encode() + b"\n"
    yield json.dumps({"end": {"rows": rows, "failures": failures}}).encode() + b"\n"
```

Pulls may also run in the background: start one, follow it by server-sent events, cancel it.

```python
async def run(pull: Pull[KeywordRanking], counts: dict[str, int]) -> None:
    async with pull as outcomes:
        async for outcome in outcomes:  # store outcome.report
            counts["reports" if outcome.ok else "failures"] += 1


async def events(task: asyncio.Task[None], counts: dict[str, int]) -> AsyncIterator[str]:
    running = True
    while running:
        await asyncio.wait([task], timeout=0.5)
        running = not task.done()
        yield f"data: {json.dumps(counts | {'running': running})}\n\n"


@app.post("/{account}/pulls")
async def start(request: Request, account: str, campaign: Annotated[list[int], Query()]) -> int:
    pull = request.state.clients[account].rankings.pull(campaign, "2023-01-01", "2023-03-31")
    counts = {"total": len(pull), "reports": 0, "failures": 0}
    jobs.append((asyncio.create_task(run(pull, counts)), counts))
    return len(jobs) - 1


@app.get("/pulls/{number}")
async def follow(number: int) -> StreamingResponse:
    return StreamingResponse(events(*jobs[number]), media_type="text/event-stream")


@app.delete("/pulls/{number}")
async def cancel(number: int) -> None:
    task, _ = jobs[number]
    task.cancel()
```

Serve it with `uvicorn --timeout-graceful-shutdown 0`: by default it stops only when nobody follows a pull any more. Or
try it in place:

```python
from fastapi.testclient import TestClient

question = {"campaign": [1, 2, 9999], "start_date": "2023-01-01", "end_date": "2023-03-31"}
with TestClient(app) as web:
    lines = [json.loads(line) for line in web.get("/acme/rankings", params=question).content.splitlines()]
    print([line for line in lines if "row" not in line])  # the failure of campaign 9999, and the end
    started = web.post("/acme/pulls", params={"campaign": [1, 2, 9999]}).json()
    print(web.get("/globex/campaigns/1").json(), web.get(f"/pulls/{started}").text.splitlines()[-2])
```
"""

__all__: list[str] = []
