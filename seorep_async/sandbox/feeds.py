"""The three ranking feeds: their facts, their two row formats and two envelopes, and the operations that report them.

All facts come from the same monthly measures of keywords, so they agree: a keyword's rank in the campaign feed is that
of the last month in its own feed, and a campaign's month counts and averages the ranks of its keywords in that month.
The previous period of a month is the month before; that of a range ends with the month before its first. If ranks
change by day, a month speaks of its last day within the range, and the previous period ends on the day before it.

The reference's sections 2.7 and 4.4 leave open which of `filter` and `search` is honoured; here both are: a row must
hold each, in any case. `sort_metric` takes any field of the older rows that is a number or a string. Without a
comparison every change is 0. Totals cover the whole result, not the page. They are false in the campaign feed, which
has none, and if no row matches.
"""

from calendar import monthrange
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from operator import itemgetter
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from attrs import field, frozen

from seorep_async.sandbox import request as fields, vocabulary as words
from seorep_async.sandbox.account import Account, Keyword, Trend, mix
from seorep_async.sandbox.request import (
    ApiRequest,
    Operation,
    Refusal,
    Service,
    found,
    in_order,
    matches,
)

ENGINES = ("engineA", "engineAMobile", "engineAPlaces", "engineB")
RANKINGS = tuple(f"{engine}Ranking" for engine in ENGINES)
CHANGES = tuple(f"{name}Change" for name in RANKINGS)
VOLUMES = ("competitors", "localMonthlySearches")
OLDER_METRICS = (
    "backlinks",
    "globalMonthlySearches",
    "wmtRanking",
    "wmtClicks",
    "wmtImpressions",
    "wmtCtr",
)
BANDS = {
    "1_3": range(1, 4),
    "4_10": range(4, 11),
    "11_20": range(11, 21),
    "21_50": range(21, 51),
    "51": range(51, 101),
}
LAST_DATES = (
    "lastEngineARankingDate", "lastEngineAMobileRankingDate", "lastEngineAPlacesRankingDate", "lastEngineBRankingDate",
    "lastSearchVolumeDate", "lastStatPadderDate", "lastMetricRollupDate", "lastResultsDate",
)  # fmt: skip
AVERAGED = frozenset((*RANKINGS, "competitors", "backlinks", "wmtRanking", "wmtCtr"))
"""Metrics whose aggregate is the mean; every other metric is summed."""

Row = dict[str, Any]
Measures = dict[str, int | None]

_LAST_POSITION = 100
_MONTH_KEY = 0xD1342543DE82EF95
_DAY_KEY = 0x9FB21C651E98DF25
_DAYS_OF_A_MONTH = 30
# Now and then a keyword drops out of the results: 10 months, or 3 days, of 256.
_ABSENT_MONTHS = 10
_ABSENT_DAYS = 3
_LONGEST_MONTHS = 1200
_UNSORTABLE = ("searchLocation", "searchLanguage", "tags")


class Moment(NamedTuple):
    """The time of a measurement: a month, by its number, and its day if ranks change by day."""

    month: int
    day: date | None = None


def measure(keyword: Keyword, moment: Moment) -> Measures:
    """Return a keyword's metrics at a time.

    None is "not ranked", "not tracked" or "not measured"; a rank of 0 occurs for places only, and is not the same.
    """
    noise = mix(keyword.key ^ moment.month * _MONTH_KEY)
    rank_noise = noise
    if moment.day is not None:
        rank_noise = mix(keyword.key ^ moment.day.toordinal() * _DAY_KEY)
    measures: Measures = {}
    for name, trend in zip(RANKINGS, keyword.trends, strict=True):
        measures[name] = None if trend is None else _rank(trend, moment, rank_noise & 0xFF)
        rank_noise >>= 8
    noise >>= 8 * len(RANKINGS)
    step = min(max(keyword.volume_step + noise % 5 - 2, 0), len(words.SEARCH_VOLUMES) - 1)
    clicks_per_cent = (noise >> 8) % 12
    shown = words.SEARCH_VOLUMES[step] * (60 + (noise >> 16) % 40) // 100
    searched = {
        "competitors": keyword.competitors + (noise >> 4) % 3, "backlinks": keyword.backlinks + (noise >> 6) % 4,
        "localMonthlySearches": words.SEARCH_VOLUMES[step], "globalMonthlySearches": words.SEARCH_VOLUMES[step] * 4,
        "wmtRanking": measures["engineARanking"], "wmtClicks": shown * clicks_per_cent // 100,
        "wmtImpressions": shown, "wmtCtr": clicks_per_cent,
    }  # fmt: skip
    return measures | (searched if keyword.measured else dict.fromkeys(searched))


