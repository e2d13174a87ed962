"""How facts are worded: nested or flat envelopes, current or older rows, field by field as in parts 2.7 and 4.4."""

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Literal

from attrs import frozen

from seorep_async.sandbox.data.measures import BANDS, ENGINES, OLDER_METRICS, RANKINGS
from seorep_async.sandbox.data.reports import LAST_DATES, Row
from seorep_async.sandbox.data.seeding import mix

Shape = Literal["nested", "flat", "mixed"]
Rows = Literal["current", "older", "mixed"]

_CHANGES = tuple(f"{engine}RankingChange" for engine in ENGINES)
_VOLUMES = ("competitors", "localMonthlySearches")


@frozen
class Variant:
    """One wording of a feed's rows: the fields, the totals, and how the fields that hold dates are written."""

    fields: tuple[str, ...]
    totals: tuple[str, ...]
    dates: tuple[str, ...]
    write_date: Callable[[str], str]

    def word(self, fact: Row) -> Row:
        """Return a row with this variant's fields."""
        row = dict(zip(self.fields, itemgetter(*self.fields)(fact), strict=True))
        for name in self.dates:
            if row[name] is not None:
                row[name] = self.write_date(row[name])
        return row


@frozen
class Wording:
    """A feed's two variants; `text` is the field that filter and search look at."""

    feed: str
    current: Variant
    older: Variant
    text: str

    @property
    def variants(self) -> tuple[Variant, ...]:
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
_CAMPAIGN_MONTH = Variant(
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

KEYWORDS_OF_CAMPAIGN = Wording(
    feed="keywords of campaign",
    current=Variant(_KEYWORD_FIELDS, (), LAST_DATES, _as_day),
    older=Variant((*_KEYWORD_FIELDS, *OLDER_METRICS), (), LAST_DATES, _as_midnight),
    text="keywordPhrase",
)
MONTHS_OF_CAMPAIGN = Wording(feed="months of campaign", current=_CAMPAIGN_MONTH, older=_CAMPAIGN_MONTH, text="date")
MONTHS_OF_KEYWORD = Wording(
    feed="months of keyword",
    current=Variant(_KEYWORD_MONTH, (*RANKINGS, *_VOLUMES), ("date",), _as_month),
    older=Variant(
        (*_KEYWORD_MONTH, *OLDER_METRICS),
        # The reference lists no engineAMobileRankingChange here.
        (*RANKINGS, *_VOLUMES, *(name for name in _CHANGES if "Mobile" not in name), *OLDER_METRICS),
        ("date",),
        _as_day,
    ),
    text="date",
)


@frozen
class Shapes:
    """Chooses what an answer looks like; a mixed choice hangs on the seed and the identifying id, never on the page.

    Args:
        key: the account's key.
        shape: the envelope of feeds.
        rows: the variant of their rows.
    """

    key: int
    shape: Shape
    rows: Rows

    def variant(self, wording: Wording, id_: int) -> Variant:
        """Return the variant in which the feed of this id is written."""
        older = self.rows == "older" or (self.rows == "mixed" and mix(self.key ^ mix(id_)) & 2 > 0)
        return wording.older if older else wording.current

    def envelope(self, id_: int, pages: int, records: int, rows: Any, totals: Any) -> dict[str, Any]:
        """Return a feed's answer in the shape in which that of this id is written."""
        metadata: dict[str, Any] = {"total_pages": pages, "total_records": records}
        if self.shape == "nested" or (self.shape == "mixed" and mix(self.key ^ mix(id_)) & 1 > 0):
            return {"metadata": metadata, "data": {"totals": totals, "rows": rows}}
        return {"metadata": metadata | {"version": False}, "data": rows, "totals": totals}
