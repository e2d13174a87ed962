"""The backlink operations: reference parts 2.5, 3.1 and 4.5.

The reference does not say which date `date_string` is about: here it is `date_published`, both ends included. A created
backlink has no authority yet: 0.
"""

from attrs import evolve

from seorep_async.sandbox.data.backlinks import STATUSES, Backlink
from seorep_async.sandbox.refusals import Refusal

from .call import Call
from .fields import Fields, choice, day, days, direction, filled, int32, required, search, text
from .listing import Listing
from .schemas import BACKLINK
from .service import Answer, Record, Service, nothing, single

CAMPAIGN_ID = required(int32("campaign_id", "the campaign that the backlink belongs to", example=1))
TITLE = filled("title", "title")
URL = filled("url", "address of the page that contains the backlink")
STATUS = choice("status", "state of the backlink", STATUSES)
DATE_PUBLISHED = day("date_published", "day of publication")
OPTIONAL: Fields = (
    text("link_type", "type of link"),
    text("target_anchor", "text of the target anchor"),
    text("target_url", "address of the target"),
    text("notes", "short free note"),
)

CREATE: Fields = (CAMPAIGN_ID, required(TITLE), required(URL), required(STATUS), required(DATE_PUBLISHED), *OPTIONAL)
UPDATE: Fields = (TITLE, URL, STATUS, DATE_PUBLISHED, *OPTIONAL)

LINK_TYPE = search("link_type", "type of link to list, exactly as it is written; all of them for `all`")
DATE_STRING = days("date_string", "days of publication to list: a start and an end date separated by a dash")
LIST = Listing(
    name="backlinks",
    search=search("search", "part of the title, the url or the notes"),
    order=choice("sort_metric", "field to sort by; oldest first unless given", [*BACKLINK]),
    direction=direction("sort_direction"),
    searched=("title", "url", "notes"),
)
LIST_FIELDS: Fields = (CAMPAIGN_ID, STATUS, *LIST.fields, DATE_STRING, LINK_TYPE)


def create(service: Service, call: Call) -> Answer:
    """Create a backlink of a campaign."""
    campaign = service.campaign(call[CAMPAIGN_ID])
    given = _as_attributes(call.given(UPDATE))
    created = service.account.backlinks.add(
        lambda id_: Backlink(id=id_, campaign_id=campaign.id, created=service.now().date(), **given)
    )
    return single(_record(created) | {"campaign_id": created.campaign_id})


def get(service: Service, call: Call) -> Answer:
    """Get one backlink."""
    return single(_record(_find(service, call.id)))


def update(service: Service, call: Call) -> Answer:
    """Change a backlink; what is not given stays as it is."""
    backlink, changes = _find(service, call.id), _as_attributes(call.given(UPDATE))
    if changes:
        backlink = service.account.backlinks.put(backlink.id, evolve(backlink, **changes))
    return single(_record(backlink))


def list_(service: Service, call: Call) -> Answer:
    """List a campaign's backlinks."""
    campaign = service.campaign(call[CAMPAIGN_ID])
    status, link_type, span = call[STATUS], call[LINK_TYPE], call[DATE_STRING]

    def wanted(record: Record) -> bool:
        return (
            status in (None, record["status"])
            and link_type in ("", "all", record["link_type"])
            and (span is None or span[0].isoformat() <= record["date_published"] <= span[1].isoformat())
        )

    return LIST.answer(
        service,
        call,
        lambda: service.account.backlink_ids(campaign.id),
        lambda id_: _record(_find(service, id_)),
        shown=lambda id_: _listed(_find(service, id_)),
        only=wanted,
        question=(campaign.id, status, link_type, span),
    )


def delete(service: Service, call: Call) -> Answer:
    """Delete a backlink."""
    service.account.backlinks.remove(_find(service, call.id).id)
    return nothing()


def _find(service: Service, id_: int) -> Backlink:
    backlink = service.account.backlink(id_)
    if backlink is None:
        raise Refusal(404, f"there is no backlink {id_}")
    return backlink


def _as_attributes(given: Record) -> Record:
    return {"published" if name == "date_published" else name: value for name, value in given.items()}


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
