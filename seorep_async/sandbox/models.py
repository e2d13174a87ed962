"""The operations of models: the reference's sections 2.1 to 2.5, 4.1 to 4.3 and 4.5.

Where the reference is silent: a created user's `campaign_access` is restricted, as no request can set it; a role is any
string. A created backlink has no authority yet: 0; `date_string` is about `date_published`, both ends included. A
campaign's `type` and the keywords' parameter `campaign_id` are not in the reference, but live services have them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from attrs import field, frozen

from seorep_async.sandbox import request as fields
from seorep_async.sandbox.account import NEW_CAMPAIGN, RESTRICTED, STATUSES, Record, moment
from seorep_async.sandbox.request import (
    ApiRequest,
    Fields,
    Operation,
    Refusal,
    Service,
    found,
    in_order,
    matches,
)

_OWNER_ID = 1  # the user of the key's login grants
_MOST_SEARCHED = 500_000  # records that one search or sorting may make, in seconds


@frozen(kw_only=True)
class Model:
    """A kind of record, and the operations on it.

    Attributes:
        name: the service's word for one.
        path: the path of the collection; `list_path` that of its list, if it is another.
        shown: all fields of a record, in the order of responses; `hidden` has those that an operation leaves out.
        searched: the fields of which one must contain the string of a list's search.
        words: the parameters of a list for the search, the field to sort by, and the direction.
        asked: the other parameters of a list, of which `must_ask` are required.
        written: the fields of a write, if there are any, and `created` those of a create only; it requires `required`.
        fresh: what a created record has besides, unless the request sets it.
    """

    name: str
    path: str
    list_path: str = ""
    shown: Sequence[str]
    hidden: Mapping[str, Collection[str]] = field(factory=dict)
    searched: Sequence[str]
    words: tuple[str, str, str] = ("filter", "order_by", "order_direction")
    asked: Fields = field(factory=dict)
    must_ask: Sequence[str] = ()
    written: Fields = field(factory=dict)
    created: Fields = field(factory=dict)
    required: Sequence[str] = ()
    fresh: Record = field(factory=dict)

    def operations(self) -> Iterator[Operation]:
        """Yield the operations; a list is sorted by any field that a get or a list shows."""
        search, order, direction = self.words
        never = {*self.hidden.get("get", ())} & {*self.hidden.get("list", ())}
        sorts = {
            order: fields.choice([name for name in self.shown if name not in never]),
            direction: fields.DIRECTION,
        }
        one, listing = (
            f"{self.path}/:id",
            {search: fields.STRING, **fields.PAGE, **sorts, **self.asked},
        )
        yield Operation("GET", one, self.get)
        yield Operation("GET", self.list_path or self.path, self.list_, listing, self.must_ask)
        if self.written:
            yield Operation(
                "POST", self.path, self.create, {**self.created, **self.written}, self.required
            )
            yield Operation("PUT", one, self.update, self.written)
            yield Operation("DELETE", one, self.delete)

    def ids(self, service: Service, request: ApiRequest) -> Sequence[int]:
        """Return the ids of all records of a list, oldest first."""
        return service.account.records[self.name].ids()

    def wanted(self, request: ApiRequest, record: Record) -> bool:
        """Return whether the parameters of its own choose a record for a list."""
        return True

    def record(self, service: Service, id_: int) -> Record:
        """Return a record, or refuse an id that none has."""
        return found(self.name, id_, service.account.records[self.name].get(id_))

    def find(self, service: Service, id_: int) -> Record:
        """Return the record that a request names, or refuse it."""
        return self.record(service, id_)

    def values(self, service: Service, request: ApiRequest, record: Record) -> Record:
        """Return the values that a write sets in a record; a new one is empty."""
        return request.given

    def get(self, service: Service, request: ApiRequest) -> Record:
        return _single(self._shown("get", self.find(service, request.id)))

    def list_(self, service: Service, request: ApiRequest) -> Record:
        """Return one page of the records that are asked for."""
        record = partial(self.record, service)

        def chosen() -> tuple[Sequence[int], None]:
            ids, (search, order, descending) = (
                self.ids(service, request),
                (request[word] for word in self.words),
            )
            is_narrowed = any(request[name] for name in self.asked)
            if (search or order or descending or is_narrowed) and len(ids) > _MOST_SEARCHED:
                raise Refusal(
                    400, f"this sandbox searches and sorts at most {_MOST_SEARCHED:,} records"
                )
            if search:
                ids = [
                    id_
                    for id_ in ids
                    if any(matches(record(id_)[name], search) for name in self.searched)
                ]
            if is_narrowed:
                ids = [id_ for id_ in ids if self.wanted(request, record(id_))]
            if order or descending:
                ids = in_order(ids, lambda id_: record(id_).get(order or "id"), descending)
            return ids, None

        metadata, part, _ = service.page(self.name, request, chosen)
        return {"metadata": metadata, "data": [self._shown("list", record(id_)) for id_ in part]}

    def create(self, service: Service, request: ApiRequest) -> Record:
        new = {
            "date_created": moment(service.now()),
            "account_id": service.account.account_id,
            **self.fresh,
        }
        record = service.account.records[self.name].add(new | self.values(service, request, {}))
        return _single(self._shown("create", record))

    def update(self, service: Service, request: ApiRequest) -> Record:
        """Change a record; fields that are not given stay."""
        record = self.find(service, request.id)
        if values := self.values(service, request, record):
            modified = {"date_modified": moment(service.now())}
            record = service.account.records[self.name].put(record | values | modified)
        return _single(self._shown("update", record))

    def delete(self, service: Service, request: ApiRequest) -> None:
        service.account.records[self.name].remove(self.find(service, request.id)["id"])

    def _shown(self, operation: str, record: Record) -> Record:
        hidden = self.hidden.get(operation, ())
        return {name: record.get(name) for name in self.shown if name not in hidden}


def _single(record: Record) -> Record:
    return {"metadata": {"total_pages": 1, "total_records": 1}, "data": record}


class Campaigns(Model):
    """Campaigns, deleted with their keywords, backlinks and feeds."""

    def find(self, service: Service, id_: int) -> Record:
        return service.campaign(id_)


class Users(Model):
    """Users, whose passwords are neither stored nor shown."""

    def operations(self) -> Iterator[Operation]:
        yield from super().operations()
        yield Operation("GET", f"{self.path}/:id/loginGrant", self.login_grant)

    def wanted(self, request: ApiRequest, record: Record) -> bool:
        return record["role"] in request["role"]

    def values(self, service: Service, request: ApiRequest, record: Record) -> Record:
        values = {name: value for name, value in request.given.items() if name != "password"}
        others = service.account.users.ids() if "username" in values else ()
        for other in (self.find(service, id_) for id_ in others):
            if other["username"] == values["username"] and other["id"] != record.get("id"):
                raise Refusal(409, "username is taken: it must be unique")
        return values

    def login_grant(self, service: Service, request: ApiRequest) -> Record:
        """Grant a login to a user; each grant has a token of its own."""
        user, token = self.find(service, request.id), service.account.token
        grant = {
            "token": token(),
            "time": moment(service.now()),
            "user_id": user["id"],
            "origin_user_id": _OWNER_ID,
        }
        # As in the reference's sample: plain http, and not the token above.
        return _single(grant | {"login_url": f"http://reports.example/login?token={token()}"})


class Keywords(Model):
    """Keywords, which no operation changes."""

    def ids(self, service: Service, request: ApiRequest) -> Sequence[int]:
        """Return the ids of the account's keywords, or of a campaign's; an unknown campaign has none."""
        return service.account.keyword_ids(request["campaign_id"])

    def record(self, service: Service, id_: int) -> Record:
        keyword = found(self.name, id_, service.account.keyword(id_))
        return {
            "id": keyword.id, "date_created": moment(keyword.created), "date_modified": moment(keyword.modified),
            "keyword_phrase": keyword.phrase, "primary_keyword": str(keyword.primary).lower(),
            "campaign_id": keyword.campaign_id,
        }  # fmt: skip


class Backlinks(Model):
    """Backlinks, each of one campaign."""

    def ids(self, service: Service, request: ApiRequest) -> Sequence[int]:
        return service.account.backlink_ids(service.campaign(request["campaign_id"])["id"])

    def wanted(self, request: ApiRequest, record: Record) -> bool:
        span = request["date_string"]
        return (
            request["status"] in (None, record["status"])
            and request["link_type"] in ("", "all", record["link_type"])
            and (span is None or span[0] <= record["date_published"] <= span[1])
        )

    def record(self, service: Service, id_: int) -> Record:
        backlink = super().record(service, id_)
        campaign = service.account.campaigns.get(backlink["campaign_id"])
        return found(self.name, id_, campaign and backlink)

    def values(self, service: Service, request: ApiRequest, record: Record) -> Record:
        if record:
            return request.given
        service.campaign(request["campaign_id"])
        return request.given | {"date_created": service.now().date().isoformat()}


def _names(words: str) -> tuple[str, ...]:
    return tuple(words.split())


_LISTED_ONLY = _names(  # the reference shows only null for most of these
    "date_deleted status engineA_ignore_places engineA_places_id engineA_cid engineA_business_id engineA_business_name "
    "timezone"
)
_TEXTS = _names("link_type target_anchor target_url notes")
_PERSON = _names("first_name last_name username password role")
_STATUS = fields.choice(STATUSES)

MODELS: tuple[Model, ...] = (
    Campaigns(
        name="campaign",
        path="/v3/campaigns",
        shown=_names("id date_created date_modified url company scope account_id type group_title")
        + _LISTED_ONLY,
        hidden={
            "create": ("group_title", *_LISTED_ONLY),
            "get": _LISTED_ONLY,
            "update": _LISTED_ONLY,
        },
        searched=("company", "url"),
        written=dict.fromkeys(("url", "company", "scope"), fields.FILLED)
        | {"group_title": fields.CLEARABLE},
        required=("url", "company"),
        fresh=NEW_CAMPAIGN,
    ),
    Users(
        name="user",
        path="/v3/users",
        shown=_names(
            "id date_created email username first_name last_name role campaign_access account_id password"
        ),
        hidden={"create": ("password",), "update": ("password",)},
        searched=_names("first_name last_name username email"),
        asked={"role": fields.STRINGS},
        written=dict.fromkeys(_PERSON, fields.FILLED) | {"email": fields.STRING},
        created={"email_credentials": fields.STRING},
        required=_PERSON,
        fresh={"email": "", "campaign_access": RESTRICTED},
    ),
    Keywords(
        name="keyword",
        path="/v3/keywords",
        shown=_names("id date_created date_modified keyword_phrase primary_keyword campaign_id"),
        searched=("keyword_phrase",),
        asked={"campaign_id": fields.INT32},
    ),
    Backlinks(
        name="backlink",
        path="/v3/backlinks",
        list_path="/v3/resources/backlinks/manager/links",
        shown=_names(
            "id title status date_created date_published url link_type notes domain_authority page_authority "
            "target_anchor target_url campaign_id"
        ),
        hidden={
            **dict.fromkeys(("get", "update"), ("campaign_id",)),
            "list": _names("target_anchor target_url campaign_id"),
        },
        searched=("title", "url", "notes"),
        words=("search", "sort_metric", "sort_direction"),
        asked={
            "campaign_id": fields.INT32,
            "status": _STATUS,
            "date_string": fields.DAYS,
            "link_type": fields.STRING,
        },
        must_ask=("campaign_id",),
        written=dict.fromkeys(("title", "url"), fields.FILLED)
        | {"status": _STATUS, "date_published": fields.DAY}
        | dict.fromkeys(_TEXTS, fields.STRING),
        created={"campaign_id": fields.INT32},
        required=_names("campaign_id title url status date_published"),
        fresh={**dict.fromkeys(_TEXTS, ""), "domain_authority": 0, "page_authority": 0},
    ),
)