def aggregate(metric: str, values: Iterable[int | None]) -> int | None:
    """Return the mean of an averaged metric (rounded, halves up) or the sum of another; None counts nowhere, 0 does."""
    present = [value for value in values if value is not None]
    if present and metric in AVERAGED:
        return (2 * sum(present) + len(present)) // (2 * len(present))
    return sum(present) if present else None


def _rank(trend: Trend, moment: Moment, noise: int) -> int | None:
    level, swing, speed, phase, best = trend
    if moment.day is None:
        chance_of_absence = _ABSENT_MONTHS
        turn = moment.month * speed
    else:
        chance_of_absence = _ABSENT_DAYS
        turn = moment.day.toordinal() * speed // _DAYS_OF_A_MONTH
    if noise < chance_of_absence:
        return None
    rank = level + swing * (abs((turn + phase) % 256 - 128) - 64) // 64 + noise % 5 - 2
    return None if rank > _LAST_POSITION else max(rank, best)


class Span(NamedTuple):
    """The requested range: its days, the numbers of the months that it touches, and whether ranks change by day."""

    start: date
    end: date
    months: range
    daily: bool

    def moment(self, month: int) -> Moment:
        """Return the time that a month of the range speaks of, or one before it: its last day within the range."""
        if not self.daily:
            return Moment(month)
        year, month_of_year = divmod(month, 12)
        last_day = date(year, month_of_year + 1, monthrange(year, month_of_year + 1)[1])
        return Moment(month, min(last_day, self.end))

    def moment_before(self) -> Moment:
        """Return the time that the period before the range ends with."""
        if self.daily and self.start > date.min:
            return Moment(self.months[0], self.start - timedelta(days=1))
        return Moment(self.months[0] - 1)


def keywords_of_campaign(
    account: Account, campaign_id: int, span: Span, compare: bool
) -> list[Row]:
    """Return one row per keyword, with the ranks of the range's last month, checked within its last week."""
    last_day = span.end.toordinal()
    last_days = [date.fromordinal(max(1, last_day - ago)).isoformat() for ago in range(7)]
    before = span.moment_before()
    last = span.moment(span.months[-1])
    return [
        _keyword_row(
            keyword,
            measure(keyword, last),
            measure(keyword, before) if compare else None,
            last_days,
        )
        for keyword in account.keywords(campaign_id)
    ]


def months_of_campaign(account: Account, campaign_id: int, span: Span, compare: bool) -> list[Row]:
    """Return one row per month, oldest first, with averages, sums and position bands over the campaign's keywords."""
    keywords = account.keywords(campaign_id)
    return _by_month(span, compare, lambda moment: _over_keywords(keywords, moment))


def months_of_keyword(account: Account, keyword_id: int, span: Span, compare: bool) -> list[Row]:
    """Return one row per month, oldest first."""
    keyword = found("keyword", keyword_id, account.keyword(keyword_id))
    return _by_month(span, compare, lambda moment: _with_urls(keyword, measure(keyword, moment)))


def _by_month(span: Span, compare: bool, facts: Callable[[Moment], Row]) -> list[Row]:
    before = facts(span.moment_before()) if compare else None
    rows = []
    for month in span.months:
        now = facts(span.moment(month))
        rows.append(
            {"date": f"{month // 12:04}-{month % 12 + 1:02}-01", **now, **_changes(now, before)}
        )
        before = now if compare else None
    return rows


def _keyword_row(
    keyword: Keyword, now: Measures, before: Measures | None, last_days: Sequence[str]
) -> Row:
    _, mobile, places, engine_b = keyword.trends
    searched = f".example/search?q={quote(keyword.phrase)}"
    row: Row = {
        "keywordId": keyword.id, "keywordPhrase": keyword.phrase, "primaryKeyword": str(keyword.primary).lower(),
        "searchLocation": keyword.location, "searchLanguage": words.LANGUAGE, "tags": keyword.tags,
        **_with_urls(keyword, now), **_changes(now, before),
        "engineASerpUrl": f"https://www.engine-a{searched}",
        "engineAMobileSerpUrl": mobile and f"https://m.engine-a{searched}",
        "engineAMapsSerpUrl": places and f"https://maps.engine-a{searched}",
        "engineBSerpUrl": engine_b and f"https://www.engine-b{searched}",
    }  # fmt: skip
    for number, name in enumerate(LAST_DATES):
        row[name] = last_days[(keyword.key >> 3 * number) % len(last_days)]
    if places is None:
        row["lastEngineAPlacesRankingDate"] = None
    if engine_b is None:
        row["lastEngineBRankingDate"] = None
    if not keyword.measured:
        row["lastSearchVolumeDate"] = row["lastStatPadderDate"] = None
    return row


