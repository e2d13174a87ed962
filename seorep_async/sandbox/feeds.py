"""The three ranking feeds. The same facts come in two row formats and two envelopes.

The reference's sections 2.7 and 4.4 leave open whether `filter` or `search` has an effect. Here, a
row must contain both, ignoring case. `sort_metric` takes any field of the older rows that is a
number or a string. Without a comparison, every change is 0. Totals cover the whole result, not the
page. They are false if no row matches, and always in the campaign feed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
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

_UNSORTABLE = ("searchLocation", "searchLanguage", "tags")
# Bits of the number that chooses the formats of a mixed account.
_NESTED_BIT = 1
_OLDER_BIT = 2


@frozen
class RowFormat:
    """One variant of a feed's rows. It decides the fields, the totals and how dates are written."""

    fields: Sequence[str]
    totals: Sequence[str] = ()
    dates: Mapping[str, Callable[[str], str]] = field(factory=dict)

    def format(self, fact: FeedRow) -> FeedRow:
        """Return a fact as a row of this format: only its fields, with dates written its way."""
        row = {name: fact[name] for name in self.fields}
        for name, write in self.dates.items():
            if row[name] is not None:
                row[name] = write(row[name])
        return row


@frozen
class FormattedFact:
    """A fact and the row that reports it. Rows are sorted and summed by their facts."""

    fact: FeedRow
    row: FeedRow


class SandboxFeed:
    """A feed, whose facts come in two row formats.

    `filter` and `search` look in the field `searched`.
    """

    name: str
    path: str
    id_name: str = "campaign_id"
    current: RowFormat
    older: RowFormat
    searched: str = "date"

    def facts(self, account: Account, subject_id: int, span: Span, compare: bool) -> list[FeedRow]:
        """Return the facts of all pages."""
        raise NotImplementedError

    def operation(self) -> Operation:
        """Return the operation that reports the feed."""
        sortable = [name for name in self.older.fields if name not in _UNSORTABLE]
        required = (self.id_name, "start_date", "end_date")
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
        return Operation("GET", self.path, self.report, parameters, required)

    def report(self, service: SandboxService, request: ApiRequest) -> dict[str, Any]:
        """Return one page of a report in one of the two envelopes."""
        subject_id = request[self.id_name]
        self.check_campaign(service, subject_id)
        # The formats depend on seed and id, so all pages of a report have the same format.
        bits = mix(service.account.key ^ mix(subject_id))
        shape = service.options.shape
        if shape == "mixed":
            shape = "nested" if bits & _NESTED_BIT else "flat"
        rows_option = service.options.rows
        if rows_option == "mixed":
            rows_option = "older" if bits & _OLDER_BIT else "current"
        row_format = self.older if rows_option == "older" else self.current

        def find() -> tuple[list[msgspec.Raw], Any]:
            return self._result(service, request, row_format)

        metadata, rows, totals = service.page(self.name, request, find)
        if shape == "nested":
            return {"metadata": metadata, "data": {"totals": totals, "rows": rows}}
        return {"metadata": metadata | {"version": False}, "data": rows, "totals": totals}

    def check_campaign(self, service: SandboxService, subject_id: int) -> None:
        """Refuse the report of an unknown or a failing campaign."""
        service.campaign(subject_id)

    def _result(
        self, service: SandboxService, request: ApiRequest, row_format: RowFormat
    ) -> tuple[list[msgspec.Raw], Any]:
        """Return the rows of all pages, encoded, and the totals."""
        subject_id = request[self.id_name]
        span = _span(request, service.options.daily)
        facts = self.facts(service.account, subject_id, span, request["compare_previous_period"])
        formatted = [FormattedFact(fact, row_format.format(fact)) for fact in facts]
        own_rows = service.options.reports.get((self.name, subject_id))
        if own_rows is not None:
            formatted = list(_replaced(formatted, own_rows, row_format))
        searches = request["filter"], request["search"]
        selected = [
            item
            for item in formatted
            if contains_all(str(item.row.get(self.searched, "")), searches)
        ]
        sort_metric = request["sort_metric"]
        if sort_metric:
            selected = in_order(
                selected,
                lambda item: item.fact.get(sort_metric),
                descending=request["sort_direction"],
            )
        rows = [msgspec.Raw(msgspec.json.encode(item.row)) for item in selected]
        return rows, _totals(selected, row_format)


def _span(request: ApiRequest, daily: bool) -> Span:
    """Return the requested range. Refuse one that ends before it begins."""
    start = date.fromisoformat(request["start_date"])
    end = date.fromisoformat(request["end_date"])
    if end < start:
        raise Refusal(400, "end_date is before start_date")
    return Span(start, end, daily)


def _totals(formatted: Sequence[FormattedFact], row_format: RowFormat) -> Any:
    """Return the totals of all rows. The service writes False for missing totals."""
    if not formatted or not row_format.totals:
        return False
    totals = {}
    for metric in row_format.totals:
        values = (item.fact[metric] for item in formatted)
        totals[metric] = {"value": aggregate(metric, values)}
    return totals


