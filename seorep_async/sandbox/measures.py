"""The facts of the ranking feeds. They are metrics of keywords at a given time, or aggregates.

All feeds report the same measures, so they agree. A keyword's rank in the campaign feed is its rank
in the last month of its own feed. A campaign's month counts and averages the ranks of its keywords.

The previous period of a month is the month before. The previous period of a range ends with the
month before its first month. If ranks change by day, a month has the ranks of its last day within
the range. The previous period then ends on the day before the range.
"""

from calendar import monthrange
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple
from urllib.parse import quote

from seorep_async.sandbox import vocabulary
from seorep_async.sandbox.request import field_names
from seorep_async.sandbox.seeds import SeededKeyword, Trend, mix

ENGINE_TOKENS = ("engineA", "engineAMobile", "engineAPlaces", "engineB")
RANKINGS = tuple(f"{engine}Ranking" for engine in ENGINE_TOKENS)
CHANGES = tuple(f"{name}Change" for name in RANKINGS)
VOLUMES = ("competitors", "localMonthlySearches")
OLDER_METRICS = field_names(
    "backlinks globalMonthlySearches wmtRanking wmtClicks wmtImpressions wmtCtr"
)
POSITION_BANDS = {
    "1_3": range(1, 4),
    "4_10": range(4, 11),
    "11_20": range(11, 21),
    "21_50": range(21, 51),
    "51": range(51, 101),
}
LAST_DATES = field_names("""
    lastEngineARankingDate lastEngineAMobileRankingDate lastEngineAPlacesRankingDate
    lastEngineBRankingDate lastSearchVolumeDate lastStatPadderDate lastMetricRollupDate
    lastResultsDate
""")
AVERAGED = frozenset((*RANKINGS, "competitors", "backlinks", "wmtRanking", "wmtCtr"))
"""Metrics whose aggregate is the mean. Every other metric is summed."""

FeedRow = dict[str, Any]
"""The fields of a row, under the service's names."""
Measures = dict[str, int | None]
"""Metrics by the service's names for them."""

_LAST_POSITION = 100
_MONTH_KEY = 0xD1342543DE82EF95
_DAY_KEY = 0x9FB21C651E98DF25
_DAYS_OF_A_MONTH = 30
# Now and then a keyword drops out of the results: in 10 of 256 months, or 3 of 256 days.
_ABSENT_MONTHS = 10
_ABSENT_DAYS = 3


class Moment(NamedTuple):
    """The time of a measurement. It is a month, by its number, and a day if ranks change by day."""

    month: int
    day: date | None = None


class Span(NamedTuple):
    """The requested range, and whether ranks change by day."""

    start: date
    end: date
    daily: bool

    @property
    def months(self) -> range:
        """The numbers of the range's months."""
        return range(_month_number(self.start), _month_number(self.end) + 1)

    def moment(self, month: int) -> Moment:
        """Return the time at which a month of the range is measured."""
        if not self.daily:
            return Moment(month)
        year, month_index = divmod(month, 12)
        days = monthrange(year, month_index + 1)[1]
        last_day = date(year, month_index + 1, days)
        return Moment(month, min(last_day, self.end))

    def moment_before(self) -> Moment:
        """Return the time at which the period before the range is measured."""
        if self.daily:
            return Moment(self.months[0], self.start - timedelta(days=1))
        return Moment(self.months[0] - 1)


def _month_number(day: date) -> int:
    """Return the number of a day's month, counted from January of year 0, which has number 0."""
    return day.year * 12 + day.month - 1


