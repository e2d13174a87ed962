"""The keyword operations: reference parts 2.4 and 4.3."""

from .account import Keyword
from .parameters import Parameters
from .refusals import Refusal
from .service import Answer, Record, Service, moment, single

FIELDS = ("id", "date_created", "date_modified", "keyword_phrase", "primary_keyword", "campaign_id")


def get(service: Service, parameters: Parameters) -> Answer:
    """GET /v3/keywords/:id."""
    return single(_record(find(service, parameters.path_id())))


def list_(service: Service, parameters: Parameters) -> Answer:
    """GET /v3/keywords.

    Takes `campaign_id` too, as live services do; an unknown one is answered with an empty list.
    """
    campaign_id = parameters.positive("campaign_id")
    return service.listing(
        parameters,
        name=f"keywords of {campaign_id or 'all'}",
        ids=lambda: service.account.keyword_ids(campaign_id),
        record=lambda id_: _record(find(service, id_)),
        fields=FIELDS,
        searched=("keyword_phrase",),
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
