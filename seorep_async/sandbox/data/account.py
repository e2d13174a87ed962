"""The account: seeded campaigns, keywords, users and backlinks, with the changes since.

Seeded objects depend on the seed and on their own id alone: neither on the order of requests nor on the number of
others. Keywords and rankings are facts of the past: changing a campaign's address does not change them.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from seorep_async.sandbox.data.seeded import (
    BACKLINKS_PER_CAMPAIGN,
    KEYWORDS_PER_CAMPAIGN,
    Backlink,
    Campaign,
    Keyword,
    Niche,
    User,
    make_backlink,
    make_campaign,
    make_keywords,
    make_user,
)
from seorep_async.sandbox.data.seeding import mix

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """A cache that drops the least recently used values, but never the newest, if their weights exceed `capacity`."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._weight = 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """Return the value stored under a key, or None."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def store(self, key: K, value: V, weight: int = 1) -> V:
        """Store a new value, and return it."""
        self._values[key] = (value, weight)
        self._weight += weight
        while self._weight > self._capacity and len(self._values) > 1:
            _, (_, dropped) = self._values.popitem(last=False)
            self._weight -= dropped
        return value


T = TypeVar("T")


class Records(Generic[T]):
    """Records of one kind: seeded ones, made on demand, and those written since. An id is never used twice.

    Args:
        is_seeded: returns whether a record of this id is in the seeded account.
        make: makes it.
        first_new_id: the id of the first added record, above all seeded ones.
        cached: the number of seeded records to cache.
    """

    def __init__(
        self, is_seeded: Callable[[int], bool], make: Callable[[int], T], *, first_new_id: int, cached: int
    ) -> None:
        self._is_seeded = is_seeded
        self._make = make
        self._first_new_id = self._next_id = first_new_id
        self._made: LruCache[int, T] = LruCache(cached)
        self._written: dict[int, T | None] = {}
        self.writes: int = 0

    def get(self, id_: int) -> T | None:
        """Return a record, or None if there is none with this id."""
        if id_ in self._written:
            return self._written[id_]
        if not self._is_seeded(id_):
            return None
        made = self._made.get(id_)
        return self._made.store(id_, self._make(id_)) if made is None else made

    def present(self, seeded: Sequence[int]) -> Sequence[int]:
        """Return the seeded ids that remain, then the added ones, oldest first."""
        if not self._written:
            return seeded
        removed = {id_ for id_, record in self._written.items() if record is None}
        added = [id_ for id_ in self._written if id_ >= self._first_new_id]
        return [id_ for id_ in (*seeded, *added) if id_ not in removed]

    def add(self, build: Callable[[int], T]) -> T:
        """Add the record built for a new id."""
        id_ = self._next_id
        self._next_id += 1
        return self.put(id_, build(id_))

    def put(self, id_: int, record: T) -> T:
        """Replace the record with this id."""
        self._written[id_] = record
        self.writes += 1
        return record

    def remove(self, id_: int) -> None:
        """Remove the record with this id."""
        self._written[id_] = None
        self.writes += 1


MOST_CAMPAIGNS = 2**31 // KEYWORDS_PER_CAMPAIGN - 1

_CACHED_KEYWORDS = 50_000
_CACHED_RECORDS = 20_000


