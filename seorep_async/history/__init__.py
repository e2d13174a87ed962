"""Questions asked of the databases and datasets that pulls leave behind, and their care.

Nothing here talks to the service. It needs the extra `duckdb`.

```python
from seorep_async.export import pull_to
from seorep_async.history import changes, forget, open_history

for night in ["2023-02-28", "2023-03-31"]:
    await pull_to(client, None, "2023-01-01", night, out="nights.duckdb", account="acme", snapshot_date=night)

found = changes("nights.duckdb", moved=5)  # the last two nights; or before="2023-02-28", after="2023-03-31"
print(len(found), "changes;", found.left_out, "were not compared")
for change in found:
    if change.kind in ("entered_top_10", "left_top_10"):
        print(change.company, change.keyword_phrase, change.engine, change.before, change.after, change.url)

print(found.to_pandas().groupby("kind").size())  # also to_dicts(), to_jsonl(), to_arrow(), to_polars()
```

`help(seorep_async.history.Change)` defines each kind. `seorep changes nights.duckdb --jsonl` prints a line for each
change, for any webhook.

`open_history` opens a database or a dataset for SQL, with the eight tables. A database that is open can't be written,
so close it soon. Of a dataset, only the parts that its receipts name are read, and checked; `changes` and `report` copy
those that they need to the folder of temporary files.

```python
with open_history("nights.duckdb") as history:
    print(history.accounts(), history.nights("acme"))
    print(history.connection.execute("SELECT count(*) FROM keyword_rankings_latest").fetchall())

forget("nights.duckdb", account="acme")  # `seorep forget`: every row, receipt and staged report
```

## A report to look at

One HTML file about an account, a campaign or a group: headline figures with their change since the night before and
since the first, keywords by rank and their average rank over time, what rose, fell and was lost, tags and locations. It
loads nothing and runs no script: send it by mail, print it on A4, or put it on a server.

```python
from seorep_async.export import pull_to
from seorep_async.history import report

for night, last in [("2023-02-01", "2023-01-31"), ("2023-03-01", "2023-02-28")]:
    await pull_to(client, None, "2023-01-01", last, out="rankings.duckdb", account="acme", snapshot_date=night)

page = report("rankings.duckdb", out="bakery.html", campaign=3, title="Bakery", colours=("#14532d", "#b45309"))
print(page, page.stat().st_size, "bytes")
```

![A page: four figures with their changes, and bars of keywords by band of ranks.](../../.recordings/report.png)

Ranks of 0 and null are "not ranked", and in no average. Charts show 90 nights at most, at even distances; lists show
the first ten, and how many more there are. `start_date="2023-01-01", end_date="2023-03-31"` (`--from`, `--to`) say
which nights to draw. Of a whole account, only the nights that are drawn are read. In the crontab, after the pull:

    30 4 * * *  cd /srv/seo && .venv/bin/seorep report rankings.duckdb --campaign 3 -o /var/www/bakery.html

A file that no report wrote is replaced only with `force=True` (`--force`). `logo=` takes a PNG, JPEG or SVG file, which
stands in the page itself. Colours in which text could not be read are made darker, and on dark screens lighter.

## Every night, two accounts

`acme` and `other` are profiles; each has an `account` (`seorep --help`). This is `/srv/seo/nightly`:

    #!/bin/sh
    cd /srv/seo || exit
    worst=0
    for profile in acme other; do
        for pause in 600 1800 0; do
            seorep pull --profile $profile --quiet ${retry:---restart} -o rankings.duckdb
            code=$?
            case $code in 4 | 5 | 7) retry=--retry-failed; sleep $pause ;; *) break ;; esac
        done
        retry=
        [ $code -eq 0 ] || worst=$code
    done
    exit $worst

One account that fails doesn't keep the other back. In a crontab, cron mails what is printed, which is nothing if all
went well:

    MAILTO=seo@example.com
    PATH=/srv/seo/.venv/bin:/usr/bin:/bin
    0 3 * * *  /srv/seo/nightly

Or as `seorep.service` and `seorep.timer` in `/etc/systemd/system`, then `systemctl enable --now seorep.timer`:

    [Unit]
    OnFailure=seorep-failed.service
    [Service]
    Type=oneshot
    User=seo
    Environment=PATH=/srv/seo/.venv/bin:/usr/bin:/bin
    ExecStart=/srv/seo/nightly

    [Timer]
    OnCalendar=*-*-* 03:00
    Persistent=true
    [Install]
    WantedBy=timers.target

`seorep-failed.service` mails the log with `ExecStart=/bin/sh -c 'journalctl -u seorep -n 50 | mail seo@example.com'`.
A pull that is stopped leaves the database as it was, and the next night starts over.

**A copy while a pull runs.** A pull opens a database only to check it and to write at the end. Copy it by DuckDB, which
refuses while a pull is writing, so that a copy is never a half; then try again:

    duckdb copy.duckdb "ATTACH 'rankings.duckdb' AS rankings (READ_ONLY); COPY FROM DATABASE rankings TO copy"

A dataset is copied by any tool: copy `_receipts/` first, the rest next, `_receipts/` once more, and start over if it
has changed meanwhile.

## A new key

Give the account its new key, in the profile or the environment, and start the pull by hand. It is refused before
anything is fetched, and names a mark of the new key. Confirm that once, `--key-renewed 3f9a21`; later nights need
nothing. The old key can be withdrawn then. If several accounts get new keys, each has a mark of its own.

## Another version

The column `version` of `pulls` says which version of seorep-async wrote a pull, and a receipt says it for a night. The
layout of databases and datasets changes only with the second number of the version (0.1 → 0.2). A column that a later
version adds is added to a database by its next pull, empty in older rows; until then, this module refuses the database
and says so. Columns that are renamed, dropped or retyped need a new file: the pull is refused before anything is sent,
and the changelog gives the statements that take the rows over. Copy a database before the first pull of another
version; no version reads a later layout. End or `--restart` an unfinished pull, as checkpoints are not carried over.

The nights of a dataset keep the columns of the version that wrote them. Read a table of two versions by name:
`read_parquet('rankings/pulls/**/*.parquet', hive_partitioning=true, union_by_name=true)` in DuckDB, and in polars
`scan_parquet("rankings/pulls/", hive_partitioning=True, missing_columns="insert", extra_columns="ignore")`; without
these, DuckDB leaves new columns out, and polars refuses the folder. `open_history` does so by itself.
"""

from seorep_async.history.comparing import Change, Changes, changes
from seorep_async.history.forgetting import forget
from seorep_async.history.reporting import report
from seorep_async.history.source import History, open_history

__all__ = ["Change", "Changes", "History", "changes", "forget", "open_history", "report"]
