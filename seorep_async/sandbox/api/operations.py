"""Every operation of the service: method, path, fields, response, for routing, parsing and the OpenAPI description."""

from collections.abc import Callable
from typing import Any

from attrs import frozen

from seorep_async.sandbox.api import backlinks, campaigns, keywords, rankings, schemas, users
from seorep_async.sandbox.api.request import ApiRequest, Field, Fields
from seorep_async.sandbox.api.schemas import Schema, feed, record, records
from seorep_async.sandbox.api.service import ApiResponse, Service
from seorep_async.sandbox.api.shapes import KEYWORDS_OF_CAMPAIGN, MONTHS_OF_CAMPAIGN, MONTHS_OF_KEYWORD, FeedFormat


@frozen
class Operation:
    """One operation.

    Attributes:
        method: the HTTP method.
        path: the path as the reference writes it.
        handler: responds to a request, or refuses by raising `Refusal`; it never waits, so nothing comes between.
        schema: the schema of the response; None if there is no payload.
        fields: the fields that it knows.
        refuses: statuses that `handler` refuses with.
        example_id: an id that the path can have in a new sandbox.
    """

    method: str
    path: str
    handler: Callable[[Service, ApiRequest], ApiResponse]
    schema: Schema | None
    fields: Fields = ()
    refuses: tuple[int, ...] = ()
    example_id: int = 1

    @property
    def writes(self) -> bool:
        """Whether the fields may come in a body."""
        return self.method in ("POST", "PUT")


_CAMPAIGNS, _CAMPAIGN = "/v3/campaigns", "/v3/campaigns/:id"
_USERS, _USER = "/v3/users", "/v3/users/:id"
_BACKLINK = "/v3/backlinks/:id"
_LINK = 100_001


def _feed(
    path: str, handler: Callable[[Service, ApiRequest], ApiResponse], id_: Field[Any], feed_format: FeedFormat
) -> Operation:
    fields = (id_, *rankings.COMMON, rankings.SORT_METRICS[feed_format.feed])
    return Operation("GET", f"/v3/resources/rankings/{path}", handler, feed(feed_format), fields, (404,))


OPERATIONS = (
    Operation("POST", _CAMPAIGNS, campaigns.create, record(schemas.CAMPAIGN_CREATED), campaigns.CREATE),
    Operation("GET", _CAMPAIGN, campaigns.get, record(schemas.CAMPAIGN), (), (404,)),
    Operation("PUT", _CAMPAIGN, campaigns.update, record(schemas.CAMPAIGN), campaigns.UPDATE, (404,)),
    Operation("GET", _CAMPAIGNS, campaigns.list_, records(schemas.CAMPAIGN_LISTED), campaigns.LIST.fields),
    Operation("DELETE", _CAMPAIGN, campaigns.delete, None, (), (404,)),
    Operation("GET", f"{_USER}/loginGrant", users.login_grant, record(schemas.LOGIN_GRANT), (), (404,)),
    Operation("POST", _USERS, users.create, record(schemas.USER_WRITTEN), users.CREATE, (409,)),
    Operation("GET", _USER, users.get, record(schemas.USER), (), (404,)),
    Operation("PUT", _USER, users.update, record(schemas.USER_WRITTEN), users.UPDATE, (404, 409)),
    Operation("GET", _USERS, users.list_, records(schemas.USER), (*users.LIST.fields, users.ROLES)),
    Operation("DELETE", _USER, users.delete, None, (), (404,)),
    Operation("GET", "/v3/keywords/:id", keywords.get, record(schemas.KEYWORD), (), (404,), _LINK),
    Operation(
        "GET",
        "/v3/keywords",
        keywords.list_,
        records(schemas.KEYWORD),
        (*keywords.LIST.fields, keywords.CAMPAIGN_ID),
    ),
    _feed("campaign", rankings.campaign, rankings.CAMPAIGN_ID, KEYWORDS_OF_CAMPAIGN),
    _feed("campaign/date", rankings.campaign_by_date, rankings.CAMPAIGN_ID, MONTHS_OF_CAMPAIGN),
    _feed("keyword/date", rankings.keyword_by_date, rankings.KEYWORD_ID, MONTHS_OF_KEYWORD),
    Operation("POST", "/v3/backlinks", backlinks.create, record(schemas.BACKLINK_CREATED), backlinks.CREATE, (404,)),
    Operation("GET", _BACKLINK, backlinks.get, record(schemas.BACKLINK), (), (404,), _LINK),
    Operation("PUT", _BACKLINK, backlinks.update, record(schemas.BACKLINK), backlinks.UPDATE, (404,), _LINK),
    Operation(
        "GET",
        "/v3/resources/backlinks/manager/links",
        backlinks.list_,
        records(schemas.BACKLINK_LISTED),
        backlinks.LIST_FIELDS,
        (404,),
    ),
    Operation("DELETE", _BACKLINK, backlinks.delete, None, (), (404,), _LINK),
)
