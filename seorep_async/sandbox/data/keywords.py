"""Keywords: only seeded campaigns have any, and they never change."""

from datetime import datetime, timedelta
from urllib.parse import quote

from attrs import frozen

from .campaigns import Campaign, Niche, later
from .seeding import Dice, mix
from .vocabulary import VOLUMES

KEYWORDS_PER_CAMPAIGN = 100_000
"""Keyword ids are `campaign id x this + number`, so that a keyword's campaign can be read off its id."""


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


def make_keywords(key: int, campaign: Campaign, niche: Niche, count: int) -> tuple[Keyword, ...]:
    """Make all keywords of a seeded campaign."""
    dice = Dice(mix(key ^ mix(campaign.id + 2**32)))
    return tuple(_make_keyword(campaign, niche, number, dice) for number in range(1, count + 1))


def _make_keyword(campaign: Campaign, niche: Niche, number: int, dice: Dice) -> Keyword:
    market, products = niche.market, niche.products
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
        modified=later(created, dice, days=700),
        location=location,
        language=market.language,
        tags=tuple(tag for tag in niche.tags if dice.chance(0.3)),
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
