"""What a type checker makes of every field of every model; checked by `test_user_code.py`, never run.

Nothing here may be `Any` but what is marked: fields whose type the reference does not show, and `extra`. A mark on
anything else is an error itself.
"""
# mypy: disallow-any-expr

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Literal, assert_type

from seorep_async import (
    Attempt,
    Backlink,
    Campaign,
    CampaignPeriod,
    Feed,
    Keyword,
    KeywordPeriod,
    KeywordRanking,
    LoginGrant,
    Page,
    PullOutcome,
    RankingReport,
    RankingTotals,
    RawAnswer,
    SearchLanguage,
    SearchLocation,
    SeoRepError,
    Stats,
    Tag,
    User,
)


def campaign(one: Campaign) -> None:
    assert_type(one.id, int)
    assert_type(one.url, str)
    assert_type(one.company, str)
    assert_type(one.date_created, dt.datetime | None)
    assert_type(one.date_modified, dt.datetime | None)
    assert_type(one.date_deleted, Any)  # type: ignore[misc]
    assert_type(one.status, str | None)
    assert_type(one.scope, str | None)
    assert_type(one.engine_a_ignore_places, bool | None)
    assert_type(one.engine_a_places_id, Any)  # type: ignore[misc]
    assert_type(one.engine_a_cid, Any)  # type: ignore[misc]
    assert_type(one.engine_a_business_id, Any)  # type: ignore[misc]
    assert_type(one.engine_a_business_name, Any)  # type: ignore[misc]
    assert_type(one.group_title, str | None)
    assert_type(one.timezone, Any)  # type: ignore[misc]
    assert_type(one.account_id, int | None)
    assert_type(one.extra, Mapping[str, Any])  # type: ignore[misc]


def user(one: User) -> None:
    assert_type(one.id, int)
    assert_type(one.username, str)
    assert_type(one.date_created, dt.datetime | None)
    assert_type(one.email, str | None)
    assert_type(one.password, str | None)
    assert_type(one.first_name, str | None)
    assert_type(one.last_name, str | None)
    assert_type(one.role, str | None)
    assert_type(one.campaign_access, str | None)
    assert_type(one.account_id, int | None)
    assert_type(one.extra, Mapping[str, Any])  # type: ignore[misc]


def login_grant(one: LoginGrant) -> None:
    assert_type(one.token, str)
    assert_type(one.login_url, str)
    assert_type(one.user_id, int)
    assert_type(one.time, dt.datetime | None)
    assert_type(one.origin_user_id, int | None)
    assert_type(one.extra, Mapping[str, Any])  # type: ignore[misc]


def keyword(one: Keyword) -> None:
    assert_type(one.id, int)
    assert_type(one.keyword_phrase, str)
    assert_type(one.date_created, dt.datetime | None)
    assert_type(one.date_modified, dt.datetime | None)
    assert_type(one.primary_keyword, bool | None)
    assert_type(one.campaign_id, int | None)
    assert_type(one.extra, Mapping[str, Any])  # type: ignore[misc]


def backlink(one: Backlink) -> None:
    assert_type(one.id, int)
    assert_type(one.title, str)
    assert_type(one.status, str | None)
    assert_type(one.date_created, dt.date | None)
    assert_type(one.date_published, dt.date | None)
    assert_type(one.url, str | None)
    assert_type(one.link_type, str | None)
    assert_type(one.target_anchor, str | None)
    assert_type(one.target_url, str | None)
    assert_type(one.notes, str | None)
    assert_type(one.campaign_id, int | None)
    assert_type(one.domain_authority, int | None)
    assert_type(one.page_authority, int | None)
    assert_type(one.extra, Mapping[str, Any])  # type: ignore[misc]


def tag(one: Tag) -> None:
    assert_type(one.id, int)
    assert_type(one.label, str)
    assert_type(one.extra, Mapping[str, Any])  # type: ignore[misc]


def search_location(one: SearchLocation) -> None:
    assert_type(one.id, int)
    assert_type(one.canonical_name, str | None)
    assert_type(one.country_code, str | None)
    assert_type(one.target_type, str | None)
    assert_type(one.extra, Mapping[str, Any])  # type: ignore[misc]


def search_language(one: SearchLanguage) -> None:
    assert_type(one.id, int)
    assert_type(one.name, str | None)
    assert_type(one.extra, Mapping[str, Any])  # type: ignore[misc]


