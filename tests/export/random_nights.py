"""Nights of accounts: the service that serves them, and the rows that a reader should find.

Everything is plain Python, row by row. Keywords and campaigns move, are deleted and come back.
Windows, feeds and ids change from pull to pull. Some nights are pulled twice or after later ones,
some reports fail, and some pulls go on after a pause.
"""

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import Any, TypeAlias

import attrs

from seorep_async import Feed
from tests.export.accounts import page
from tests.scripted_api import ApiRequest

FIRST_NIGHT = dt.date(2023, 3, 1)
CAMPAIGNS = (1, 2, 3)
KEYWORDS = (10, 20, 30, 40)
MONTHLY = 3
"""The campaign, and a tenth of the id of the keyword, that has only monthly rows."""
TABLE = {
    Feed.CAMPAIGN: "keyword_rankings",
    Feed.CAMPAIGN_BY_DATE: "campaign_periods",
    Feed.KEYWORD_BY_DATE: "keyword_periods",
}
FEEDS_OF_CAMPAIGNS = (Feed.CAMPAIGN, Feed.CAMPAIGN_BY_DATE)
REPORTS: list[tuple[Feed, int] | None] = [None]
"""Requests that may fail: the list of campaigns, which is None, and reports."""
REPORTS += [(feed, campaign_id) for feed in FEEDS_OF_CAMPAIGNS for campaign_id in CAMPAIGNS]
REPORTS += [(Feed.KEYWORD_BY_DATE, keyword_id) for keyword_id in KEYWORDS]
REPORT = ("table_name", "campaign_id", "keyword_id", "start_date", "end_date")
SPAN = ("start_date", "end_date")
PERIOD = (*SPAN, "date", "date_precision", "competitors")
COLUMNS = {
    "keyword_rankings": ("campaign_id", "keyword_id", *SPAN, "competitors"),
    "campaign_periods": ("campaign_id", *PERIOD),
    "keyword_periods": ("campaign_id", "keyword_id", *PERIOD),
    "totals": (*REPORT, "engine_a_ranking"),
    "campaigns": ("campaign_id", "company"),
    "keywords": ("campaign_id", "keyword_id", "keyword_phrase"),
    "failures": (*REPORT, "status"),
    "pulls": ("feeds", *SPAN, "campaigns", "rows", "failures"),
}
"""The compared columns, besides account and snapshot date."""
Row: TypeAlias = dict[str, Any]
Tables: TypeAlias = dict[str, list[Row]]
Key: TypeAlias = tuple[Feed, int, int | None]
"""A report of one campaign, or of one keyword in one campaign."""


def no_rows() -> Tables:
    return {name: [] for name in COLUMNS}


