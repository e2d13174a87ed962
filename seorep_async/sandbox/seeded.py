"""Seeded campaigns, keywords, users and backlinks, each made from the account's key and its own id.

The same key gives the same records on every machine and Python. Only seeded campaigns have keywords, and these never
change. No password is stored.
"""

import random
import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from seorep_async.sandbox import vocabulary as words

T = TypeVar("T")
Record = dict[str, Any]
"""A record in the service's own words, with the fields of all responses."""

IDS_PER_CAMPAIGN = 100_000
"""Ids of keywords and seeded backlinks are `campaign id x this + number`; created backlinks come after all of these."""

NEW_CAMPAIGN: Record = {"scope": "domain", "type": "real", "status": "active", "engineA_ignore_places": "false"}

_64_BITS = 2**64 - 1
_OPENED = datetime(2014, 1, 6, 8, 30)
_GROWTH = timedelta(days=2900)


def mix(key: int) -> int:
    """Return a random 64-bit number for a key: the finaliser of splitmix64."""
    key = (key + 0x9E3779B97F4A7C15) & _64_BITS
    key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
    key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & _64_BITS
    return key ^ (key >> 31)


class SeededRandom:
    """A stream of draws from one key.

    Only `random()` is used: Python promises for it alone that later versions give the same numbers.
    """

    def __init__(self, key: int) -> None:
        self._random = random.Random(key).random

    def below(self, bound: int) -> int:
        """Draw an integer in 0..bound-1."""
        return int(self._random() * bound)

    def chance(self, share: float) -> bool:
        """Return True in this share (0 to 1) of the draws."""
        return self._random() < share

    def skewed(self, bound: int, power: float) -> int:
        """Draw an integer in 0..bound-1, the smaller ones more often the higher the power."""
        return int(self._random() ** power * bound)

    def pick(self, options: Sequence[T]) -> T:
        """Draw one of the options."""
        return options[self.below(len(options))]


def moment(when: datetime) -> str:
    """Write a moment in the service's format."""
    return when.isoformat(" ", "seconds")


def make_campaign(key: int, account_id: int, id_: int) -> Record:
    """Make a seeded campaign; fields that no response shows are what its keywords and backlinks are made of."""
    drawn = SeededRandom(mix(key ^ id_))
    trade, products = drawn.pick(words.TRADES)
    home = drawn.below(len(words.PLACES))  # number of its first place
    # Each name comes once with each suffix, then with a number: companies and their addresses are unique.
    lap, place = divmod(id_ - 1, len(words.NAMES))
    name = words.NAMES[(place * 7 + key) % len(words.NAMES)]
    again, suffix = divmod(lap, len(words.SUFFIXES))
    company = f"{name} {trade}{words.SUFFIXES[suffix]}{f' {again + 1}' if again else ''}"
    opened = _OPENED + _GROWTH * (id_ / (id_ + 200)) + timedelta(seconds=drawn.below(60))
    return NEW_CAMPAIGN | {
        "id": id_, "company": company, "url": f"https://www.{slug(company)}.example", "account_id": account_id,
        "date_created": moment(opened),
        "date_modified": None if drawn.chance(0.25) else moment(_later(opened, drawn, days=400)),
        "group_title": drawn.pick(words.GROUPS), "engineA_ignore_places": str(drawn.chance(0.2)).lower(),
        "products": products, "home": home, "opened": opened.replace(microsecond=0),
        "tags": tuple({"id": id_ * 10 + number, "label": drawn.pick(words.TAGS[number::3])} for number in range(3)),
    }  # fmt: skip


def slug(string: str) -> str:
    """Write a string as a part of an address."""
    plain = unicodedata.normalize("NFKD", string).encode("ascii", "ignore").decode()
    return re.sub("[^a-z0-9]+", "-", plain.lower()).strip("-")


def _later(than: datetime, drawn: SeededRandom, days: int) -> datetime:
    return (than + timedelta(seconds=drawn.below(days * 86_400))).replace(microsecond=0)


Trend = tuple[int, int, int, int, int]
"""The movement of a rank from month to month: a level, a wave around it (height, speed, phase), and the best rank."""


class Keyword(msgspec.Struct, frozen=True, gc=False):  # else hundreds of thousands slow the garbage collector down
    """The account's data about one keyword; `trends` are None where an engine is not tracked."""

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
    trends: tuple[Trend | None, Trend | None, Trend | None, Trend | None]
    volume_step: int
    competitors: int
    backlinks: int
    measured: bool


def make_keywords(key: int, campaign: Record, count: int) -> tuple[Keyword, ...]:
    drawn = SeededRandom(mix(key ^ mix(campaign["id"] + 2**32)))
    return tuple(_make_keyword(campaign, number, drawn) for number in range(1, count + 1))


