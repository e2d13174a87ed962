"""Random nights of two accounts: the service that serves them, and what a reader should find, in plain Python.

Keywords leave campaigns, move, are deleted and come back; campaigns too. Windows, feeds and ids change from pull to
pull, some nights are pulled twice or after later ones, and some reports fail.
"""

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, TypeAlias

import attrs

from seorep_async import Feed
from tests.scripted_api import Asked

FIRST_NIGHT = dt.date(2023, 3, 1)
MONTHLY = 4
"""The campaign of which the service knows months only."""
TABLE = {
    Feed.CAMPAIGN: "keyword_rankings",
    Feed.CAMPAIGN_BY_DATE: "campaign_periods",
    Feed.KEYWORD_BY_DATE: "keyword_periods",
}
REPORT = ("table_name", "campaign_id", "keyword_id", "start_date", "end_date")
COLUMNS = {
    "keyword_rankings": ("campaign_id", "keyword_id", "start_date", "end_date", "competitors"),
    "campaign_periods": ("campaign_id", "start_date", "end_date", "date", "date_precision", "competitors"),
    "keyword_periods": ("campaign_id", "keyword_id", "start_date", "end_date", "date", "date_precision", "competitors"),
    "totals": (*REPORT, "engine_a_ranking"),
    "campaigns": ("campaign_id", "company"),
    "keywords": ("campaign_id", "keyword_id", "keyword_phrase"),
    "failures": (*REPORT, "status"),
    "pulls": ("feeds", "start_date", "end_date", "campaigns", "rows", "failures"),
}
"""The columns that are compared, besides account and snapshot date."""

Row: TypeAlias = dict[str, Any]
Tables: TypeAlias = dict[str, list[Row]]


def no_rows() -> Tables:
    return {name: [] for name in COLUMNS}


