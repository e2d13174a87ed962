"""The reference's fields in the tests' own words, and answers built from them, fact by fact.

Each line of a table is a wire name, the attribute it must become, and the kind of value that it carries.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import re
from collections.abc import Generator
from typing import Any, Literal, NamedTuple, TypeVar

from seorep_async.models import (
    Backlink,
    Campaign,
    CampaignPeriod,
    Keyword,
    KeywordPeriod,
    KeywordRanking,
    LoginGrant,
    RankingTotals,
    SearchLanguage,
    SearchLocation,
    Tag,
    User,
)
from seorep_async.normalisation import Decoder
from seorep_async.settings import EngineNames

T = TypeVar("T")

Shape = Literal["nested", "flat"]
Rows = Literal["current", "older"]
Json = dict[str, Any]


class Field(NamedTuple):
    """One field of the reference."""

    wire: str
    attribute: str
    kind: str


def _table(text: str) -> tuple[Field, ...]:
    return tuple(Field(*line.split()) for line in text.strip().splitlines())


OLDER_ONLY = _table("""
    globalMonthlySearches            global_monthly_searches             integer
    wmtRanking                       wmt_ranking                         integer
    wmtClicks                        wmt_clicks                          integer
    wmtImpressions                   wmt_impressions                     integer
    wmtCtr                           wmt_ctr                             integer
    backlinks                        backlinks                           integer
""")

KEYWORD_RANKING = _table("""
    keywordId                        keyword_id                          id
    keywordPhrase                    keyword_phrase                      phrase
    searchLocation                   search_location                     location
    searchLanguage                   search_language                     language
    primaryKeyword                   primary_keyword                     boolean
    engineARanking                   engine_a_ranking                    integer
    engineARankingChange             engine_a_ranking_change             integer
    engineARankingUrl                engine_a_ranking_url                text
    engineASerpUrl                   engine_a_serp_url                   text
    engineAMobileRanking             engine_a_mobile_ranking             integer
    engineAMobileRankingChange       engine_a_mobile_ranking_change      integer
    engineAMobileRankingUrl          engine_a_mobile_ranking_url         text
    engineAMobileSerpUrl             engine_a_mobile_serp_url            text
    engineAPlacesRanking             engine_a_places_ranking             integer
    engineAPlacesRankingChange       engine_a_places_ranking_change      integer
    engineAMapsSerpUrl               engine_a_maps_serp_url              text
    engineBRanking                   engine_b_ranking                    integer
    engineBRankingChange             engine_b_ranking_change             integer
    engineBRankingUrl                engine_b_ranking_url                text
    engineBSerpUrl                   engine_b_serp_url                   text
    localMonthlySearches             local_monthly_searches              integer
    competitors                      competitors                         integer
    lastEngineARankingDate           last_engine_a_ranking_date          last
    lastEngineAMobileRankingDate     last_engine_a_mobile_ranking_date   last
    lastEngineAPlacesRankingDate     last_engine_a_places_ranking_date   last
    lastEngineBRankingDate           last_engine_b_ranking_date          last
    lastSearchVolumeDate             last_search_volume_date             last
    lastStatPadderDate               last_stat_padder_date               last
    lastMetricRollupDate             last_metric_rollup_date             last
    lastResultsDate                  last_results_date                   last
    tags                             tags                                tags
""")

CAMPAIGN_PERIOD = _table("""
    date                             date                                month
    engineARanking                   engine_a_ranking                    integer
    engineARankingChange             engine_a_ranking_change             integer
    engineARankings_1_3              engine_a_rankings_1_3               integer
    engineARankings_4_10             engine_a_rankings_4_10              integer
    engineARankings_11_20            engine_a_rankings_11_20             integer
    engineARankings_21_50            engine_a_rankings_21_50             integer
    engineARankings_51               engine_a_rankings_51                integer
    engineAMobileRanking             engine_a_mobile_ranking             integer
    engineAMobileRankingChange       engine_a_mobile_ranking_change      integer
    engineAMobileRankings_1_3        engine_a_mobile_rankings_1_3        integer
    engineAMobileRankings_4_10       engine_a_mobile_rankings_4_10       integer
    engineAMobileRankings_11_20      engine_a_mobile_rankings_11_20      integer
    engineAMobileRankings_21_50      engine_a_mobile_rankings_21_50      integer
    engineAMobileRankings_51         engine_a_mobile_rankings_51         integer
    engineAPlacesRanking             engine_a_places_ranking             integer
    engineAPlacesRankingChange       engine_a_places_ranking_change      integer
    engineAPlacesRankings_1_3        engine_a_places_rankings_1_3        integer
    engineAPlacesRankings_4_10       engine_a_places_rankings_4_10       integer
    engineAPlacesRankings_11_20      engine_a_places_rankings_11_20      integer
    engineAPlacesRankings_21_50      engine_a_places_rankings_21_50      integer
    engineAPlacesRankings_51         engine_a_places_rankings_51         integer
    engineBRanking                   engine_b_ranking                    integer
    engineBRankingChange             engine_b_ranking_change             integer
    engineBRankings_1_3              engine_b_rankings_1_3               integer
    engineBRankings_4_10             engine_b_rankings_4_10              integer
    engineBRankings_11_20            engine_b_rankings_11_20             integer
    engineBRankings_21_50            engine_b_rankings_21_50             integer
    engineBRankings_51               engine_b_rankings_51                integer
    competitors                      competitors                         integer
    localMonthlySearches             local_monthly_searches              integer