class Account:
    """One account; the same seed, any integer, makes the same account.

    Campaigns and users have the ids from 1 to their number. `keywords` and `backlinks` are numbers per campaign.
    """

    def __init__(self, seed: int, campaigns: int, keywords: int, users: int = 0, backlinks: int = 0) -> None:
        self.key: int = mix(seed)
        self.account_id: int = 1000 + mix(self.key) % 9000
        self._seeded_campaigns = range(1, campaigns + 1)
        self._seeded_users = range(1, users + 1)
        self._keyword_numbers = range(1, keywords + 1)
        self._backlink_numbers = range(1, backlinks + 1)
        self._made_campaigns: LruCache[int, tuple[Campaign, Niche]] = LruCache(_CACHED_RECORDS)
        self._made_keywords: LruCache[int, tuple[Keyword, ...]] = LruCache(_CACHED_KEYWORDS)
        self._tokens = 0
        self.campaigns: Records[Campaign] = Records(
            self._seeded_campaigns.__contains__,
            lambda id_: self._seeded(id_)[0],
            first_new_id=campaigns + 1,
            cached=_CACHED_RECORDS,
        )
        self.users: Records[User] = Records(
            self._seeded_users.__contains__,
            lambda id_: make_user(self.key, self.account_id, id_),
            first_new_id=users + 1,
            cached=_CACHED_RECORDS,
        )
        self.backlinks: Records[Backlink] = Records(
            self._is_seeded_backlink,
            self._make_backlink,
            first_new_id=(campaigns + 1) * BACKLINKS_PER_CAMPAIGN,
            cached=_CACHED_RECORDS,
        )

    @property
    def writes(self) -> int:
        """The number of writes so far: as long as it stays the same, so does everything else."""
        return self.campaigns.writes + self.users.writes + self.backlinks.writes

    def campaign_ids(self) -> Sequence[int]:
        """Return the ids of all campaigns, oldest first."""
        return self.campaigns.present(self._seeded_campaigns)

    def user_ids(self) -> Sequence[int]:
        """Return the ids of all users, oldest first."""
        return self.users.present(self._seeded_users)

    def user_named(self, username: str) -> User | None:
        """Return the user with a username, or None."""
        users = (self.users.get(id_) for id_ in self.user_ids())
        return next((user for user in users if user and user.username == username), None)

    def keyword_ids(self, campaign_id: int | None = None) -> Sequence[int]:
        """Return the ids of one campaign's keywords, or of all, oldest campaign first."""
        if campaign_id is None:
            return [id_ for one in self.campaign_ids() for id_ in self.keyword_ids(one)]
        if campaign_id not in self._seeded_campaigns or self.campaigns.get(campaign_id) is None:
            return []
        first = campaign_id * KEYWORDS_PER_CAMPAIGN + 1
        return range(first, first + len(self._keyword_numbers))

    def keywords(self, campaign_id: int) -> tuple[Keyword, ...]:
        """Return all keywords of a campaign in the order of their ids."""
        if not self.keyword_ids(campaign_id):
            return ()
        cached = self._made_keywords.get(campaign_id)
        if cached is None:
            made = make_keywords(self.key, *self._seeded(campaign_id), len(self._keyword_numbers))
            cached = self._made_keywords.store(campaign_id, made, weight=len(made) + 1)
        return cached

    def keyword(self, keyword_id: int) -> Keyword | None:
        """Return a keyword, or None if there is none with this id."""
        campaign_id, number = divmod(keyword_id, KEYWORDS_PER_CAMPAIGN)
        if number not in self._keyword_numbers or not self.keyword_ids(campaign_id):
            return None
        return self.keywords(campaign_id)[number - 1]

    def backlink_ids(self, campaign_id: int) -> Sequence[int]:
        """Return the ids of a campaign's backlinks, oldest first."""
        first = campaign_id * BACKLINKS_PER_CAMPAIGN + 1
        seeded = range(first, first + len(self._backlink_numbers)) if campaign_id in self._seeded_campaigns else ()
        found = ((id_, self.backlink(id_)) for id_ in self.backlinks.present(seeded))
        return [id_ for id_, backlink in found if backlink and backlink.campaign_id == campaign_id]

    def backlink(self, backlink_id: int) -> Backlink | None:
        """Return a backlink, or None if there is none with this id; it goes with its campaign."""
        found = self.backlinks.get(backlink_id)
        return found if found and self.campaigns.get(found.campaign_id) else None

    def token(self) -> str:
        """Return a token that was never given before."""
        self._tokens += 1
        half = mix(self.key ^ mix(self._tokens + 2**35))
        return f"{half:016x}{mix(half):016x}"

    def _seeded(self, campaign_id: int) -> tuple[Campaign, Niche]:
        cached = self._made_campaigns.get(campaign_id)
        return cached or self._made_campaigns.store(campaign_id, make_campaign(self.key, self.account_id, campaign_id))

    def _is_seeded_backlink(self, id_: int) -> bool:
        campaign_id, number = divmod(id_, BACKLINKS_PER_CAMPAIGN)
        return campaign_id in self._seeded_campaigns and number in self._backlink_numbers

    def _make_backlink(self, id_: int) -> Backlink:
        campaign_id, number = divmod(id_, BACKLINKS_PER_CAMPAIGN)
        return make_backlink(self.key, *self._seeded(campaign_id), number)
