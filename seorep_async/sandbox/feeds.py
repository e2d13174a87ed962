"""The three ranking feeds: their two row formats, their two envelopes, and the operation that reports them.

The reference's sections 2.7 and 4.4 leave open which of `filter` and `search` is honoured; here both are: a row must
hold each, in any case. `sort_metric` takes any field of the older rows that is a number or a string. Without a
comparison every change is 0. Totals cover the whole result, not the page. They are false in the campaign feed, which
has none, and if no row matches.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

import msgspec
from attrs import frozen

from seorep_async.sandbox import request as fields
from seorep_async.sandbox.account import Account
from seorep_async.sandbox.reports import Row, Span, keywords_of_campaign, months_of_campaign, months_of_keyword, totals
from seorep_async.sandbox.request import ApiRequest, Operation, Refusal
from seorep_async.sandbox.seeded import mix
from seorep_async.sandbox.service import Service, found, in_order, matches
from seorep_async.sandbox.vocabulary import BANDS, CHANGES, ENGINES, LAST_DATES, OLDER_METRICS, RANKINGS, VOLUMES

_LONGEST_MONTHS = 1200
_UNSORTABLE = ("searchLocation", "searchLanguage", "tags")


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
        """Return the operation that reports the rankings of a campaign or a keyword."""
        asked = {
            self.id_name: fields.INT32, "start_date": fields.DAY, "end_date": fields.DAY, **fields.PAGE,
            "filter": fields.STRING, "search": fields.STRING, "compare_previous_period": fields.FLAG,
            "sort_metric": fields.choice([name for name in self.older.fields if name not in _UNSORTABLE]),
            "sort_direction": fields.DIRECTION,
        }  # fmt: skip
        return Operation("GET", self.path, self.report, asked, (self.id_name, "start_date", "end_date"))

    def report(self, service: Service, request: ApiRequest) -> dict[str, Any]:
        id_ = campaign_id = request[self.id_name]
        if self.id_name == "keyword_id":
            campaign_id = found("keyword", id_, service.account.keyword(id_)).campaign_id
        service.campaign(campaign_id)
        span = _span(request)
        metadata, rows, sums = service.page(self.name, request, lambda: self._found(service, request, id_, span))
        if service.shape == "nested" or (service.shape == "mixed" and _choice(service, id_) & 1 > 0):
            return {"metadata": metadata, "data": {"totals": sums, "rows": rows}}
        return {"metadata": metadata | {"version": False}, "data": rows, "totals": sums}

    def _found(self, service: Service, request: ApiRequest, id_: int, span: Span) -> tuple[list[msgspec.Raw], Any]:
        older = service.rows == "older" or (service.rows == "mixed" and _choice(service, id_) & 2 > 0)
        row_format, compare = self.older if older else self.current, request["compare_previous_period"]
        pairs = [(fact, row_format.format(fact)) for fact in self.facts(service.account, id_, span, compare)]
        if (self.name, id_) in service.reports:
            pairs = [*_replaced(pairs, service.reports[self.name, id_], row_format)]
        wanted = request["filter"], request["search"]
        pairs = [pair for pair in pairs if matches(str(pair[1].get(self.searched, "")), *wanted)]
        if sort_metric := request["sort_metric"]:
            pairs = in_order(pairs, lambda pair: pair[0].get(sort_metric), request["sort_direction"])
        sums = totals([fact for fact, _ in pairs], row_format.totals) if pairs and row_format.totals else False
        return [msgspec.Raw(msgspec.json.encode(row)) for _, row in pairs], sums


def _choice(service: Service, id_: int) -> int:
    """Return a number whose bits choose the formats of a mixed account, by seed and id, never by the page."""
    return mix(service.account.key ^ mix(id_))


def _span(request: ApiRequest) -> Span:
    start, end = request["start_date"], request["end_date"]
    first, last = (day.year * 12 + day.month - 1 for day in (start, end))
    if end < start:
        raise Refusal(400, "end_date is before start_date")
    if last - first >= _LONGEST_MONTHS:
        raise Refusal(400, f"the range from start_date to end_date is over {_LONGEST_MONTHS} months")
    return Span(end, range(first, last + 1))


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
        numbers = {name: value for name, value in values.items() if value is None or type(value) is int}
        yield dict.fromkeys(row_format.totals) | fact | numbers, row | values


_as_month = itemgetter(slice(7))
_as_midnight = "{} 00:00:00".format

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
        f"{engine}{field}"
        for engine in ENGINES
        for field in ("Ranking", "RankingChange", *(f"Rankings_{band}" for band in BANDS))
    ), *VOLUMES),
    totals=(*RANKINGS, *CHANGES, *VOLUMES), dates=("date",), write_date=_as_month,
)  # fmt: skip
_KEYWORD_MONTH = ("date", *RANKINGS, "engineARankingUrl", "engineAMobileRankingUrl", "engineBRankingUrl", *VOLUMES)
_OLDER_KEYWORD_MONTH = RowFormat(
    (*_KEYWORD_MONTH, *OLDER_METRICS),
    # The reference lists no engineAMobileRankingChange here.
    (*RANKINGS, *VOLUMES, *(name for name in CHANGES if "Mobile" not in name), *OLDER_METRICS), ("date",), str,
)  # fmt: skip

FEEDS = (
    Feed(
        "campaign", "/v3/resources/rankings/campaign", "campaign_id", keywords_of_campaign,
        current=RowFormat(_KEYWORD_FIELDS, (), LAST_DATES, str),
        older=RowFormat((*_KEYWORD_FIELDS, *OLDER_METRICS), (), LAST_DATES, _as_midnight),
        searched="keywordPhrase",
    ),
    Feed(
        "campaign-by-date", "/v3/resources/rankings/campaign/date", "campaign_id", months_of_campaign,
        current=_CAMPAIGN_MONTH, older=_CAMPAIGN_MONTH, searched="date",
    ),
    Feed(
        "keyword-by-date", "/v3/resources/rankings/keyword/date", "keyword_id", months_of_keyword,
        current=RowFormat(_KEYWORD_MONTH, (*RANKINGS, *VOLUMES), ("date",), _as_month), older=_OLDER_KEYWORD_MONTH,
        searched="date",
    ),
)  # fmt: skip
