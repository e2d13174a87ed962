"""The one model set: frozen, slotted attrs classes that know nothing of the wire."""

from seorep_async.models.campaigns import Campaign
from seorep_async.models.pages import Page
from seorep_async.models.rankings import (
    CampaignPeriod,
    Feed,
    KeywordPeriod,
    KeywordRanking,
    RankingReport,
    RankingTotals,
    SearchLanguage,
    SearchLocation,
    Tag,
)

__all__ = [
    "Campaign",
    "CampaignPeriod",
    "Feed",
    "KeywordPeriod",
    "KeywordRanking",
    "Page",
    "RankingReport",
    "RankingTotals",
    "SearchLanguage",
    "SearchLocation",
    "Tag",
]
