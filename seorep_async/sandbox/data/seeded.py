"""Seeded campaigns, keywords, users and backlinks, each made from the account's key and its own id.

Only seeded campaigns have keywords, and these never change. No password is stored.
"""

import re
import unicodedata
from datetime import date, datetime, timedelta
from urllib.parse import quote

import msgspec
from attrs import frozen

from seorep_async.sandbox.data.seeding import SeededRandom, mix
from seorep_async.sandbox.data.vocabulary import (
    FIRST_NAMES,
    GROUPS,
    LANGUAGE,
    LAST_NAMES,
    LINK_TYPES,
    NAMES,
    PHRASINGS,
    PLACES,
    SITES,
    SUFFIXES,
    TAGS,
    TRADES,
    VOLUMES,
)

DEFAULT_SCOPE = "domain"

_OPENED = datetime(2014, 1, 6, 8, 30)
_GROWTH = timedelta(days=2900)


@frozen(kw_only=True)
class Campaign:
    """The account's data about one campaign."""

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
    """A seeded campaign's business: the products that it sells, the number of its first place, and its tags."""

    products: tuple[str, ...]
    home: int
    tags: tuple[dict[str, int | str], ...]


def make_campaign(key: int, account_id: int, id_: int) -> tuple[Campaign, Niche]:
    """Make a seeded campaign."""
    drawn = SeededRandom(mix(key ^ id_))
    trade, products = drawn.pick(TRADES)
    home = drawn.below(len(PLACES))
    # Each name comes once with each suffix, then with a number: companies and their addresses are unique.
    lap, place = divmod(id_ - 1, len(NAMES))
    name = NAMES[(place * 7 + key) % len(NAMES)]
    again, suffix = divmod(lap, len(SUFFIXES))
    company = f"{name} {trade}{SUFFIXES[suffix]}{f' {again + 1}' if again else ''}"
    created = _OPENED + _GROWTH * (id_ / (id_ + 200)) + timedelta(seconds=drawn.below(60))
    campaign = Campaign(
        id=id_,
        account_id=account_id,
        company=company,
        url=f"https://www.{slug(company)}.example",
        created=created.replace(microsecond=0),
        modified=None if drawn.chance(0.25) else later(created, drawn, days=400),
        group_title=drawn.pick(GROUPS),
        ignore_places=drawn.chance(0.2),
    )
    tags: tuple[dict[str, int | str], ...] = tuple(
        {"id": id_ * 10 + number, "label": drawn.pick(TAGS[number::3])} for number in range(3)
    )
    return campaign, Niche(products, home, tags)


def later(moment: datetime, drawn: SeededRandom, days: int) -> datetime:
    """Draw a moment within some days after another."""
    return (moment + timedelta(seconds=drawn.below(days * 86_400))).replace(microsecond=0)


def slug(string: str) -> str:
    """Write a string as a part of an address."""
    plain = unicodedata.normalize("NFKD", string).encode("ascii", "ignore").decode()
    return re.sub("[^a-z0-9]+", "-", plain.lower()).strip("-")


KEYWORDS_PER_CAMPAIGN = 100_000
"""Keyword ids are `campaign id x this + number`, so that a keyword's id tells its campaign."""


class Trend(msgspec.Struct, frozen=True, gc=False):  # hundreds of thousands would slow the garbage collector down
    """The movement of a rank from month to month: a level, and a wave of some height and speed around it."""

    level: int
    swing: int
    speed: int
    phase: int
    best: int


class Keyword(msgspec.Struct, frozen=True, gc=False):
    """The account's data about one keyword; `trends` are None where an engine is not tracked."""

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
    drawn = SeededRandom(mix(key ^ mix(campaign.id + 2**32)))
    return tuple(_make_keyword(campaign, niche, number, drawn) for number in range(1, count + 1))


