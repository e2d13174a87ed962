"""Engines that take a pull to many machines, and tools for agents; `seorep_async.shards` says what a shard is.

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

## Agents

`seorep mcp` (extra `mcp`) gives an agent tools over the Model Context Protocol. The agent's client starts it:

```json
{"mcpServers": {"seorep": {
  "command": "/srv/seo/.venv/bin/seorep",
  "args": ["mcp", "--history", "/srv/seo/rankings.duckdb", "--profile", "acme"]}}}
```

Use a profile with `key_command` or `key_file`, so that no key stands in that file. `--sandbox` needs none, to try it.

| tool | what it does |
| --- | --- |
| `campaigns`, `rankings` | ask the service for a page of campaigns, or of a report, which is not stored |
| `changes` | compares two nights of the history |
| `history` | answers SQL from the history |
| `pull` | pulls campaigns into the history, as `seorep pull` does, with progress; cancelled, it resumes when repeated |

- **No tool changes the account**, and SQL changes nothing: it is one SELECT, without files, extensions and settings,
  and has 20 seconds and 1 GB. A value that is large by itself, such as `range(200000000)`, may take more of both.
- **An answer has at most 20,000 characters** and values at most 500; `left_out` in it says what is missing.
- **A database is open only while a question is answered**; pulls wait meanwhile, and questions for pulls that write.
- **SQL sees every account in the history.** An agent that must not see all needs a database of its own.
- **Strings in rows were written by others.** The server tells models that they are data. A model that obeys one
  nevertheless can pull and read, with these tools.
- The key is in no answer, error or log. Logs go to stderr.

An agent with a shell needs none of this: `help("seorep_async.cli")` is its page. For other transports than stdin and
stdout, `seorep_async.integrations.mcp.mcp_server` returns the server.
"""

__all__: list[str] = []
