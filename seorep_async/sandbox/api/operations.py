"""Every operation of the service: method, path, handler and fields, for routing and parsing."""

from collections.abc import Callable

from attrs import frozen

from seorep_async.sandbox.api import backlinks, campaigns, keywords, rankings, users
from seorep_async.sandbox.api.request import ApiRequest, Fields
from seorep_async.sandbox.api.service import ApiResponse, Service


@frozen
class Operation:
    """One operation, with its path from the reference.

    The handler responds to a request, or raises `Refusal`; it never waits, so nothing comes between.
    """

    method: str
    path: str
    handler: Callable[[Service, ApiRequest], ApiResponse]
    fields: Fields = ()

    @property
    def writes(self) -> bool:
        """Whether the fields may come in a body."""
        return self.method in ("POST", "PUT")


_CAMPAIGNS, _CAMPAIGN = "/v3/campaigns", "/v3/campaigns/:id"
_USERS, _USER = "/v3/users", "/v3/users/:id"
_BACKLINK = "/v3/backlinks/:id"
_RANKINGS = "/v3/resources/rankings/campaign"

OPERATIONS = (
    Operation("POST", _CAMPAIGNS, campaigns.create, campaigns.CREATE),
    Operation("GET", _CAMPAIGN, campaigns.get),
    Operation("PUT", _CAMPAIGN, campaigns.update, campaigns.UPDATE),
    Operation("GET", _CAMPAIGNS, campaigns.list_, campaigns.LIST.fields),
    Operation("DELETE", _CAMPAIGN, campaigns.delete),
    Operation("GET", f"{_USER}/loginGrant", users.login_grant),
    Operation("POST", _USERS, users.create, users.CREATE),
    Operation("GET", _USER, users.get),
    Operation("PUT", _USER, users.update, users.UPDATE),
    Operation("GET", _USERS, users.list_, (*users.LIST.fields, users.ROLES)),
    Operation("DELETE", _USER, users.delete),
    Operation("GET", "/v3/keywords/:id", keywords.get),
    Operation("GET", "/v3/keywords", keywords.list_, (*keywords.LIST.fields, keywords.CAMPAIGN_ID)),
    Operation("GET", _RANKINGS, rankings.campaign, rankings.CAMPAIGN),
    Operation("GET", f"{_RANKINGS}/date", rankings.campaign_by_date, rankings.CAMPAIGN_BY_DATE),
    Operation("GET", "/v3/resources/rankings/keyword/date", rankings.keyword_by_date, rankings.KEYWORD_BY_DATE),
    Operation("POST", "/v3/backlinks", backlinks.create, backlinks.CREATE),
    Operation("GET", _BACKLINK, backlinks.get),
    Operation("PUT", _BACKLINK, backlinks.update, backlinks.UPDATE),
    Operation("GET", "/v3/resources/backlinks/manager/links", backlinks.list_, backlinks.LIST_FIELDS),
    Operation("DELETE", _BACKLINK, backlinks.delete),
)
