"""The facts of the three feeds, row by row: every field of any row format, before a shape is chosen.

All three come from the same monthly measures of keywords, so they agree: a keyword's rank in the campaign feed is that
of the last month in its own feed, and a campaign's month counts and averages the ranks of its keywords in that month.
The previous period of a month is the month before; that of a range ends with the month before its first.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Any, NamedTuple
from urllib.parse import quote

from seorep_async.sandbox import vocabulary as words
from seorep_async.sandbox.account import Account
from seorep_async.sandbox.seeded import Keyword, Trend, mix

AVERAGED = frozenset((*words.RANKINGS, "competitors", "backlinks", "wmtRanking", "wmtCtr"))
"""Metrics whose aggregate is the mean; every other metric is summed."""


Row = dict[str, Any]
Measures = dict[str, int | None]

_LAST_POSITION = 100
_MONTH_KEY = 0xD1342543DE82EF95


def measure(keyword: Keyword, month: int) -> Measures:
    """Return a keyword's metrics in a month, by its number.

    None is "not ranked", "not tracked" or "not measured"; a rank of 0 occurs for places only, and is not the same.
    """
    noise = mix(keyword.key ^ month * _MONTH_KEY)
    measures: Measures = {}
    for name, trend in zip(words.RANKINGS, keyword.trends, strict=True):
        measures[name] = None if trend is None else _rank(trend, month, noise & 0xFF)
        noise >>= 8
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


def _rank(trend: Trend, month: int, noise: int) -> int | None:
    if noise < 10:  # now and then a keyword drops out of the results for a month
        return None
    level, swing, speed, phase, best = trend
    rank = level + swing * (abs((month * speed + phase) % 256 - 128) - 64) // 64 + noise % 5 - 2
    return None if rank > _LAST_POSITION else max(rank, best)


class Span(NamedTuple):
    """The requested range: its last day, and the numbers of the months that it touches."""

    end: date
    months: range


def keywords_of_campaign(account: Account, campaign_id: int, span: Span, compare: bool) -> list[Row]:
    """Return one row per keyword, with the ranks of the range's last month, checked within its last week."""
    last_day = span.end.toordinal()
    last_days = [date.fromordinal(max(1, last_day - ago)).isoformat() for ago in range(7)]
    before, last = span.months[0] - 1, span.months[-1]
    return [
        _keyword_row(keyword, measure(keyword, last), measure(keyword, before) if compare else None, last_days)
        for keyword in account.keywords(campaign_id)
    ]


def months_of_campaign(account: Account, campaign_id: int, span: Span, compare: bool) -> list[Row]:
    """Return one row per month, oldest first, with averages, sums and position bands over the campaign's keywords."""
    keywords = account.keywords(campaign_id)
    return _by_month(span, compare, lambda month: _over_keywords(keywords, month))


def months_of_keyword(account: Account, keyword_id: int, span: Span, compare: bool) -> list[Row]:
    """Return one row per month, oldest first."""
    keyword = account.keyword(keyword_id)
    assert keyword is not None, "only an existing one is reported"  # noqa: S101
    return _by_month(span, compare, lambda month: _with_urls(keyword, measure(keyword, month)))


def _by_month(span: Span, compare: bool, facts: Callable[[int], Row]) -> list[Row]:
    before = facts(span.months[0] - 1) if compare else None
    rows = []
    for month in span.months:
        now = facts(month)
        rows.append({"date": f"{month // 12:04}-{month % 12 + 1:02}-01", **now, **_changes(now, before)})
        before = now if compare else None
    return rows


def totals(rows: Sequence[Row], metrics: Iterable[str]) -> dict[str, dict[str, int | None]]:
    """Return each metric's aggregate over rows."""
    return {metric: {"value": aggregate(metric, (row[metric] for row in rows))} for metric in metrics}


def _keyword_row(keyword: Keyword, now: Measures, before: Measures | None, last_days: Sequence[str]) -> Row:
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
    for number, name in enumerate(words.LAST_DATES):
        row[name] = last_days[(keyword.key >> 3 * number) % len(last_days)]
    if places is None:
        row["lastEngineAPlacesRankingDate"] = None
    if engine_b is None:
        row["lastEngineBRankingDate"] = None
    if not keyword.measured:
        row["lastSearchVolumeDate"] = row["lastStatPadderDate"] = None
    return row


def _over_keywords(keywords: Sequence[Keyword], month: int) -> Row:
    measured = [measure(keyword, month) for keyword in keywords]
    bands = {
        f"{engine}Rankings_{band}": sum(one[f"{engine}Ranking"] in positions for one in measured)
        for engine in words.ENGINES
        for band, positions in words.BANDS.items()
    }
    return bands | {
        metric: aggregate(metric, (one[metric] for one in measured)) for metric in (*words.RANKINGS, *words.VOLUMES)
    }


def _changes(now: Row, before: Row | None) -> Measures:
    """Return the growth of each rank since the period before: 0 without one, None if either rank is missing."""
    if before is None:
        return dict.fromkeys(words.CHANGES, 0)
    ranks = zip(words.CHANGES, ((now[name], before[name]) for name in words.RANKINGS), strict=True)
    return {name: None if new is None or old is None else new - old for name, (new, old) in ranks}


def _with_urls(keyword: Keyword, measured: Measures) -> Row:
    urls = {
        f"{engine}RankingUrl": None if measured[f"{engine}Ranking"] is None else keyword.landing_url
        for engine in ("engineA", "engineAMobile", "engineB")
    }
    return measured | urls
