"""The whole service, embedded: for trying, rehearsing and testing without an account.

```python
from seorep_async.sandbox import RateLimit, Sandbox

async with Sandbox(campaigns=20, keywords=30, shape="mixed", rate_limit=RateLimit(200, burst=40)) as sandbox:
    sandbox.faults = "resets=5%,500s=5%,cut=2%"
    async with SeoRepClient(sandbox.base_url, sandbox.api_key) as rehearsing:
        async with rehearsing.rankings.pull(range(1, 21), "2023-01-01", "2023-03-31") as outcomes:
            rows = [len(outcome.report.rows) async for outcome in outcomes if outcome.report]
        print(sum(rows), "rows;", rehearsing.stats.attempts, "attempts;", dict(rehearsing.stats.retries))
    print(sandbox.stats.requests, "requests arrived;", dict(sandbox.stats.faults))
```

`seorep sandbox` serves it on a port of this machine until Ctrl-C, and `seorep pull --sandbox` pulls from one of its
own; both take the same options. It has all 21 operations of the service, and stores changes until it is closed. The
same seed gives the same account, in whatever shape.

`faults` sets the share of requests that meet a fault: `resets=5%,500s=5%,cut=2%`, and `seed=7` to choose others:

| kind | what the caller gets instead of the response |
| --- | --- |
| `resets` | the connection is reset (RST) before the response |
| `cut` | the head and half of the body that it announces, then the end of the connection |
| `hang` | nothing, for as long as the caller waits |
| `slow` | the response, a byte every 50 ms |
| `closes` | the whole response, then the end of the connection, unannounced |
| `empty` | status 200 and no body |
| `html` | status 200 and an HTML page |
| `malformed` | half of the JSON, with a length to match |
| `errors` | status 200 and an error in JSON |
| `redirects` | status 302 to another host |
| `garbage` | bytes that are not HTTP, then the end of the connection |
| `400s` to `599s` | this status, for example `500s` or `503s` |

A request that meets one of these was carried out: a write happened, once, and only the response to it suffers. The
last line is the exception: such a request is refused before anything is done.

`rate_limit` refuses requests as real services do. As a string it is a rate and any of these, with commas between:
`200/s,burst=40,retry-after=seconds`, `100/10s,fixed-window,status=503`, `1000/m,sliding-window,counts-refused`,
`at-once=8`.

| part | meaning |
| --- | --- |
| `200`, `200/s`, `100/10s`, `1000/m`, `5000/h` | requests in a second, or in that time: a window's length |
| `bucket` | tokens are refilled steadily, up to `burst` of them; the default |
| `fixed-window` | requests are counted from zero again at the start of each window |
| `sliding-window` | requests are counted over the last window |
| `counts-refused` | with a sliding window: refused requests count, too |
| `burst=40` | with a bucket: requests at once after a pause |
| `at-once=8` | more requests than this being answered at the same time are refused, too |
| `status=503` | the status of a refusal; 429 unless given |
| `retry-after=seconds`, `retry-after=date` | refusals say when to come back; they do not unless given |

`failing` and `forbidden` name campaigns whose responses are always 500 and 403.
"""

# From the outside in: `server` listens, `application` is the chain that every request passes (`traffic` counts it,
# `rate_limit` may refuse it, `faults` may replace its response), `operations` lists what it may ask of the `account`.
from seorep_async.sandbox.faults import Faults
from seorep_async.sandbox.rate_limit import RateLimit
from seorep_async.sandbox.server import Sandbox
from seorep_async.sandbox.traffic import Stats

__all__ = ["Faults", "RateLimit", "Sandbox", "Stats"]
