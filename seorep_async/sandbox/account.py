"""The account: seeded campaigns, keywords, users and backlinks, with the changes since.

Seeded objects depend on the seed and on their own id alone: neither on the order of requests nor on the number of
others. Keywords and rankings are facts of the past: changing a campaign's address does not change them.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from seorep_async.sandbox import seeded
from seorep_async.sandbox.seeded import IDS_PER_CAMPAIGN, Keyword, Record, mix

MOST_CAMPAIGNS = 2**31 // IDS_PER_CAMPAIGN - 1

_CACHED_KEYWORDS = 50_000
_CACHED_RECORDS = 20_000


class Records:
    """Records of one kind: those with the `seeded` ids, made on demand, and those written since, of other ids."""

    def __init__(self, make: Callable[[int], Record | None], seeded: range) -> None:
        self.seeded = seeded
        self.made: Callable[[int], Record | None] = lru_cache(_CACHED_RECORDS)(
            lambda id_: make(id_) if id_ in seeded else None
        )
        self._next_id = seeded.stop
        self._written: dict[int, Record | None] = {}

    def get(self, id_: int) -> Record | None:
        """Return a record, or None if there is none with this id."""
        return self._written[id_] if id_ in self._written else self.made(id_)

    def ids(self, seeded: Sequence[int] | None = None) -> Sequence[int]:
        """Return the seeded ids, or some of them, that remain, then the added ones, oldest first."""
        every = self.seeded if seeded is None else seeded
        if not self._written:
            return every
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
        """Remove the record with this id."""
        self._written[id_] = None


class Account:
    """One account; the same seed, any integer, makes the same account.

    Campaigns and users have the ids from 1 to their number. `keywords` and `backlinks` are numbers per campaign.
    """

    def __init__(self, seed: int, campaigns: int, keywords: int, users: int = 0, backlinks: int = 0) -> None:
        self.key: int = mix(seed)
        self.account_id: int = 1000 + mix(self.key) % 9000
        self._keywords, self._backlinks = keywords, backlinks
        self._tokens = 0
        self._made_keywords = lru_cache(max(1, _CACHED_KEYWORDS // (keywords + 1)))(
            lambda campaign_id: seeded.make_keywords(self.key, self.campaigns.made(campaign_id) or {}, keywords)
        )
        own = self.key, self.account_id
        self.campaigns: Records = Records(partial(seeded.make_campaign, *own), range(1, campaigns + 1))
        self.users: Records = Records(partial(seeded.make_user, *own), range(1, users + 1))
        backlink_ids = range(IDS_PER_CAMPAIGN, (campaigns + 1) * IDS_PER_CAMPAIGN)
        self.backlinks: Records = Records(self._make_backlink, backlink_ids)
        self.records: dict[str, Records] = {"campaign": self.campaigns, "user": self.users, "backlink": self.backlinks}

    def keyword_ids(self, campaign_id: int | None = None) -> Sequence[int]:
        """Return the ids of one campaign's keywords, or of all, oldest campaign first."""
        if campaign_id is None:
            return [id_ for one in self.campaigns.ids() for id_ in self.keyword_ids(one)]
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
        if not 1 <= number <= self._keywords or not self.keyword_ids(campaign_id):
            return None
        return self.keywords(campaign_id)[number - 1]

    def backlink_ids(self, campaign_id: int) -> Sequence[int]:
        """Return the ids of a campaign's backlinks, oldest first."""
        first = campaign_id * IDS_PER_CAMPAIGN + 1
        seeded = range(first, first + self._backlinks) if campaign_id in self.campaigns.seeded else ()
        found = ((id_, self.backlinks.get(id_)) for id_ in self.backlinks.ids(seeded))
        return [id_ for id_, backlink in found if backlink and backlink["campaign_id"] == campaign_id]

    def token(self) -> str:
        """Return a token that was never given before."""
        self._tokens += 1
        half = mix(self.key ^ mix(self._tokens + 2**35))
        return f"{half:016x}{mix(half):016x}"

    def _make_backlink(self, id_: int) -> Record | None:
        campaign_id, number = divmod(id_, IDS_PER_CAMPAIGN)
        campaign = self.campaigns.made(campaign_id)
        exists = campaign is not None and 1 <= number <= self._backlinks
        return seeded.make_backlink(self.key, campaign, number) if campaign and exists else None
