"""The three ranking feeds: two row formats and two envelopes of the same facts.

The reference's sections 2.7 and 4.4 leave open whether `filter` or `search` is honoured. Here both
are: a row must contain each, ignoring case. `sort_metric` takes any field of the older rows that is
a number or a string. Without a comparison every change is 0. Totals cover the whole result, not the
page. They are false in the campaign feed, which has none, and if no row matches.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from operator import itemgetter
from typing import Any

import msgspec
from attrs import field, frozen

from seorep_async.sandbox import request as fields
from seorep_async.sandbox.account import Account
from seorep_async.sandbox.measures import (
    CHANGES,
    ENGINE_TOKENS,
    LAST_DATES,
    OLDER_METRICS,
    POSITION_BANDS,
    RANKINGS,
    VOLUMES,
    FeedRow,
    Span,
    aggregate,
    keywords_of_campaign,
    months_of_campaign,
    months_of_keyword,
)
from seorep_async.sandbox.request import ApiRequest, Operation, Refusal, found_record
from seorep_async.sandbox.seeds import mix
from seorep_async.sandbox.service import SandboxService, contains_all, in_order

_LONGEST_MONTHS = 1200
_UNSORTABLE = ("searchLocation", "searchLanguage", "tags")
# Bits of the number that chooses the formats of a mixed account.
_NESTED_BIT = 1
_OLDER_BIT = 2


@frozen
class RowFormat:
    """One variant of a feed's rows: its fields, its totals, and the dates written differently."""

    fields: tuple[str, ...]
    totals: tuple[str, ...] = ()
    dates: Mapping[str, Callable[[str], str]] = field(factory=dict)

    def format(self, fact: FeedRow) -> FeedRow:
        """Return the row of a fact."""
        row = dict(zip(self.fields, itemgetter(*self.fields)(fact), strict=True))
        for name, write in self.dates.items():
            if row[name] is not None:
                row[name] = write(row[name])
        return row


@frozen
class FormattedFact:
    """A fact and the row that reports it. Rows are sorted and summed by their facts."""

    fact: FeedRow
    row: FeedRow


@frozen
class FeedEndpoint:
    """A feed: its facts in two row formats. `searched` is the field for filter and search."""

    name: str
    path: str
    id_name: str
    facts: Callable[[Account, int, Span, bool], list[FeedRow]]
    current: RowFormat
    older: RowFormat
    searched: str

    def operation(self) -> Operation:
        """Return the operation that reports the feed."""
        sortable = [name for name in self.older.fields if name not in _UNSORTABLE]
        parameters = {
            self.id_name: fields.INT32,
            "start_date": fields.DAY,
            "end_date": fields.DAY,
            **fields.PAGE,
            "filter": fields.STRING,
            "search": fields.STRING,
            "compare_previous_period": fields.FLAG,
            "sort_metric": fields.choice(sortable),
            "sort_direction": fields.DIRECTION,
        }
        required = (self.id_name, "start_date", "end_date")
        return Operation("GET", self.path, self.report, parameters, required)

    def report(self, service: SandboxService, request: ApiRequest) -> dict[str, Any]:
        """Return one page of a report in one of the two envelopes."""
        subject_id = request[self.id_name]
        campaign_id = subject_id
        if self.id_name == "keyword_id":
            keyword = service.account.keyword(subject_id)
            campaign_id = found_record("keyword", subject_id, keyword).campaign_id
        service.campaign(campaign_id)
        metadata, rows, totals = service.page(
            self.name, request, lambda: self._result(service, request, subject_id)
        )
        if self._is_nested(service, subject_id):
            return {"metadata": metadata, "data": {"totals": totals, "rows": rows}}
        return {"metadata": metadata | {"version": False}, "data": rows, "totals": totals}

    def _result(
        self, service: SandboxService, request: ApiRequest, subject_id: int
    ) -> tuple[list[msgspec.Raw], Any]:
        """Return the rows of all pages, encoded, and the totals."""
        row_format = self._row_format(service, subject_id)
        span = _span(request, service.daily)
        compare = request["compare_previous_period"]
        formatted = [
            FormattedFact(fact, row_format.format(fact))
            for fact in self.facts(service.account, subject_id, span, compare)
        ]
        own_rows = service.reports.get((self.name, subject_id))
        if own_rows is not None:
            formatted = list(_replaced(formatted, own_rows, row_format))
        searches = request["filter"], request["search"]
        formatted = [
            item
            for item in formatted
            if contains_all(str(item.row.get(self.searched, "")), searches)
        ]
        sort_metric = request["sort_metric"]
        if sort_metric:
            formatted = in_order(
                formatted, lambda item: item.fact.get(sort_metric), request["sort_direction"]
            )
        rows = [msgspec.Raw(msgspec.json.encode(item.row)) for item in formatted]
        return rows, _totals(formatted, row_format)

    def _is_nested(self, service: SandboxService, subject_id: int) -> bool:
        if service.shape == "mixed":
            return _format_bits(service, subject_id) & _NESTED_BIT > 0
        return service.shape == "nested"

    def _row_format(self, service: SandboxService, subject_id: int) -> RowFormat:
        is_older = service.rows == "older"
        if service.rows == "mixed":
            is_older = _format_bits(service, subject_id) & _OLDER_BIT > 0
        return self.older if is_older else self.current


