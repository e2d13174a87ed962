"""Every operation of the service as in the reference: method, path, handler and fields, for routing and parsing."""

from collections.abc import Callable, Collection
from typing import Any

from attrs import field, frozen

from seorep_async.sandbox.feeds import FEEDS
from seorep_async.sandbox.models import BACKLINKS, CAMPAIGNS, KEYWORDS, TEXTS, USERS
from seorep_async.sandbox.request import DAY, DAYS, FILLED, INT32, SEARCH, STRING, STRINGS, ApiRequest, Fields, choice
from seorep_async.sandbox.seeded import STATUSES
from seorep_async.sandbox.service import Service


@frozen
class Operation:
    """One operation, with its path from the reference.

    The handler returns what JSON can hold, or None for no body, or raises `Refusal`; it never waits, so nothing comes
    between.
    """

    method: str
    path: str
    handler: Callable[[Service, ApiRequest], Any]
    fields: Fields = field(factory=dict)
    required: Collection[str] = ()

    @property
    def writes(self) -> bool:
        """Whether the fields may come in a body."""
        return self.method in ("POST", "PUT")


_CAMPAIGN: Fields = {"url": FILLED, "company": FILLED, "scope": FILLED, "group_title": STRING}
_USER = ("first_name", "last_name", "username", "password", "role")
_NEW_USER: Fields = dict.fromkeys(_USER, FILLED) | {"email": STRING, "email_credentials": STRING}
_CHANGED_USER: Fields = {name: _NEW_USER[name] for name in (*_USER[:3], "email", *_USER[3:])}
_STATUS = choice(STATUSES)
_BACKLINK: Fields = {
    "title": FILLED,
    "url": FILLED,
    "status": _STATUS,
    "date_published": DAY,
    **dict.fromkeys(TEXTS, STRING),
}
_NEW_BACKLINK = ("campaign_id", "title", "url", "status", "date_published")
_LINKS: Fields = {
    "campaign_id": INT32,
    "status": _STATUS,
    **BACKLINKS.listing,
    "date_string": DAYS,
    "link_type": SEARCH,
}

OPERATIONS = (
    Operation("POST", "/v3/campaigns", CAMPAIGNS.create, _CAMPAIGN, required=("url", "company")),
    Operation("GET", "/v3/campaigns/:id", CAMPAIGNS.get),
    Operation("PUT", "/v3/campaigns/:id", CAMPAIGNS.update, _CAMPAIGN),
    Operation("GET", "/v3/campaigns", CAMPAIGNS.list_, CAMPAIGNS.listing),
    Operation("DELETE", "/v3/campaigns/:id", CAMPAIGNS.delete),
    Operation("GET", "/v3/users/:id/loginGrant", USERS.login_grant),
    Operation("POST", "/v3/users", USERS.create, _NEW_USER, required=_USER),
    Operation("GET", "/v3/users/:id", USERS.get),
    Operation("PUT", "/v3/users/:id", USERS.update, _CHANGED_USER),
    Operation("GET", "/v3/users", USERS.list_, {**USERS.listing, "role": STRINGS}),
    Operation("DELETE", "/v3/users/:id", USERS.delete),
    Operation("GET", "/v3/keywords/:id", KEYWORDS.get),
    Operation("GET", "/v3/keywords", KEYWORDS.list_, {**KEYWORDS.listing, "campaign_id": INT32}),
    *(Operation("GET", feed.path, feed.report, feed.asked, feed.required) for feed in FEEDS),
    Operation("POST", "/v3/backlinks", BACKLINKS.create, {"campaign_id": INT32, **_BACKLINK}, required=_NEW_BACKLINK),
    Operation("GET", "/v3/backlinks/:id", BACKLINKS.get),
    Operation("PUT", "/v3/backlinks/:id", BACKLINKS.update, _BACKLINK),
    Operation("GET", "/v3/resources/backlinks/manager/links", BACKLINKS.list_, _LINKS, required=("campaign_id",)),
    Operation("DELETE", "/v3/backlinks/:id", BACKLINKS.delete),
)
