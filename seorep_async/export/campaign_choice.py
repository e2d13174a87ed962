"""Which campaigns to pull, if they are not named: all, those of groups, or those that a filter finds."""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator, Callable, Mapping

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.models import Campaign

_NEAR_TITLES = 5


@attrs.frozen
class CampaignChoice:
    """Which of the account's campaigns to pull: all, unless it says otherwise.

    Attributes:
        groups: titles of groups, in any case; none for campaigns of any group.
        filter: a string by which the service filters campaigns.
        none_found: called with a message if there are none, or none of a group; it may raise.
    """

    groups: tuple[str, ...] = ()
    filter: str | None = None
    none_found: Callable[[str], object] = attrs.field(default=str, eq=False, repr=False)

    async def campaigns(self, client: SeoRepClient) -> AsyncIterator[Campaign]:
        """List the campaigns; raises as `client.campaigns.list` does."""
        titles: dict[str, str] = {}
        waiting: list[Campaign] = []
        count = 0
        async for campaign in client.campaigns.list(filter=self.filter):
            count += 1
            if not self.groups:
                yield campaign
            elif campaign.group_title is not None:
                titles[folded(campaign.group_title)] = campaign.group_title
                waiting.append(campaign)
        if not count:
            self.report_none()
        for group in self.groups if count else ():
            if folded(group) not in titles:
                self.none_found(self._unknown(group, titles))
        for campaign in waiting:
            if folded(campaign.group_title or "") in map(folded, self.groups):
                yield campaign

    def report_none(self) -> None:
        """Tell `none_found` that there are no campaigns."""
        found = "the account has" if self.filter is None else f"the filter {self.filter!r} finds"
        self.none_found(f"{found} no campaign")

    def _unknown(self, group: str, titles: Mapping[str, str]) -> str:
        near = [title for title in titles if folded(group) in title][:_NEAR_TITLES]
        near = near or difflib.get_close_matches(folded(group), titles, _NEAR_TITLES, 0.5)
        named = ", ".join(repr(titles[title]) for title in near or list(titles)[:_NEAR_TITLES]) or "none"
        among = "near it" if near else "there are" if len(titles) <= _NEAR_TITLES else "some of them"
        within = f" among the campaigns that the filter {self.filter!r} finds" if self.filter is not None else ""
        return f"there is no group {group!r}{within}; {among}: {named}"


def folded(title: str) -> str:
    """Return a group's title in the form in which titles are compared."""
    return title.strip().casefold()


EVERY_CAMPAIGN = CampaignChoice()
