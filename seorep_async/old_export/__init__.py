"""Pulls into files, databases and data frames: complete, in a fixed order, or not written at all.

`pull_to` does what the command `seorep pull` does, and returns a summary with one outcome for each campaign:

```python
from seorep_async.old_export import pull_to

feeds = [Feed.CAMPAIGN, Feed.CAMPAIGN_BY_DATE]
summary = await pull_to(client, None, "2023-01-01", "2023-03-31", out="rankings.csv", feeds=feeds)
print(summary.rows, "rows in", [path.name for path in summary.paths])
for failure in summary.failures:
    print(failure.feed, failure.campaign_id, failure.keyword_id, failure.error)
```

## What is written

The ending of `out` chooses the format: `.csv`, `.jsonl` (JSON lines), `.parquet` or `.duckdb`, or `/` for a dataset.

| table | one row is | written to `rankings.csv` |
| --- | --- | --- |
| `keyword_rankings` | a keyword of a campaign on one night (feed `campaign`) | `rankings.csv` if it is the only feed, |
| `campaign_periods` | a period of a campaign (feed `campaign-by-date`) | of several feeds |
| `keyword_periods` | a date of a keyword (feed `keyword-by-date`) | `rankings.keyword_rankings.csv` … |
| `totals` | the totals of one report | `rankings.totals.csv`, if there are any |
| `campaigns` | a campaign: company, address, group … | `rankings.campaigns.csv` |
| `keywords` | a keyword: phrase, location, language | `rankings.keywords.csv` |
| `failures` | a report that is missing, and why | `rankings.failures.csv`, if there are any |
| `pulls` | the pull: when, what, from where, retries, waits | `rankings.pulls.csv` |

In a database they are tables of these names. The files beside the rows belong to the newest pull into that name: it
replaces or removes those of an earlier one. The phrases come with the campaign feed; a pull of `campaign-by-date` alone
has no `keywords`. If the campaigns can't be listed although their reports were fetched, a row of `failures` says so.

Only an empty file, or one that a pull of this version wrote, is replaced, unless `force=True` (`--force`). A pull's
file is recognised by its columns: those of one of these tables, or some of them.

Rows are in the order of the campaigns, so equal responses give equal bytes. Columns have the names of the models'
attributes (see `seorep_async.KeywordRanking`), in this order:

- `account` and `snapshot_date`: whose row it is, and the UTC day on which the pull began;
- `campaign_id`, for `keyword-by-date` also `keyword_id`, then the requested `start_date` and `end_date`;
- every attribute of the row, with `search_location_id`, `search_language_name` … for the two models inside it;
- `tags`: a list of `id`, `label`, `extra`;
- `extra`, `search_location_extra` …: fields that the service's reference does not name.

| | CSV | JSON lines, `to_jsonl()` | `to_dicts()` | Parquet, DuckDB, Arrow |
| --- | --- | --- | --- | --- |
| integers | `7` | `7` | `int` | 64 bits, nullable |
| booleans | `true`, `false` | `true`, `false` | `bool` | boolean |
| dates | `2023-03-01` | `"2023-03-01"` | `date` | date |
| None | empty | `null` | `None` | null |
| undocumented types | JSON | as sent | as sent | JSON |
| tags | JSON | list of objects | list of dictionaries | list of structs |
| unknown fields | JSON; empty if none | object | dictionary | JSON; null if none |

Some fields of `campaigns`, such as `timezone`, have no documented type: a string there is `"x"`, with its quotes, where
the table says JSON.

CSV is RFC 4180 in UTF-8. `csv=CsvOptions(line_end="\\n", bom=True, guard=True)` (`--csv-line-end lf`, `--csv-bom`,
`--csv-guard`) writes it for other readers: a byte order mark is what Excel needs to know UTF-8, and the guard stops
spreadsheets from running a phrase such as `=1+1` as a formula: it puts a `'` before it.

`seorep columns` shows what each column means; so do `help()` of the models, the fields' metadata of Parquet and Arrow,
and DuckDB's comments. Where the service's reference leaves a meaning open, they say so. The reference does not say
which sign of a change is an improvement, nor what a rank of 0 or null means. Rather than trust a sign, compare the
ranks of two snapshots, and leave 0 out. Without `compare_previous_period=True` (`--compare-previous-period`) every
change is null: what the service sends then, often 0, is none. `pulls` says in `compared` which pulls requested changes.

## Accounts

Every row has the name of its account: `account=` (`--account`, or the name in a profile), by default that of the client
(`SeoRepClient(account=…)`), or else the host of the service. A database remembers the service and a salted digest of
the key of each account in it, and refuses another service or key under the same name before anything is fetched. Give a
second account a name of its own. If the account has a new key or another address, confirm it once by the mark that the
refusal names: `key_renewed="3f9a21"` (`--key-renewed 3f9a21`). Left in a script, it confirms no other key or address.

Accounts that share a database or a dataset don't touch each other: each resumes, restarts and retries its own pulls,
also at the same time. Pulls of one database wait for each other while they write.

## Every night into one database

```python
import duckdb

for night in ["2023-03-02", "2023-03-03"]:
    await pull_to(
        client,
        None,
        "2023-03-01",
        night,
        out="nights.duckdb",
        feeds=list(Feed),
        account="acme",
        snapshot_date=night,
        restart=True,  # a night that was killed has other dates; without this, it would have to be finished first
    )

with duckdb.connect("nights.duckdb") as database:
    print(database.sql("SELECT snapshot_date, count(*) FROM keyword_rankings GROUP BY ALL ORDER BY ALL"))
    print(database.sql(
        "SELECT account, campaign_id, company, count(engine_a_ranking) FROM keyword_rankings_latest "
        "JOIN campaigns USING (account, campaign_id) GROUP BY ALL ORDER BY ALL"
    ))
```

**Years of history.** Fewer days save no request, and the campaign feed is summed up over the range asked for. So a
backfill walks months: `seorep pull --each month --from 2021-01-01 --to 2022-12-31 -o nights.duckdb --skip-complete`, or
`--month` several times. It pulls one month after the other, and can be repeated at any time: an interrupted month is
resumed first, and `--skip-complete` leaves out each month and feed that an earlier pull of the same campaigns fetched
without a failure, once the month was over (UTC); months never pulled come before those with failures. Where requests
are limited, `--max-requests 5000` (`max_requests=5000`, which raises a `PullPausedError`) begins no further report
after that number, and stores what it has for the next night, which tries reports that failed last, and ends once all
were tried. A pull of one night bears one snapshot date; `start_date` and `end_date` tell the months apart. Until the
next pull of recent days, the newest night is that of the backfill: `seorep changes` and `keyword_rankings_latest` show
the last of its months.

There are no modes to choose. What a pull replaces follows from what it asked for, and only within its account:

- **Feeds by date** have their own dates. The last pull wins: it replaces the rows of every day in its window, also of
  days for which the service now gives no row, of the campaigns and keywords that succeeded, and no others. The rows of
  a keyword that has left its campaign go, too. That holds for a pull of an old night as well. A row of a month stands
  for those of its days that its own pull asked for. It is replaced by a pull that asks for all of these again, or that
  returns a row of the same month, be it of a single day. Days and their month can stand side by side: filter by
  `date_precision` before you add up.
- **The campaign feed** has none: each night is a snapshot, and a second pull of the same night and the same window
  replaces the first. **Totals** are replaced likewise. The view `keyword_rankings_latest` shows the newest snapshot of
  each campaign that has rows; of several windows in one night, the one that ends last. A campaign that was deleted, or
  has no keywords any more, stays in it with its last `snapshot_date`: compare `pulls`, which has every night, and
  `campaigns`, which has the night on which each was last listed.
- **Failed reports**: their earlier rows are unchanged. A row of `failures` is removed when the same report of the same
  night succeeds. If every campaign failed, only `pulls` and `failures` get rows.
- **`campaigns`** and **`keywords`** hold each object once, as it was on the latest night that had it. A keyword that
  moved to another campaign stays under both: a sum over campaigns counts it twice.
- **A `search`** is refused, as what it finds would replace whole reports: write it to a file of its own.
- A resumed pull, and `retry_failed`, belong to the night on which the pull began, which `summary.snapshot_date` names.
  `snapshot_date=` (`--snapshot-date`) names another, tomorrow at the latest.
- **Your own columns, tables, views and indexes** stay. Where a column was renamed, dropped, retyped or made NOT NULL,
  or a constraint may refuse rows, the pull is refused before anything is sent, with the statement that mends it. So is
  a database of an older layout.

## Datasets, and object stores

A target that ends in `/` is a dataset: a folder that every pull adds to, and that DuckDB, polars, pyarrow, Spark and
Athena read as it is. Writing one needs the extra `duckdb`. `account` and `snapshot_date` stand in the path only; each
of the eight tables has its own folder:

    rankings/keyword_rankings/account=acme/snapshot_date=2026-11-21/part-00000.parquet

```python
import duckdb
import polars as pl

from seorep_async.old_export import pull_to

await pull_to(client, None, "2023-01-01", "2023-03-31", out="rankings/", account="acme", feeds=Feed)
periods = "read_parquet('rankings/campaign_periods/**/*.parquet')"
newest = "row_number() OVER (PARTITION BY account, campaign_id, date, date_precision ORDER BY snapshot_date DESC) = 1"
print(duckdb.sql(f"SELECT * FROM {periods} QUALIFY {newest}").to_arrow_table().num_rows)  # each date as last pulled

nights = pl.scan_parquet("rankings/campaign_periods/", hive_partitioning=True)
newest = nights.sort("snapshot_date").unique(["account", "campaign_id", "date", "date_precision"], keep="last")
print(newest.collect().height)
```

While a night is replaced, a pattern such as `**/*.parquet` may miss rows of it; one of several parts it never shows
twice. To read exactly what is committed, read the files that the receipts name. If a receipt has changed or no longer
exists afterwards, read again:

```python
import json
from pathlib import Path

receipts = Path("rankings/_receipts").glob("account=*/snapshot_date=????-??-??.json")
files = [
    f"rankings/{part['table']}/{receipt.parent.name}/{receipt.stem}/part-{part['number']:05}.parquet"
    for receipt in receipts
    for part in json.loads(receipt.read_text("utf-8"))["parts"]
    if part["table"] == "campaign_periods"
]
print(duckdb.read_parquet(files, hive_partitioning=True).to_arrow_table().num_rows)
```

- **A dataset stores every night.** A second pull of the same night follows the rules of a database: it replaces what it
  asked for and got. The rows of failed reports are unchanged, and so are those of campaigns, feeds and dates not asked
  for. Days that the service no longer gives stay in the night that had them: `pulls` and `failures` say which later
  pulls asked for them and got a response.
- **A night is committed by its receipt**, in `_receipts/`, which names every part with its digest. While a night is
  being replaced, its receipt names none, and readers refuse the dataset. If that is interrupted, the next pull of that
  night, on any machine, completes it; of an account's last night, the account's next pull.
  If two pulls commit one night at the same time, one fails with an error that says to run it again. A receipt is
  replaced only if it is as it was, so a pull that stood still for long never mixes its parts with another's. Object
  stores need conditional PUTs for that, as S3, GCS and Azure have them.
- **A lost or damaged part or receipt** is repaired by pulling its night again. Older rows in a part that this pull does
  not fetch are lost; the logger `seorep_async` names the part.
- **Nothing in a dataset is trusted**, as others may write into a shared folder: names, numbers and digests are checked,
  and what no pull wrote is refused, as are links below the dataset's folder.
- **Leftovers in `_staging/`**, of pulls that nobody resumed, can be deleted while no pull is running.
- **Object stores**: `s3://`, `gs://` and `az://`, for datasets and for single files except databases. They need the
  extra `cloud`: `pip install 'seorep-async[cloud,duckdb]'`. Credentials, region and endpoint come from the environment
  (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL` …) or from `storage_options`, by obstore's names. Files are
  made whole in `work_dir`, by default the current folder, and appear in one step; nothing is lost if the store refuses.
- A name such as `007` or `2026-01-01` is a string in the dataset, but readers guess types from paths: name the type, in
  DuckDB with `hive_types={'account': VARCHAR}`.
- Files over 64 MB are multipart uploads. Let a lifecycle rule abort those that were never completed.

## Into DuckDB, polars and pandas

They need the extras `arrow`, `duckdb`, `pandas`, `polars`: `pip install 'seorep-async[arrow,duckdb,pandas,polars]'`.

```python
import duckdb
import pandas as pd
import polars as pl

from seorep_async.old_export import pull_to, to_arrow

await pull_to(client, None, "2023-01-01", "2023-03-31", out="rankings.parquet")
print(duckdb.sql("SELECT campaign_id, count(engine_a_ranking) FROM 'rankings.parquet' GROUP BY ALL ORDER BY ALL"))
print(pl.scan_parquet("rankings.parquet").filter(pl.col("engine_a_ranking").is_between(1, 3)).collect().height)
print(pd.read_parquet("rankings.parquet")["engine_a_ranking"].dtype)  # Int64, also with gaps

await pull_to(client, None, "2023-01-01", "2023-03-31", out="rankings.csv")  # CSV stores no types:
print(pd.read_csv("rankings.csv", dtype_backend="pyarrow")["engine_a_ranking"].dtype)

report = await client.rankings.campaign(1, "2023-01-01", "2023-03-31")  # or a report in memory
print(report.to_arrow().num_rows, report.to_polars().height, len(report.to_pandas()), pl.DataFrame(report).height)
print(to_arrow([report, report]).num_rows)  # several reports of one feed, or the outcomes of a pull
```

## Interrupted, resumed, repeated

- **Complete, or not written.** Reports are stored in a hidden folder beside the target, `.rankings.parquet.pull`, which
  only you can open. The target appears once every report is stored, each file in one step; until then an older
  target stays as it was.
- **The same call resumes.** Killed at any point, or after a power failure, it fetches only the reports that were in
  flight and those that had failed. It refuses to resume with other dates, campaigns or feeds, another service or
  another API key, because rows of two accounts must not mix; `restart=True` (`--restart`) starts over.
  `max_concurrency` and `limit` may differ. The folder holds no key, only a salted digest that recognises it.
- **Yours alone.** Only you can open the folder. One that another user could have prepared, or a link, is refused. Its
  contents are checked before use: damage is one clear error, and `restart=True` starts over.
- **One pull at a time** into a target, also of several processes with `restart`: the others end with an error that
  says who writes it. A file, `lock` in that folder or `.nights.duckdb.pull.lock`, is locked for this and names host,
  process and time. Where the file system refuses such locks, the file alone must do: that of a killed process of this
  machine is taken over, and for any other, or after a restart of the machine, the error says which file to delete.
- **One failure does not lose the rest.** If some failed, the others are written; `retry_failed=True`
  (`--retry-failed`) then fetches only the failed reports, and sends nothing if none failed. Without it, the next pull
  fetches everything, and so does `retry_failed=True` for a night that the target does not have. `seorep pull --sandbox
  --forbidden 3` lets you rehearse it. A database or dataset remembers failures of the last pull of each account only;
  after an earlier one with `failures`, `retry_failed=True` fetches everything.
- **No campaign at all** is a result in Python: `summary.campaigns` is 0, and a file then has no rows. The command ends
  with exit code 8 instead and writes nothing, unless by `--allow-empty`.
- **A full disk**, a read-only folder, a database that is open elsewhere, a second pull at the same time: one
  `ExportError` (or a `ConfigurationError` before anything is sent), and the reports fetched so far stay stored.
- **Memory stays flat**, whatever the number of rows.

Reports of an incomplete pull stay stored until the next pull into the same target. To remove those that nobody has
resumed for a week: `find . -maxdepth 1 -name '.*.pull' -mtime +7 -exec rm -r {} +`.
"""

from seorep_async.errors import ExportError
from seorep_async.old_export.csv_options import CsvOptions
from seorep_async.old_export.progress import CampaignOutcome, OnProgress, PullFailure, PullProgress, PullSummary, Stage
from seorep_async.old_export.pull_to import pull_to
from seorep_async.reports import schema, to_arrow, to_html, to_pandas, to_polars

__all__ = [
    "CampaignOutcome",
    "CsvOptions",
    "ExportError",
    "OnProgress",
    "PullFailure",
    "PullProgress",
    "PullSummary",
    "Stage",
    "pull_to",
    "schema",
    "to_arrow",
    "to_html",
    "to_pandas",
    "to_polars",
]
