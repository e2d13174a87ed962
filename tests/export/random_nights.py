"""Nights of accounts: the service that serves them, and what a reader should find, in plain Python, row by row.

Keywords leave campaigns, move, are deleted and come back; campaigns too. Windows, feeds and ids change from pull to
pull, some nights are pulled twice or after later ones, some reports fail, and some pulls go on after a pause.
"""

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Any, TypeAlias

import attrs

from seorep_async import Feed
from tests.scripted_api import ApiRequest

FIRST_NIGHT = dt.date(2023, 3, 1)
CAMPAIGNS, KEYWORDS = (1, 2, 3), (10, 20, 30, 40)
MONTHLY = 3
"""The campaign of which the service knows months only, and a tenth of the id of such a keyword."""
TABLE = {
    Feed.CAMPAIGN: "keyword_rankings",
    Feed.CAMPAIGN_BY_DATE: "campaign_periods",
    Feed.KEYWORD_BY_DATE: "keyword_periods",
}
REPORTS = [
    None,
    *((feed, one) for feed in (Feed.CAMPAIGN, Feed.CAMPAIGN_BY_DATE) for one in CAMPAIGNS),
    *((Feed.KEYWORD_BY_DATE, one) for one in KEYWORDS),
]
"""What may fail: the list of campaigns, and reports."""
REPORT = ("table_name", "campaign_id", "keyword_id", "start_date", "end_date")
COLUMNS = {
    "keyword_rankings": ("campaign_id", "keyword_id", "start_date", "end_date", "competitors"),
    "campaign_periods": (
        "campaign_id",
        "start_date",
        "end_date",
        "date",
        "date_precision",
        "competitors",
    ),
    "keyword_periods": (
        "campaign_id",
        "keyword_id",
        "start_date",
        "end_date",
        "date",
        "date_precision",
        "competitors",
    ),
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


@attrs.frozen
class World:
    """What the service has for a while.

    Attributes:
        number: stands in every value, so that no two worlds give the same.
        keywords: campaign → keywords, for each campaign that exists.
        failing: reports that are a 404; None is the list of campaigns.
    """

    number: int
    keywords: Mapping[int, tuple[int, ...]]
    account_id: int = 1
    failing: frozenset[tuple[Feed, int] | None] = frozenset()

    def answer(self, asked: ApiRequest) -> object:
        if asked.path.startswith("/v3/campaigns/"):
            id_ = int(asked.path.rpartition("/")[2])
            return self.campaign(id_) if id_ in self.keywords else 404
        if (report := report_of(asked)) is None:
            if None in self.failing:
                return 404
            found = list(map(self.campaign, self.keywords))
            return {"metadata": {"total_pages": 1, "total_records": len(found)}, "data": found}
        if self.fails(*report):
            return 404
        feed, id_ = report
        if feed is Feed.CAMPAIGN:
            rows = [
                {"keywordId": one, "keywordPhrase": self.name(id_)} for one in self.keywords[id_]
            ]
        else:
            asked_for = dict(asked.pairs)
            first, last = (
                dt.date.fromisoformat(asked_for[name]) for name in ("start_date", "end_date")
            )
            rows = [{"date": date} for date in self.dates(feed, id_, first, last)]
        totals = {"engineARanking": {"value": self.number}} if self.has_totals(feed, id_) else False
        data = {"rows": [row | {"competitors": self.number} for row in rows], "totals": totals}
        return {"metadata": {"total_pages": 1, "total_records": len(rows)}, "data": data}

    def campaign(self, id_: int) -> dict[str, Any]:
        return {"id": id_, "account_id": self.account_id, "url": "u", "company": self.name(id_)}

    def name(self, id_: int) -> str:
        return f"{id_} in world {self.number}"

    def fails(self, feed: Feed, id_: int) -> bool:
        return (feed, id_) in self.failing or (
            feed is not Feed.KEYWORD_BY_DATE and id_ not in self.keywords
        )

    def has_totals(self, feed: Feed, id_: int) -> bool:
        return Random(f"{self.number} {feed} {id_}").random() < 0.6

    def dates(self, feed: Feed, id_: int, start: dt.date, end: dt.date) -> list[str]:
        random = Random(f"{self.number} {feed} {id_}")
        days = [start + dt.timedelta(number) for number in range(-1, (end - start).days + 1)]
        monthly = id_ in (MONTHLY, MONTHLY * 10)
        # the first day is not of the window
        dates = (
            {f"{day:%Y-%m}" for day in days[1:]}
            if monthly
            else {str(day) for day in days if day.day % 4}
        )
        return [one for one in sorted(dates) if random.random() < 0.7]


def report_of(asked: ApiRequest) -> tuple[Feed, int] | None:
    """Return the feed and the id of a request, or None for the list of campaigns."""
    if asked.path.startswith("/v3/campaigns"):
        return None
    by_date = Feed.KEYWORD_BY_DATE if "keyword_id" in asked.query else Feed.CAMPAIGN_BY_DATE
    return Feed.CAMPAIGN if asked.path.endswith("/campaign") else by_date, asked.id


@attrs.define(eq=False)
class Pull:
    """One pull: what it asks for, and what it was given, perhaps in several runs.

    Attributes:
        world: what the service has now.
        listed: the world that listed the campaigns, or None.
        given: the world that gave each report, by feed and id.
        twice: reports that were asked for although they had been given.
    """

    account: str
    night: dt.date
    start: dt.date
    end: dt.date
    feeds: tuple[Feed, ...]
    ids: tuple[int, ...] | None
    world: World
    listed: World | None = None
    given: dict[tuple[Feed, int], World] = attrs.field(factory=dict)
    twice: list[tuple[Feed, int]] = attrs.field(factory=list)

    @property
    def asks(self) -> tuple[object, ...]:
        return self.account, self.night, self.start, self.end, self.feeds, self.ids

    def answer(self, asked: ApiRequest) -> object:
        answer, report = self.world.answer(asked), report_of(asked)
        if asked.path.startswith("/v3/campaigns/"):
            return answer
        if report is None:
            self.listed = self.listed or (
                None if answer == 404 else self.world
            )  # a resume keeps what was found first
            return answer
        if report in self.given:
            self.twice.append(report)
        self.given.pop(report, None)  # what is asked for again was not stored
        if answer != 404:
            self.given[report] = self.world
        return answer

    @property
    def wanted(self) -> tuple[int, ...]:
        return tuple(self.listed.keywords if self.listed else ()) if self.ids is None else self.ids

    def keywords_of(self, campaign: int) -> tuple[int, ...]:
        world = self.given.get((Feed.CAMPAIGN, campaign))
        return () if world is None else world.keywords[campaign]

    def reports(self) -> Iterator[tuple[Feed, int, int | None, World | None]]:
        """Yield feed, campaign, keyword and the world that gave it, or None if it failed, for each report."""
        for campaign in self.wanted:
            for feed in self.feeds:
                lists_keywords = (Feed.CAMPAIGN, campaign) in self.given
                of_keyword = feed is Feed.KEYWORD_BY_DATE and lists_keywords
                for keyword in self.keywords_of(campaign) if of_keyword else (None,):
                    yield (
                        feed,
                        campaign,
                        keyword,
                        self.given.get((feed, campaign if keyword is None else keyword)),
                    )

    @property
    def failures(self) -> list[tuple[Feed, int, int | None]]:
        return [
            (feed, campaign, keyword)
            for feed, campaign, keyword, world in self.reports()
            if world is None
        ]

    @property
    def fails_as_a_whole(self) -> bool:
        failed = {campaign for _, campaign, _ in self.failures}
        return (
            bool(self.wanted)
            and failed.issuperset(self.wanted)
            and not any(one for *_, one in self.reports())
        )

    def arriving(self) -> Tables:
        """Return the rows that it brings."""
        found, whose = no_rows(), {"account": self.account, "snapshot_date": self.night}
        window = {"start_date": self.start, "end_date": self.end}
        for feed, campaign, keyword, world in self.reports():
            about = {"table_name": TABLE[feed], "campaign_id": campaign, "keyword_id": keyword}
            if world is None:
                found["failures"].append(whose | about | window | {"status": 404})
                continue
            id_ = campaign if keyword is None else keyword
            if world.has_totals(feed, id_):
                found["totals"].append(whose | about | window | {"engine_a_ranking": world.number})
            row = whose | window | {"campaign_id": campaign, "competitors": world.number}
            if feed is Feed.CAMPAIGN:
                found["keyword_rankings"] += [
                    row | {"keyword_id": one} for one in world.keywords[campaign]
                ]
            else:
                row |= {} if keyword is None else {"keyword_id": keyword}
                for text in world.dates(feed, id_, self.start, self.end):
                    date = dt.date.fromisoformat(f"{text}-01"[:10])
                    found[TABLE[feed]].append(
                        row | {"date": date, "date_precision": "month" if len(text) == 7 else "day"}
                    )
        rows = sum(len(found[TABLE[feed]]) for feed in self.feeds)
        counts = {"campaigns": len(self.wanted), "rows": rows, "failures": len(found["failures"])}
        feeds = ",".join(feed.value for feed in self.feeds)
        found["pulls"].append(whose | {"feeds": feeds, **window, **counts, "pull": self})
        self._name(found, whose)
        return found

    def _name(self, found: Tables, whose: Row) -> None:
        """Add the names of campaigns and keywords, or that the former could not be listed."""
        if self.listed is None:
            about = {
                "table_name": "campaigns",
                "campaign_id": None,
                "keyword_id": None,
                "status": 404,
            }
            found["failures"].append(
                whose | about | {"start_date": self.start, "end_date": self.end}
            )
        if self.fails_as_a_whole:
            return
        listed = self.listed or World(0, {})
        for one in {*self.wanted} & listed.keywords.keys():
            found["campaigns"].append(whose | {"campaign_id": one, "company": listed.name(one)})
        for (feed, one), world in self.given.items():
            if feed is Feed.CAMPAIGN:
                ids = [{"campaign_id": one, "keyword_id": id_} for id_ in world.keywords[one]]
                found["keywords"] += [
                    whose | row | {"keyword_phrase": world.name(one)} for row in ids
                ]

    def apply_to(self, held: Tables) -> None:
        """Replace rows as the pull should."""
        for name, new in self.arriving().items():
            rows = held[name]
            if name in ("campaigns", "keywords"):
                later = {_key(row) for row in rows if row["snapshot_date"] > self.night}
                new = [row for row in new if _key(row) not in later]
            fuller = {
                _key(row)
                for row in rows
                if "date" in row and not self.has_days_of(row) and _is_month(row)
            }
            new = [row for row in new if _key(row) not in fuller]
            keys = {_key(row) for row in new}
            goes = self.goes(name)
            rows[:] = [row for row in rows if _key(row) not in keys and not goes(row)] + new

    def goes(self, table: str) -> Callable[[Row], bool]:
        """Return whether a row of a table was asked for again, and the service responded."""
        failed = {(TABLE[feed], campaign, keyword) for feed, campaign, keyword in self.failures}
        tables = {TABLE[feed] for feed in self.feeds}

        def goes(row: Row) -> bool:
            name = row.get("table_name", table)
            if table in ("campaigns", "keywords", "pulls") or row["account"] != self.account:
                return False
            campaign, same_night = row["campaign_id"], row["snapshot_date"] == self.night
            same_dates = (row["start_date"], row["end_date"]) == (self.start, self.end)
            if table == "failures":
                of_names = name == "campaigns"
                return (
                    same_night
                    and same_dates
                    and (of_names or (name in tables and campaign in self.wanted))
                )
            if self.fails_as_a_whole or name not in tables or campaign not in self.wanted:
                return False
            if {(name, campaign, None), (name, campaign, row.get("keyword_id"))} & failed:
                return False
            return (
                same_dates or self.has_days_of(row) if "date" in row else same_night and same_dates
            )

        return goes

    def has_days_of(self, row: Row) -> bool:
        """Return whether the window has all days that a row of a feed by date stands for."""
        days = [row["date"]]
        if row["date_precision"] == "month":
            every = [row["date"] + dt.timedelta(number) for number in range(31)]
            days = [
                day for day in every if day.month == row["date"].month and day <= row["end_date"]
            ]
            days = [day for day in days if day >= row["start_date"]]
        return all(self.start <= day <= self.end for day in days)


def _is_month(row: Row) -> bool:
    return bool(row["date_precision"] == "month")


def _key(row: Row) -> tuple[Any, ...]:
    """Return what a row is about: all but its values, and but its night and window if it outlives these."""
    if "pull" in row:
        return (row["pull"],)
    values = {"competitors", "engine_a_ranking", "status", "company", "keyword_phrase"}
    if "date" in row or "company" in row or "keyword_phrase" in row:
        values |= {"snapshot_date", "start_date", "end_date"}
    return tuple(sorted((name, value) for name, value in row.items() if name not in values))


def expected(held: Tables) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return the rows that a reader should find."""
    return {
        table: Counter(tuple(row[name] for name in columns(table)) for row in held[table])
        for table in COLUMNS
    }


def columns(table: str) -> tuple[str, ...]:
    return ("account", "snapshot_date", *COLUMNS[table])


def change(keywords: dict[int, set[int]], campaign: int, keyword: int | None) -> None:
    """Let a keyword leave a campaign or come to it; None deletes the campaign."""
    if keyword is None:
        keywords.pop(campaign, None)
    else:
        keywords.setdefault(campaign, set()).symmetric_difference_update({keyword})


def world(
    number: int,
    keywords: Mapping[int, set[int]],
    account_id: int,
    failing: Iterable[tuple[Feed, int] | None],
) -> World:
    found = {campaign: tuple(sorted(ids)) for campaign, ids in sorted(keywords.items())}
    return World(number, found, account_id, frozenset(failing))
