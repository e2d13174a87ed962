"""The account's campaigns and keywords, made from the seed when they are asked for.

Each depends on the seed and on its own id alone: neither on the order of requests nor on how many others there are.
"""

import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime, timedelta
from urllib.parse import quote

from attrs import frozen

from .recent import Recent
from .seeding import Dice, mix
from .vocabulary import GROUPS, MARKETS, NAMES, SUFFIXES, TAGS, VOLUMES, Market

KEYWORDS_PER_CAMPAIGN = 100_000
"""Keyword ids are `campaign id x this + number`, so that a keyword's campaign can be read off its id."""
MOST_CAMPAIGNS = 2**31 // KEYWORDS_PER_CAMPAIGN - 1

_OPENED = datetime(2014, 1, 6, 8, 30)
_GROWTH = timedelta(days=2900)
_KEPT_KEYWORDS = 50_000
_KEPT_CAMPAIGNS = 20_000


@frozen
class Campaign:
    """What the account holds about one campaign."""

    id: int
    account_id: int
    company: str
    url: str
    created: datetime
    modified: datetime | None
    group_title: str | None
    ignore_places: bool
    market: Market
    trade: int
    tags: tuple[dict[str, int | str], ...]


@frozen
class Trend:
    """How a rank moves from month to month: a level, and a wave of some height and pace around it."""

    level: int
    swing: int
    pace: int
    phase: int
    best: int


@frozen
class Keyword:
    """What the account holds about one keyword; `trends` are None where an engine is not tracked."""

    id: int
    key: int
    campaign_id: int
    phrase: str
    primary: bool
    created: datetime
    modified: datetime
    location: dict[str, int | str]
    language: dict[str, int | str]
    tags: tuple[dict[str, int | str], ...]
    query: str
    landing_url: str
    trends: tuple[Trend | None, Trend | None, Trend | None, Trend | None]
    volume_step: int
    competitors: int
    backlinks: int
    measured: bool


class Account:
    """One seeded account.

    Args:
        seed: any integer; the same seed makes the same account.
        campaigns: how many campaigns there are; their ids are 1 to this.
        keywords: how many keywords each of them has.
    """

    def __init__(self, seed: int, campaigns: int, keywords: int) -> None:
        self.key = mix(seed)
        self.account_id = 1000 + mix(self.key) % 9000
        self._campaigns = campaigns
        self._keywords = keywords
        self._kept_campaigns: Recent[int, Campaign] = Recent(_KEPT_CAMPAIGNS)
        self._kept_keywords: Recent[int, tuple[Keyword, ...]] = Recent(_KEPT_KEYWORDS)

    def campaign_ids(self) -> Sequence[int]:
        """Return the ids of all campaigns, oldest first."""
        return range(1, self._campaigns + 1)

    def keyword_ids(self, campaign_id: int | None = None) -> Sequence[int]:
        """Return the ids of one campaign's keywords, or of all, oldest campaign first."""
        numbers = range(1, self._keywords + 1)
        if campaign_id is None:
            return [id_ * KEYWORDS_PER_CAMPAIGN + number for id_ in self.campaign_ids() for number in numbers]
        if campaign_id not in self.campaign_ids():
            return []
        return range(campaign_id * KEYWORDS_PER_CAMPAIGN + 1, campaign_id * KEYWORDS_PER_CAMPAIGN + self._keywords + 1)

    def campaign(self, campaign_id: int) -> Campaign | None:
        """Return a campaign, or None if there is none with this id."""
        if campaign_id not in self.campaign_ids():
            return None
        kept = self._kept_campaigns.get(campaign_id)
        return kept or self._kept_campaigns.keep(campaign_id, self._make_campaign(campaign_id))

    def keywords(self, campaign: Campaign) -> tuple[Keyword, ...]:
        """Return all keywords of a campaign in the order of their ids."""
        kept = self._kept_keywords.get(campaign.id)
        if kept is None:
            dice = Dice(mix(self.key ^ mix(campaign.id + 2**32)))
            made = tuple(_make_keyword(campaign, number, dice) for number in range(1, self._keywords + 1))
            kept = self._kept_keywords.keep(campaign.id, made, weight=len(made) + 1)
        return kept

    def keyword(self, keyword_id: int) -> Keyword | None:
        """Return a keyword, or None if there is none with this id."""
        campaign_id, number = divmod(keyword_id, KEYWORDS_PER_CAMPAIGN)
        campaign = self.campaign(campaign_id)
        if campaign is None or not 1 <= number <= self._keywords:
            return None
        return self.keywords(campaign)[number - 1]

    def _make_campaign(self, id_: int) -> Campaign:
        dice = Dice(mix(self.key ^ id_))
        market = dice.pick(MARKETS)
        trade = dice.below(len(market.trades))
        # Each name comes once with each suffix, then with a number: companies and their addresses are unique.
        lap, place = divmod(id_ - 1, len(NAMES))
        name = NAMES[(place * 7 + self.key) % len(NAMES)]
        again, suffix = divmod(lap, len(SUFFIXES))
        company = f"{name} {market.trades[trade][0]}{SUFFIXES[suffix]}{f' {again + 1}' if again else ''}"
        created = _OPENED + _GROWTH * (id_ / (id_ + 200)) + timedelta(seconds=dice.below(60))
        return Campaign(
            id=id_,
            account_id=self.account_id,
            company=company,
            url=f"https://www.{_slug(company)}.example",
            created=created.replace(microsecond=0),
            modified=None if dice.chance(0.25) else _later(created, dice, days=400),
            group_title=dice.pick(GROUPS),
            ignore_places=dice.chance(0.2),
            market=market,
            trade=trade,
            tags=tuple({"id": id_ * 10 + number, "label": dice.pick(TAGS[number::3])} for number in range(3)),
        )