""")

KEYWORD_PERIOD = _table("""
    date                             date                                period
    engineARanking                   engine_a_ranking                    integer
    engineAMobileRanking             engine_a_mobile_ranking             integer
    engineAPlacesRanking             engine_a_places_ranking             integer
    engineBRanking                   engine_b_ranking                    integer
    engineARankingUrl                engine_a_ranking_url                text
    engineAMobileRankingUrl          engine_a_mobile_ranking_url         text
    engineBRankingUrl                engine_b_ranking_url                text
    competitors                      competitors                         integer
    localMonthlySearches             local_monthly_searches              integer
""")

TOTALS = (
    *_table("""
    engineARanking                   engine_a_ranking                    metric
    engineARankingChange             engine_a_ranking_change             metric
    engineAMobileRanking             engine_a_mobile_ranking             metric
    engineAMobileRankingChange       engine_a_mobile_ranking_change      metric
    engineAPlacesRanking             engine_a_places_ranking             metric
    engineAPlacesRankingChange       engine_a_places_ranking_change      metric
    engineBRanking                   engine_b_ranking                    metric
    engineBRankingChange             engine_b_ranking_change             metric
    competitors                      competitors                         metric
    localMonthlySearches             local_monthly_searches              metric
"""),
    *(field._replace(kind="metric") for field in OLDER_ONLY),
)

CAMPAIGN = _table("""
    id                               id                                  id
    date_created                     date_created                        moment
    date_modified                    date_modified                       moment
    date_deleted                     date_deleted                        anything
    url                              url                                 phrase
    company                          company                             phrase
    status                           status                              text
    scope                            scope                               text
    engineA_ignore_places            engine_a_ignore_places              boolean
    engineA_places_id                engine_a_places_id                  anything
    engineA_cid                      engine_a_cid                        anything
    engineA_business_id              engine_a_business_id                anything
    engineA_business_name            engine_a_business_name              anything
    group_title                      group_title                         text
    timezone                         timezone                            anything
    account_id                       account_id                          integer
""")

USER = _table("""
    id                               id                                  id
    date_created                     date_created                        moment
    email                            email                               text
    username                         username                            phrase
    password                         password                            text
    first_name                       first_name                          text
    last_name                        last_name                           text
    role                             role                                text
    campaign_access                  campaign_access                     text
    account_id                       account_id                          integer
""")

LOGIN_GRANT = _table("""
    token                            token                               phrase
    time                             time                                moment
    login_url                        login_url                           phrase
    user_id                          user_id                             id
    origin_user_id                   origin_user_id                      integer
""")

KEYWORD = _table("""
    id                               id                                  id
    date_created                     date_created                        moment
    date_modified                    date_modified                       moment
    keyword_phrase                   keyword_phrase                      phrase
    primary_keyword                  primary_keyword                     boolean
    campaign_id                      campaign_id                         integer
""")

BACKLINK = _table("""
    id                               id                                  id
    title                            title                               phrase
    status                           status                              text
    date_created                     date_created                        day
    date_published                   date_published                      day
    url                              url                                 text
    link_type                        link_type                           text
    target_anchor                    target_anchor                       text
    target_url                       target_url                          text
    notes                            notes                               text
    campaign_id                      campaign_id                         integer
    domain_authority                 domain_authority                    integer
    page_authority                   page_authority                      integer
""")

LOCATION = _table("""
    id                               id                                  id
    canonical_name                   canonical_name                      text
    country_code                     country_code                        text
    target_type                      target_type                         text
""")

LANGUAGE = _table("""
    id                               id                                  id
    name                             name                                text
""")

TAG = _table("""
    id                               id                                  id
    label                            label                               phrase