def keyword_ranking(one: KeywordRanking) -> None:
    assert_type(one.keyword_id, int)
    assert_type(one.keyword_phrase, str)
    assert_type(one.search_location, SearchLocation | None)
    assert_type(one.search_language, SearchLanguage | None)
    assert_type(one.primary_keyword, bool | None)
    assert_type(one.engine_a_ranking, int | None)
    assert_type(one.engine_a_ranking_change, int | None)
    assert_type(one.engine_a_ranking_url, str | None)
    assert_type(one.engine_a_serp_url, str | None)
    assert_type(one.engine_a_mobile_ranking, int | None)
    assert_type(one.engine_a_mobile_ranking_change, int | None)
    assert_type(one.engine_a_mobile_ranking_url, str | None)
    assert_type(one.engine_a_mobile_serp_url, str | None)
    assert_type(one.engine_a_places_ranking, int | None)
    assert_type(one.engine_a_places_ranking_change, int | None)
    assert_type(one.engine_a_maps_serp_url, str | None)
    assert_type(one.engine_b_ranking, int | None)
    assert_type(one.engine_b_ranking_change, int | None)
    assert_type(one.engine_b_ranking_url, str | None)
    assert_type(one.engine_b_serp_url, str | None)
    assert_type(one.local_monthly_searches, int | None)
    assert_type(one.competitors, int | None)
    assert_type(one.last_engine_a_ranking_date, dt.date | None)
    assert_type(one.last_engine_a_mobile_ranking_date, dt.date | None)
    assert_type(one.last_engine_a_places_ranking_date, dt.date | None)
    assert_type(one.last_engine_b_ranking_date, dt.date | None)
    assert_type(one.last_search_volume_date, dt.date | None)
    assert_type(one.last_stat_padder_date, dt.date | None)
    assert_type(one.last_metric_rollup_date, dt.date | None)
    assert_type(one.last_results_date, dt.date | None)
    assert_type(one.tags, tuple[Tag, ...])
    assert_type(one.global_monthly_searches, int | None)
    assert_type(one.wmt_ranking, int | None)
    assert_type(one.wmt_clicks, int | None)
    assert_type(one.wmt_impressions, int | None)
    assert_type(one.wmt_ctr, int | None)
    assert_type(one.backlinks, int | None)
    assert_type(one.extra, Mapping[str, Any])  # type: ignore[misc]


def campaign_period(one: CampaignPeriod) -> None:
    assert_type(one.date, dt.date)
    assert_type(one.date_precision, Literal["month", "day"])
    assert_type(one.engine_a_ranking, int | None)
    assert_type(one.engine_a_ranking_change, int | None)
    assert_type(one.engine_a_rankings_1_3, int | None)
    assert_type(one.engine_a_rankings_4_10, int | None)
    assert_type(one.engine_a_rankings_11_20, int | None)
    assert_type(one.engine_a_rankings_21_50, int | None)
    assert_type(one.engine_a_rankings_51, int | None)
    assert_type(one.engine_a_mobile_ranking, int | None)
    assert_type(one.engine_a_mobile_ranking_change, int | None)
    assert_type(one.engine_a_mobile_rankings_1_3, int | None)
    assert_type(one.engine_a_mobile_rankings_4_10, int | None)
    assert_type(one.engine_a_mobile_rankings_11_20, int | None)
    assert_type(one.engine_a_mobile_rankings_21_50, int | None)
    assert_type(one.engine_a_mobile_rankings_51, int | None)
    assert_type(one.engine_a_places_ranking, int | None)
    assert_type(one.engine_a_places_ranking_change, int | None)
    assert_type(one.engine_a_places_rankings_1_3, int | None)
    assert_type(one.engine_a_places_rankings_4_10, int | None)
    assert_type(one.engine_a_places_rankings_11_20, int | None)
    assert_type(one.engine_a_places_rankings_21_50, int | None)
    assert_type(one.engine_a_places_rankings_51, int | None)
    assert_type(one.engine_b_ranking, int | None)
    assert_type(one.engine_b_ranking_change, int | None)
    assert_type(one.engine_b_rankings_1_3, int | None)
    assert_type(one.engine_b_rankings_4_10, int | None)
    assert_type(one.engine_b_rankings_11_20, int | None)
    assert_type(one.engine_b_rankings_21_50, int | None)
    assert_type(one.engine_b_rankings_51, int | None)
    assert_type(one.competitors, int | None)
    assert_type(one.local_monthly_searches, int | None)
    assert_type(one.extra, Mapping[str, Any])  # type: ignore[misc]


