"""Rankings: the rows of the three feeds, and their totals."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping
from typing import Any, Literal, final

import attrs

from seorep_async.models.descriptions import with_meanings
from seorep_async.models.gc_untracked import gc_untracked_struct
from seorep_async.models.model import Model, extra_field


class Feed(enum.Enum):
    """The three ranking feeds (the service's reference, section 4.4); the values are the command's names for them."""

    CAMPAIGN = "campaign"
    """One `KeywordRanking` for each keyword of a campaign."""
    CAMPAIGN_BY_DATE = "campaign-by-date"
    """One `CampaignPeriod` for each period of a campaign."""
    KEYWORD_BY_DATE = "keyword-by-date"
    """One `KeywordPeriod` for each period of a keyword."""

    @property
    def object_name(self) -> str:
        """What its reports are about: `campaign` or `keyword`."""
        return self.value.partition("-")[0]


@final
@gc_untracked_struct
@attrs.frozen(repr=False, weakref_slot=False)
class Tag(Model):
    """A label of a keyword (the service's reference, section 2.6)."""

    id: int
    label: str
    extra: Mapping[str, Any] = extra_field()


@final
@gc_untracked_struct
@with_meanings
@attrs.frozen(repr=False, weakref_slot=False)
class SearchLocation(Model):
    """A keyword's search location (the service's reference, section 2.7)."""

    id: int
    canonical_name: str | None = None
    country_code: str | None = None
    target_type: str | None = None
    extra: Mapping[str, Any] = extra_field()


@final
@gc_untracked_struct
@with_meanings
@attrs.frozen(repr=False, weakref_slot=False)
class SearchLanguage(Model):
    """A keyword's search language (the service's reference, section 2.7)."""

    id: int
    name: str | None = None
    extra: Mapping[str, Any] = extra_field()


@final
@gc_untracked_struct
@with_meanings
@attrs.frozen(repr=False, weakref_slot=False)
class KeywordRanking(Model):
    """One keyword's rankings: a row of the campaign-by-keyword feed (the service's reference, section 2.7).

    A rank of None means that the service sent null, which is not the same as 0. A `..._change` is the change from the
    previous period. Only the older variant of the feed has `global_monthly_searches`, `wmt_*` and `backlinks`. If a
    `last_..._date` has a time of day other than midnight, or `primaryKeyword` is not `true` or `false`, the original
    string is in `extra`.
    """

    keyword_id: int
    keyword_phrase: str
    search_location: SearchLocation | None = None
    search_language: SearchLanguage | None = None
    primary_keyword: bool | None = None
    engine_a_ranking: int | None = None
    engine_a_ranking_change: int | None = None
    engine_a_ranking_url: str | None = None
    engine_a_serp_url: str | None = None
    engine_a_mobile_ranking: int | None = None
    engine_a_mobile_ranking_change: int | None = None
    engine_a_mobile_ranking_url: str | None = None
    engine_a_mobile_serp_url: str | None = None
    engine_a_places_ranking: int | None = None
    engine_a_places_ranking_change: int | None = None
    engine_a_maps_serp_url: str | None = None
    engine_b_ranking: int | None = None
    engine_b_ranking_change: int | None = None
    engine_b_ranking_url: str | None = None
    engine_b_serp_url: str | None = None
    local_monthly_searches: int | None = None
    competitors: int | None = None
    last_engine_a_ranking_date: dt.date | None = None
    last_engine_a_mobile_ranking_date: dt.date | None = None
    last_engine_a_places_ranking_date: dt.date | None = None
    last_engine_b_ranking_date: dt.date | None = None
    last_search_volume_date: dt.date | None = None
    last_stat_padder_date: dt.date | None = None
    last_metric_rollup_date: dt.date | None = None
    last_results_date: dt.date | None = None
    tags: tuple[Tag, ...] = ()
    global_monthly_searches: int | None = None
    wmt_ranking: int | None = None
    wmt_clicks: int | None = None
    wmt_impressions: int | None = None
    wmt_ctr: int | None = None
    backlinks: int | None = None
    extra: Mapping[str, Any] = extra_field()


@final
@gc_untracked_struct
@with_meanings
@attrs.frozen(repr=False, weakref_slot=False)
class CampaignPeriod(Model):
    """One period of a campaign: a row of the campaign-by-date feed (the service's reference, section 2.7).

    `date_precision` says whether the service sent a day or only a month; `date` is then the first day of that month. A
    field such as `..._rankings_4_10` counts the keywords in positions 4 to 10.
    """

    date: dt.date
    date_precision: Literal["month", "day"] = "month"
    engine_a_ranking: int | None = None
    engine_a_ranking_change: int | None = None
    engine_a_rankings_1_3: int | None = None
    engine_a_rankings_4_10: int | None = None
    engine_a_rankings_11_20: int | None = None
    engine_a_rankings_21_50: int | None = None
    engine_a_rankings_51: int | None = None
    engine_a_mobile_ranking: int | None = None
    engine_a_mobile_ranking_change: int | None = None
    engine_a_mobile_rankings_1_3: int | None = None
    engine_a_mobile_rankings_4_10: int | None = None
    engine_a_mobile_rankings_11_20: int | None = None
    engine_a_mobile_rankings_21_50: int | None = None
    engine_a_mobile_rankings_51: int | None = None
    engine_a_places_ranking: int | None = None
    engine_a_places_ranking_change: int | None = None
    engine_a_places_rankings_1_3: int | None = None
    engine_a_places_rankings_4_10: int | None = None
    engine_a_places_rankings_11_20: int | None = None
    engine_a_places_rankings_21_50: int | None = None
    engine_a_places_rankings_51: int | None = None
    engine_b_ranking: int | None = None
    engine_b_ranking_change: int | None = None
    engine_b_rankings_1_3: int | None = None
    engine_b_rankings_4_10: int | None = None
    engine_b_rankings_11_20: int | None = None
    engine_b_rankings_21_50: int | None = None
    engine_b_rankings_51: int | None = None
    competitors: int | None = None
    local_monthly_searches: int | None = None
    extra: Mapping[str, Any] = extra_field()


@final
@gc_untracked_struct
@with_meanings
@attrs.frozen(repr=False, weakref_slot=False)
class KeywordPeriod(Model):
    """One date of a keyword: a row of the keyword-by-date feed (the service's reference, section 2.7).

    `date_precision` says whether the service sent a day or only a month; `date` is then the first day of that month.
    Only the older variant of the feed has `global_monthly_searches`, `wmt_*` and `backlinks`.
    """

    date: dt.date
    date_precision: Literal["month", "day"] = "month"
    engine_a_ranking: int | None = None
    engine_a_mobile_ranking: int | None = None
    engine_a_places_ranking: int | None = None
    engine_b_ranking: int | None = None
    engine_a_ranking_url: str | None = None
    engine_a_mobile_ranking_url: str | None = None
    engine_b_ranking_url: str | None = None
    competitors: int | None = None
    local_monthly_searches: int | None = None
    global_monthly_searches: int | None = None
    wmt_ranking: int | None = None
    wmt_clicks: int | None = None
    wmt_impressions: int | None = None
    wmt_ctr: int | None = None
    backlinks: int | None = None
    extra: Mapping[str, Any] = extra_field()


@with_meanings
@attrs.frozen(repr=False, weakref_slot=False)
class RankingTotals(Model):
    """The totals of a feed: a number for each metric (the service's reference, section 2.7).

    A metric that the service did not send, or sent as null, is None; a metric that has no field here is in `extra`.
    Values are int or float, as the service sent them.
    """

    engine_a_ranking: float | None = None
    engine_a_ranking_change: float | None = None
    engine_a_mobile_ranking: float | None = None
    engine_a_mobile_ranking_change: float | None = None
    engine_a_places_ranking: float | None = None
    engine_a_places_ranking_change: float | None = None
    engine_b_ranking: float | None = None
    engine_b_ranking_change: float | None = None
    competitors: float | None = None
    local_monthly_searches: float | None = None
    global_monthly_searches: float | None = None
    wmt_ranking: float | None = None
    wmt_clicks: float | None = None
    wmt_impressions: float | None = None
    wmt_ctr: float | None = None
    backlinks: float | None = None
    extra: Mapping[str, Any] = extra_field()
