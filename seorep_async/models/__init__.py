"""The models: frozen, slotted attrs classes that are independent of the wire format."""

from seorep_async.models.rankings import (
    CampaignPeriod as CampaignPeriod,
    Feed as Feed,
    KeywordPeriod as KeywordPeriod,
    KeywordRanking as KeywordRanking,
    RankingTotals as RankingTotals,
    SearchLanguage as SearchLanguage,
    SearchLocation as SearchLocation,
    Tag as Tag,
)
from seorep_async.models.records import (
    Backlink as Backlink,
    Campaign as Campaign,
    Keyword as Keyword,
    LoginGrant as LoginGrant,
    Page as Page,
    User as User,
)
