"""The keyword operations: the reference's sections 2.4 and 4.3."""

from seorep_async.sandbox.api.listing import listing
from seorep_async.sandbox.api.request import ApiRequest, Refusal, int32
from seorep_async.sandbox.api.service import ApiResponse, Record, Service, moment, single
from seorep_async.sandbox.data.seeded import Keyword

_FIELDS = ("id", "date_created", "date_modified", "keyword_phrase", "primary_keyword", "campaign_id")

CAMPAIGN_ID = int32("campaign_id")  # not in the reference, but live services take it
LIST = listing("keywords", _FIELDS, "keyword_phrase")


def get(service: Service, request: ApiRequest) -> ApiResponse:
    """Get one keyword."""
    return single(_record(find(service, request.id)))


def list_(service: Service, request: ApiRequest) -> ApiResponse:
    """List the account's keywords; an unknown campaign has none."""
    campaign_id = request[CAMPAIGN_ID]
    return LIST.respond(
        service,
        request,
        lambda: service.account.keyword_ids(campaign_id),
        lambda id_: _record(find(service, id_)),
        question=campaign_id,
    )


def find(service: Service, id_: int) -> Keyword:
    """Return a keyword; an unknown one is refused."""
    keyword = service.account.keyword(id_)
    if keyword is None:
        raise Refusal(404, f"there is no keyword {id_}")
    return keyword


def _record(keyword: Keyword) -> Record:
    return {
        "id": keyword.id,
        "date_created": moment(keyword.created),
        "date_modified": moment(keyword.modified),
        "keyword_phrase": keyword.phrase,
        "primary_keyword": "true" if keyword.primary else "false",
        "campaign_id": keyword.campaign_id,
    }
