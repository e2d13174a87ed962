"""Engines that take a pull to many machines; `seorep_async.shards` says what a shard is.

dlt and Spark have sources of their own: `seorep_async.integrations.dlt`, `seorep_async.integrations.spark`. Any other
engine maps `run_shard` over the shards of a plan, and retries as it pleases: a shard that has its receipt costs
nothing. In each of these, `shards` comes from `plan`, or as JSON from `seorep shards plan`. **Dask** (extra `dask`):

```python
from dask.distributed import Client

from seorep_async.shards import gather, run_shard

with Client("tcp://scheduler:8786") as cluster:
    cluster.gather(cluster.map(run_shard, shards))
summary = gather(shards)
```

Dask can't interrupt a running task: a cancelled shard runs on, and if it is started again on the same machine, the
second run waits for the first. Let each worker have one thread, `threads_per_worker=1`. A function that returns the API
key is given by `functools.partial(run_shard, key=function)`, as `map` has a `key` of its own. **Ray**:

```python
import ray

from seorep_async.shards import gather, run_shard

ray.get([ray.remote(max_retries=3)(run_shard).remote(shard) for shard in shards])
summary = gather(shards)
```

**Prefect**:

```python
from prefect import flow, task

from seorep_async.shards import gather, run_shard

pull = flow(lambda: task(run_shard, retries=3).map(shards).result(), name="rankings", validate_parameters=False)
pull()
summary = gather(shards)
```

**Airflow**, where the shards go from task to task as JSON:

```python
from airflow.sdk import task

from seorep_async.shards import Shard, gather, run_shard

run = task(retries=3, task_id="run")(lambda line: run_shard(Shard.from_json(line)).to_json())
done = run.expand(line=[shard.to_json() for shard in shards])
done >> task(task_id="gather")(lambda lines: gather(map(Shard.from_json, lines)).rows)([s.to_json() for s in shards])
```
"""

__all__: list[str] = []