def measure(keyword: SeededKeyword, moment: Moment) -> Measures:
    """Return a keyword's metrics at a time.

    None is "not ranked", "not tracked" or "not measured". Only a rank in places may be 0, which
    the service's reference does not explain.
    """
    # The other metrics always take the month's noise, without the bits that monthly ranks take: 8
    # for each rank.
    noise = mix(keyword.key ^ moment.month * _MONTH_KEY)
    rank_noise = noise
    if moment.day is not None:
        rank_noise = mix(keyword.key ^ moment.day.toordinal() * _DAY_KEY)
    measures: Measures = {}
    for name, trend in zip(RANKINGS, keyword.trends, strict=True):
        measures[name] = None
        if trend is not None:
            measures[name] = _rank(trend, moment, rank_noise & 0xFF)
        rank_noise >>= 8
    # These change by month, even if ranks change by day.
    other_metrics = _other_metrics(keyword, noise >> 8 * len(RANKINGS))
    # The webmaster tools report the rank in engine A, but only of measured keywords.
    other_metrics["wmtRanking"] = measures["engineARanking"]
    if not keyword.measured:
        other_metrics = dict.fromkeys(other_metrics)
    return measures | other_metrics


def _rank(trend: Trend, moment: Moment, noise: int) -> int | None:
    """Return a rank at a time, or None if the keyword is not ranked then."""
    absences = _ABSENT_MONTHS
    position = moment.month * trend.speed
    if moment.day is not None:
        absences = _ABSENT_DAYS
        position = moment.day.toordinal() * trend.speed // _DAYS_OF_A_MONTH
    if noise < absences:
        return None
    # A triangle wave from -64 to 64 with a period of 256, and a little noise on it.
    wave = abs((position + trend.phase) % 256 - 128) - 64
    change = trend.swing * wave // 64
    rank = trend.level + change + noise % 5 - 2
    if rank > _LAST_POSITION:
        return None
    return max(rank, trend.best)


def _other_metrics(keyword: SeededKeyword, noise: int) -> Measures:
    """Return the metrics of a keyword that are not ranks."""
    # A volume moves by at most two steps, and stays within the scale. Each line takes other bits of
    # the noise.
    step = keyword.volume_step + noise % 5 - 2
    step = min(max(step, 0), len(vocabulary.SEARCH_VOLUMES) - 1)
    searches = vocabulary.SEARCH_VOLUMES[step]
    impressions = searches * (60 + (noise >> 16) % 40) // 100
    clicks_per_cent = (noise >> 8) % 12
    return {
        "competitors": keyword.competitors + (noise >> 4) % 3,
        "backlinks": keyword.backlinks + (noise >> 6) % 4,
        "localMonthlySearches": searches,
        "globalMonthlySearches": searches * 4,
        "wmtClicks": impressions * clicks_per_cent // 100,
        "wmtImpressions": impressions,
        "wmtCtr": clicks_per_cent,
    }


def aggregate(metric: str, values: Iterable[object]) -> int | None:
    """Return the rounded mean of a metric in `AVERAGED`, or the sum of any other metric.

    Halves are rounded up. 0 counts, but None does not.
    """
    # A test's own row may have values of any type.
    present = [value for value in values if isinstance(value, int)]
    if not present:
        return None
    if metric in AVERAGED:
        return int(sum(present) / len(present) + 0.5)
    return sum(present)


def keywords_of_campaign(
    keywords: Iterable[SeededKeyword], span: Span, compare: bool
) -> list[FeedRow]:
    """Return one row per keyword, with the ranks of the range's last month.

    The dates of their last checks are within the last week of the range.
    """
    last_week = [(span.end - timedelta(days=ago)).isoformat() for ago in range(7)]
    last = span.moment(span.months[-1])
    moment_before = span.moment_before()
    rows = []
    for keyword in keywords:
        before = None
        if compare:
            before = measure(keyword, moment_before)
        rows.append(_keyword_row(keyword, measure(keyword, last), before, last_week))
    return rows


def months_of_campaign(
    keywords: Sequence[SeededKeyword], span: Span, compare: bool
) -> list[FeedRow]:
    """Return one row per month, oldest first. It has averages, sums and bands over the keywords."""
    return _by_month(span, compare, lambda moment: _over_keywords(keywords, moment))


