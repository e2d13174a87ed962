"""Seeded records: campaigns, keywords, users and backlinks, each made from a key and its id.

The same key gives the same records on every machine and Python. A record depends on nothing else:
neither on the order of requests nor on the number of other records.
"""

import random
import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from seorep_async.sandbox import vocabulary

T = TypeVar("T")
RecordData = dict[str, Any]
"""A record with the fields of all responses, under the service's names."""

IDS_PER_CAMPAIGN = 100_000
"""The ids of keywords and seeded backlinks are `campaign id x this + number`."""
RESTRICTED = "restricted"
STATUSES = ("published", "unpublished")
NEW_CAMPAIGN: RecordData = {
    "scope": "domain",
    "type": "real",
    "status": "active",
    "engineA_ignore_places": "false",
}

_64_BITS = 2**64 - 1
_OPENED = datetime(2014, 1, 6, 8, 30)
"""No campaign was created earlier."""
_GROWTH = timedelta(days=2900)
"""All campaigns were created within this time after `_OPENED`."""
_HIRED = datetime(2014, 1, 6, 9, 15)
"""No user was created earlier."""
_ROLES = (("client", RESTRICTED), ("client", RESTRICTED), ("staff", "all"), ("admin", "all"))
"""The roles of users, each with its access to campaigns. The first user has the last one."""


def mix(key: int) -> int:
    """Return a random 64-bit number for a key. This is the finaliser of splitmix64."""
    key = (key + 0x9E3779B97F4A7C15) & _64_BITS
    key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
    key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & _64_BITS
    return key ^ (key >> 31)


class SeededRandom(random.Random):
    """A stream of draws from one key.

    Only `random()` is used: Python promises for it alone that later versions give the same
    numbers.
    """

    def below(self, bound: int) -> int:
        """Draw an integer from 0 to bound - 1."""
        return int(self.random() * bound)

    def chance(self, share: float) -> bool:
        """Return True in this share (0 to 1) of the draws."""
        return self.random() < share

    def skewed(self, bound: int, power: float) -> int:
        """Draw an integer from 0 to bound - 1; a higher power prefers smaller numbers."""
        return int(self.random() ** power * bound)

    def pick(self, options: Sequence[T]) -> T:
        """Draw one of some options."""
        return options[self.below(len(options))]

    def later(self, moment: datetime, days: int) -> datetime:
        """Draw a moment, to the second, within some days after another."""
        later = moment + timedelta(seconds=self.below(days * 86_400))
        return later.replace(microsecond=0)


def as_text(moment: datetime) -> str:
    """Write a date and time as the service does."""
    return moment.isoformat(" ", "seconds")


def slug(string: str) -> str:
    """Write a string as a part of an address."""
    ascii_letters = unicodedata.normalize("NFKD", string).encode("ascii", "ignore").decode()
    return re.sub("[^a-z0-9]+", "-", ascii_letters.lower()).strip("-")


def make_campaign(key: int, account_id: int, campaign_id: int) -> RecordData:
    """Make a seeded campaign.

    `products`, `home`, `opened` and `tags` are in no response. Its keywords and backlinks are made
    from them.
    """
    drawn = SeededRandom(mix(key ^ campaign_id))
    trade, products = drawn.pick(vocabulary.TRADES)
    home = drawn.below(len(vocabulary.PLACES))  # the number of its first place
    company = _company_name(key, campaign_id, trade)
    # Dates of creation rise with the ids, and are within _GROWTH for any number of campaigns.
    opened = _OPENED + _GROWTH * (campaign_id / (campaign_id + 200))
    opened += timedelta(seconds=drawn.below(60))
    date_modified = None
    if not drawn.chance(0.25):
        date_modified = as_text(drawn.later(opened, days=400))
    group_title = drawn.pick(vocabulary.GROUPS)
    ignore_places = str(drawn.chance(0.2)).lower()
    tags = []
    for number in range(3):
        # from separate parts of the list, so that the three differ
        label = drawn.pick(vocabulary.TAGS[number::3])
        tags.append({"id": campaign_id * 10 + number, "label": label})
    return {
        **NEW_CAMPAIGN,
        "id": campaign_id,
        "company": company,
        "url": f"https://www.{slug(company)}.example",
        "account_id": account_id,
        "date_created": as_text(opened),
        "date_modified": date_modified,
        "group_title": group_title,
        "engineA_ignore_places": ignore_places,
        "products": products,
        "home": home,
        "opened": opened.replace(microsecond=0),
        "tags": tuple(tags),
    }