@attrs.define
class Pull:
    """One pull: what it asks for, and what the service has then.

    Attributes:
        number: counts the pulls, and stands in every value, so that no two pulls bring the same.
        keywords: campaign → keywords, for each campaign that exists.
        failing: reports that are a 404.
        dates: the dates of each report of a feed by date.
        totals: reports that have totals.
    """

    number: int
    account: str
    night: dt.date
    start: dt.date
    end: dt.date
    feeds: tuple[Feed, ...]
    ids: tuple[int, ...] | None
    keywords: dict[int, tuple[int, ...]]
    failing: frozenset[tuple[Feed, int]]
    dates: dict[tuple[Feed, int], tuple[str, ...]]
    totals: frozenset[tuple[Feed, int]]

    def answer(self, asked: Asked) -> object:
        if asked.path == "/v3/campaigns":
            found = [{"id": one, "account_id": 1, "url": "u", "company": self.name(one)} for one in self.keywords]
            return {"metadata": {"total_pages": 1, "total_records": len(found)}, "data": found}
        by_keyword = "keyword_id" in asked.query
        by_date = Feed.KEYWORD_BY_DATE if by_keyword else Feed.CAMPAIGN_BY_DATE
        report = (Feed.CAMPAIGN if asked.path.endswith("/campaign") else by_date, asked.id)
        if self.fails(*report):
            return 404
        rows: list[Row] = [{"date": date, "competitors": self.number} for date in self.dates.get(report, ())]
        if report[0] is Feed.CAMPAIGN:
            phrase = self.name(asked.id)
            ids = self.keywords[asked.id]
            rows = [{"keywordId": id_, "keywordPhrase": phrase, "competitors": self.number} for id_ in ids]
        totals = {"engineARanking": {"value": self.number}} if report in self.totals else False
        return {"metadata": {"total_pages": 1, "total_records": len(rows)}, "data": {"rows": rows, "totals": totals}}

    def name(self, id_: int) -> str:
        return f"{id_} in pull {self.number}"

    def fails(self, feed: Feed, id_: int) -> bool:
        return (feed, id_) in self.failing or (feed is not Feed.KEYWORD_BY_DATE and id_ not in self.keywords)

    def reports(self) -> Iterator[tuple[Feed, int, int | None, bool]]:
        """Yield feed, campaign, keyword and whether it fails, for each report."""
        for campaign in self.wanted:
            for feed in self.feeds:
                if feed is not Feed.KEYWORD_BY_DATE:
                    yield feed, campaign, None, self.fails(feed, campaign)
                elif self.fails(Feed.CAMPAIGN, campaign):  # which lists the keywords
                    yield feed, campaign, None, True
                else:
                    for id_ in self.keywords[campaign]:
                        yield feed, campaign, id_, self.fails(feed, id_)

    @property
    def wanted(self) -> tuple[int, ...]:
        return tuple(self.keywords) if self.ids is None else self.ids

    @property
    def fails_as_a_whole(self) -> bool:
        found = list(self.reports())
        failed = Counter(campaign for _, campaign, _, fails in found if fails)
        got = {campaign for _, campaign, _, fails in found if not fails}
        return not got and all(failed[one] for one in self.wanted)

    def arriving(self) -> Tables:
        """Return the rows that it brings."""
        found, whose = no_rows(), {"account": self.account, "snapshot_date": self.night}
        window = {"start_date": self.start, "end_date": self.end}
        for feed, campaign, keyword, fails in self.reports():
            report = {"table_name": TABLE[feed], "campaign_id": campaign, "keyword_id": keyword, **window}
            if fails:
                found["failures"].append(whose | report | {"status": 404})
                continue
            named = (feed, campaign if keyword is None else keyword)
            if named in self.totals:
                found["totals"].append(whose | report | {"engine_a_ranking": self.number})
            of_campaign = whose | {"campaign_id": campaign}
            if feed is Feed.CAMPAIGN:
                ranked = [of_campaign | {"keyword_id": one, **window} for one in self.keywords[campaign]]
                found["keyword_rankings"] += [row | {"competitors": self.number} for row in ranked]
            else:
                of_report = of_campaign | ({} if keyword is None else {"keyword_id": keyword}) | window
                for text in self.dates[named]:
                    precision = "month" if len(text) == 7 else "day"
                    date = dt.date.fromisoformat(f"{text}-01"[:10])
                    held = {"date": date, "date_precision": precision, "competitors": self.number}
                    found[TABLE[feed]].append(of_report | held)
        if not self.fails_as_a_whole:
            for one in {*self.wanted} & self.keywords.keys():
                found["campaigns"].append(whose | {"campaign_id": one, "company": self.name(one)})
                if self.feeds != (Feed.CAMPAIGN_BY_DATE,) and not self.fails(Feed.CAMPAIGN, one):
                    ids = [{"campaign_id": one, "keyword_id": id_} for id_ in self.keywords[one]]
                    found["keywords"] += [whose | row | {"keyword_phrase": self.name(one)} for row in ids]
        rows = sum(len(found[TABLE[feed]]) for feed in self.feeds)
        counts = {"campaigns": len(self.wanted), "rows": rows, "failures": len(found["failures"])}
        feeds = ",".join(feed.value for feed in self.feeds)
        found["pulls"].append(whose | {"feeds": feeds, **window, **counts})
        return found

    def apply_to(self, held: Tables) -> None:
        """Replace rows as the pull should."""
        arriving = self.arriving()
        for name, rows in held.items():
            new = arriving[name]
            if name in ("campaigns", "keywords"):
                later = {_key(row) for row in rows if row["snapshot_date"] > self.night}
                new = [row for row in new if _key(row) not in later]
            if name != "pulls":
                keys = {_key(row) for row in new}
                goes = self.goes(name)
                rows[:] = [row for row in rows if _key(row) not in keys and not goes(row)]
            rows += new

    def goes(self, table: str) -> Callable[[Row], bool]:
        """Return whether a row of a table was asked for again, and the service responded."""
        reports = list(self.reports())
        failed = {(TABLE[feed], campaign, keyword) for feed, campaign, keyword, fails in reports if fails}
        tables = {TABLE[feed] for feed in self.feeds}

        def goes(row: Row) -> bool:
            name = row.get("table_name", table)
            campaign = row["campaign_id"]
            if table in ("campaigns", "keywords") or row["account"] != self.account or campaign not in self.wanted:
                return False
            same_dates = (row["start_date"], row["end_date"]) == (self.start, self.end)
            same_night = same_dates and row["snapshot_date"] == self.night
            if table == "failures":
                return same_night and name in tables
            if self.fails_as_a_whole or name not in tables:
                return False
            if {(name, campaign, None), (name, campaign, row.get("keyword_id"))} & failed:
                return False
            return same_dates or self.has_days_of(row) if "date" in row else same_night

        return goes

    def has_days_of(self, row: Row) -> bool:
        """Return whether the window has all days that a row of a feed by date stands for."""
        days = [row["date"]]
        if row["date_precision"] == "month":
            every = [row["date"] + dt.timedelta(number) for number in range(31)]
            days = [day for day in every if day.month == row["date"].month and day <= row["end_date"]]
            days = [day for day in days if day >= row["start_date"]]
        return all(self.start <= day <= self.end for day in days)