def months_of_keyword(keyword: SeededKeyword, span: Span, compare: bool) -> list[FeedRow]:
    """Return one row per month, oldest first."""
    return _by_month(span, compare, lambda moment: _with_urls(keyword, measure(keyword, moment)))


def _by_month(span: Span, compare: bool, facts_at: Callable[[Moment], FeedRow]) -> list[FeedRow]:
    """Return one row per month, with changes since the month before if `compare`."""
    before = None
    if compare:
        before = facts_at(span.moment_before())
    rows = []
    for month in span.months:
        now = facts_at(span.moment(month))
        year, month_index = divmod(month, 12)
        first_day = f"{year:04}-{month_index + 1:02}-01"
        changes = _changes(now, before)
        rows.append({"date": first_day, **now, **changes})
        if compare:
            before = now
    return rows


def _keyword_row(
    keyword: SeededKeyword, now: Measures, before: Measures | None, last_week: Sequence[str]
) -> FeedRow:
    """Return a row of the campaign feed."""
    _, _, places, engine_b = keyword.trends
    search_path = f".example/search?q={quote(keyword.phrase)}"
    row = {
        "keywordId": keyword.id,
        "keywordPhrase": keyword.phrase,
        "primaryKeyword": str(keyword.primary).lower(),
        "searchLocation": keyword.location,
        "searchLanguage": vocabulary.LANGUAGE,
        "tags": keyword.tags,
        **_with_urls(keyword, now),
        **_changes(now, before),
    }
    row["engineASerpUrl"] = f"https://www.engine-a{search_path}"
    row["engineAMobileSerpUrl"] = f"https://m.engine-a{search_path}"
    row["engineAMapsSerpUrl"] = f"https://maps.engine-a{search_path}"
    row["engineBSerpUrl"] = f"https://www.engine-b{search_path}"
    # Other bits of the key choose each date.
    for number, name in enumerate(LAST_DATES):
        row[name] = last_week[(keyword.key >> 3 * number) % len(last_week)]
    # A rank that is not tracked was never checked.
    if places is None:
        row["engineAMapsSerpUrl"] = None
        row["lastEngineAPlacesRankingDate"] = None
    if engine_b is None:
        row["engineBSerpUrl"] = None
        row["lastEngineBRankingDate"] = None
    if not keyword.measured:
        row["lastSearchVolumeDate"] = None
        row["lastStatPadderDate"] = None
    return row


def _over_keywords(keywords: Sequence[SeededKeyword], moment: Moment) -> FeedRow:
    """Return the averages, sums and bands of a campaign's keywords at a time."""
    measured = [measure(keyword, moment) for keyword in keywords]
    row: FeedRow = {}
    for engine in ENGINE_TOKENS:
        ranks = [measures[f"{engine}Ranking"] for measures in measured]
        for band, positions in POSITION_BANDS.items():
            row[f"{engine}Rankings_{band}"] = sum(rank in positions for rank in ranks)
    for metric in (*RANKINGS, *VOLUMES):
        row[metric] = aggregate(metric, (measures[metric] for measures in measured))
    return row


def _changes(now: FeedRow, before: FeedRow | None) -> Measures:
    """Return the growth of each rank since the period before.

    It is 0 without a comparison, and None if either rank is missing.
    """
    if before is None:
        return dict.fromkeys(CHANGES, 0)
    changes: Measures = {}
    for name, ranking in zip(CHANGES, RANKINGS, strict=True):
        new = now[ranking]
        old = before[ranking]
        changes[name] = None
        if new is not None and old is not None:
            changes[name] = new - old
    return changes


def _with_urls(keyword: SeededKeyword, measures: Measures) -> FeedRow:
    """Return measures with the keyword's address for each engine that ranks it."""
    row: FeedRow = dict(measures)
    for engine in ("engineA", "engineAMobile", "engineB"):
        is_ranked = measures[f"{engine}Ranking"] is not None
        row[f"{engine}RankingUrl"] = keyword.landing_url if is_ranked else None
    return row
