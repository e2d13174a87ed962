"""The three ranking feeds: reference parts 2.7 and 4.4.

The reference leaves open which of `filter` and `search` is honoured; here both are: a row must hold each, in any case.
`sort_metric` takes any field of the older rows that is a number or a text. Without a comparison every change is 0.
Totals cover the whole result, not the page. They are false in the campaign feed, which has none, and if no row matches.
"""

from collections.abc import Callable, Hashable

import msgspec

from .account import Campaign
from .keywords import find
from .paging import in_order, matches
from .parameters import Parameters
from .refusals import Refusal
from .reports import Row, Span, keywords_of_campaign, months_of_campaign, months_of_keyword, totals
from .service import Answer, Service, Written, as_json
from .shapes import KEYWORDS_OF_CAMPAIGN, MONTHS_OF_CAMPAIGN, MONTHS_OF_KEYWORD, Wording

_LONGEST_MONTHS = 1200
_UNSORTABLE = ("searchLocation", "searchLanguage", "tags")


def campaign(service: Service, parameters: Parameters) -> Answer:
    """GET /v3/resources/rankings/campaign."""
    found = _campaign(service, parameters)
    return _feed(
        service,
        parameters,
        KEYWORDS_OF_CAMPAIGN,
        found.id,
        lambda span, compare: keywords_of_campaign(service.account, found, span, compare),
    )


def campaign_by_date(service: Service, parameters: Parameters) -> Answer:
    """GET /v3/resources/rankings/campaign/date."""
    found = _campaign(service, parameters)
    return _feed(
        service,
        parameters,
        MONTHS_OF_CAMPAIGN,
        found.id,
        lambda span, compare: months_of_campaign(service.account, found, span, compare),
    )


def keyword_by_date(service: Service, parameters: Parameters) -> Answer:
    """GET /v3/resources/rankings/keyword/date."""
    found = find(service, parameters.required_positive("keyword_id"))
    service.campaign(found.campaign_id)
    return _feed(
        service,
        parameters,
        MONTHS_OF_KEYWORD,
        found.id,
        lambda span, compare: months_of_keyword(found, span, compare),
    )


def _campaign(service: Service, parameters: Parameters) -> Campaign:
    return service.campaign(parameters.required_positive("campaign_id"))


def _feed(
    service: Service, parameters: Parameters, wording: Wording, id_: int, report: Callable[[Span, bool], list[Row]]
) -> Answer:
    span = _span(parameters)
    page = service.page(parameters)
    compare = parameters.flag("compare_previous_period")
    wanted = (parameters.text("filter"), parameters.text("search"))
    sortable = [name for name in wording.older.fields if name not in _UNSORTABLE]
    sort_metric = parameters.choice("sort_metric", sortable, "")
    descending = parameters.direction("sort_direction")

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


def _span(parameters: Parameters) -> Span:
    span = Span(parameters.required_date("start_date"), parameters.required_date("end_date"))
    if span.end < span.start:
        raise Refusal(400, "end_date is before start_date")
    if len(span.months) > _LONGEST_MONTHS:
        raise Refusal(400, f"the range from start_date to end_date is over {_LONGEST_MONTHS} months")
    return span