def _make_keyword(campaign: Campaign, number: int, dice: Dice) -> Keyword:
    market = campaign.market
    products = market.trades[campaign.trade][1]
    # Every product in every phrasing and every place before anything repeats, without a table of what is taken.
    rest, product = divmod(number - 1, len(products))
    rest, phrasing = divmod(rest, len(market.phrasings))
    again, place = divmod(rest, len(market.places))
    location = market.places[(place + product + phrasing) % len(market.places)]
    phrase = market.phrasings[(phrasing + product) % len(market.phrasings)].format(
        product=products[product], city=str(location["canonical_name"]).split(",")[0]
    )
    if again:
        phrase = f"{phrase} {again + 1}"
    created = campaign.created + timedelta(seconds=number * 97 + dice.below(60))
    level = 1 + dice.skewed(120, 1.8)
    return Keyword(
        id=campaign.id * KEYWORDS_PER_CAMPAIGN + number,
        key=mix(campaign.id * KEYWORDS_PER_CAMPAIGN + number ^ dice.below(2**53)),
        campaign_id=campaign.id,
        phrase=phrase,
        primary=dice.chance(0.15),
        created=created,
        modified=_later(created, dice, days=700),
        location=location,
        language=market.language,
        tags=tuple(tag for tag in campaign.tags if dice.chance(0.3)),
        query=quote(phrase),
        landing_url=f"{campaign.url}/{quote(products[product].replace(' ', '-'))}",
        trends=(
            _make_trend(dice, level),
            _make_trend(dice, max(1, level + dice.below(13) - 6)),
            _make_trend(dice, dice.below(16), best=0) if dice.chance(0.5) else None,
            _make_trend(dice, max(1, level + dice.below(41) - 20)) if dice.chance(0.9) else None,
        ),
        volume_step=dice.below(len(VOLUMES)),
        competitors=dice.below(101),
        backlinks=dice.skewed(400, 3),
        measured=not dice.chance(0.08),
    )


def _make_trend(dice: Dice, level: int, best: int = 1) -> Trend:
    return Trend(level=level, swing=dice.below(12), pace=5 + dice.below(40), phase=dice.below(256), best=best)


def _later(moment: datetime, dice: Dice, days: int) -> datetime:
    return (moment + timedelta(seconds=dice.below(days * 86_400))).replace(microsecond=0)


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub("[^a-z0-9]+", "-", plain.lower()).strip("-")