def _over_keywords(keywords: Sequence[Keyword], moment: Moment) -> Row:
    measured = [measure(keyword, moment) for keyword in keywords]
    bands = {
        f"{engine}Rankings_{band}": sum(one[f"{engine}Ranking"] in positions for one in measured)
        for engine in ENGINES
        for band, positions in BANDS.items()
    }
    return bands | {
        metric: aggregate(metric, (one[metric] for one in measured))
        for metric in (*RANKINGS, *VOLUMES)
    }


def _changes(now: Row, before: Row | None) -> Measures:
    """Return the growth of each rank since the period before: 0 without one, None if either rank is missing."""
    if before is None:
        return dict.fromkeys(CHANGES, 0)
    ranks = zip(CHANGES, ((now[name], before[name]) for name in RANKINGS), strict=True)
    return {name: None if new is None or old is None else new - old for name, (new, old) in ranks}


def _with_urls(keyword: Keyword, measured: Measures) -> Row:
    urls = {
        f"{engine}RankingUrl": None if measured[f"{engine}Ranking"] is None else keyword.landing_url
        for engine in ("engineA", "engineAMobile", "engineB")
    }
    return measured | urls


@frozen
class RowFormat:
    """One variant of a feed's rows: the fields, the totals, and the format of those dates that have another."""

    fields: tuple[str, ...]
    totals: tuple[str, ...] = ()
    dates: Mapping[str, Callable[[str], str]] = field(factory=dict)

    def format(self, fact: Row) -> Row:
        row = dict(zip(self.fields, itemgetter(*self.fields)(fact), strict=True))
        for name, write in self.dates.items():
            if row[name] is not None:
                row[name] = write(row[name])
        return row


@frozen
class Feed:
    """A feed: its facts in two row formats; `searched` is the field for filter and search."""

    name: str
    path: str
    id_name: str
    facts: Callable[[Account, int, Span, bool], list[Row]]
    current: RowFormat
    older: RowFormat
    searched: str

    def operation(self) -> Operation:
        asked = {
            self.id_name: fields.INT32, "start_date": fields.DAY, "end_date": fields.DAY, **fields.PAGE,
            "filter": fields.STRING, "search": fields.STRING, "compare_previous_period": fields.FLAG,
            "sort_metric": fields.choice([name for name in self.older.fields if name not in _UNSORTABLE]),
            "sort_direction": fields.DIRECTION,
        }  # fmt: skip
        return Operation(
            "GET", self.path, self.report, asked, (self.id_name, "start_date", "end_date")
        )

    def report(self, service: Service, request: ApiRequest) -> dict[str, Any]:
        id_ = campaign_id = request[self.id_name]
        if self.id_name == "keyword_id":
            campaign_id = found("keyword", id_, service.account.keyword(id_)).campaign_id
        service.campaign(campaign_id)
        metadata, rows, sums = service.page(
            self.name, request, lambda: self._found(service, request, id_)
        )
        if service.shape == "nested" or (
            service.shape == "mixed" and _choice(service, id_) & 1 > 0
        ):
            return {"metadata": metadata, "data": {"totals": sums, "rows": rows}}
        return {"metadata": metadata | {"version": False}, "data": rows, "totals": sums}

    def _found(
        self, service: Service, request: ApiRequest, id_: int
    ) -> tuple[list[msgspec.Raw], Any]:
        older = service.rows == "older" or (
            service.rows == "mixed" and _choice(service, id_) & 2 > 0
        )
        row_format, compare = (
            self.older if older else self.current,
            request["compare_previous_period"],
        )
        span = _span(request, service.daily)
        facts = self.facts(service.account, id_, span, compare)
        pairs = [(fact, row_format.format(fact)) for fact in facts]
        if (self.name, id_) in service.reports:
            pairs = [*_replaced(pairs, service.reports[self.name, id_], row_format)]
        wanted = request["filter"], request["search"]
        pairs = [pair for pair in pairs if matches(str(pair[1].get(self.searched, "")), *wanted)]
        if sort_metric := request["sort_metric"]:
            pairs = in_order(
                pairs, lambda pair: pair[0].get(sort_metric), request["sort_direction"]
            )
        metrics = row_format.totals if pairs else ()
        sums = {
            metric: {"value": aggregate(metric, (fact[metric] for fact, _ in pairs))}
            for metric in metrics
        }
        return [msgspec.Raw(msgspec.json.encode(row)) for _, row in pairs], sums or False


