"""The account: seeded campaigns, keywords, users and backlinks, with the changes since.

The same key gives the same records on every machine and Python: they depend on it and on their own id alone, neither on
the order of requests nor on the number of others. Only seeded campaigns have keywords. Keywords and rankings are facts
of the past: changing a campaign's address does not change them. No password is stored.
"""

import itertools
import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Any, TypeVar, overload
from urllib.parse import quote

import msgspec

from seorep_async.sandbox import vocabulary as words

T = TypeVar("T")
Record = dict[str, Any]
"""A record in the service's own words, with the fields of all responses."""

IDS_PER_CAMPAIGN = 100_000
"""Ids of keywords and seeded backlinks are `campaign id x this + number`; created backlinks come after all of these."""
MOST_CAMPAIGNS = 2**31 // IDS_PER_CAMPAIGN - 1

NEW_CAMPAIGN: Record = {
    "scope": "domain",
    "type": "real",
    "status": "active",
    "engineA_ignore_places": "false",
}

_CACHED_KEYWORDS = 50_000
_CACHED_RECORDS = 20_000
_64_BITS = 2**64 - 1
_OPENED = datetime(2014, 1, 6, 8, 30)
_GROWTH = timedelta(days=2900)


def mix(key: int) -> int:
    """Return a random 64-bit number for a key: the finaliser of splitmix64."""
    key = (key + 0x9E3779B97F4A7C15) & _64_BITS
    key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
    key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & _64_BITS
    return key ^ (key >> 31)


class SeededRandom(random.Random):
    """A stream of draws from one key.

    Only `random()` is used: Python promises for it alone that later versions give the same numbers.
    """

    def below(self, bound: int) -> int:
        """Draw an integer in 0..bound-1."""
        return int(self.random() * bound)

    def chance(self, share: float) -> bool:
        """Return True in this share (0 to 1) of the draws."""
        return self.random() < share

    def skewed(self, bound: int, power: float) -> int:
        """Draw an integer in 0..bound-1, the smaller ones more often the higher the power."""
        return int(self.random() ** power * bound)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]


def moment(when: datetime) -> str:
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


class Keyword(
    msgspec.Struct, frozen=True, gc=False
):  # else hundreds of thousands slow the garbage collector down
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
    first, last = (
        words.FIRST_NAMES[place % len(words.FIRST_NAMES)],
        words.LAST_NAMES[place % len(words.LAST_NAMES)],
    )
    again = (id_ - 1) // (len(words.FIRST_NAMES) * len(words.LAST_NAMES))
    username = f"{slug(first)}.{slug(last)}{again + 1 if again else ''}"
    role, access = _ROLES[-1] if id_ == 1 else drawn.pick(_ROLES)
    return {
        "id": id_, "date_created": moment(_HIRED + timedelta(days=id_ * 5 % 2900, seconds=drawn.below(28_800))),
        "email": f"{username}@agency.example", "username": username, "first_name": first, "last_name": last,
        "role": role, "campaign_access": access, "account_id": account_id,
    }  # fmt: skip


def make_backlink(key: int, campaigns: "Records", count: int, id_: int) -> Record | None:
    """Make one of a number of backlinks of a seeded campaign, or return None if it has none with this id."""
    campaign_id, number = divmod(id_, IDS_PER_CAMPAIGN)
    campaign = campaigns.made(campaign_id)
    if not campaign or not 1 <= number <= count:
        return None
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


class Records:
    """Records of one kind: those with the `seeded` ids, made on demand, and those written since, of other ids."""

    def __init__(self, make: Callable[[int], Record | None], seeded: range) -> None:
        self.seeded = seeded
        self.made: Callable[[int], Record | None] = lru_cache(_CACHED_RECORDS)(make)
        self._next_id = seeded.stop
        self._written: dict[int, Record | None] = {}

    def get(self, id_: int) -> Record | None:
        """Return a record, or None if there is none with this id."""
        if id_ in self._written:
            return self._written[id_]
        return self.made(id_) if id_ in self.seeded else None

    def ids(self, seeded: Sequence[int] | None = None) -> Sequence[int]:
        """Return the seeded ids, or some of them, that remain, then the added ones, oldest first."""
        every = self.seeded if seeded is None else seeded
        if not self._written:
            return every  # a range of any length takes no memory
        added = [id_ for id_ in self._written if id_ not in self.seeded]
        return [id_ for id_ in (*every, *added) if self._written.get(id_, {}) is not None]

    def add(self, record: Record) -> Record:
        """Add a record under a new id; an id is never used twice."""
        self._next_id += 1
        return self.put(record | {"id": self._next_id - 1})

    def put(self, record: Record) -> Record:
        """Replace the record with the same id."""
        self._written[record["id"]] = record
        return record

    def remove(self, id_: int) -> None:
        self._written[id_] = None