@attrs.frozen
class World:
    """The facts that the service has for a while.

    Attributes:
        number: stands in every value, so that no two worlds give the same.
        keywords: campaign → keywords, for each campaign that exists.
        failing: reports that are a 404; None is the list of campaigns.
    """

    number: int
    keywords: Mapping[int, tuple[int, ...]]
    account_id: int = 1
    failing: frozenset[tuple[Feed, int] | None] = frozenset()

    def answer(self, request: ApiRequest) -> object:
        if request.path.startswith("/v3/campaigns/"):
            id_ = int(request.path.rpartition("/")[2])
            return self.campaign(id_) if id_ in self.keywords else 404
        report = report_of(request)
        if report is None:
            if None in self.failing:
                return 404
            campaigns = [self.campaign(id_) for id_ in self.keywords]
            return page(campaigns, campaigns)
        if self.fails(*report):
            return 404
        feed, id_ = report
        rows = self.rows(feed, id_, dict(request.pairs))
        totals: object = False
        if self.has_totals(feed, id_):
            totals = {"engineARanking": {"value": self.number}}
        return page({"rows": rows, "totals": totals}, rows)

    def rows(self, feed: Feed, id_: int, parameters: Mapping[str, str]) -> list[Row]:
        """Return the rows of a report on the wire."""
        row: Row = {"competitors": self.number}
        if feed is Feed.CAMPAIGN:
            row["keywordPhrase"] = self.name(id_)
            return [row | {"keywordId": keyword_id} for keyword_id in self.keywords[id_]]
        first = dt.date.fromisoformat(parameters["start_date"])
        last = dt.date.fromisoformat(parameters["end_date"])
        return [row | {"date": date} for date in self.dates(feed, id_, first, last)]

    def campaign(self, id_: int) -> dict[str, Any]:
        return {"id": id_, "account_id": self.account_id, "url": "u", "company": self.name(id_)}

    def name(self, id_: int) -> str:
        return f"{id_} in world {self.number}"

    def fails(self, feed: Feed, id_: int) -> bool:
        is_gone = feed is not Feed.KEYWORD_BY_DATE and id_ not in self.keywords
        return is_gone or (feed, id_) in self.failing

    def has_totals(self, feed: Feed, id_: int) -> bool:
        return Random(f"{self.number} {feed} {id_}").random() < 0.6

    def dates(self, feed: Feed, id_: int, start: dt.date, end: dt.date) -> list[str]:
        random = Random(f"{self.number} {feed} {id_}")
        length = (end - start).days
        days = [start + dt.timedelta(number) for number in range(-1, length + 1)]
        if id_ in (MONTHLY, MONTHLY * 10):
            # The first day is not in the window.
            dates = {f"{day:%Y-%m}" for day in days[1:]}
        else:
            dates = {str(day) for day in days if day.day % 4}
        return [date for date in sorted(dates) if random.random() < 0.7]


def report_of(request: ApiRequest) -> tuple[Feed, int] | None:
    """Return the feed and the id of a request, or None for the list of campaigns."""
    if request.path.startswith("/v3/campaigns"):
        return None
    if request.path.endswith("/campaign"):
        return Feed.CAMPAIGN, request.id
    if "keyword_id" in request.query:
        return Feed.KEYWORD_BY_DATE, request.id
    return Feed.CAMPAIGN_BY_DATE, request.id