def _format_bits(service: SandboxService, subject_id: int) -> int:
    """Return a number whose bits choose the formats. It depends on seed and id, not on the page."""
    return mix(service.account.key ^ mix(subject_id))


def _span(request: ApiRequest, daily: bool) -> Span:
    start = date.fromisoformat(request["start_date"])
    end = date.fromisoformat(request["end_date"])
    if end < start:
        raise Refusal(400, "end_date is before start_date")
    first_month = _month_number(start)
    last_month = _month_number(end)
    if last_month - first_month >= _LONGEST_MONTHS:
        raise Refusal(
            400, f"the range from start_date to end_date is over {_LONGEST_MONTHS} months"
        )
    return Span(start, end, range(first_month, last_month + 1), daily)


def _month_number(day: date) -> int:
    return day.year * 12 + day.month - 1


def _totals(formatted: Sequence[FormattedFact], row_format: RowFormat) -> Any:
    if not formatted or not row_format.totals:
        return False
    totals = {}
    for metric in row_format.totals:
        values = (item.fact[metric] for item in formatted)
        totals[metric] = {"value": aggregate(metric, values)}
    return totals


def _replaced(
    seeded: Sequence[FormattedFact], own_rows: Sequence[FeedRow], row_format: RowFormat
) -> Iterator[FormattedFact]:
    """Yield a test's own rows, completed from the seeded row in the same place or month."""
    by_month = {item.fact.get("date", "")[:7]: item for item in seeded}
    empty = FormattedFact({}, {})
    for place, own_row in enumerate(own_rows):
        if "date" not in own_row:
            base = seeded[place] if place < len(seeded) else empty
        elif own_row["date"][:7] in by_month:
            base = by_month[own_row["date"][:7]]
        else:
            continue  # the requested range does not touch its month
        # A total sums facts, so it needs each metric and each number of the row.
        fact = dict.fromkeys(row_format.totals) | base.fact | _numbers(own_row)
        yield FormattedFact(fact, base.row | own_row)


def _numbers(row: FeedRow) -> FeedRow:
    return {name: value for name, value in row.items() if value is None or type(value) is int}


def _campaign_month_fields() -> Iterable[str]:
    yield "date"
    for engine in ENGINE_TOKENS:
        yield f"{engine}Ranking"
        yield f"{engine}RankingChange"
        for band in POSITION_BANDS:
            yield f"{engine}Rankings_{band}"
    yield from VOLUMES


_AS_MONTH = {"date": itemgetter(slice(7))}
_AT_MIDNIGHT = dict.fromkeys(LAST_DATES, "{} 00:00:00".format)

_KEYWORD_METRICS = fields.field_names("""
    keywordId keywordPhrase searchLocation searchLanguage primaryKeyword engineARanking
    engineARankingChange engineARankingUrl engineASerpUrl engineAMobileRanking
    engineAMobileRankingChange engineAMobileRankingUrl engineAMobileSerpUrl
    engineAPlacesRanking engineAPlacesRankingChange engineAMapsSerpUrl engineBRanking
    engineBRankingChange engineBRankingUrl engineBSerpUrl localMonthlySearches competitors
""")
_KEYWORD_FIELDS = (*_KEYWORD_METRICS, *LAST_DATES, "tags")
_CAMPAIGN_MONTH = RowFormat(
    fields=tuple(_campaign_month_fields()),
    totals=(*RANKINGS, *CHANGES, *VOLUMES),
    dates=_AS_MONTH,
)
_KEYWORD_MONTH_FIELDS = (
    "date",
    *RANKINGS,
    "engineARankingUrl",
    "engineAMobileRankingUrl",
    "engineBRankingUrl",
    *VOLUMES,
)
# The reference lists no engineAMobileRankingChange here.
_OLDER_KEYWORD_CHANGES = tuple(name for name in CHANGES if "Mobile" not in name)
_OLDER_KEYWORD_MONTH = RowFormat(
    fields=(*_KEYWORD_MONTH_FIELDS, *OLDER_METRICS),
    totals=(*RANKINGS, *VOLUMES, *_OLDER_KEYWORD_CHANGES, *OLDER_METRICS),
)

_CAMPAIGN = FeedEndpoint(
    name="campaign",
    path="/v3/resources/rankings/campaign",
    id_name="campaign_id",
    facts=keywords_of_campaign,
    current=RowFormat(_KEYWORD_FIELDS),
    older=RowFormat((*_KEYWORD_FIELDS, *OLDER_METRICS), dates=_AT_MIDNIGHT),
    searched="keywordPhrase",
)
_CAMPAIGN_BY_DATE = FeedEndpoint(
    name="campaign-by-date",
    path="/v3/resources/rankings/campaign/date",
    id_name="campaign_id",
    facts=months_of_campaign,
    current=_CAMPAIGN_MONTH,
    older=_CAMPAIGN_MONTH,
    searched="date",
)
_KEYWORD_BY_DATE = FeedEndpoint(
    name="keyword-by-date",
    path="/v3/resources/rankings/keyword/date",
    id_name="keyword_id",
    facts=months_of_keyword,
    current=RowFormat(_KEYWORD_MONTH_FIELDS, (*RANKINGS, *VOLUMES), _AS_MONTH),
    older=_OLDER_KEYWORD_MONTH,
    searched="date",
)
FEEDS = (_CAMPAIGN, _CAMPAIGN_BY_DATE, _KEYWORD_BY_DATE)