class KeywordIds(Sequence[int]):
    """The ids of all keywords of some campaigns, which take no memory: there may be 2 billion."""

    def __init__(self, campaign_ids: Sequence[int], keywords: int) -> None:
        self._campaign_ids = campaign_ids
        self._keywords = keywords

    def __len__(self) -> int:
        return len(self._campaign_ids) * self._keywords

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        positions = range(len(self))[index]
        if isinstance(positions, range):
            return [self._id_at(position) for position in positions]
        return self._id_at(positions)

    def _id_at(self, position: int) -> int:
        campaign, keyword = divmod(position, self._keywords)
        return self._campaign_ids[campaign] * IDS_PER_CAMPAIGN + keyword + 1


class Account:
    """One account; the same seed, any integer, makes the same account.

    Campaigns and users have the ids from 1 to their number. `keywords` and `backlinks` are numbers per campaign.
    """

    def __init__(
        self, seed: int, campaigns: int, keywords: int, users: int = 0, backlinks: int = 0
    ) -> None:
        self.key: int = mix(seed)
        self.account_id: int = 1000 + mix(self.key) % 9000
        self._keywords, self._backlinks = keywords, backlinks
        self._tokens = itertools.count(2**35 + 1)
        self._made_keywords = lru_cache(max(1, _CACHED_KEYWORDS // (keywords + 1)))(
            lambda campaign_id: make_keywords(
                self.key, self.campaigns.made(campaign_id) or {}, keywords
            )
        )
        own = self.key, self.account_id
        self.campaigns: Records = Records(partial(make_campaign, *own), range(1, campaigns + 1))
        self.users: Records = Records(partial(make_user, *own), range(1, users + 1))
        backlink_ids = range(IDS_PER_CAMPAIGN, (campaigns + 1) * IDS_PER_CAMPAIGN)
        self.backlinks: Records = Records(
            partial(make_backlink, self.key, self.campaigns, backlinks), backlink_ids
        )
        self.records: dict[str, Records] = {
            "campaign": self.campaigns,
            "user": self.users,
            "backlink": self.backlinks,
        }

    def keyword_ids(self, campaign_id: int | None = None) -> Sequence[int]:
        """Return the ids of one campaign's keywords, or of all, oldest campaign first."""
        if campaign_id is None:
            seeded = self.campaigns.seeded
            remaining = [id_ for id_ in self.campaigns.ids() if id_ in seeded]
            return KeywordIds(remaining, self._keywords)
        if campaign_id not in self.campaigns.seeded or self.campaigns.get(campaign_id) is None:
            return []
        first = campaign_id * IDS_PER_CAMPAIGN + 1
        return range(first, first + self._keywords)

    def keywords(self, campaign_id: int) -> tuple[Keyword, ...]:
        """Return all keywords of a campaign in the order of their ids."""
        return self._made_keywords(campaign_id) if self.keyword_ids(campaign_id) else ()

    def keyword(self, keyword_id: int) -> Keyword | None:
        """Return a keyword, or None if there is none with this id."""
        campaign_id, number = divmod(keyword_id, IDS_PER_CAMPAIGN)
        return (
            self.keywords(campaign_id)[number - 1]
            if keyword_id in self.keyword_ids(campaign_id)
            else None
        )

    def backlink_ids(self, campaign_id: int) -> Sequence[int]:
        """Return the ids of a campaign's backlinks, oldest first."""
        first = campaign_id * IDS_PER_CAMPAIGN + 1
        seeded = (
            range(first, first + self._backlinks) if campaign_id in self.campaigns.seeded else ()
        )
        found = ((id_, self.backlinks.get(id_)) for id_ in self.backlinks.ids(seeded))
        return [
            id_ for id_, backlink in found if backlink and backlink["campaign_id"] == campaign_id
        ]

    def token(self) -> str:
        """Return a token that was never given before."""
        half = mix(self.key ^ mix(next(self._tokens)))
        return f"{half:016x}{mix(half):016x}"
