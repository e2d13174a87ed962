"""A copy of the whole service, for trying, rehearsing and testing without an account.

```python
from seorep_async.sandbox import RateLimit, Sandbox

limit = RateLimit(200, burst=40)
async with Sandbox(campaigns=20, keywords=30, shape="mixed", rate_limit=limit) as sandbox:
    sandbox.faults = "resets=5%,500s=5%,cut=2%"
    async with SeoRepClient(sandbox.base_url, sandbox.api_key) as client:
        outcomes = await client.rankings.pull(range(1, 21), "2023-01-01", "2023-03-31")
        print(len(outcomes), "reports;", client.stats.attempts, "attempts")
    print(sandbox.stats.requests, "requests arrived;", dict(sandbox.stats.faults))
```

It has all 21 operations of the service, and stores changes until it is closed. The guide "testing"
lists the faults and limits. `seorep sandbox` serves it on a port of this machine until Ctrl-C.
"""

# From the outside in: `server` listens. `chain` has the steps of every request: it is counted,
# `rate_limit` may refuse it, and `faults` may replace its response. Otherwise, the operations on
# `records` and `feeds` answer it from the `service` and its `account`.
from seorep_async.sandbox.chain import Stats
from seorep_async.sandbox.faults import Faults
from seorep_async.sandbox.rate_limit import RateLimit
from seorep_async.sandbox.server import Sandbox

__all__ = ["Faults", "RateLimit", "Sandbox", "Stats"]
