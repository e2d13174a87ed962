"""The three ranking feeds: the reference's sections 2.7 and 4.4.

The reference leaves open which of `filter` and `search` is honoured; here both are: a row must hold each, in any case.
`sort_metric` takes any field of the older rows that is a number or a string. Without a comparison every change is 0.
Totals cover the whole result, not the page. They are false in the campaign feed, which has none, and if no row matches.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial

import msgspec

from seorep_async.sandbox.api.keywords import find
from seorep_async.sandbox.api.request import (
    ApiRequest,
    Fields,
    Refusal,
    choice,
    day,
    direction,
    flag,
    int32,
    required,
    search,
)
from seorep_async.sandbox.api.service import LIMIT, PAGE, ApiResponse, EncodedFeed, Service, as_json, in_order, matches
from seorep_async.sandbox.api.shapes import (
    KEYWORDS_OF_CAMPAIGN,
    MONTHS_OF_CAMPAIGN,
    MONTHS_OF_KEYWORD,
    FeedFormat,
    RowFormat,
)
from seorep_async.sandbox.data.reports import (
    Row,
    Span,
    keywords_of_campaign,
    months_of_campaign,
    months_of_keyword,
    totals,
)

_LONGEST_MONTHS = 1200
_UNSORTABLE = ("searchLocation", "searchLanguage", "tags")

CAMPAIGN_ID = required(int32("campaign_id"))
KEYWORD_ID = required(int32("keyword_id"))
START_DATE = required(day("start_date"))
END_DATE = required(day("end_date"))
FILTER = search("filter")
SEARCH = search("search")
SORT_DIRECTION = direction("sort_direction")
COMPARE = flag("compare_previous_period")

COMMON: Fields = (START_DATE, END_DATE, FILTER, SEARCH, PAGE, LIMIT, SORT_DIRECTION, COMPARE)
SORT_METRICS = {
    feed_format.feed: choice("sort_metric", [name for name in feed_format.older.fields if name not in _UNSORTABLE])
    for feed_format in (KEYWORDS_OF_CAMPAIGN, MONTHS_OF_CAMPAIGN, MONTHS_OF_KEYWORD)
}

CAMPAIGN: Fields = (CAMPAIGN_ID, *COMMON, SORT_METRICS[KEYWORDS_OF_CAMPAIGN.feed])
CAMPAIGN_BY_DATE: Fields = (CAMPAIGN_ID, *COMMON, SORT_METRICS[MONTHS_OF_CAMPAIGN.feed])
KEYWORD_BY_DATE: Fields = (KEYWORD_ID, *COMMON, SORT_METRICS[MONTHS_OF_KEYWORD.feed])


def campaign(service: Service, request: ApiRequest) -> ApiResponse:
    """Report the rankings of a campaign, one row per keyword."""
    id_ = service.campaign(request[CAMPAIGN_ID]).id
    return _feed(service, request, KEYWORDS_OF_CAMPAIGN, id_, partial(keywords_of_campaign, service.account, id_))


def campaign_by_date(service: Service, request: ApiRequest) -> ApiResponse:
    """Report the rankings of a campaign, one row per month."""
    id_ = service.campaign(request[CAMPAIGN_ID]).id
    return _feed(service, request, MONTHS_OF_CAMPAIGN, id_, partial(months_of_campaign, service.account, id_))


def keyword_by_date(service: Service, request: ApiRequest) -> ApiResponse:
    """Report the rankings of a keyword, one row per month."""
    found = find(service, request[KEYWORD_ID])
    service.campaign(found.campaign_id)
    return _feed(service, request, MONTHS_OF_KEYWORD, found.id, partial(months_of_keyword, found))


def _feed(
    service: Service, request: ApiRequest, feed_format: FeedFormat, id_: int, report: Callable[[Span, bool], list[Row]]
) -> ApiResponse:
    span, page, compare = _span(request), service.page(request), request[COMPARE]
    wanted = (request[FILTER], request[SEARCH])
    sort_metric, descending = request[SORT_METRICS[feed_format.feed]], request[SORT_DIRECTION]

    question: Hashable = (feed_format.feed, id_, span, compare, wanted, sort_metric, descending)
    encoded = service.encoded.get(question)
    if encoded is None:
        row_format = service.shapes.row_format(feed_format, id_)
        pairs = [(fact, row_format.format(fact)) for fact in report(span, compare)]
        if (feed_format.feed, id_) in service.reports:
            pairs = [*_replaced(pairs, service.reports[feed_format.feed, id_], span, row_format)]
        pairs = [pair for pair in pairs if matches(str(pair[1].get(feed_format.searched, "")), *wanted)]
        if sort_metric:
            pairs = in_order(pairs, lambda pair: pair[0].get(sort_metric), descending)
        facts = [fact for fact, _ in pairs]
        summary = totals(facts, row_format.totals) if facts and row_format.totals else False
        encoded = EncodedFeed(
            rows=tuple(msgspec.Raw(msgspec.json.encode(row)) for _, row in pairs),
            totals=msgspec.Raw(msgspec.json.encode(summary)),
        )
        service.encoded.store(question, encoded, weight=len(encoded.rows) + 1)
    records = len(encoded.rows)
    return as_json(service.shapes.envelope(id_, page.count(records), records, page.cut(encoded.rows), encoded.totals))


def _replaced(
    seeded: Sequence[tuple[Row, Row]], given: Sequence[Row], span: Span, row_format: RowFormat
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


def _span(request: ApiRequest) -> Span:
    span = Span(request[START_DATE], request[END_DATE])
    if span.end < span.start:
        raise Refusal(400, "end_date is before start_date")
    if len(span.months) > _LONGEST_MONTHS:
        raise Refusal(400, f"the range from start_date to end_date is over {_LONGEST_MONTHS} months")
    return span