def _make_keyword(campaign: Record, number: int, drawn: SeededRandom) -> Keyword:
    id_, products = campaign["id"] * IDS_PER_CAMPAIGN + number, campaign["products"]
    # Every product in every phrasing and every place before anything repeats, without a table of used ones.
    rest, product = divmod(number - 1, len(products))
    rest, phrasing = divmod(rest, len(words.PHRASINGS))
    again, place = divmod(rest, len(words.PLACES))
    location = words.PLACES[(campaign["home"] + place + product + phrasing) % len(words.PLACES)]
    phrase = words.PHRASINGS[(phrasing + product) % len(words.PHRASINGS)].format(
        product=products[product], city=str(location["canonical_name"]).split(",")[0]
    )
    phrase += f" {again + 1}" if again else ""
    created = campaign["opened"] + timedelta(seconds=number * 97 + drawn.below(60))
    level = 1 + drawn.skewed(120, 1.8)
    return Keyword(
        id=id_, key=mix(id_ ^ drawn.below(2**53)), campaign_id=campaign["id"], phrase=phrase,
        primary=drawn.chance(0.15), created=created, modified=_later(created, drawn, days=700), location=location,
        tags=tuple(tag for tag in campaign["tags"] if drawn.chance(0.3)),
        landing_url=f"{campaign['url']}/{quote(products[product].replace(' ', '-'))}",
        trends=(
            _make_trend(drawn, level),
            _make_trend(drawn, max(1, level + drawn.below(13) - 6)),
            _make_trend(drawn, drawn.below(16), best=0) if drawn.chance(0.5) else None,
            _make_trend(drawn, max(1, level + drawn.below(41) - 20)) if drawn.chance(0.9) else None,
        ),
        volume_step=drawn.below(len(words.SEARCH_VOLUMES)), competitors=drawn.below(101),
        backlinks=drawn.skewed(400, 3), measured=not drawn.chance(0.08),
    )  # fmt: skip


def _make_trend(drawn: SeededRandom, level: int, best: int = 1) -> Trend:
    return level, drawn.below(12), 5 + drawn.below(40), drawn.below(256), best


RESTRICTED = "restricted"
STATUSES = ("published", "unpublished")

_HIRED = datetime(2014, 1, 6, 9, 15)
_ROLES = (("client", RESTRICTED), ("client", RESTRICTED), ("staff", "all"), ("admin", "all"))


def make_user(key: int, account_id: int, id_: int) -> Record:
    """Make a seeded user; the first is an administrator."""
    drawn = SeededRandom(mix(key ^ mix(id_ + 2**33)))
    # The numbers of first and last names have no common divisor, so all pairs come before one comes again.
    place = id_ - 1 + key % 1000
    first, last = words.FIRST_NAMES[place % len(words.FIRST_NAMES)], words.LAST_NAMES[place % len(words.LAST_NAMES)]
    again = (id_ - 1) // (len(words.FIRST_NAMES) * len(words.LAST_NAMES))
    username = f"{slug(first)}.{slug(last)}{again + 1 if again else ''}"
    role, access = _ROLES[-1] if id_ == 1 else drawn.pick(_ROLES)
    return {
        "id": id_, "date_created": moment(_HIRED + timedelta(days=id_ * 5 % 2900, seconds=drawn.below(28_800))),
        "email": f"{username}@agency.example", "username": username, "first_name": first, "last_name": last,
        "role": role, "campaign_access": access, "account_id": account_id,
    }  # fmt: skip


def make_backlink(key: int, campaign: Record, number: int) -> Record:
    """Make the backlink of some number of a seeded campaign."""
    id_ = campaign["id"] * IDS_PER_CAMPAIGN + number
    drawn = SeededRandom(mix(key ^ mix(id_ + 2**34)))
    product, (site, name) = drawn.pick(campaign["products"]), drawn.pick(words.SITES)
    published = campaign["opened"].date() + timedelta(days=drawn.below(900))
    authority = 5 + drawn.skewed(90, 1.5)
    return {
        "id": id_, "campaign_id": campaign["id"], "title": f"{product[0].upper()}{product[1:]}: {name}",
        "status": STATUSES[drawn.chance(0.25)], "date_published": published.isoformat(),
        "date_created": (published - timedelta(days=drawn.below(20))).isoformat(),
        "url": f"https://{site}.example/{slug(product) or 'post'}-{number}", "link_type": drawn.pick(words.LINK_TYPES),
        "target_anchor": product if drawn.chance(0.7) else campaign["company"], "target_url": campaign["url"],
        "notes": "Agreed by e-mail, check again in a year" if drawn.chance(0.3) else "",
        "domain_authority": authority, "page_authority": max(1, authority - drawn.below(15)),
    }  # fmt: skip
