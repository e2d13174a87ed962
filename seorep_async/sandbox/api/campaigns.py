"""The campaign operations: the reference's sections 2.1 and 4.1."""

from attrs import evolve

from seorep_async.sandbox.api.listing import listing
from seorep_async.sandbox.api.request import ApiRequest, Fields, filled, required, string
from seorep_async.sandbox.api.service import ApiResponse, Record, Service, moment, nothing, single
from seorep_async.sandbox.data.seeded import Campaign

URL = filled("url")
COMPANY = filled("company")
SCOPE = filled("scope")
GROUP_TITLE = string("group_title")

CREATE: Fields = (required(URL), required(COMPANY), SCOPE, GROUP_TITLE)
UPDATE: Fields = (URL, COMPANY, SCOPE, GROUP_TITLE)
_FIELDS = (
    *("id", "date_created", "date_modified", "url", "company", "scope", "account_id", "type", "group_title"),
    *("date_deleted", "status", "engineA_ignore_places", "engineA_places_id", "engineA_cid"),
    *("engineA_business_id", "engineA_business_name", "timezone"),
)
LIST = listing("campaigns", _FIELDS, "company", "url")


def create(service: Service, request: ApiRequest) -> ApiResponse:
    """Create a campaign."""
    created = service.account.campaigns.add(
        lambda id_: Campaign(
            id=id_,
            account_id=service.account.account_id,
            created=service.now(),
            **_as_attributes(request.given(CREATE)),
        )
    )
    return single(_created(created))


def get(service: Service, request: ApiRequest) -> ApiResponse:
    """Get one campaign."""
    return single(_single(service.campaign(request.id)))


def update(service: Service, request: ApiRequest) -> ApiResponse:
    """Change a campaign; fields that are not given stay."""
    campaign, changes = service.campaign(request.id), _as_attributes(request.given(UPDATE))
    if changes:
        campaign = service.account.campaigns.put(campaign.id, evolve(campaign, modified=service.now(), **changes))
    return single(_single(campaign))


def list_(service: Service, request: ApiRequest) -> ApiResponse:
    """List the account's campaigns."""
    return LIST.respond(service, request, service.account.campaign_ids, lambda id_: _listed(service, id_))


def delete(service: Service, request: ApiRequest) -> ApiResponse:
    """Delete a campaign, with its keywords, backlinks and feeds."""
    service.account.campaigns.remove(service.campaign(request.id).id)
    return nothing()


def _as_attributes(values: Record) -> Record:
    return values | {"group_title": values["group_title"] or None} if "group_title" in values else values


def _created(campaign: Campaign) -> Record:
    return {
        "id": campaign.id,
        "date_created": moment(campaign.created),
        "date_modified": moment(campaign.modified),
        "url": campaign.url,
        "company": campaign.company,
        "scope": campaign.scope,
        "account_id": campaign.account_id,
        # Not in the reference, but live services send it.
        "type": "real",
    }


def _single(campaign: Campaign) -> Record:
    return _created(campaign) | {"group_title": campaign.group_title}


def _listed(service: Service, id_: int) -> Record:
    campaign = service.account.campaigns.get(id_)
    assert campaign is not None, "the account lists what it holds"  # noqa: S101
    # The reference shows only null for the fields that are null here.
    return _single(campaign) | {
        "date_deleted": None,
        "status": "active",
        "engineA_ignore_places": "true" if campaign.ignore_places else "false",
        "engineA_places_id": None,
        "engineA_cid": None,
        "engineA_business_id": None,
        "engineA_business_name": None,
        "timezone": None,
    }
