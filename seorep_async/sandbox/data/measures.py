"""What was measured of one keyword in one month, under the service's own metric names."""

from collections.abc import Iterable, Mapping

from .keywords import Keyword, Trend
from .seeding import mix
from .vocabulary import VOLUMES

ENGINES = ("engineA", "engineAMobile", "engineAPlaces", "engineB")
RANKINGS = tuple(f"{engine}Ranking" for engine in ENGINES)
OLDER_METRICS = ("backlinks", "globalMonthlySearches", "wmtRanking", "wmtClicks", "wmtImpressions", "wmtCtr")
METRICS = (*RANKINGS, "competitors", "localMonthlySearches", *OLDER_METRICS)

AVERAGED = frozenset((*RANKINGS, "competitors", "backlinks", "wmtRanking", "wmtCtr"))
"""Metrics whose aggregate is the mean; every other metric is summed."""

BANDS = {"1_3": range(1, 4), "4_10": range(4, 11), "11_20": range(11, 21), "21_50": range(21, 51), "51": range(51, 101)}

Measures = dict[str, int | None]

_LAST_POSITION = 100
_MONTH_KEY = 0xD1342543DE82EF95


def measure(keyword: Keyword, month: int) -> Measures:
    """Return a keyword's metrics in a month.

    None is "not ranked", "not tracked" or "not measured"; a rank of 0 occurs for places only, and is not the same.

    Args:
        month: the month's number, `year * 12 + month - 1`.
    """
    noise = mix(keyword.key ^ month * _MONTH_KEY)
    measures: Measures = {}
    for name, trend in zip(RANKINGS, keyword.trends, strict=True):
        measures[name] = None if trend is None else _rank(trend, month, noise & 0xFF)
        noise >>= 8
    if not keyword.measured:
        return measures | dict.fromkeys(METRICS[len(RANKINGS) :])
    step = min(max(keyword.volume_step + noise % 5 - 2, 0), len(VOLUMES) - 1)
    clicks_per_cent = (noise >> 8) % 12
    shown = VOLUMES[step] * (60 + (noise >> 16) % 40) // 100
    measures["competitors"] = keyword.competitors + (noise >> 4) % 3
    measures["localMonthlySearches"] = VOLUMES[step]
    measures["backlinks"] = keyword.backlinks + (noise >> 6) % 4
    measures["globalMonthlySearches"] = VOLUMES[step] * 4
    measures["wmtRanking"] = measures["engineARanking"]
    measures["wmtClicks"] = shown * clicks_per_cent // 100
    measures["wmtImpressions"] = shown
    measures["wmtCtr"] = clicks_per_cent
    return measures


def aggregate(metric: str, values: Iterable[int | None]) -> int | None:
    """Return the mean of an averaged metric (rounded, halves up) or the sum of another; None counts nowhere, 0 does."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    if metric in AVERAGED:
        return (2 * sum(present) + len(present)) // (2 * len(present))
    return sum(present)


def change(metric: str, now: Mapping[str, int | None], before: Mapping[str, int | None] | None) -> int | None:
    """Return by how much a metric grew since the period before: 0 without one, None if either value is missing."""
    if before is None:
        return 0
    new, old = now[metric], before[metric]
    return None if new is None or old is None else new - old


def _rank(trend: Trend, month: int, noise: int) -> int | None:
    if noise < 10:  # now and then a keyword drops out of the results for a month
        return None
    wave = abs((month * trend.pace + trend.phase) % 256 - 128) - 64
    rank = trend.level + trend.swing * wave // 64 + noise % 5 - 2
    return None if rank > _LAST_POSITION else max(rank, trend.best)