""")

TABLES: dict[type, tuple[Field, ...]] = {
    KeywordRanking: KEYWORD_RANKING + OLDER_ONLY,
    CampaignPeriod: CAMPAIGN_PERIOD,
    KeywordPeriod: KEYWORD_PERIOD + OLDER_ONLY,
    RankingTotals: TOTALS,
    Campaign: CAMPAIGN,
    User: USER,
    LoginGrant: LOGIN_GRANT,
    Keyword: KEYWORD,
    Backlink: BACKLINK,
    SearchLocation: LOCATION,
    SearchLanguage: LANGUAGE,
    Tag: TAG,
}
FEED_ROWS: tuple[type, ...] = (KeywordRanking, CampaignPeriod, KeywordPeriod)
OLDER_ONLY_ATTRIBUTES = frozenset(field.attribute for field in OLDER_ONLY)

BRANDS = EngineNames(engine_a="google", engine_b="bing", webmaster_tools="gwt")


def branded(wire: str) -> str:
    """Return a wire name as an account with real brand names has it."""
    for token, brand in (("engineA", "google"), ("engineB", "bing"), ("wmt", "gwt")):
        wire = re.sub(f"^{token}", brand, wire)
        wire = wire.replace(token[0].upper() + token[1:], brand.capitalize())
    return wire


def fields_of(model: type, rows: Rows) -> tuple[Field, ...]:
    """Return the fields that a variant of a row carries."""
    older = rows == "older" or model is RankingTotals
    return tuple(field for field in TABLES[model] if older or field.attribute not in OLDER_ONLY_ATTRIBUTES)


def wire_row(model: type, number: int, rows: Rows = "current") -> Json:
    """Return row `number` as the wire carries it; no two fields and no two rows hold the same value."""
    return {
        field.wire: _wire_value(field.kind, 1000 * number + place, rows)
        for place, field in enumerate(TABLES[model])
        if field in fields_of(model, rows)
    }


def model_row(model: type, number: int, rows: Rows = "current") -> Any:
    """Return the model that row `number` must become."""
    facts = {
        field.attribute: _model_value(field.kind, 1000 * number + place)
        for place, field in enumerate(TABLES[model])
        if field in fields_of(model, rows)
    }
    if "date" in facts:
        facts["date_precision"] = "day" if model is KeywordPeriod and rows == "older" else "month"
    return model(**facts)


def envelope(rows: object, shape: Shape, totals: object = False, **metadata: object) -> Json:
    """Return rows and totals in one of the two shapes of a feed."""
    metadata = {"total_pages": 1, "total_records": 3} | metadata
    if shape == "nested":
        return {"metadata": metadata, "data": {"totals": totals, "rows": rows}}
    return {"metadata": metadata | {"version": False}, "data": rows, "totals": totals}


def as_bytes(answer: object) -> bytes:
    """Write an answer as the service does."""
    return json.dumps(answer).encode()


@functools.cache
def decoder(names: EngineNames = EngineNames()) -> Decoder:  # noqa: B008
    """Return the decoder for these names, which takes a while to build."""
    return Decoder(names)


def finished(steps: Generator[None, None, T]) -> T:
    """Return what a reading in steps ends in."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def decode(answer: object, row: type = KeywordRanking, names: EngineNames = EngineNames()) -> Any:  # noqa: B008
    """Decode a feed's answer, given parsed or as bytes, as its first page."""
    return finished(decoder(names).feed_page(answer if isinstance(answer, bytes) else as_bytes(answer), row, 1))


def decode_row(row: object, model: type = KeywordRanking, names: EngineNames = EngineNames()) -> Any:  # noqa: B008
    """Decode an answer that holds this one row."""
    return decode(envelope([row], "flat"), model, names).items[0]


def decode_campaign(campaign: object) -> Campaign:
    """Decode a campaign list that holds this one campaign."""
    (only,) = finished(decoder().model_page(as_bytes({"metadata": {}, "data": [campaign]}), Campaign, 1)).items
    return only


def _wire_value(kind: str, number: int, rows: Rows) -> Any:
    day = dt.date(2001, 1, 1) + dt.timedelta(days=number)
    month = dt.date(1900 + number // 12, 1 + number % 12, 1)
    match kind:
        case "last":
            return f"{day} 00:00:00" if rows == "older" else str(day)
        case "day":
            return str(day)
        case "month":
            return f"{month:%Y-%m}"
        case "period":
            return str(month) if rows == "older" else f"{month:%Y-%m}"
        case "moment":
            return f"{day} 07:08:09"
        case "boolean":
            return "true" if number % 2 else "false"
        case "metric":
            return {"value": number}
        case "location":
            return {
                "id": number,
                "canonical_name": f"Town {number}",
                "country_code": f"C{number}",
                "target_type": f"Type {number}",
            }
        case "language":
            return {"id": number, "name": f"Language {number}"}
        case "tags":
            return [{"id": number, "label": f"label {number}"}, {"id": number + 1, "label": "schön & gut"}]
        case "text" | "phrase" | "anything":
            return f"text {number}"
    return number


def _model_value(kind: str, number: int) -> Any:
    match kind:
        case "last" | "day":
            return dt.date(2001, 1, 1) + dt.timedelta(days=number)
        case "month" | "period":
            return dt.date(1900 + number // 12, 1 + number % 12, 1)
        case "moment":
            return dt.datetime(2001, 1, 1, 7, 8, 9) + dt.timedelta(days=number)
        case "boolean":
            return number % 2 == 1
        case "location":
            return SearchLocation(number, f"Town {number}", f"C{number}", f"Type {number}")
        case "language":
            return SearchLanguage(number, f"Language {number}")
        case "tags":
            return (Tag(number, f"label {number}"), Tag(number + 1, "schön & gut"))
        case "text" | "phrase" | "anything":
            return f"text {number}"
    return number
