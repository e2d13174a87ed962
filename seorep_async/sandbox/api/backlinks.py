"""The backlink operations: the reference's sections 2.5, 3.1 and 4.5.

The reference does not say which date `date_string` is about: here it is `date_published`, both ends included. A created
backlink has no authority yet: 0.
"""

from attrs import evolve

from seorep_async.sandbox.api.listing import RecordList
from seorep_async.sandbox.api.request import (
    ApiRequest,
    Fields,
    Refusal,
    choice,
    day,
    days,
    direction,
    filled,
    int32,
    required,
    search,
    string,
)
from seorep_async.sandbox.api.service import ApiResponse, Record, Service, nothing, single
from seorep_async.sandbox.data.seeded import STATUSES, Backlink

CAMPAIGN_ID = required(int32("campaign_id"))
TITLE = filled("title")
URL = filled("url")
STATUS = choice("status", STATUSES)
DATE_PUBLISHED = day("date_published")
OPTIONAL: Fields = (
    string("link_type"),
    string("target_anchor"),
    string("target_url"),
    string("notes"),
)

CREATE: Fields = (CAMPAIGN_ID, required(TITLE), required(URL), required(STATUS), required(DATE_PUBLISHED), *OPTIONAL)
UPDATE: Fields = (TITLE, URL, STATUS, DATE_PUBLISHED, *OPTIONAL)

_FIELDS = (
    *("id", "title", "status", "date_created", "date_published", "url", "link_type", "notes", "domain_authority"),
    *("page_authority", "target_anchor", "target_url"),
)
LINK_TYPE = search("link_type")
DATE_STRING = days("date_string")
LIST = RecordList(
    name="backlinks",
    search=search("search"),
    order=choice("sort_metric", _FIELDS),
    direction=direction("sort_direction"),
    searched=("title", "url", "notes"),
)
LIST_FIELDS: Fields = (CAMPAIGN_ID, STATUS, *LIST.fields, DATE_STRING, LINK_TYPE)


def create(service: Service, request: ApiRequest) -> ApiResponse:
    """Create a backlink of a campaign."""
    campaign = service.campaign(request[CAMPAIGN_ID])
    values = _as_attributes(request.given(UPDATE))
    created = service.account.backlinks.add(
        lambda id_: Backlink(id=id_, campaign_id=campaign.id, created=service.now().date(), **values)
    )
    return single(_record(created) | {"campaign_id": created.campaign_id})


def get(service: Service, request: ApiRequest) -> ApiResponse:
    """Get one backlink."""
    return single(_record(_find(service, request.id)))


def update(service: Service, request: ApiRequest) -> ApiResponse:
    """Change a backlink; fields that are not given stay."""
    backlink, changes = _find(service, request.id), _as_attributes(request.given(UPDATE))
    if changes:
        backlink = service.account.backlinks.put(backlink.id, evolve(backlink, **changes))
    return single(_record(backlink))


def list_(service: Service, request: ApiRequest) -> ApiResponse:
    """List a campaign's backlinks."""
    campaign = service.campaign(request[CAMPAIGN_ID])
    status, link_type, span = request[STATUS], request[LINK_TYPE], request[DATE_STRING]

    def wanted(record: Record) -> bool:
        return (
            status in (None, record["status"])
            and link_type in ("", "all", record["link_type"])
            and (span is None or span[0].isoformat() <= record["date_published"] <= span[1].isoformat())
        )

    return LIST.respond(
        service,
        request,
        lambda: service.account.backlink_ids(campaign.id),
        lambda id_: _record(_find(service, id_)),
        shown=lambda id_: _listed(_find(service, id_)),
        only=wanted,
        question=(campaign.id, status, link_type, span),
    )


def delete(service: Service, request: ApiRequest) -> ApiResponse:
    """Delete a backlink."""
    service.account.backlinks.remove(_find(service, request.id).id)
    return nothing()


def _find(service: Service, id_: int) -> Backlink:
    backlink = service.account.backlink(id_)
    if backlink is None:
        raise Refusal(404, f"there is no backlink {id_}")
    return backlink


def _as_attributes(values: Record) -> Record:
    return {"published" if name == "date_published" else name: value for name, value in values.items()}


def _record(backlink: Backlink) -> Record:
    return _listed(backlink) | {"target_anchor": backlink.target_anchor, "target_url": backlink.target_url}


def _listed(backlink: Backlink) -> Record:
    return {
        "id": backlink.id,
        "title": backlink.title,
        "status": backlink.status,
        "date_created": backlink.created.isoformat(),
        "date_published": backlink.published.isoformat(),
        "url": backlink.url,
        "link_type": backlink.link_type,
        "notes": backlink.notes,
        "domain_authority": backlink.domain_authority,
        "page_authority": backlink.page_authority,
    }
