"""The keyword operations: reference parts 2.4 and 4.3."""

from seorep_async.sandbox.data.keywords import Keyword
from seorep_async.sandbox.refusals import Refusal

from .call import Call
from .fields import int32
from .listing import listing
from .schemas import KEYWORD
from .service import Answer, Record, Service, moment, single

CAMPAIGN_ID = int32("campaign_id", "not in the reference, but live services take it: only this campaign's", example=1)
LIST = listing("keywords", [*KEYWORD], "keyword_phrase", about="part of the phrase")


def get(service: Service, call: Call) -> Answer:
    """Get one keyword."""
    return single(_record(find(service, call.id)))


def list_(service: Service, call: Call) -> Answer:
    """List the account's keywords; an unknown campaign has none."""
    campaign_id = call[CAMPAIGN_ID]
    return LIST.answer(
        service,
        call,
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
