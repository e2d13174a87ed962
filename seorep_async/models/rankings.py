"""Rankings: the rows of the three feeds, and their totals."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping
from typing import Any, Literal, final

import attrs

from seorep_async.models.descriptions import with_descriptions
from seorep_async.models.gc_untracked import gc_untracked_struct
from seorep_async.models.model import Model, extra_field


class Feed(enum.Enum):
    """The three ranking feeds (the service's reference, section 4.4).

    The values are the names that the command `seorep` uses.
    """

    CAMPAIGN = "campaign"
    """One `KeywordRanking` for each keyword of a campaign."""
    CAMPAIGN_BY_DATE = "campaign-by-date"
    """One `CampaignPeriod` for each period of a campaign."""
    KEYWORD_BY_DATE = "keyword-by-date"
    """One `KeywordPeriod` for each period of a keyword."""

    @property
    def object_name(self) -> str:
        """The kind of object in its reports: `campaign` or `keyword`."""
        return "keyword" if self is Feed.KEYWORD_BY_DATE else "campaign"


@final
@gc_untracked_struct
@with_descriptions
@attrs.frozen(repr=False, weakref_slot=False)
class Tag(Model):
    """A label of a keyword (the service's reference, section 2.6)."""

    id: int
    """Id of the label."""
    label: str
    """Text of the label."""
    extra: Mapping[str, Any] = extra_field()
    """Undocumented fields, unchanged. In CSV, Parquet, Arrow and databases they are JSON text.
    Without such fields: {} in Python, an empty cell in CSV, and null elsewhere.
    """


@final
@gc_untracked_struct
@with_descriptions
@attrs.frozen(repr=False, weakref_slot=False)
class SearchLocation(Model):
    """A keyword's search location (the service's reference, section 2.7)."""

    id: int
    """Id of the keyword's search location."""
    canonical_name: str | None = None
    """Name of the search location. Only the field's name is documented."""
    country_code: str | None = None
    """Code of the search location's country. The kind of code is not documented."""
    target_type: str | None = None
    """Kind of search location. The values are not documented."""
    extra: Mapping[str, Any] = extra_field()
    """Undocumented fields, unchanged. In CSV, Parquet, Arrow and databases they are JSON text.
    Without such fields: {} in Python, an empty cell in CSV, and null elsewhere.
    """


@final
@gc_untracked_struct
@with_descriptions
@attrs.frozen(repr=False, weakref_slot=False)
class SearchLanguage(Model):
    """A keyword's search language (the service's reference, section 2.7)."""

    id: int
    """Id of the keyword's search language."""
    name: str | None = None
    """Name of the keyword's search language. Only the field's name is documented."""
    extra: Mapping[str, Any] = extra_field()
    """Undocumented fields, unchanged. In CSV, Parquet, Arrow and databases they are JSON text.
    Without such fields: {} in Python, an empty cell in CSV, and null elsewhere.
    """


@final
@gc_untracked_struct
@with_descriptions
@attrs.frozen(repr=False, weakref_slot=False)
class KeywordRanking(Model):
    """A keyword's rankings, as a row of the campaign feed (the service's reference, section 2.7).

    A rank of None means that the service sent null or left the field out, not that it sent 0. The
    reference explains neither null nor 0; read both as not ranked. A `..._change` is the change
    from the previous period. Only the older variant of the feed has `global_monthly_searches`,
    `wmt_*` and `backlinks`. If a `last_..._date` has a time of day other than midnight, or
    `primary_keyword` is neither `true` nor `false`, the original string is in `extra`.
    """

    keyword_id: int
    """Id of the keyword."""
    keyword_phrase: str
    """The keyword's phrase."""
    search_location: SearchLocation | None = None
    """Search location of the keyword. Only the field's name is documented."""
    search_language: SearchLanguage | None = None
    """Search language of the keyword. Only the field's name is documented."""
    primary_keyword: bool | None = None
    """Whether it is a primary keyword; the meaning is not documented. Null if the service sent
    neither true nor false; any other string is in extra.
    """
    engine_a_ranking: int | None = None
    """Position of the keyword in the first search engine. Neither the day of the measurement (from
    start_date to end_date) nor the meaning of 0 and null is documented; read 0 and null as not
    ranked.
    """
    engine_a_ranking_change: int | None = None
    """Change of engine_a_ranking from the previous period. In tables, it is null unless it was
    requested with compare_previous_period, because the service may send 0 otherwise. It is not
    documented which sign is an improvement, or how long the previous period is.
    """
    engine_a_ranking_url: str | None = None
    """Address that belongs to engine_a_ranking, probably of the ranked page. Only the field's name
    is documented. Null if the service sent none.
    """
    engine_a_serp_url: str | None = None
    """Address of a results page of the first search engine. Only the field's name is documented.
    Null if the service sent none.
    """
    engine_a_mobile_ranking: int | None = None
    """Position of the keyword in the first search engine on mobile devices. Neither the day of the
    measurement (from start_date to end_date) nor the meaning of 0 and null is documented; read 0
    and null as not ranked.
    """
    engine_a_mobile_ranking_change: int | None = None
    """Change of engine_a_mobile_ranking from the previous period. In tables, it is null unless it
    was requested with compare_previous_period, because the service may send 0 otherwise. It is not
    documented which sign is an improvement, or how long the previous period is.
    """
    engine_a_mobile_ranking_url: str | None = None
    """Address that belongs to engine_a_mobile_ranking, probably of the ranked page. Only the
    field's name is documented. Null if the service sent none.
    """
    engine_a_mobile_serp_url: str | None = None
    """Address of a results page of the first search engine on mobile devices. Only the field's name
    is documented. Null if the service sent none.
    """
    engine_a_places_ranking: int | None = None
    """Position of the keyword in the first search engine's local results (places). Neither the day
    of the measurement (from start_date to end_date) nor the meaning of 0 and null is documented;
    read 0 and null as not ranked.
    """
    engine_a_places_ranking_change: int | None = None
    """Change of engine_a_places_ranking from the previous period. In tables, it is null unless it
    was requested with compare_previous_period, because the service may send 0 otherwise. It is not
    documented which sign is an improvement, or how long the previous period is.
    """
    engine_a_maps_serp_url: str | None = None
    """Address of a results page of the first search engine's maps. Only the field's name is
    documented. Null if the service sent none.
    """
    engine_b_ranking: int | None = None
    """Position of the keyword in the second search engine. Neither the day of the measurement (from
    start_date to end_date) nor the meaning of 0 and null is documented; read 0 and null as not
    ranked.
    """
    engine_b_ranking_change: int | None = None
    """Change of engine_b_ranking from the previous period. In tables, it is null unless it was
    requested with compare_previous_period, because the service may send 0 otherwise. It is not
    documented which sign is an improvement, or how long the previous period is.
    """
    engine_b_ranking_url: str | None = None
    """Address that belongs to engine_b_ranking, probably of the ranked page. Only the field's name
    is documented. Null if the service sent none.
    """
    engine_b_serp_url: str | None = None
    """Address of a results page of the second search engine. Only the field's name is documented.
    Null if the service sent none.
    """
    local_monthly_searches: int | None = None
    """Local searches for the phrase in a month. The place, the month and the source are not
    documented. The difference between null and 0 is not documented.
    """
    competitors: int | None = None
    """Number of competitors. What is counted is not documented. The difference between null and 0
    is not documented.
    """
    last_engine_a_ranking_date: dt.date | None = None
    """Probably the day of the newest value of engine_a_ranking. Only the field's name is
    documented.
    """
    last_engine_a_mobile_ranking_date: dt.date | None = None
    """Probably the day of the newest value of engine_a_mobile_ranking. Only the field's name is
    documented.
    """
    last_engine_a_places_ranking_date: dt.date | None = None
    """Probably the day of the newest value of engine_a_places_ranking. Only the field's name is
    documented.
    """
    last_engine_b_ranking_date: dt.date | None = None
    """Probably the day of the newest value of engine_b_ranking. Only the field's name is
    documented.
    """
    last_search_volume_date: dt.date | None = None
    """Probably the day of the newest value of the monthly searches. Only the field's name is
    documented.
    """
    last_stat_padder_date: dt.date | None = None
    """Day of the service's internal step `stat padder`. Only the field's name is documented."""
    last_metric_rollup_date: dt.date | None = None
    """Day of the service's internal step `metric rollup`. Only the field's name is documented."""
    last_results_date: dt.date | None = None
    """Probably the day of the newest results. Only the field's name is documented."""
    tags: tuple[Tag, ...] = ()
    """The keyword's labels, a list of objects with id, label and, for unknown fields, extra."""
    global_monthly_searches: int | None = None
    """Searches for the phrase in a month worldwide. Only the field's name is documented. Only the
    older variant of the feed has this field; otherwise it is null.
    """
    wmt_ranking: int | None = None
    """Position of the keyword in the first engine's webmaster tools. Only the field's name is
    documented. Only the older variant of the feed has this field; otherwise it is null.
    """
    wmt_clicks: int | None = None
    """Clicks in the first engine's webmaster tools. The days are not documented. Only the older
    variant of the feed has this field; otherwise it is null.
    """
    wmt_impressions: int | None = None
    """Impressions in the first engine's webmaster tools. The days are not documented. Only the
    older variant of the feed has this field; otherwise it is null.
    """
    wmt_ctr: int | None = None
    """Click-through rate in the first engine's webmaster tools, an integer. Its unit (percent, per
    mille or other) is not documented. Only the older variant of the feed has this field; otherwise
    it is null.
    """
    backlinks: int | None = None
    """Number of backlinks. What is counted is not documented. Only the older variant of the feed
    has this field; otherwise it is null.
    """
    extra: Mapping[str, Any] = extra_field()
    """Undocumented fields, unchanged. In CSV, Parquet, Arrow and databases they are JSON text.
    Without such fields: {} in Python, an empty cell in CSV, and null elsewhere. It also contains
    the original of a `last_..._date` whose time is not midnight, and of a primary_keyword that is
    neither true nor false.
    """


@final
@gc_untracked_struct
@with_descriptions
@attrs.frozen(repr=False, weakref_slot=False)
class CampaignPeriod(Model):
    """A period of a campaign, as a row of the feed `campaign-by-date` (the reference, section 2.7).

    `date_precision` says whether the service sent a day or only a month. For a month, `date` is its
    first day. A field such as `..._rankings_4_10` counts the keywords in positions 4 to 10.
    """

    date: dt.date
    """Day of the row; the first of the month if the service sent only a month."""
    date_precision: Literal["month", "day"] = "month"
    """`day` or `month`, whichever the service sent."""
    engine_a_ranking: int | None = None
    """Ranking of the campaign in the first search engine over the period. It is not documented how
    it is calculated, or what null and 0 mean.
    """
    engine_a_ranking_change: int | None = None
    """Change of engine_a_ranking from the previous period. In tables, it is null unless it was
    requested with compare_previous_period, because the service may send 0 otherwise. It is not
    documented which sign is an improvement, or how long the previous period is.
    """
    engine_a_rankings_1_3: int | None = None
    """Number of keywords in positions 1 to 3 of the first search engine. The difference between
    null and 0 is not documented.
    """
    engine_a_rankings_4_10: int | None = None
    """Number of keywords in positions 4 to 10 of the first search engine. The difference between
    null and 0 is not documented.
    """
    engine_a_rankings_11_20: int | None = None
    """Number of keywords in positions 11 to 20 of the first search engine. The difference between
    null and 0 is not documented.
    """
    engine_a_rankings_21_50: int | None = None
    """Number of keywords in positions 21 to 50 of the first search engine. The difference between
    null and 0 is not documented.
    """
    engine_a_rankings_51: int | None = None
    """Number of keywords in the last band of positions of the first search engine, which probably
    begins at position 51. It is not documented whether keywords without a position are counted. The
    difference between null and 0 is not documented.
    """
    engine_a_mobile_ranking: int | None = None
    """Ranking of the campaign in the first search engine on mobile devices over the period. It is
    not documented how it is calculated, or what null and 0 mean.
    """
    engine_a_mobile_ranking_change: int | None = None
    """Change of engine_a_mobile_ranking from the previous period. In tables, it is null unless it
    was requested with compare_previous_period, because the service may send 0 otherwise. It is not
    documented which sign is an improvement, or how long the previous period is.
    """
    engine_a_mobile_rankings_1_3: int | None = None
    """Number of keywords in positions 1 to 3 of the first search engine on mobile devices. The
    difference between null and 0 is not documented.
    """
    engine_a_mobile_rankings_4_10: int | None = None
    """Number of keywords in positions 4 to 10 of the first search engine on mobile devices. The
    difference between null and 0 is not documented.
    """
    engine_a_mobile_rankings_11_20: int | None = None
    """Number of keywords in positions 11 to 20 of the first search engine on mobile devices. The
    difference between null and 0 is not documented.
    """
    engine_a_mobile_rankings_21_50: int | None = None
    """Number of keywords in positions 21 to 50 of the first search engine on mobile devices. The
    difference between null and 0 is not documented.
    """
    engine_a_mobile_rankings_51: int | None = None
    """Number of keywords in the last band of positions of the first search engine on mobile
    devices, which probably begins at position 51. It is not documented whether keywords without a
    position are counted. The difference between null and 0 is not documented.
    """
    engine_a_places_ranking: int | None = None
    """Ranking of the campaign in the first search engine's local results (places) over the period.
    It is not documented how it is calculated, or what null and 0 mean.
    """
    engine_a_places_ranking_change: int | None = None
    """Change of engine_a_places_ranking from the previous period. In tables, it is null unless it
    was requested with compare_previous_period, because the service may send 0 otherwise. It is not
    documented which sign is an improvement, or how long the previous period is.
    """
    engine_a_places_rankings_1_3: int | None = None
    """Number of keywords in positions 1 to 3 of the first search engine's local results (places).
    The difference between null and 0 is not documented.
    """
    engine_a_places_rankings_4_10: int | None = None
    """Number of keywords in positions 4 to 10 of the first search engine's local results (places).
    The difference between null and 0 is not documented.
    """
    engine_a_places_rankings_11_20: int | None = None
    """Number of keywords in positions 11 to 20 of the first search engine's local results (places).
    The difference between null and 0 is not documented.
    """
    engine_a_places_rankings_21_50: int | None = None
    """Number of keywords in positions 21 to 50 of the first search engine's local results (places).
    The difference between null and 0 is not documented.
    """
    engine_a_places_rankings_51: int | None = None
    """Number of keywords in the last band of positions of the first search engine's local results
    (places), which probably begins at position 51. It is not documented whether keywords without a
    position are counted. The difference between null and 0 is not documented.
    """
    engine_b_ranking: int | None = None
    """Ranking of the campaign in the second search engine over the period. It is not documented how
    it is calculated, or what null and 0 mean.
    """
    engine_b_ranking_change: int | None = None
    """Change of engine_b_ranking from the previous period. In tables, it is null unless it was
    requested with compare_previous_period, because the service may send 0 otherwise. It is not
    documented which sign is an improvement, or how long the previous period is.
    """
    engine_b_rankings_1_3: int | None = None
    """Number of keywords in positions 1 to 3 of the second search engine. The difference between
    null and 0 is not documented.
    """
    engine_b_rankings_4_10: int | None = None
    """Number of keywords in positions 4 to 10 of the second search engine. The difference between
    null and 0 is not documented.
    """
    engine_b_rankings_11_20: int | None = None
    """Number of keywords in positions 11 to 20 of the second search engine. The difference between
    null and 0 is not documented.
    """
    engine_b_rankings_21_50: int | None = None
    """Number of keywords in positions 21 to 50 of the second search engine. The difference between
    null and 0 is not documented.
    """
    engine_b_rankings_51: int | None = None
    """Number of keywords in the last band of positions of the second search engine, which probably
    begins at position 51. It is not documented whether keywords without a position are counted. The
    difference between null and 0 is not documented.
    """
    competitors: int | None = None
    """Number of competitors. What is counted is not documented. The difference between null and 0
    is not documented.
    """
    local_monthly_searches: int | None = None
    """Local searches in a month. It is not documented which keywords are counted, or how their
    searches are added up. The difference between null and 0 is not documented.
    """
    extra: Mapping[str, Any] = extra_field()
    """Undocumented fields, unchanged. In CSV, Parquet, Arrow and databases they are JSON text.
    Without such fields: {} in Python, an empty cell in CSV, and null elsewhere.
    """


@final
@gc_untracked_struct
@with_descriptions
@attrs.frozen(repr=False, weakref_slot=False)
class KeywordPeriod(Model):
    """A keyword's ranks in one period (the service's reference, section 2.7).

    `date_precision` says whether the service sent a day or only a month. For a month, `date` is its
    first day. Only the older variant of the feed has `global_monthly_searches`, `wmt_*` and
    `backlinks`.
    """

    date: dt.date
    """Day of the row; the first of the month if the service sent only a month."""
    date_precision: Literal["month", "day"] = "month"
    """`day` or `month`, whichever the service sent."""
    engine_a_ranking: int | None = None
    """Position of the keyword in the first search engine. Neither the day of the measurement
    (within a month) nor the meaning of 0 and null is documented; read 0 and null as not ranked.
    """
    engine_a_mobile_ranking: int | None = None
    """Position of the keyword in the first search engine on mobile devices. Neither the day of the
    measurement (within a month) nor the meaning of 0 and null is documented; read 0 and null as not
    ranked.
    """
    engine_a_places_ranking: int | None = None
    """Position of the keyword in the first search engine's local results (places). Neither the day
    of the measurement (within a month) nor the meaning of 0 and null is documented; read 0 and null
    as not ranked.
    """
    engine_b_ranking: int | None = None
    """Position of the keyword in the second search engine. Neither the day of the measurement
    (within a month) nor the meaning of 0 and null is documented; read 0 and null as not ranked.
    """
    engine_a_ranking_url: str | None = None
    """Address that belongs to engine_a_ranking, probably of the ranked page. Only the field's name
    is documented. Null if the service sent none.
    """
    engine_a_mobile_ranking_url: str | None = None
    """Address that belongs to engine_a_mobile_ranking, probably of the ranked page. Only the
    field's name is documented. Null if the service sent none.
    """
    engine_b_ranking_url: str | None = None
    """Address that belongs to engine_b_ranking, probably of the ranked page. Only the field's name
    is documented. Null if the service sent none.
    """
    competitors: int | None = None
    """Number of competitors. What is counted is not documented. The difference between null and 0
    is not documented.
    """
    local_monthly_searches: int | None = None
    """Local searches for the phrase in a month. The place, the month and the source are not
    documented. The difference between null and 0 is not documented.
    """
    global_monthly_searches: int | None = None
    """Searches for the phrase in a month worldwide. Only the field's name is documented. Only the
    older variant of the feed has this field; otherwise it is null.
    """
    wmt_ranking: int | None = None
    """Position of the keyword in the first engine's webmaster tools. Only the field's name is
    documented. Only the older variant of the feed has this field; otherwise it is null.
    """
    wmt_clicks: int | None = None
    """Clicks in the first engine's webmaster tools. The days are not documented. Only the older
    variant of the feed has this field; otherwise it is null.
    """
    wmt_impressions: int | None = None
    """Impressions in the first engine's webmaster tools. The days are not documented. Only the
    older variant of the feed has this field; otherwise it is null.
    """
    wmt_ctr: int | None = None
    """Click-through rate in the first engine's webmaster tools, an integer. Its unit (percent, per
    mille or other) is not documented. Only the older variant of the feed has this field; otherwise
    it is null.
    """
    backlinks: int | None = None
    """Number of backlinks. What is counted is not documented. Only the older variant of the feed
    has this field; otherwise it is null.
    """
    extra: Mapping[str, Any] = extra_field()
    """Undocumented fields, unchanged. In CSV, Parquet, Arrow and databases they are JSON text.
    Without such fields: {} in Python, an empty cell in CSV, and null elsewhere.
    """


@with_descriptions
@attrs.frozen(repr=False, weakref_slot=False)
class RankingTotals(Model):
    """The totals of a feed, with a number for each metric (the service's reference, section 2.7).

    A metric is None if the service left it out or sent null. Metrics without a field here are in
    `extra`. Values are int or float, whichever the service sent.
    """

    engine_a_ranking: float | None = None
    """The report's total of engine_a_ranking. It is not documented how it is calculated. Null if
    the service sent none.
    """
    engine_a_ranking_change: float | None = None
    """The report's total of engine_a_ranking_change. It is not documented how it is calculated.
    Null if the service sent none. In tables, also null unless requested with
    compare_previous_period.
    """
    engine_a_mobile_ranking: float | None = None
    """The report's total of engine_a_mobile_ranking. It is not documented how it is calculated.
    Null if the service sent none.
    """
    engine_a_mobile_ranking_change: float | None = None
    """The report's total of engine_a_mobile_ranking_change. It is not documented how it is
    calculated. Null if the service sent none. In tables, also null unless requested with
    compare_previous_period.
    """
    engine_a_places_ranking: float | None = None
    """The report's total of engine_a_places_ranking. It is not documented how it is calculated.
    Null if the service sent none.
    """
    engine_a_places_ranking_change: float | None = None
    """The report's total of engine_a_places_ranking_change. It is not documented how it is
    calculated. Null if the service sent none. In tables, also null unless requested with
    compare_previous_period.
    """
    engine_b_ranking: float | None = None
    """The report's total of engine_b_ranking. It is not documented how it is calculated. Null if
    the service sent none.
    """
    engine_b_ranking_change: float | None = None
    """The report's total of engine_b_ranking_change. It is not documented how it is calculated.
    Null if the service sent none. In tables, also null unless requested with
    compare_previous_period.
    """
    competitors: float | None = None
    """The report's total of competitors. It is not documented how it is calculated. Null if the
    service sent none.
    """
    local_monthly_searches: float | None = None
    """The report's total of local_monthly_searches. It is not documented how it is calculated. Null
    if the service sent none.
    """
    global_monthly_searches: float | None = None
    """The report's total of global_monthly_searches. It is not documented how it is calculated.
    Null if the service sent none.
    """
    wmt_ranking: float | None = None
    """The report's total of wmt_ranking. It is not documented how it is calculated. Null if the
    service sent none.
    """
    wmt_clicks: float | None = None
    """The report's total of wmt_clicks. It is not documented how it is calculated. Null if the
    service sent none.
    """
    wmt_impressions: float | None = None
    """The report's total of wmt_impressions. It is not documented how it is calculated. Null if the
    service sent none.
    """
    wmt_ctr: float | None = None
    """The report's total of wmt_ctr. It is not documented how it is calculated. Null if the service
    sent none.
    """
    backlinks: float | None = None
    """The report's total of backlinks. It is not documented how it is calculated. Null if the
    service sent none.
    """
    extra: Mapping[str, Any] = extra_field()
    """Totals of undocumented metrics, unchanged. In CSV, Parquet, Arrow and databases they are JSON
    text. Without such fields: {} in Python, an empty cell in CSV, and null elsewhere.
    """