def _company_name(key: int, campaign_id: int, trade: str) -> str:
    """Return the name of a campaign's company, which no other campaign has."""
    # The names are used lap by lap, in steps of 7. A lap uses each name once, because their number
    # is not a multiple of 7. Laps differ in the suffix, and later also in a number, so companies
    # and their addresses are unique.
    lap, index = divmod(campaign_id - 1, len(vocabulary.NAMES))
    name = vocabulary.NAMES[(index * 7 + key) % len(vocabulary.NAMES)]
    repetition, suffix = divmod(lap, len(vocabulary.SUFFIXES))
    company = f"{name} {trade}{vocabulary.SUFFIXES[suffix]}"
    if repetition:
        company += f" {repetition + 1}"
    return company


class Trend(msgspec.Struct, frozen=True, gc=False):
    """The movement of a rank. It is a wave around `level`, and never better than `best`."""

    level: int
    swing: int
    speed: int
    phase: int
    best: int


class SeededKeyword(msgspec.Struct, frozen=True, gc=False):
    """The account's data about one keyword.

    A trend is None where an engine is not tracked. The class is outside the garbage collector,
    which hundreds of thousands of keywords would slow down.
    """

    id: int
    key: int
    campaign_id: int
    phrase: str
    primary: bool
    created: datetime
    modified: datetime
    location: dict[str, int | str]
    tags: tuple[dict[str, int | str], ...]
    landing_url: str
    trends: tuple[Trend, Trend, Trend | None, Trend | None]
    volume_step: int
    competitors: int
    backlinks: int
    measured: bool


def make_keywords(key: int, campaign: RecordData, count: int) -> tuple[SeededKeyword, ...]:
    """Make the keywords of a seeded campaign, in the order of their ids."""
    drawn = SeededRandom(mix(key ^ mix(campaign["id"] + 2**32)))
    return tuple(_make_keyword(campaign, number, drawn) for number in range(1, count + 1))


def _make_keyword(campaign: RecordData, number: int, drawn: SeededRandom) -> SeededKeyword:
    """Make the keyword with this number from the next draws."""
    keyword_id = campaign["id"] * IDS_PER_CAMPAIGN + number
    product, location, phrase = _phrase_of(campaign, number)
    landing_page = quote(product.replace(" ", "-"))
    # The order of the draws is a promise: another order would be another account.
    created = campaign["opened"] + timedelta(seconds=number * 97 + drawn.below(60))
    level = 1 + drawn.skewed(120, 1.8)
    key = mix(keyword_id ^ drawn.below(2**53))
    primary = drawn.chance(0.15)
    modified = drawn.later(created, days=700)
    tags = tuple(tag for tag in campaign["tags"] if drawn.chance(0.3))
    desktop = _make_trend(drawn, level)
    # a level is a rank, and so 1 or more
    mobile_level = max(1, level + drawn.below(13) - 6)
    mobile = _make_trend(drawn, mobile_level)
    places = None
    if drawn.chance(0.5):
        places = _make_trend(drawn, drawn.below(16), best=0)
    engine_b = None
    if drawn.chance(0.9):
        engine_b_level = max(1, level + drawn.below(41) - 20)
        engine_b = _make_trend(drawn, engine_b_level)
    volume_step = drawn.below(len(vocabulary.SEARCH_VOLUMES))
    competitors = drawn.below(101)
    backlinks = drawn.skewed(400, 3)
    measured = not drawn.chance(0.08)
    # the order of the fields; names would slow down an account of many keywords
    return SeededKeyword(
        keyword_id,
        key,
        campaign["id"],
        phrase,
        primary,
        created,
        modified,
        location,
        tags,
        f"{campaign['url']}/{landing_page}",
        (desktop, mobile, places, engine_b),
        volume_step,
        competitors,
        backlinks,
        measured,
    )


