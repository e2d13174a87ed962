"""Questions asked of the databases and datasets that pulls leave behind.

## A report to look at

One HTML file about an account, a campaign or a group: headline figures with their change since the night before and
since the first, keywords by rank and their average rank over time, what rose, fell and was lost, tags and locations. It
loads nothing and runs no script: send it by mail, print it on A4, or put it on a server. It needs the extra `duckdb`.

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
the first ten, and how many more there are. Every night, in the crontab, after the pull:

    30 4 * * *  cd /srv/seo && .venv/bin/seorep report rankings.duckdb --campaign 3 -o /var/www/bakery.html

A file that no report wrote is replaced only with `force=True` (`--force`). `logo=` takes a PNG, JPEG or SVG file, which
stands in the page itself. Colours in which text could not be read are made darker, and on dark screens lighter.
"""

from seorep_async.history.comparing import Change, Changes, changes
from seorep_async.history.forgetting import forget
from seorep_async.history.reporting import report
from seorep_async.history.source import History, open_history

__all__ = ["Change", "Changes", "History", "changes", "forget", "open_history", "report"]