def _choice(service: Service, id_: int) -> int:
    """Return a number whose bits choose the formats of a mixed account, by seed and id, never by the page."""
    return mix(service.account.key ^ mix(id_))


def _span(request: ApiRequest, daily: bool) -> Span:
    start, end = map(date.fromisoformat, (request["start_date"], request["end_date"]))
    first, last = (day.year * 12 + day.month - 1 for day in (start, end))
    if end < start:
        raise Refusal(400, "end_date is before start_date")
    if last - first >= _LONGEST_MONTHS:
        raise Refusal(
            400, f"the range from start_date to end_date is over {_LONGEST_MONTHS} months"
        )
    return Span(start, end, range(first, last + 1), daily)


def _replaced(
    seeded: Sequence[tuple[Row, Row]], given: Sequence[Row], row_format: RowFormat
) -> Iterable[tuple[Row, Row]]:
    """Yield given rows with their facts, completed from the seeded row in the same place or of the same month."""
    dated = {fact.get("date", "")[:7]: (fact, row) for fact, row in seeded}
    for place, values in enumerate(given):
        fact, row = seeded[place] if place < len(seeded) else ({}, {})
        if "date" in values:
            if values["date"][:7] not in dated:
                continue
            fact, row = dated[values["date"][:7]]
        numbers = {
            name: value for name, value in values.items() if value is None or type(value) is int
        }
        yield dict.fromkeys(row_format.totals) | fact | numbers, row | values


_AS_MONTH = {"date": itemgetter(slice(7))}
_AT_MIDNIGHT = dict.fromkeys(LAST_DATES, "{} 00:00:00".format)

_KEYWORD_FIELDS = (
    "keywordId", "keywordPhrase", "searchLocation", "searchLanguage", "primaryKeyword",
    "engineARanking", "engineARankingChange", "engineARankingUrl", "engineASerpUrl",
    "engineAMobileRanking", "engineAMobileRankingChange", "engineAMobileRankingUrl", "engineAMobileSerpUrl",
    "engineAPlacesRanking", "engineAPlacesRankingChange", "engineAMapsSerpUrl",
    "engineBRanking", "engineBRankingChange", "engineBRankingUrl", "engineBSerpUrl",
    "localMonthlySearches", "competitors", *LAST_DATES, "tags",
)  # fmt: skip
_CAMPAIGN_MONTH = RowFormat(
    fields=("date", *(
        f"{engine}{name}"
        for engine in ENGINES
        for name in ("Ranking", "RankingChange", *(f"Rankings_{band}" for band in BANDS))
    ), *VOLUMES),
    totals=(*RANKINGS, *CHANGES, *VOLUMES), dates=_AS_MONTH,
)  # fmt: skip
_KEYWORD_MONTH = (
    "date",
    *RANKINGS,
    "engineARankingUrl",
    "engineAMobileRankingUrl",
    "engineBRankingUrl",
    *VOLUMES,
)
_OLDER_KEYWORD_MONTH = RowFormat(
    (*_KEYWORD_MONTH, *OLDER_METRICS),
    # The reference lists no engineAMobileRankingChange here.
    (*RANKINGS, *VOLUMES, *(name for name in CHANGES if "Mobile" not in name), *OLDER_METRICS),
)  # fmt: skip

FEEDS = (
    Feed(
        "campaign", "/v3/resources/rankings/campaign", "campaign_id", keywords_of_campaign,
        current=RowFormat(_KEYWORD_FIELDS),
        older=RowFormat((*_KEYWORD_FIELDS, *OLDER_METRICS), dates=_AT_MIDNIGHT),
        searched="keywordPhrase",
    ),
    Feed(
        "campaign-by-date", "/v3/resources/rankings/campaign/date", "campaign_id", months_of_campaign,
        current=_CAMPAIGN_MONTH, older=_CAMPAIGN_MONTH, searched="date",
    ),
    Feed(
        "keyword-by-date", "/v3/resources/rankings/keyword/date", "keyword_id", months_of_keyword,
        current=RowFormat(_KEYWORD_MONTH, (*RANKINGS, *VOLUMES), _AS_MONTH), older=_OLDER_KEYWORD_MONTH,
        searched="date",
    ),
)  # fmt: skip
