"""Formats of feeds: nested or flat envelopes, current or older rows, as in the reference's sections 2.7 and 4.4."""

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Literal

from attrs import frozen

from seorep_async.sandbox.data.reports import BANDS, ENGINES, LAST_DATES, OLDER_METRICS, RANKINGS, Row
from seorep_async.sandbox.data.seeding import mix

Shape = Literal["nested", "flat", "mixed"]
Rows = Literal["current", "older", "mixed"]

_CHANGES = tuple(f"{engine}RankingChange" for engine in ENGINES)
_VOLUMES = ("competitors", "localMonthlySearches")


@frozen
class RowFormat:
    """One variant of a feed's rows: the fields, the totals, and the format of dates."""

    fields: tuple[str, ...]
    totals: tuple[str, ...]
    dates: tuple[str, ...]
    write_date: Callable[[str], str]

    def format(self, fact: Row) -> Row:
        """Return a row in this format."""
        row = dict(zip(self.fields, itemgetter(*self.fields)(fact), strict=True))
        for name in self.dates:
            if row[name] is not None:
                row[name] = self.write_date(row[name])
        return row


@frozen
class FeedFormat:
    """A feed's two row formats; `searched` is the field for filter and search."""

    feed: str
    current: RowFormat
    older: RowFormat
    searched: str

    @property
    def row_formats(self) -> tuple[RowFormat, ...]:
        """The variants that differ."""
        return (self.current,) if self.current == self.older else (self.current, self.older)


def _as_month(day: str) -> str:
    return day[:7]


def _as_day(day: str) -> str:
    return day


def _as_midnight(day: str) -> str:
    return f"{day} 00:00:00"


_KEYWORD_FIELDS = (
    "keywordId", "keywordPhrase", "searchLocation", "searchLanguage", "primaryKeyword",
    "engineARanking", "engineARankingChange", "engineARankingUrl", "engineASerpUrl",
    "engineAMobileRanking", "engineAMobileRankingChange", "engineAMobileRankingUrl", "engineAMobileSerpUrl",
    "engineAPlacesRanking", "engineAPlacesRankingChange", "engineAMapsSerpUrl",
    "engineBRanking", "engineBRankingChange", "engineBRankingUrl", "engineBSerpUrl",
    "localMonthlySearches", "competitors", *LAST_DATES, "tags",
)  # fmt: skip
_CAMPAIGN_MONTH = RowFormat(
    fields=(
        "date",
        *(
            f"{engine}{field}"
            for engine in ENGINES
            for field in ("Ranking", "RankingChange", *(f"Rankings_{band}" for band in BANDS))
        ),
        *_VOLUMES,
    ),
    totals=(*RANKINGS, *_CHANGES, *_VOLUMES),
    dates=("date",),
    write_date=_as_month,
)
_KEYWORD_MONTH = (
    "date", *RANKINGS, "engineARankingUrl", "engineAMobileRankingUrl", "engineBRankingUrl", *_VOLUMES,
)  # fmt: skip

KEYWORDS_OF_CAMPAIGN = FeedFormat(
    feed="campaign",
    current=RowFormat(_KEYWORD_FIELDS, (), LAST_DATES, _as_day),
    older=RowFormat((*_KEYWORD_FIELDS, *OLDER_METRICS), (), LAST_DATES, _as_midnight),
    searched="keywordPhrase",
)
MONTHS_OF_CAMPAIGN = FeedFormat(
    feed="campaign-by-date", current=_CAMPAIGN_MONTH, older=_CAMPAIGN_MONTH, searched="date"
)
MONTHS_OF_KEYWORD = FeedFormat(
    feed="keyword-by-date",
    current=RowFormat(_KEYWORD_MONTH, (*RANKINGS, *_VOLUMES), ("date",), _as_month),
    older=RowFormat(
        (*_KEYWORD_MONTH, *OLDER_METRICS),
        # The reference lists no engineAMobileRankingChange here.
        (*RANKINGS, *_VOLUMES, *(name for name in _CHANGES if "Mobile" not in name), *OLDER_METRICS),
        ("date",),
        _as_day,
    ),
    searched="date",
)


@frozen
class Shapes:
    """Chooses the envelope and the row format of feeds.

    A mixed choice depends on the seed and the id in the request, never on the page.
    """

    key: int
    shape: Shape
    rows: Rows

    def row_format(self, feed_format: FeedFormat, id_: int) -> RowFormat:
        """Return the format of the rows of the feed of an id."""
        older = self.rows == "older" or (self.rows == "mixed" and mix(self.key ^ mix(id_)) & 2 > 0)
        return feed_format.older if older else feed_format.current

    def envelope(self, id_: int, pages: int, records: int, rows: Any, totals: Any) -> dict[str, Any]:
        """Return a page of the feed of an id in its envelope."""
        metadata: dict[str, Any] = {"total_pages": pages, "total_records": records}
        if self.shape == "nested" or (self.shape == "mixed" and mix(self.key ^ mix(id_)) & 1 > 0):
            return {"metadata": metadata, "data": {"totals": totals, "rows": rows}}
        return {"metadata": metadata | {"version": False}, "data": rows, "totals": totals}
