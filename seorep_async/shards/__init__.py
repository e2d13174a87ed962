"""A pull cut into shards: plain data that any engine can map over its workers.

One process can usually use all that the service allows. Shards are for other cases: pulls that take hours and must
survive the loss of a machine, rows that must land in a cluster or a bucket, orchestrators that want small tasks to
retry. Nothing here imports an engine.

```python
from concurrent.futures import ThreadPoolExecutor  # or ProcessPoolExecutor, or a Dask client: `client.map`

from seorep_async.shards import gather, plan, run_shard

shards = await plan(client, None, "2023-01-01", "2023-03-31", out="shared/", shards=4, workers=2)
with ThreadPoolExecutor(2) as pool:
    receipts = list(pool.map(run_shard, shards))

summary = gather(shards)
print(summary.rows, "rows of", summary.campaigns, "campaigns")
```

- **A shard is whole or absent.** Each becomes one part of each table of a dataset (see `seorep_async.export`), and its
  receipt is written last. `gather` checks that every receipt exists, and only then changes what readers see.
- **A shard may run again.** One that has succeeded returns its receipt without a request. One that was killed resumes
  from the checkpoint in its `work_dir`; on another machine, or if the checkpoint is damaged, it starts over. One with
  failures fetches only those.
- **A shard holds no key**, as engines log their tasks: only the environment variable in which the worker finds it,
  `env:NAME`. Or give a function that returns it: `run_shard(shard, key=function)`. A key of another account than the
  plan's is refused. Put secrets of an object store into the environment, too.
- **A shard is run as it was planned, or not at all.** Its seal can only be made with the API key, so a shard that was
  changed since is refused before anything is read, written or sent.
- **Limits are divided.** `workers` divides `max_concurrency` and `requests_per_second`; within that, each worker finds
  its own share of what the service allows, once for all the shards that it runs. A process for each shard, as some
  orchestrators start them, finds its share each time: set `requests_per_second` if you know the limit.
- **The same call of `plan` resumes** an unfinished plan; `restart=True` deletes it and makes a new one.
"""

from seorep_async.shards.plan_and_gather import gather, plan
from seorep_async.shards.running import read_shard, run_shard
from seorep_async.shards.shard import Shard, ShardReceipt

__all__ = ["Shard", "ShardReceipt", "gather", "plan", "read_shard", "run_shard"]