def _key(row: Row) -> tuple[Any, ...]:
    """Return what a row is about: all but its values, and but its night and window if it outlives these."""
    values = {"competitors", "engine_a_ranking", "status", "company", "keyword_phrase"}
    if "date" in row or "company" in row or "keyword_phrase" in row:
        values |= {"snapshot_date", "start_date", "end_date"}
    return tuple((name, value) for name, value in row.items() if name not in values)


def expected(held: Iterable[Tables]) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return the rows that a reader should find in all tables of a name."""
    every = list(held)
    return {
        table: Counter(tuple(row[name] for name in columns(table)) for one in every for row in one[table])
        for table in COLUMNS
    }


def columns(table: str) -> tuple[str, ...]:
    return ("account", "snapshot_date", *COLUMNS[table])


def pulls(count: int, seed: int, accounts: Iterable[str] = ("acme", "other")) -> Iterator[Pull]:
    """Yield pulls of random nights."""
    random = Random(seed)
    keywords = {name: {one: {one * 10, one % 5 * 10 + 10} for one in range(1, 6)} for name in accounts}
    newest, night, account = FIRST_NIGHT, FIRST_NIGHT, next(iter(keywords))
    window = FIRST_NIGHT, FIRST_NIGHT
    for number in range(1, count + 1):
        if number == 1 or random.random() < 0.7:  # else it asks for the same again
            account = random.choice([*keywords])
            night = newest = newest + dt.timedelta(random.choice([0, 1, 1, 1]))
            if random.random() < 0.2:
                night = FIRST_NIGHT + dt.timedelta(random.randrange((newest - FIRST_NIGHT).days + 1))
            start = dt.date(2023, 1, 28) + dt.timedelta(random.choice([0, 0, 1, 4, 6]))
            window = start, start + dt.timedelta(random.choice([0, 3, 3, 5, 31]))
        for _ in range(random.randrange(3)):
            _change(random, keywords[account])
        yield _pull(random, number, account, night, window, keywords[account])


def _change(random: Random, keywords: dict[int, set[int]]) -> None:
    """Delete a campaign, or let a keyword leave one or come to it."""
    campaign = random.randint(1, 5)
    if random.random() < 0.2 and len(keywords) > 1:
        keywords.pop(campaign, None)
    else:
        keywords.setdefault(campaign, set()).symmetric_difference_update({random.randint(1, 5) * 10})


def _pull(
    random: Random,
    number: int,
    account: str,
    night: dt.date,
    window: tuple[dt.date, dt.date],
    keywords: dict[int, set[int]],
) -> Pull:
    start, end = window
    ids = {one for found in keywords.values() for one in found}
    of_feed = {Feed.CAMPAIGN: range(1, 6), Feed.CAMPAIGN_BY_DATE: range(1, 6), Feed.KEYWORD_BY_DATE: sorted(ids)}
    reports = [(feed, id_) for feed, found in of_feed.items() for id_ in found]
    share = random.choice([0, 0, 0.1, 0.3, 1 if number % 3 == 0 else 0])
    days = [start + dt.timedelta(n) for n in range(-1, (end - start).days + 1)]  # the first is not of the window
    served = {}
    for feed, id_ in reports:
        monthly = feed is not Feed.CAMPAIGN and id_ in (MONTHLY, MONTHLY * 10)
        dates = {f"{day:%Y-%m}" for day in days[1:]} if monthly else {str(day) for day in days if day.day % 4}
        served[feed, id_] = tuple(sorted(one for one in dates if random.random() < 0.7))
    return Pull(
        number,
        account,
        night,
        start,
        end,
        tuple(feed for feed in Feed if random.random() < 0.7) or (Feed.KEYWORD_BY_DATE,),
        None if random.random() < 0.7 else tuple(random.sample(range(1, 6), random.randint(1, 3))),
        {campaign: tuple(sorted(found)) for campaign, found in sorted(keywords.items())},
        frozenset(report for report in reports if random.random() < share),
        served,
        frozenset(report for report in reports if random.random() < 0.6),
    )
