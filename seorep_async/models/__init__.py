"""The one model set: frozen, slotted attrs classes that know nothing of the wire."""

from seorep_async.models.rankings import (
    CampaignPeriod,
    Feed,
    KeywordPeriod,
    KeywordRanking,
    RankingTotals,
    SearchLanguage,
    SearchLocation,
    Tag,
)
from seorep_async.models.records import Backlink, Campaign, Keyword, LoginGrant, Page, User

__all__ = [
    "Backlink",
    "Campaign",
    "CampaignPeriod",
    "Feed",
    "Keyword",
    "KeywordPeriod",
    "KeywordRanking",
    "LoginGrant",
    "Page",
    "RankingTotals",
    "SearchLanguage",
    "SearchLocation",
    "Tag",
    "User",
]