@attrs.define(eq=False)
class Pull:
    """A pull: what it requests, and what it received, perhaps in several runs.

    Attributes:
        world: what the service has now.
        listed: the world that listed the campaigns, or None.
        received: the world that each report came from, by feed, campaign and keyword.
    """

    account: str
    night: dt.date
    start: dt.date
    end: dt.date
    feeds: tuple[Feed, ...]
    ids: tuple[int, ...] | None
    world: World
    listed: World | None = None
    received: dict[Key, World] = attrs.field(factory=dict)

    @property
    def asks(self) -> tuple[object, ...]:
        return self.account, self.night, self.start, self.end, self.feeds, self.ids

    def answer(self, request: ApiRequest) -> object:
        answer = self.world.answer(request)
        report = report_of(request)
        if request.path.startswith("/v3/campaigns/"):
            return answer
        if report is None:
            # A resume keeps the list that came first.
            if self.listed is None and answer != 404:
                self.listed = self.world
            return answer
        for key in self._keys_to_store(*report):
            self.received.pop(key, None)
            if answer != 404:
                self.received[key] = self.world
        return answer

    def _keys_to_store(self, feed: Feed, id_: int) -> list[Key]:
        """Return the campaigns and the keyword that a requested report is stored for."""
        if feed is not Feed.KEYWORD_BY_DATE:
            return [(feed, id_, None)]
        keys: list[Key] = []
        for campaign_id in self.campaign_ids:
            if id_ in self.keywords_of(campaign_id):
                keys.append((feed, campaign_id, id_))
        # The keyword may also be in a campaign whose report has failed before. Its report is then
        # requested again for this campaign alone. Otherwise it was not stored the first time.
        return [key for key in keys if key not in self.received] or keys

    @property
    def campaign_ids(self) -> tuple[int, ...]:
        """The campaigns that it pulls: those of its ids, or those on the list."""
        if self.ids is not None:
            return self.ids
        if self.listed is None:
            return ()
        return tuple(self.listed.keywords)

    def keywords_of(self, campaign: int) -> tuple[int, ...]:
        world = self.received.get((Feed.CAMPAIGN, campaign, None))
        return () if world is None else world.keywords[campaign]

    def reports(self) -> Iterator[tuple[Feed, int, int | None, World | None]]:
        """Yield feed, campaign, keyword and world of each report; no world if it failed."""
        for campaign_id in self.campaign_ids:
            lists_keywords = (Feed.CAMPAIGN, campaign_id, None) in self.received
            for feed in self.feeds:
                if feed is Feed.KEYWORD_BY_DATE and lists_keywords:
                    for keyword_id in self.keywords_of(campaign_id):
                        key = feed, campaign_id, keyword_id
                        yield feed, campaign_id, keyword_id, self.received.get(key)
                else:
                    yield feed, campaign_id, None, self.received.get((feed, campaign_id, None))

    @property
    def failures(self) -> list[tuple[Feed, int, int | None]]:
        failures = []
        for feed, campaign, keyword, world in self.reports():
            if world is None:
                failures.append((feed, campaign, keyword))
        return failures

    @property
    def fails_as_a_whole(self) -> bool:
        if not self.campaign_ids or any(world for *_, world in self.reports()):
            return False
        failed = {campaign_id for _, campaign_id, _ in self.failures}
        return failed.issuperset(self.campaign_ids)

    @property
    def night_of(self) -> Row:
        """The columns that every row has."""
        return {"account": self.account, "snapshot_date": self.night}

    @property
    def window(self) -> Row:
        return {"start_date": self.start, "end_date": self.end}

    def arriving(self) -> Tables:
        """Return the rows that it brings."""
        tables = no_rows()
        common = self.night_of | self.window
        for feed, campaign_id, keyword_id, world in self.reports():
            about = {"campaign_id": campaign_id, "keyword_id": keyword_id}
            report = common | about | {"table_name": TABLE[feed]}
            if world is None:
                tables["failures"].append(report | {"status": 404})
                continue
            id_ = campaign_id if keyword_id is None else keyword_id
            if world.has_totals(feed, id_):
                tables["totals"].append(report | {"engine_a_ranking": world.number})
            tables[TABLE[feed]] += self._rows(feed, campaign_id, keyword_id, world)
        rows = sum(len(tables[TABLE[feed]]) for feed in self.feeds)
        counts = {
            "campaigns": len(self.campaign_ids),
            "rows": rows,
            "failures": len(tables["failures"]),
        }
        feeds = ",".join(feed.value for feed in self.feeds)
        tables["pulls"].append(common | counts | {"feeds": feeds, "pull": self})
        self._name(tables)
        return tables

    def _rows(
        self, feed: Feed, campaign_id: int, keyword_id: int | None, world: World
    ) -> list[Row]:
        row = self.night_of | self.window
        row |= {"campaign_id": campaign_id, "competitors": world.number}
        if feed is Feed.CAMPAIGN:
            return [row | {"keyword_id": id_} for id_ in world.keywords[campaign_id]]
        if keyword_id is not None:
            row["keyword_id"] = keyword_id
        id_ = campaign_id if keyword_id is None else keyword_id
        rows = []
        for text in world.dates(feed, id_, self.start, self.end):
            precision = "month" if len(text) == 7 else "day"
            date = dt.date.fromisoformat(f"{text}-01"[:10])
            rows.append(row | {"date": date, "date_precision": precision})
        return rows

    def _name(self, tables: Tables) -> None:
        """Add the names of campaigns and keywords, or that campaigns could not be listed."""
        if self.listed is None:
            failure = {
                "table_name": "campaigns",
                "campaign_id": None,
                "keyword_id": None,
                "status": 404,
            }
            tables["failures"].append(self.night_of | self.window | failure)
        if self.fails_as_a_whole:
            return
        listed = self.listed or World(0, {})
        for campaign_id in {*self.campaign_ids} & listed.keywords.keys():
            names = {"campaign_id": campaign_id, "company": listed.name(campaign_id)}
            tables["campaigns"].append(self.night_of | names)
        for (feed, campaign_id, _), world in self.received.items():
            if feed is not Feed.CAMPAIGN:
                continue
            for keyword_id in world.keywords[campaign_id]:
                names = {
                    "campaign_id": campaign_id,
                    "keyword_id": keyword_id,
                    "keyword_phrase": world.name(campaign_id),
                }
                tables["keywords"].append(self.night_of | names)

    def apply_to(self, tables: Tables) -> None:
        """Replace rows as the pull should."""
        for name, arriving in self.arriving().items():
            rows = tables[name]
            outranked = self._outranking_keys(name, rows)
            new = [row for row in arriving if _key(row) not in outranked]
            keys = {_key(row) for row in new}
            goes = self.goes(name)
            rows[:] = [row for row in rows if _key(row) not in keys and not goes(row)] + new

    def _outranking_keys(self, table: str, rows: list[Row]) -> set[tuple[Any, ...]]:
        """Return the keys of rows that stay although the pull has rows with the same keys."""
        if table in ("campaigns", "keywords"):
            return {_key(row) for row in rows if row["snapshot_date"] > self.night}
        # A monthly row of days that this pull did not request is fuller.
        return {
            _key(row)
            for row in rows
            if "date" in row and _is_month(row) and not self.has_days_of(row)
        }

    def goes(self, table: str) -> Callable[[Row], bool]:
        """Return whether a row of a table was requested again, and the service responded."""
        failed = {(TABLE[feed], campaign, keyword) for feed, campaign, keyword in self.failures}
        tables = {TABLE[feed] for feed in self.feeds}

        def goes(row: Row) -> bool:
            if table in ("campaigns", "keywords", "pulls") or row["account"] != self.account:
                return False
            name = row.get("table_name", table)
            campaign_id = row["campaign_id"]
            is_of_pull = name in tables and campaign_id in self.campaign_ids
            is_of_window = (row["start_date"], row["end_date"]) == (self.start, self.end)
            is_of_night = row["snapshot_date"] == self.night
            if table == "failures":
                return is_of_night and is_of_window and (name == "campaigns" or is_of_pull)
            if self.fails_as_a_whole or not is_of_pull:
                return False
            if {(name, campaign_id, None), (name, campaign_id, row.get("keyword_id"))} & failed:
                return False
            if "date" in row:
                return is_of_window or self.has_days_of(row)
            return is_of_night and is_of_window

        return goes

    def has_days_of(self, row: Row) -> bool:
        """Return whether the window has all days that a row of a feed by date stands for."""
        date = row["date"]
        days = [date]
        if _is_month(row):
            days = [date + dt.timedelta(number) for number in range(31)]
            days = [day for day in days if day.month == date.month]
            days = [day for day in days if row["start_date"] <= day <= row["end_date"]]
        return all(self.start <= day <= self.end for day in days)


def _is_month(row: Row) -> bool:
    return bool(row["date_precision"] == "month")


def _key(row: Row) -> tuple[Any, ...]:
    """Return a row without its values, and without its night and window if it outlives them."""
    if "pull" in row:
        return (row["pull"],)
    values = {"competitors", "engine_a_ranking", "status", "company", "keyword_phrase"}
    if "date" in row or "company" in row or "keyword_phrase" in row:
        values |= {"snapshot_date", "start_date", "end_date"}
    names = sorted(row.keys() - values)
    return tuple((name, row[name]) for name in names)


def expected(tables: Tables) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return the rows that a reader should find."""
    counters = {}
    for table in COLUMNS:
        rows = [tuple(row[name] for name in columns(table)) for row in tables[table]]
        counters[table] = Counter(rows)
    return counters


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
    in_order = {campaign: tuple(sorted(ids)) for campaign, ids in sorted(keywords.items())}
    return World(number, in_order, account_id, frozenset(failing))