def keyword_period(one: KeywordPeriod) -> None:
    assert_type(one.date, dt.date)
    assert_type(one.date_precision, Literal["month", "day"])
    assert_type(one.engine_a_ranking, int | None)
    assert_type(one.engine_a_mobile_ranking, int | None)
    assert_type(one.engine_a_places_ranking, int | None)
    assert_type(one.engine_b_ranking, int | None)
    assert_type(one.engine_a_ranking_url, str | None)
    assert_type(one.engine_a_mobile_ranking_url, str | None)
    assert_type(one.engine_b_ranking_url, str | None)
    assert_type(one.competitors, int | None)
    assert_type(one.local_monthly_searches, int | None)
    assert_type(one.global_monthly_searches, int | None)
    assert_type(one.wmt_ranking, int | None)
    assert_type(one.wmt_clicks, int | None)
    assert_type(one.wmt_impressions, int | None)
    assert_type(one.wmt_ctr, int | None)
    assert_type(one.backlinks, int | None)
    assert_type(one.extra, Mapping[str, Any])  # type: ignore[misc]


def ranking_totals(one: RankingTotals) -> None:
    assert_type(one.engine_a_ranking, float | None)
    assert_type(one.engine_a_ranking_change, float | None)
    assert_type(one.engine_a_mobile_ranking, float | None)
    assert_type(one.engine_a_mobile_ranking_change, float | None)
    assert_type(one.engine_a_places_ranking, float | None)
    assert_type(one.engine_a_places_ranking_change, float | None)
    assert_type(one.engine_b_ranking, float | None)
    assert_type(one.engine_b_ranking_change, float | None)
    assert_type(one.competitors, float | None)
    assert_type(one.local_monthly_searches, float | None)
    assert_type(one.global_monthly_searches, float | None)
    assert_type(one.wmt_ranking, float | None)
    assert_type(one.wmt_clicks, float | None)
    assert_type(one.wmt_impressions, float | None)
    assert_type(one.wmt_ctr, float | None)
    assert_type(one.backlinks, float | None)
    assert_type(one.extra, Mapping[str, Any])  # type: ignore[misc]


def ranking_report(one: RankingReport[KeywordRanking]) -> None:
    assert_type(one.feed, Feed)
    assert_type(one.id, int)
    assert_type(one.start_date, dt.date)
    assert_type(one.end_date, dt.date)
    assert_type(one.rows, tuple[KeywordRanking, ...])
    assert_type(one.totals, RankingTotals | None)
    assert_type(one.total_records, int | None)
    assert_type(one.version, bool | None)
    assert_type(one.extra, Mapping[str, Any])  # type: ignore[misc]
    assert_type(one.account, str | None)
    assert_type(one.snapshot_date, dt.date | None)
    assert_type(one.compared, bool)
    assert_type(one.campaign_id, int | None)
    assert_type(one.keyword_id, int | None)


def page(one: Page[User]) -> None:
    assert_type(one.items, tuple[User, ...])
    assert_type(one.number, int)
    assert_type(one.total_pages, int | None)
    assert_type(one.total_records, int | None)
    assert_type(one.totals, RankingTotals | None)
    assert_type(one.version, bool | None)
    assert_type(one.extra, Mapping[str, Any])  # type: ignore[misc]


def pull_outcome(one: PullOutcome[CampaignPeriod]) -> None:
    assert_type(one.ok, bool)
    assert_type(one.id, int)
    assert_type(one.report, RankingReport[CampaignPeriod] | None)
    assert_type(one.error, SeoRepError | None)


def stats(one: Stats) -> None:
    assert_type(one.requests, int)
    assert_type(one.attempts, int)
    assert_type(one.retries, Mapping[str, int])
    assert_type(one.throttled, int)
    assert_type(one.bytes_received, int)
    assert_type(one.in_flight, int)
    assert_type(one.concurrency, int)
    assert_type(one.pace, float | None)
    assert_type(one.waited, Mapping[str, float])


def raw_answer(one: RawAnswer) -> None:
    assert_type(one.method, str)
    assert_type(one.path, str)
    assert_type(one.status, int)
    assert_type(one.body, bytes)
    assert_type(one.headers, Mapping[str, str])
    assert_type(one.number, int)
    assert_type(one.seconds, float)


def attempt(one: Attempt) -> None:
    assert_type(one.method, str)
    assert_type(one.path, str)
    assert_type(one.subject, str | None)
    assert_type(one.number, int)
    assert_type(one.status, int | None)
    assert_type(one.error, type[BaseException] | None)
    assert_type(one.cause, str | None)
    assert_type(one.bytes, int)
    assert_type(one.seconds, float)
    assert_type(one.waited, float)