def _phrase_of(campaign: RecordData, number: int) -> tuple[str, dict[str, int | str], str]:
    """Return the product, the place and the phrase of a keyword."""
    # The number is split so that every product has every phrasing and place before one repeats.
    products = campaign["products"]
    rest, product = divmod(number - 1, len(products))
    rest, phrasing = divmod(rest, len(vocabulary.PHRASINGS))
    repetition, place = divmod(rest, len(vocabulary.PLACES))
    # Neighbouring keywords get different places and phrasings.
    place += campaign["home"] + product + phrasing
    location = vocabulary.PLACES[place % len(vocabulary.PLACES)]
    city = str(location["canonical_name"]).split(",")[0]
    pattern = vocabulary.PHRASINGS[(phrasing + product) % len(vocabulary.PHRASINGS)]
    phrase = pattern.format(product=products[product], city=city)
    if repetition:
        phrase += f" {repetition + 1}"
    return products[product], location, phrase


def _make_trend(drawn: SeededRandom, level: int, best: int = 1) -> Trend:
    """Draw the wave around a level."""
    swing = drawn.below(12)
    speed = 5 + drawn.below(40)
    phase = drawn.below(256)
    return Trend(level, swing, speed, phase, best)


def make_user(key: int, account_id: int, user_id: int) -> RecordData:
    """Make a seeded user; the first is an administrator."""
    drawn = SeededRandom(mix(key ^ mix(user_id + 2**33)))
    # The numbers of first and last names have no common divisor, so all pairs come before one
    # comes again.
    index = user_id - 1 + key % 1000
    first_names = vocabulary.FIRST_NAMES
    last_names = vocabulary.LAST_NAMES
    first_name = first_names[index % len(first_names)]
    last_name = last_names[index % len(last_names)]
    username = f"{slug(first_name)}.{slug(last_name)}"
    pairs = len(first_names) * len(last_names)
    repetition = (user_id - 1) // pairs
    if repetition:
        username += f"{repetition + 1}"
    role, access = _ROLES[-1]
    if user_id > 1:
        role, access = drawn.pick(_ROLES)
    # hired five days apart within eight years, each at a time within eight hours
    days = user_id * 5 % 2900
    hired = _HIRED + timedelta(days=days, seconds=drawn.below(28_800))
    return {
        "id": user_id,
        "date_created": as_text(hired),
        "email": f"{username}@agency.example",
        "username": username,
        "first_name": first_name,
        "last_name": last_name,
        "role": role,
        "campaign_access": access,
        "account_id": account_id,
    }


def make_backlink(key: int, campaign: RecordData, backlink_id: int) -> RecordData:
    """Make a seeded backlink of a seeded campaign."""
    number = backlink_id % IDS_PER_CAMPAIGN
    drawn = SeededRandom(mix(key ^ mix(backlink_id + 2**34)))
    product = drawn.pick(campaign["products"])
    site, post = drawn.pick(vocabulary.SITES)
    # The order of the draws is a promise here as well.
    published = campaign["opened"].date() + timedelta(days=drawn.below(900))
    authority = 5 + drawn.skewed(90, 1.5)
    status = "unpublished" if drawn.chance(0.25) else "published"
    created = published - timedelta(days=drawn.below(20))
    link_type = drawn.pick(vocabulary.LINK_TYPES)
    target_anchor = campaign["company"]
    if drawn.chance(0.7):
        target_anchor = product
    notes = ""
    if drawn.chance(0.3):
        notes = "Agreed by e-mail, check again in a year"
    # a page is worth no more than its site; 1 is the lowest authority
    page_authority = max(1, authority - drawn.below(15))
    page_name = slug(product) or "post"
    return {
        "id": backlink_id,
        "campaign_id": campaign["id"],
        "title": f"{product[0].upper()}{product[1:]}: {post}",
        "status": status,
        "date_published": published.isoformat(),
        "date_created": created.isoformat(),
        "url": f"https://{site}.example/{page_name}-{number}",
        "link_type": link_type,
        "target_anchor": target_anchor,
        "target_url": campaign["url"],
        "notes": notes,
        "domain_authority": authority,
        "page_authority": page_authority,
    }
