r"""Rows that go anywhere: dictionaries, JSON lines, data frames, notebooks, pictures.

A report and the list of a resource are tables (`seorep_async.Tabular`). Each way gives the same rows in the same
columns, which are those that a pull writes to files and databases:

```python
report = await client.rankings.campaign(1, "2023-01-01", "2023-03-31")
print(report.to_dicts()[0]["keyword_phrase"], len(report.to_jsonl().splitlines()), report.to_polars().height)

campaigns = await client.campaigns.list()  # a list, and a table of the campaigns' attributes
print(campaigns.to_pandas()[["id", "company"]])
```

`to_arrow()`, `to_pandas()` and `to_polars()` need the extras `arrow`, `pandas`, `polars`. An outcome of a pull has
`to_dicts()`, which raises the outcome's error if it failed. At the end of a cell, notebooks show a report or a list as
a table of its first rows.

Every row of a report names its `account` and its `snapshot_date`: the name given as `SeoRepClient(account="acme")`, by
default the host of the service, and the UTC day on which the report was fetched or its pull began.

## Pictures

Keywords by position over time, and what moved between two nights, drawn by altair from the database of a nightly pull.
A keyword whose rank is null or 0 on one of the nights is not among the movers, as the reference does not say what
these mean.

```python
import altair as alt
import duckdb

from seorep_async.export import pull_to

await pull_to(client, [1], "2023-01-01", "2023-02-28", out="rankings.duckdb", snapshot_date="2023-03-01")
feeds = ["campaign", "campaign-by-date"]
await pull_to(client, [1], "2022-07-01", "2023-03-31", out="rankings.duckdb", snapshot_date="2023-04-01", feeds=feeds)
database = duckdb.connect("rankings.duckdb", read_only=True)

bands = database.sql('''
    SELECT date, unnest(['1-3', '4-10', '11-20', '21-50', '51 on']) AS position, unnest(range(5)) AS band,
        unnest([*COLUMNS('engine_a_rankings_.*')]) AS keywords
    FROM campaign_periods WHERE campaign_id = 1 ORDER BY date, band''')
by_position = alt.Chart(bands.to_arrow_table(), title="Keywords by position", width=360, height=200).mark_bar().encode(
    x=alt.X("yearmonth(date):O", title=None),
    y="keywords",
    color=alt.Color("position", sort=None, scale=alt.Scale(scheme="yellowgreenblue", reverse=True)),
    order="band",
)

movers = database.sql('''
    SELECT keyword_phrase, old.engine_a_ranking AS a, new.engine_a_ranking AS b, if(b < a, 'up', 'down') AS moved
    FROM keyword_rankings AS old JOIN keyword_rankings AS new USING (account, campaign_id, keyword_id, keyword_phrase)
    WHERE campaign_id = 1 AND old.snapshot_date = '2023-03-01' AND new.snapshot_date = '2023-04-01'
    AND a != b AND a > 0 AND b > 0 ORDER BY abs(a - b) DESC, keyword_id LIMIT 10''')
lines = alt.Chart(movers.to_arrow_table(), title="From the end of the line on 1 March to the dot on 1 April").encode(
    y=alt.Y("keyword_phrase", sort=None, title=None), color=alt.Color("moved", sort="descending"))
position = alt.X("a", scale=alt.Scale(domain=[100, 1], nice=False), title="position, the first on the right")
by_move = lines.mark_rule(size=3).encode(position, x2="b") + lines.mark_circle(size=90, opacity=1).encode(x="b")

by_position.save("positions.html", inline=True)  # needs vl-convert-python, as do .svg and .png; shown without a network
by_move.save("movers.svg")
```

![A stacked bar for each month: keywords in positions 1-3, 4-10 and so on.](../../.recordings/by_position.svg)
![A line for each of ten keywords, from its old position to a dot at the new one.](../../.recordings/by_move.svg)

`seorep_async.history.report` makes a whole page of such figures, without altair.

## Days in place of months

The feeds by date give months: the reference shows `YYYY-MM`. Only the older variant of `keyword-by-date` has the form
`YYYY-MM-DD`, and a service may still send months in it, as first days; `date_precision` says what came. No argument
asks for days. A rank for each day comes from a pull of the feed `campaign` every night, as each night is kept:

```python
by_night = database.sql('''
    SELECT keyword_phrase, search_location_canonical_name AS location, snapshot_date::VARCHAR AS night,
        if(engine_a_ranking > 0, engine_a_ranking, NULL) AS rank
    FROM keyword_rankings WHERE campaign_id = 1''').pl()
days = by_night.pivot("night", index=["keyword_phrase", "location"], values="rank", sort_columns=True)
print(days)  # a row for each keyword, a column for each night
```

## An Excel workbook

polars writes one by xlsxwriter. Phrases that begin with `=` stay words, and addresses are no links, of which a sheet
holds 65,530 at most:

```python
import polars as pl
import xlsxwriter

sheets = {"Ranks by night": days, "Keywords by position": bands.pl(), "Report": report.to_polars()}
with xlsxwriter.Workbook("rankings.xlsx", {"strings_to_formulas": False, "strings_to_urls": False}) as workbook:
    for name, frame in sheets.items():
        plain = frame.select(pl.exclude("tags", "^.*extra$"))  # a cell holds no list
        plain.write_excel(workbook, worksheet=name, freeze_panes=(1, 1), autofit=True)

database.close()
```
"""

__all__: list[str] = []
