"""The three ranking feeds: reference parts 2.7 and 4.4.

The reference leaves open which of `filter` and `search` is honoured; here both are: a row must hold each, in any case.
`sort_metric` takes any field of the older rows that is a number or a text. Without a comparison every change is 0.
Totals cover the whole result, not the page. They are false in the campaign feed, which has none, and if no row matches.
"""

from collections.abc import Callable, Hashable

import msgspec

from seorep_async.sandbox.data.reports import (
    Row,
    Span,
    keywords_of_campaign,
    months_of_campaign,
    months_of_keyword,
    totals,
)
from seorep_async.sandbox.refusals import Refusal

from .call import Call
from .fields import Fields, choice, day, direction, flag, int32, required, search
from .keywords import find
from .paging import LIMIT, PAGE, in_order, matches
from .service import Answer, Service, Written, as_json
from .shapes import KEYWORDS_OF_CAMPAIGN, MONTHS_OF_CAMPAIGN, MONTHS_OF_KEYWORD, Wording

_LONGEST_MONTHS = 1200
_UNSORTABLE = ("searchLocation", "searchLanguage", "tags")

CAMPAIGN_ID = required(int32("campaign_id", "the campaign", example=1))
KEYWORD_ID = required(int32("keyword_id", "the keyword", example=100_001))
START_DATE = required(day("start_date", "first day of the range"))
END_DATE = required(day("end_date", "last day of the range"))
FILTER = search("filter", "part of the keyword's phrase, or of the date's text")
SEARCH = search("search", "the same; if both are given, both must be met")
SORT_DIRECTION = direction("sort_direction")
COMPARE = flag("compare_previous_period", "whether to calculate the change from the previous period")

COMMON: Fields = (START_DATE, END_DATE, FILTER, SEARCH, PAGE, LIMIT, SORT_DIRECTION, COMPARE)
SORT_METRICS = {
    wording.feed: choice(
        "sort_metric",
        "metric to sort by; as the reference orders them unless given",
        [name for name in wording.older.fields if name not in _UNSORTABLE],
    )
    for wording in (KEYWORDS_OF_CAMPAIGN, MONTHS_OF_CAMPAIGN, MONTHS_OF_KEYWORD)
}


def campaign(service: Service, call: Call) -> Answer:
    """Report the rankings of a campaign, one row per keyword."""
    id_ = service.campaign(call[CAMPAIGN_ID]).id
    return _feed(
        service,
        call,
        KEYWORDS_OF_CAMPAIGN,
        id_,
        lambda span, compare: keywords_of_campaign(service.account, id_, span, compare),
    )


def campaign_by_date(service: Service, call: Call) -> Answer:
    """Report the rankings of a campaign, one row per month."""
    id_ = service.campaign(call[CAMPAIGN_ID]).id
    return _feed(
        service,
        call,
        MONTHS_OF_CAMPAIGN,
        id_,
        lambda span, compare: months_of_campaign(service.account, id_, span, compare),
    )


def keyword_by_date(service: Service, call: Call) -> Answer:
    """Report the rankings of a keyword, one row per month."""
    found = find(service, call[KEYWORD_ID])
    service.campaign(found.campaign_id)
    return _feed(
        service,
        call,
        MONTHS_OF_KEYWORD,
        found.id,
        lambda span, compare: months_of_keyword(found, span, compare),
    )


def _feed(
    service: Service, call: Call, wording: Wording, id_: int, report: Callable[[Span, bool], list[Row]]
) -> Answer:
    span, page, compare = _span(call), service.page(call), call[COMPARE]
    wanted = (call[FILTER], call[SEARCH])
    sort_metric, descending = call[SORT_METRICS[wording.feed]], call[SORT_DIRECTION]

    question: Hashable = (wording.feed, id_, span, compare, wanted, sort_metric, descending)
    written = service.written.get(question)
    if written is None:
        variant = service.shapes.variant(wording, id_)
        pairs = [(fact, variant.word(fact)) for fact in report(span, compare)]
        pairs = [pair for pair in pairs if matches(pair[1][wording.text], *wanted)]
        if sort_metric:
            pairs = in_order(pairs, lambda pair: pair[0][sort_metric], descending)
        facts = [fact for fact, _ in pairs]
        summary = totals(facts, variant.totals) if facts and variant.totals else False
        written = Written(
            rows=tuple(msgspec.Raw(msgspec.json.encode(row)) for _, row in pairs),
            totals=msgspec.Raw(msgspec.json.encode(summary)),
        )
        service.written.keep(question, written, weight=len(written.rows) + 1)
    records = len(written.rows)
    return as_json(service.shapes.envelope(id_, page.count(records), records, page.cut(written.rows), written.totals))


def _span(call: Call) -> Span:
    span = Span(call[START_DATE], call[END_DATE])
    if span.end < span.start:
        raise Refusal(400, "end_date is before start_date")
    if len(span.months) > _LONGEST_MONTHS:
        raise Refusal(400, f"the range from start_date to end_date is over {_LONGEST_MONTHS} months")
    return span
