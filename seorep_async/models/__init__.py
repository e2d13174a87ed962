"""The one model set: frozen, slotted attrs classes that know nothing of the wire."""

from seorep_async.models.backlinks import Backlink
from seorep_async.models.campaigns import Campaign
from seorep_async.models.keywords import Keyword
from seorep_async.models.pages import Page
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
from seorep_async.models.users import LoginGrant, User

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
