"""The account: seeded campaigns, keywords, users and backlinks, and what was written to them since.

What is seeded depends on the seed and on its own id alone: neither on the order of requests nor on how many others
there are. Keywords and rankings are facts of the past: changing a campaign's address does not change them.
"""

from collections.abc import Sequence

from .backlinks import BACKLINKS_PER_CAMPAIGN, Backlink, make_backlink
from .campaigns import Campaign, Niche, make_campaign
from .keywords import KEYWORDS_PER_CAMPAIGN, Keyword, make_keywords
from .recent import Recent
from .records import Records
from .seeding import mix
from .users import User, make_user

MOST_CAMPAIGNS = 2**31 // KEYWORDS_PER_CAMPAIGN - 1

_KEPT_KEYWORDS = 50_000
_KEPT_RECORDS = 20_000


class Account:
    """One seeded account.

    Args:
        seed: any integer; the same seed makes the same account.
        campaigns: how many campaigns there are at first; their ids are 1 to this.
        keywords: how many keywords each of them has.
        users: how many users there are at first; their ids are 1 to this.
        backlinks: how many backlinks each campaign has at first.
    """

    def __init__(self, seed: int, campaigns: int, keywords: int, users: int = 0, backlinks: int = 0) -> None:
        self.key = mix(seed)
        self.account_id = 1000 + mix(self.key) % 9000
        self._seeded_campaigns = range(1, campaigns + 1)
        self._seeded_users = range(1, users + 1)
        self._keyword_numbers = range(1, keywords + 1)
        self._backlink_numbers = range(1, backlinks + 1)
        self._made_campaigns: Recent[int, tuple[Campaign, Niche]] = Recent(_KEPT_RECORDS)
        self._made_keywords: Recent[int, tuple[Keyword, ...]] = Recent(_KEPT_KEYWORDS)
        self._tokens = 0
        self.campaigns: Records[Campaign] = Records(
            self._seeded_campaigns.__contains__,
            lambda id_: self._seeded(id_)[0],
            first_new_id=campaigns + 1,
            kept=_KEPT_RECORDS,
        )
        self.users: Records[User] = Records(
            self._seeded_users.__contains__,
            lambda id_: make_user(self.key, self.account_id, id_),
            first_new_id=users + 1,
            kept=_KEPT_RECORDS,
        )
        self.backlinks: Records[Backlink] = Records(
            self._is_seeded_backlink,
            self._make_backlink,
            first_new_id=(campaigns + 1) * BACKLINKS_PER_CAMPAIGN,
            kept=_KEPT_RECORDS,
        )

    @property
    def writes(self) -> int:
        """How often anything was written: as long as this stays the same, so does everything else."""
        return self.campaigns.writes + self.users.writes + self.backlinks.writes

    def campaign_ids(self) -> Sequence[int]:
        """Return the ids of all campaigns, oldest first."""
        return self.campaigns.present(self._seeded_campaigns)

    def user_ids(self) -> Sequence[int]:
        """Return the ids of all users, oldest first."""
        return self.users.present(self._seeded_users)

    def user_named(self, username: str) -> User | None:
        """Return the user who has a username, or None."""
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
        kept = self._made_keywords.get(campaign_id)
        if kept is None:
            made = make_keywords(self.key, *self._seeded(campaign_id), len(self._keyword_numbers))
            kept = self._made_keywords.keep(campaign_id, made, weight=len(made) + 1)
        return kept

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
        kept = self._made_campaigns.get(campaign_id)
        return kept or self._made_campaigns.keep(campaign_id, make_campaign(self.key, self.account_id, campaign_id))

    def _is_seeded_backlink(self, id_: int) -> bool:
        campaign_id, number = divmod(id_, BACKLINKS_PER_CAMPAIGN)
        return campaign_id in self._seeded_campaigns and number in self._backlink_numbers

    def _make_backlink(self, id_: int) -> Backlink:
        campaign_id, number = divmod(id_, BACKLINKS_PER_CAMPAIGN)
        return make_backlink(self.key, *self._seeded(campaign_id), number)
