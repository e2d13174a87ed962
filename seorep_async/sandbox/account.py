"""The account of the sandbox. It has seeded records, and remembers the changes since.

Only seeded campaigns have keywords. Keywords and rankings are facts of the past: changing a
campaign's address does not change them. No password is stored.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from seorep_async.sandbox.seeds import (
    IDS_PER_CAMPAIGN,
    RecordData,
    SeededKeyword,
    make_backlink,
    make_campaign,
    make_keywords,
    make_user,
    mix,
)

MOST_CAMPAIGNS = 2**31 // IDS_PER_CAMPAIGN - 1
"""Beyond this number, the ids of keywords would not fit into 32 bits."""

_CACHED_KEYWORDS = 50_000
_CACHED_RECORDS = 20_000


class Records:
    """Records of one kind. Seeded records are made on demand; written ones are kept."""

    def __init__(self, make: Callable[[int], RecordData | None], seeded: range) -> None:
        self.seeded = seeded
        self.seeded_record: Callable[[int], RecordData | None] = lru_cache(_CACHED_RECORDS)(make)
        # Added records come after all seeded ids. A deleted record is None.
        self._next_id = seeded.stop
        self._changes: dict[int, RecordData | None] = {}

    def get(self, record_id: int) -> RecordData | None:
        """Return a record, or None if no record has this id."""
        if record_id in self._changes:
            return self._changes[record_id]  # None if the record was deleted
        if record_id in self.seeded:
            return self.seeded_record(record_id)
        return None

    def ids(self, seeded: Sequence[int] | None = None) -> list[int]:
        """Return the existing ids. Seeded ids (all, or the given ones) come before added ids."""
        if seeded is None:
            seeded = self.seeded
        added = [record_id for record_id in self._changes if record_id not in self.seeded]
        # A record that is not in `_changes` is as it was seeded, so it exists.
        return [id_ for id_ in [*seeded, *added] if self._changes.get(id_, True)]

    def add(self, record: RecordData) -> RecordData:
        """Add a record under a new id. An id is never used twice."""
        record_id = self._next_id
        self._next_id += 1
        return self.put(record | {"id": record_id})

    def put(self, record: RecordData) -> RecordData:
        """Replace the record with the same id."""
        self._changes[record["id"]] = record
        return record

    def remove(self, record_id: int) -> None:
        """Delete a record."""
        self._changes[record_id] = None


class KeywordIds(Sequence[int]):
    """The ids of all keywords of some campaigns. They may be 2 billion, so they are not stored."""

    def __init__(self, campaign_ids: Sequence[int], keywords: int) -> None:
        self._campaign_ids = campaign_ids
        self._keyword_count = keywords

    def __len__(self) -> int:
        return len(self._campaign_ids) * self._keyword_count

    def __getitem__(self, position: int) -> int:  # type: ignore[override]  # nobody slices them
        if position >= len(self):
            raise IndexError(position)
        campaign_position, number = divmod(position, self._keyword_count)
        campaign_id = self._campaign_ids[campaign_position]
        return _numbered_ids(campaign_id, self._keyword_count)[number]


class Account:
    """One account. A seed may be any integer; the same seed makes the same account.

    Campaigns and users are numbered from 1. `keywords` and `backlinks` are counts
    for each campaign.
    """

    def __init__(
        self, seed: int, campaigns: int, keywords: int, users: int = 0, backlinks: int = 0
    ) -> None:
        self.key: int = mix(seed)
        # four digits
        self.account_id: int = 1000 + mix(self.key) % 9000
        self._keyword_count = keywords
        self._backlink_count = backlinks
        # Cached, because each page of a feed needs all keywords of its campaign. A campaign may
        # have no keywords, hence + 1. A campaign that is larger than the cache is cached alone.
        cached_campaigns = max(1, _CACHED_KEYWORDS // (keywords + 1))
        self._cached_keywords = lru_cache(cached_campaigns)(self._make_keywords)
        make_own_campaign = partial(make_campaign, self.key, self.account_id)
        make_own_user = partial(make_user, self.key, self.account_id)
        # For example, campaign 7 has the ids 700000 to 799999, and its backlinks begin at 700001.
        backlink_ids = range(IDS_PER_CAMPAIGN, (campaigns + 1) * IDS_PER_CAMPAIGN)
        self.campaigns: Records = Records(make_own_campaign, range(1, campaigns + 1))
        self.backlinks: Records = Records(self._make_backlink, backlink_ids)
        self.records: dict[str, Records] = {
            "campaign": self.campaigns,
            "user": Records(make_own_user, range(1, users + 1)),
            "backlink": self.backlinks,
        }

    def keyword_ids(self, campaign_id: int) -> range:
        """Return the ids of a campaign's keywords."""
        is_seeded = campaign_id in self.campaigns.seeded
        if not is_seeded or self.campaigns.get(campaign_id) is None:
            return range(0)
        return _numbered_ids(campaign_id, self._keyword_count)

    def all_keyword_ids(self) -> KeywordIds:
        """Return the ids of the keywords of all campaigns, oldest campaign first."""
        seeded = self.campaigns.seeded
        campaign_ids = [id_ for id_ in self.campaigns.ids() if id_ in seeded]
        return KeywordIds(campaign_ids, self._keyword_count)

    def keywords(self, campaign_id: int) -> tuple[SeededKeyword, ...]:
        """Return all keywords of a campaign in the order of their ids."""
        if not self.keyword_ids(campaign_id):
            return ()
        return self._cached_keywords(campaign_id)

    def keyword(self, keyword_id: int) -> SeededKeyword | None:
        """Return a keyword, or None if no keyword has this id."""
        campaign_id, number = divmod(keyword_id, IDS_PER_CAMPAIGN)
        if keyword_id not in self.keyword_ids(campaign_id):
            return None
        return self.keywords(campaign_id)[number - 1]

    def backlink_ids(self, campaign_id: int) -> list[int]:
        """Return the ids of a campaign's backlinks, oldest first."""
        seeded = range(0)
        if campaign_id in self.campaigns.seeded:
            seeded = _numbered_ids(campaign_id, self._backlink_count)
        ids = []
        # Added backlinks may belong to any campaign, so each is looked up.
        for backlink_id in self.backlinks.ids(seeded):
            backlink = self.backlinks.get(backlink_id)
            if backlink and backlink["campaign_id"] == campaign_id:
                ids.append(backlink_id)
        return ids

    def _make_keywords(self, campaign_id: int) -> tuple[SeededKeyword, ...]:
        campaign = self.campaigns.seeded_record(campaign_id)
        assert campaign is not None, "only seeded campaigns have keywords"  # noqa: S101
        return make_keywords(self.key, campaign, self._keyword_count)

    def _make_backlink(self, backlink_id: int) -> RecordData | None:
        campaign_id, number = divmod(backlink_id, IDS_PER_CAMPAIGN)
        campaign = self.campaigns.seeded_record(campaign_id)
        if campaign is None or not 1 <= number <= self._backlink_count:
            return None
        return make_backlink(self.key, campaign, backlink_id)


def _numbered_ids(campaign_id: int, count: int) -> range:
    """Return the ids of a campaign's keywords or seeded backlinks."""
    first = campaign_id * IDS_PER_CAMPAIGN + 1
    return range(first, first + count)