def _make_keyword(campaign: Campaign, niche: Niche, number: int, drawn: SeededRandom) -> Keyword:
    products = niche.products
    # Every product in every phrasing and every place before anything repeats, without a table of used ones.
    rest, product = divmod(number - 1, len(products))
    rest, phrasing = divmod(rest, len(PHRASINGS))
    again, place = divmod(rest, len(PLACES))
    location = PLACES[(niche.home + place + product + phrasing) % len(PLACES)]
    phrase = PHRASINGS[(phrasing + product) % len(PHRASINGS)].format(
        product=products[product], city=str(location["canonical_name"]).split(",")[0]
    )
    if again:
        phrase = f"{phrase} {again + 1}"
    created = campaign.created + timedelta(seconds=number * 97 + drawn.below(60))
    level = 1 + drawn.skewed(120, 1.8)
    return Keyword(
        id=campaign.id * KEYWORDS_PER_CAMPAIGN + number,
        key=mix(campaign.id * KEYWORDS_PER_CAMPAIGN + number ^ drawn.below(2**53)),
        campaign_id=campaign.id,
        phrase=phrase,
        primary=drawn.chance(0.15),
        created=created,
        modified=later(created, drawn, days=700),
        location=location,
        language=LANGUAGE,
        tags=tuple(tag for tag in niche.tags if drawn.chance(0.3)),
        query=quote(phrase),
        landing_url=f"{campaign.url}/{quote(products[product].replace(' ', '-'))}",
        trends=(
            _make_trend(drawn, level),
            _make_trend(drawn, max(1, level + drawn.below(13) - 6)),
            _make_trend(drawn, drawn.below(16), best=0) if drawn.chance(0.5) else None,
            _make_trend(drawn, max(1, level + drawn.below(41) - 20)) if drawn.chance(0.9) else None,
        ),
        volume_step=drawn.below(len(VOLUMES)),
        competitors=drawn.below(101),
        backlinks=drawn.skewed(400, 3),
        measured=not drawn.chance(0.08),
    )


def _make_trend(drawn: SeededRandom, level: int, best: int = 1) -> Trend:
    return Trend(level=level, swing=drawn.below(12), speed=5 + drawn.below(40), phase=drawn.below(256), best=best)


RESTRICTED = "restricted"

_HIRED = datetime(2014, 1, 6, 9, 15)
_ROLES = (("client", RESTRICTED), ("client", RESTRICTED), ("staff", "all"), ("admin", "all"))


@frozen(kw_only=True)
class User:
    """The account's data about one user."""

    id: int
    account_id: int
    username: str
    first_name: str
    last_name: str
    email: str = ""
    role: str
    campaign_access: str = RESTRICTED
    created: datetime


def make_user(key: int, account_id: int, id_: int) -> User:
    """Make a seeded user; the first is an administrator."""
    drawn = SeededRandom(mix(key ^ mix(id_ + 2**33)))
    # The numbers of first and last names have no common divisor, so all pairs come before one comes again.
    place = id_ - 1 + key % 1000
    first, last = FIRST_NAMES[place % len(FIRST_NAMES)], LAST_NAMES[place % len(LAST_NAMES)]
    again = (id_ - 1) // (len(FIRST_NAMES) * len(LAST_NAMES))
    username = f"{slug(first)}.{slug(last)}{again + 1 if again else ''}"
    role, access = _ROLES[-1] if id_ == 1 else drawn.pick(_ROLES)
    return User(
        id=id_,
        account_id=account_id,
        username=username,
        first_name=first,
        last_name=last,
        email=f"{username}@agency.example",
        role=role,
        campaign_access=access,
        created=_HIRED + timedelta(days=id_ * 5 % 2900, seconds=drawn.below(28_800)),
    )


BACKLINKS_PER_CAMPAIGN = 100_000
"""Ids of seeded backlinks are `campaign id x this + number`; those of created ones come after all of these."""
STATUSES = ("published", "unpublished")


@frozen(kw_only=True)
class Backlink:
    """The account's data about one backlink."""

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
    """Make the backlink of some number of a seeded campaign."""
    id_ = campaign.id * BACKLINKS_PER_CAMPAIGN + number
    drawn = SeededRandom(mix(key ^ mix(id_ + 2**34)))
    product, (site, name) = drawn.pick(niche.products), drawn.pick(SITES)
    published = campaign.created.date() + timedelta(days=drawn.below(900))
    authority = 5 + drawn.skewed(90, 1.5)
    return Backlink(
        id=id_,
        campaign_id=campaign.id,
        title=f"{product[0].upper()}{product[1:]}: {name}",
        status=STATUSES[drawn.chance(0.25)],
        created=published - timedelta(days=drawn.below(20)),
        published=published,
        url=f"https://{site}.example/{slug(product) or 'post'}-{number}",
        link_type=drawn.pick(LINK_TYPES),
        target_anchor=product if drawn.chance(0.7) else campaign.company,
        target_url=campaign.url,
        notes="Agreed by e-mail, check again in a year" if drawn.chance(0.3) else "",
        domain_authority=authority,
        page_authority=max(1, authority - drawn.below(15)),
    )
