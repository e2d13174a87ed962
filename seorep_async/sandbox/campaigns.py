"""The campaign operations: reference parts 2.1 and 4.1."""

from .account import Campaign
from .parameters import Parameters
from .service import Answer, Record, Service, moment, single

LIST_FIELDS = (
    "id", "date_created", "date_modified", "date_deleted", "url", "company", "status", "scope", "engineA_ignore_places",
    "engineA_places_id", "engineA_cid", "engineA_business_id", "engineA_business_name", "group_title", "timezone",
    "account_id", "type",
)  # fmt: skip


def get(service: Service, parameters: Parameters) -> Answer:
    """GET /v3/campaigns/:id."""
    return single(_shared(service.campaign(parameters.path_id())))


def list_(service: Service, parameters: Parameters) -> Answer:
    """GET /v3/campaigns."""
    return service.listing(
        parameters,
        name="campaigns",
        ids=service.account.campaign_ids,
        record=lambda id_: _listed(service, id_),
        fields=LIST_FIELDS,
        searched=("company", "url"),
    )


def _shared(campaign: Campaign) -> Record:
    return {
        "id": campaign.id,
        "date_created": moment(campaign.created),
        "date_modified": moment(campaign.modified),
        "url": campaign.url,
        "company": campaign.company,
        "scope": "domain",
        "group_title": campaign.group_title,
        "account_id": campaign.account_id,
        # Not in the reference, but live services send it.
        "type": "real",
    }


def _listed(service: Service, id_: int) -> Record:
    campaign = service.account.campaign(id_)
    assert campaign is not None, "the account lists what it holds"  # noqa: S101
    # The reference shows no other value than null of the fields that are null here.
    return _shared(campaign) | {
        "date_deleted": None,
        "status": "active",
        "engineA_ignore_places": "true" if campaign.ignore_places else "false",
        "engineA_places_id": None,
        "engineA_cid": None,
        "engineA_business_id": None,
        "engineA_business_name": None,
        "timezone": None,
    }
