"""Campaigns, and what the keywords and backlinks of a seeded one are made of."""

import re
import unicodedata
from datetime import datetime, timedelta

from attrs import frozen

from .seeding import Dice, mix
from .vocabulary import GROUPS, MARKETS, NAMES, SUFFIXES, TAGS, Market

DEFAULT_SCOPE = "domain"

_OPENED = datetime(2014, 1, 6, 8, 30)
_GROWTH = timedelta(days=2900)


@frozen(kw_only=True)
class Campaign:
    """What the account holds about one campaign."""

    id: int
    account_id: int
    company: str
    url: str
    scope: str = DEFAULT_SCOPE
    group_title: str | None = None
    created: datetime
    modified: datetime | None = None
    ignore_places: bool = False


@frozen
class Niche:
    """What a seeded campaign is about: its market, the number of its trade there, and its tags."""

    market: Market
    trade: int
    tags: tuple[dict[str, int | str], ...]

    @property
    def products(self) -> tuple[str, ...]:
        """What is sold."""
        return self.market.trades[self.trade][1]


def make_campaign(key: int, account_id: int, id_: int) -> tuple[Campaign, Niche]:
    """Make a seeded campaign."""
    dice = Dice(mix(key ^ id_))
    market = dice.pick(MARKETS)
    trade = dice.below(len(market.trades))
    # Each name comes once with each suffix, then with a number: companies and their addresses are unique.
    lap, place = divmod(id_ - 1, len(NAMES))
    name = NAMES[(place * 7 + key) % len(NAMES)]
    again, suffix = divmod(lap, len(SUFFIXES))
    company = f"{name} {market.trades[trade][0]}{SUFFIXES[suffix]}{f' {again + 1}' if again else ''}"
    created = _OPENED + _GROWTH * (id_ / (id_ + 200)) + timedelta(seconds=dice.below(60))
    campaign = Campaign(
        id=id_,
        account_id=account_id,
        company=company,
        url=f"https://www.{slug(company)}.example",
        created=created.replace(microsecond=0),
        modified=None if dice.chance(0.25) else later(created, dice, days=400),
        group_title=dice.pick(GROUPS),
        ignore_places=dice.chance(0.2),
    )
    tags: tuple[dict[str, int | str], ...] = tuple(
        {"id": id_ * 10 + number, "label": dice.pick(TAGS[number::3])} for number in range(3)
    )
    return campaign, Niche(market, trade, tags)


def later(moment: datetime, dice: Dice, days: int) -> datetime:
    """Draw a moment within so many days after another."""
    return (moment + timedelta(seconds=dice.below(days * 86_400))).replace(microsecond=0)


def slug(text: str) -> str:
    """Write a text as it would stand in an address."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub("[^a-z0-9]+", "-", plain.lower()).strip("-")