def _replaced(
    seeded: Sequence[FormattedFact],
    own_rows: Sequence[Mapping[str, Any]],
    row_format: RowFormat,
) -> Iterator[FormattedFact]:
    """Yield a test's own rows, completed from the seeded row of the same month or position."""
    by_month = {item.fact.get("date", "")[:7]: item for item in seeded}
    for position, own_row in enumerate(own_rows):
        base = FormattedFact(fact={}, row={})
        if "date" in own_row:
            month = own_row["date"][:7]
            if month not in by_month:
                continue  # the month is outside the requested range
            base = by_month[month]
        elif position < len(seeded):
            base = seeded[position]
        # A total sums facts, so it needs each metric.
        fact = {**dict.fromkeys(row_format.totals), **base.fact, **own_row}
        yield FormattedFact(fact, {**base.row, **own_row})


def _campaign_month_fields() -> Iterator[str]:
    yield "date"
    for engine in ENGINE_TOKENS:
        yield f"{engine}Ranking"
        yield f"{engine}RankingChange"
        for band in POSITION_BANDS:
            yield f"{engine}Rankings_{band}"
    yield from VOLUMES


_AS_MONTH = {"date": itemgetter(slice(7))}
"""Writes YYYY-MM."""
_AT_MIDNIGHT = dict.fromkeys(LAST_DATES, "{} 00:00:00".format)
"""Writes a time after the date."""

_KEYWORD_METRICS = fields.field_names("""
    keywordId keywordPhrase searchLocation searchLanguage primaryKeyword engineARanking
    engineARankingChange engineARankingUrl engineASerpUrl engineAMobileRanking
    engineAMobileRankingChange engineAMobileRankingUrl engineAMobileSerpUrl
    engineAPlacesRanking engineAPlacesRankingChange engineAMapsSerpUrl engineBRanking
    engineBRankingChange engineBRankingUrl engineBSerpUrl localMonthlySearches competitors
""")
_KEYWORD_FIELDS = (*_KEYWORD_METRICS, *LAST_DATES, "tags")
_RANKING_URLS = fields.field_names("engineARankingUrl engineAMobileRankingUrl engineBRankingUrl")
_KEYWORD_MONTH_FIELDS = ("date", *RANKINGS, *_RANKING_URLS, *VOLUMES)
# The reference lists no engineAMobileRankingChange here.
_OLDER_KEYWORD_CHANGES = [name for name in CHANGES if "Mobile" not in name]


class CampaignFeed(SandboxFeed):
    """A row for each keyword of a campaign."""

    name = "campaign"
    path = "/v3/resources/rankings/campaign"
    current: RowFormat = RowFormat(_KEYWORD_FIELDS)
    older: RowFormat = RowFormat((*_KEYWORD_FIELDS, *OLDER_METRICS), dates=_AT_MIDNIGHT)
    searched: str = "keywordPhrase"

    def facts(self, account: Account, subject_id: int, span: Span, compare: bool) -> list[FeedRow]:
        return keywords_of_campaign(account.keywords(subject_id), span, compare)


class CampaignByDateFeed(SandboxFeed):
    """A row for each month of a campaign."""

    name = "campaign-by-date"
    path = "/v3/resources/rankings/campaign/date"
    current: RowFormat = RowFormat(
        tuple(_campaign_month_fields()), (*RANKINGS, *CHANGES, *VOLUMES), _AS_MONTH
    )
    older: RowFormat = current

    def facts(self, account: Account, subject_id: int, span: Span, compare: bool) -> list[FeedRow]:
        return months_of_campaign(account.keywords(subject_id), span, compare)


class KeywordByDateFeed(SandboxFeed):
    """A row for each month of a keyword."""

    name = "keyword-by-date"
    path = "/v3/resources/rankings/keyword/date"
    id_name: str = "keyword_id"
    current: RowFormat = RowFormat(_KEYWORD_MONTH_FIELDS, (*RANKINGS, *VOLUMES), _AS_MONTH)
    older: RowFormat = RowFormat(
        (*_KEYWORD_MONTH_FIELDS, *OLDER_METRICS),
        (*RANKINGS, *VOLUMES, *_OLDER_KEYWORD_CHANGES, *OLDER_METRICS),
    )

    def check_campaign(self, service: SandboxService, subject_id: int) -> None:
        keyword = service.account.keyword(subject_id)
        service.campaign(found_record("keyword", subject_id, keyword).campaign_id)

    def facts(self, account: Account, subject_id: int, span: Span, compare: bool) -> list[FeedRow]:
        keyword = found_record("keyword", subject_id, account.keyword(subject_id))
        return months_of_keyword(keyword, span, compare)


FEEDS = (CampaignFeed(), CampaignByDateFeed(), KeywordByDateFeed())
