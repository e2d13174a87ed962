"""A data source of Spark 4, `spark.read.format("seorep")` (extra `spark`; it needs Java 17 or newer).

```python
from seorep_async.integrations.spark import SeoRepDataSource

spark.dataSource.register(SeoRepDataSource)
reader = spark.read.format("seorep").options(start_date="2023-01-01", end_date="2023-03-31")
rankings = reader.options(out="/shared/rankings/", shards=8, workers=4).load()  # or s3://bucket/rankings/
print(rankings.select("campaign_id", "keyword_phrase", "engine_a_ranking").first())
```

Each partition is a shard (`seorep_async.shards` says what that means), so a task that Spark runs again, with another
Python worker or executor, fetches nothing that was fetched before, and no row comes twice. The options:

| option | meaning |
| --- | --- |
| `start_date`, `end_date`, `out` | see `seorep_async.shards.plan`; every worker must be able to write `out` |
| `table` | one of the tables of the feeds; default: the first feed's |
| `ids`, `feeds` | with commas between; default: every campaign, and the feed `campaign` |
| `shards`, `workers`, `account`, `snapshot_date`, `work_dir`, `key_renewed`, `retry_failed` | see `plan` |
| `search`, `limit`, `compare_previous_period` | of the feeds, see `Rankings` |
| `base_url`, `key_from` | default: `SEOREP_BASE_URL` of the driver; `env:SEOREP_API_KEY`, of driver and executors |
| `settings` | settings of the clients as JSON, such as `{"requests_per_second": 50}` |

**A key is refused as an option**: plans, the web page and event logs show options, and Spark's redaction, which looks
for `secret`, `password` and `token`, does not know `SEOREP_API_KEY`. `spark.executorEnv.SEOREP_API_KEY` is shown, too,
unless `spark.redaction.regex` is set to something like `(?i)secret|password|token|key`; on Kubernetes, use
`spark.kubernetes.executor.secretKeyRef.SEOREP_API_KEY`. An option can't hold a function. If only a vault has the key,
register a subclass whose `read` puts it into `os.environ` of the executor, and then returns `super().read(partition)`.

Columns have their meanings as comments, and keys are not nullable. Every action plans again, which sends no request for
rows until the pull is gathered; `gather(SeoRepDataSource(options).shards())` commits the same rows to the
dataset `out`, and returns the summary with what failed. A task in Spark's `local` mode is tried only once; give
`local[2, 4]` to try it four times.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from seorep_async.client import SeoRepClient
from seorep_async.errors import ConfigurationError
from seorep_async.export.targets.target import shard_tables
from seorep_async.models import Feed
from seorep_async.settings import Settings
from seorep_async.shards import Shard, plan, read_shard
from seorep_async.shards.running import find_key
from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.columns import ColumnType, Table
from seorep_async.tables.optional import require

if TYPE_CHECKING:
    import pyarrow as pa

_STRINGS = "start_date end_date out table base_url key_from account snapshot_date key_renewed work_dir search"
_JSON = "shards workers limit settings retry_failed compare_previous_period"
_OPTIONS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(_STRINGS.split(), str),
    **dict.fromkeys(_JSON.split(), json.loads),
    "ids": lambda value: [int(one) for one in value.split(",")],
    "feeds": lambda value: [Feed(one.strip()) for one in value.split(",")],
}
_DEFAULTS: dict[str, Any] = {"ids": None, "feeds": [Feed.CAMPAIGN], "key_from": "env:SEOREP_API_KEY"}
_SECRET = re.compile("key|token|secret|password", re.IGNORECASE)


class SeoRepDataSource(DataSource, DataSourceReader):  # type: ignore[misc]  # pyspark is not typed
    """The data source, which is its own reader; Spark makes it with the options."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "seorep"

    def schema(self) -> StructType:
        """Return the columns of the table, with their meanings as comments."""
        table = _table(_parse(self.options))
        schema = from_arrow_schema(arrow_schema(table), True)
        for field, column in zip(schema, table.columns, strict=True):
            field.metadata = {"comment": column.description}
        return schema

    def reader(self, schema: object) -> DataSourceReader:
        """Return the reader, which plans and reads the shards."""
        return self

    def shards(self) -> list[Shard]:
        """Return the shards of these options, for `gather`."""
        return asyncio.run(_plan(_parse(self.options)))

    def partitions(self) -> list[InputPartition]:
        """Return a partition for each shard."""
        return [InputPartition(shard) for shard in self.shards()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a shard."""
        table = _table(_parse(self.options))
        schema = arrow_schema(table)
        for index, field in enumerate(schema):
            if table.columns[index].type is ColumnType.TAGS:  # Spark also compares the names of lists' elements
                kind = require("pyarrow").list_(field.type.value_field.with_name("element"))
                schema = schema.set(index, field.with_type(kind))
        return (batch.cast(schema) for batch in read_shard(partition.value, table.name))


def _parse(options: Mapping[str, Any]) -> dict[str, Any]:
    unknown, parsed = sorted(set(options) - set(_OPTIONS)), dict(_DEFAULTS)
    if any(map(_SECRET.search, unknown)):
        problem = "a key can't be an option, as Spark shows options; say where it is: key_from=env:NAME"
        raise ConfigurationError(problem, argument="key_from")
    if unknown or not {"start_date", "end_date", "out"} <= set(options):
        problem = f"there is no option {', '.join(unknown)}" if unknown else "start_date, end_date and out are needed"
        raise ConfigurationError(f"{problem}; the options are {', '.join(_OPTIONS)}")
    for name, value in options.items():
        try:
            parsed[name] = _OPTIONS[name](value if isinstance(value, str) else json.dumps(value))
        except ValueError:
            raise ConfigurationError(f"the option {name} can't be {value}", argument=name) from None
    return parsed


def _table(options: Mapping[str, Any]) -> Table:
    tables = {table.name: table for table in shard_tables(options["feeds"])}
    if (name := options.get("table", next(iter(tables)))) not in tables:
        raise ConfigurationError(f"the option table must be one of {', '.join(tables)}", argument="table")
    return tables[name]


async def _plan(options: Mapping[str, Any]) -> list[Shard]:
    key, settings = find_key(options["key_from"]), Settings(**options.get("settings", {}))
    given = {name: value for name, value in options.items() if name not in ("table", "base_url", "settings")}
    async with SeoRepClient(options.get("base_url"), key, settings=settings) as client:
        return await plan(client, **given)
