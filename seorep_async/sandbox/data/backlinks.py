"""Backlinks."""

from datetime import date, timedelta

from attrs import frozen

from .campaigns import Campaign, Niche, slug
from .seeding import Dice, mix
from .vocabulary import LINK_TYPES, SITES

BACKLINKS_PER_CAMPAIGN = 100_000
"""Ids of seeded backlinks are `campaign id x this + number`; those of created ones come after all of these."""
STATUSES = ("published", "unpublished")


@frozen(kw_only=True)
class Backlink:
    """What the account holds about one backlink."""

    id: int
    campaign_id: int
    title: str
    status: str
    created: date
    published: date
    url: str
    link_type: str = ""
    target_anchor: str = ""
    target_url: str = ""
    notes: str = ""
    domain_authority: int = 0
    page_authority: int = 0


def make_backlink(key: int, campaign: Campaign, niche: Niche, number: int) -> Backlink:
    """Make a seeded campaign's backlink of some number."""
    id_ = campaign.id * BACKLINKS_PER_CAMPAIGN + number
    dice = Dice(mix(key ^ mix(id_ + 2**34)))
    product, (site, name) = dice.pick(niche.products), dice.pick(SITES)
    published = campaign.created.date() + timedelta(days=dice.below(900))
    authority = 5 + dice.skewed(90, 1.5)
    return Backlink(
        id=id_,
        campaign_id=campaign.id,
        title=f"{product[0].upper()}{product[1:]}: {name}",
        status=STATUSES[dice.chance(0.25)],
        created=published - timedelta(days=dice.below(20)),
        published=published,
        url=f"https://{site}.example/{slug(product) or 'post'}-{number}",
        link_type=dice.pick(LINK_TYPES),
        target_anchor=product if dice.chance(0.7) else campaign.company,
        target_url=campaign.url,
        notes="Agreed by e-mail, check again in a year" if dice.chance(0.3) else "",
        domain_authority=authority,
        page_authority=max(1, authority - dice.below(15)),
    )
