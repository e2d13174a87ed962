"""The operations of models: the reference's sections 2.1 to 2.5, 4.1 to 4.3 and 4.5.

Where the reference is silent: a created user's `campaign_access` is restricted, as no request can set it; a role is any
string. A created backlink has no authority yet: 0; `date_string` is about `date_published`, both ends included. A
campaign's `type` and the keywords' parameter `campaign_id` are not in the reference, but live services have them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date

from attrs import field, frozen

from seorep_async.sandbox.account import Account, Records
from seorep_async.sandbox.request import (
    DIRECTION,
    SEARCH,
    ApiRequest,
    Fields,
    Refusal,
    choice,
)
from seorep_async.sandbox.seeded import NEW_CAMPAIGN, RESTRICTED, Record, moment, text_boolean
from seorep_async.sandbox.service import PAGE, Service, found, in_order, matches

OWNER_ID = 1
"""The user of the key's login grants."""


@frozen
class Model(ABC):
    """A kind of record, and the operations that read it.

    Attributes:
        name: the service's word for one.
        fields: all fields of a record, in the order of responses.
        searched: the fields of which one must contain the string of a list's search.
        hidden: the fields that the responses of an operation leave out.
        words: the parameters of a list for the search, the field to sort by, and the direction.
    """

    name: str
    fields: tuple[str, ...]
    searched: tuple[str, ...]
    hidden: Mapping[str, Collection[str]] = field(factory=dict)
    words: tuple[str, str, str] = ("filter", "order_by", "order_direction")

    @property
    def listing(self) -> Fields:
        """The common fields of a request for a list, which is sorted by any field that a get or a list shows."""
        search, order, direction = self.words
        never = {*self.hidden.get("get", ())} & {*self.hidden.get("list", ())}
        shown = [name for name in self.fields if name not in never]
        return {search: SEARCH, **PAGE, order: choice(shown), direction: DIRECTION}

    @abstractmethod
    def record(self, account: Account, id_: int) -> Record | None:
        """Return a record, or None if there is none with this id."""

    def find(self, service: Service, id_: int) -> Record:
        """Return the record that a request names, or refuse it."""
        return found(self.name, id_, self.record(service.account, id_))

    def get(self, service: Service, request: ApiRequest) -> Record:
        return self._single("get", self.find(service, request.id))

    def page(
        self,
        service: Service,
        request: ApiRequest,
        ids: Callable[[], Sequence[int]],
        only: Callable[[Record], bool] | None = None,
    ) -> Record:
        """Return one page of a list.

        Args:
            ids: returns the ids of all records, oldest first.
            only: selects among the records that contain the string.
        """

        def record(id_: int) -> Record:
            return found(self.name, id_, self.record(service.account, id_))

        question = (self.name, service.account.writes, request.question)
        chosen = service.selections.get(question)
        if chosen is None:
            chosen, (search, order, descending) = ids(), (request[word] for word in self.words)
            if search:
                chosen = [id_ for id_ in chosen if any(matches(record(id_)[name], search) for name in self.searched)]
            if only:
                chosen = [id_ for id_ in chosen if only(record(id_))]
            if order or descending:
                chosen = in_order(chosen, lambda id_: record(id_).get(order or "id"), descending)
            service.selections.store(question, chosen)
        metadata, part = service.page(request, chosen)
        return {"metadata": metadata, "data": [self._shown("list", record(id_)) for id_ in part]}

    def _shown(self, operation: str, record: Record) -> Record:
        hidden = self.hidden.get(operation, ())
        return {name: record.get(name) for name in self.fields if name not in hidden}

    def _single(self, operation: str, record: Record) -> Record:
        return single(self._shown(operation, record))


def single(record: Record) -> Record:
    """Return the response of one record."""
    return {"metadata": {"total_pages": 1, "total_records": 1}, "data": record}


@frozen(kw_only=True)
class WritableModel(Model):
    """A kind of record that requests also create, change and delete.

    Attributes:
        records: returns an account's records.
        stored: the fields that writes set in a record.
    """

    records: Callable[[Account], Records]
    stored: tuple[str, ...]

    def record(self, account: Account, id_: int) -> Record | None:
        return self.records(account).get(id_)

    @abstractmethod
    def new(self, service: Service, request: ApiRequest) -> Record:
        """Return what a created record has besides what the request sets."""

    def values(self, service: Service, request: ApiRequest, record: Record | None) -> Record:
        """Return the values that a write sets in a record, or in a new one."""
        return request.given(self.stored)

    def create(self, service: Service, request: ApiRequest) -> Record:
        new = self.new(service, request) | self.values(service, request, None)
        return self._single("create", self.records(service.account).add(new))

    def update(self, service: Service, request: ApiRequest) -> Record:
        """Change a record; fields that are not given stay."""
        record = self.find(service, request.id)
        if values := self.values(service, request, record):
            record = self.records(service.account).put(record | values)
        return self._single("update", record)

    def delete(self, service: Service, request: ApiRequest) -> None:
        self.records(service.account).remove(self.find(service, request.id)["id"])


class Campaigns(WritableModel):
    """Campaigns, deleted with their keywords, backlinks and feeds."""

    def find(self, service: Service, id_: int) -> Record:
        return service.campaign(id_)

    def new(self, service: Service, request: ApiRequest) -> Record:
        return NEW_CAMPAIGN | {"date_created": moment(service.now()), "account_id": service.account.account_id}

    def values(self, service: Service, request: ApiRequest, record: Record | None) -> Record:
        values = super().values(service, request, record)
        if values.get("group_title") == "":
            values["group_title"] = None
        return values | {"date_modified": moment(service.now())} if values and record else values

    def list_(self, service: Service, request: ApiRequest) -> Record:
        return self.page(service, request, service.account.campaign_ids)


class Users(WritableModel):
    """Users, whose passwords are neither stored nor shown."""

    def new(self, service: Service, request: ApiRequest) -> Record:
        created = {"date_created": moment(service.now()), "account_id": service.account.account_id}
        return created | {"email": "", "campaign_access": RESTRICTED}

    def values(self, service: Service, request: ApiRequest, record: Record | None) -> Record:
        values = super().values(service, request, record)
        named = service.account.user_named(values["username"]) if "username" in values else None
        if named and (record is None or named["id"] != record["id"]):
            raise Refusal(409, "username is taken: it must be unique")
        return values

    def list_(self, service: Service, request: ApiRequest) -> Record:
        roles = request["role"]
        only = (lambda record: record["role"] in roles) if roles else None
        return self.page(service, request, service.account.user_ids, only)

    def login_grant(self, service: Service, request: ApiRequest) -> Record:
        """Grant a login to a user; each grant has a token of its own."""
        user, token = self.find(service, request.id), service.account.token
        return single(
            {
                "token": token(),
                "time": moment(service.now()),
                # As in the reference's sample: plain http, and not the token above.
                "login_url": f"http://reports.example/login?token={token()}",
                "user_id": user["id"],
                "origin_user_id": OWNER_ID,
            }
        )


class Keywords(Model):
    """Keywords, which no operation changes."""

    def record(self, account: Account, id_: int) -> Record | None:
        keyword = account.keyword(id_)
        if keyword is None:
            return None
        return {
            "id": keyword.id,
            "date_created": moment(keyword.created),
            "date_modified": moment(keyword.modified),
            "keyword_phrase": keyword.phrase,
            "primary_keyword": text_boolean(keyword.primary),
            "campaign_id": keyword.campaign_id,
        }

    def list_(self, service: Service, request: ApiRequest) -> Record:
        """List the account's keywords; an unknown campaign has none."""
        return self.page(service, request, lambda: service.account.keyword_ids(request["campaign_id"]))


class Backlinks(WritableModel):
    """Backlinks, each of one campaign."""

    def record(self, account: Account, id_: int) -> Record | None:
        backlink = account.backlinks.get(id_)
        return backlink if backlink and account.campaigns.get(backlink["campaign_id"]) else None

    def new(self, service: Service, request: ApiRequest) -> Record:
        campaign = service.campaign(request["campaign_id"])
        empty = dict.fromkeys(TEXTS, "")
        created = {"campaign_id": campaign["id"], "date_created": service.now().date().isoformat()}
        return {**empty, **created, "domain_authority": 0, "page_authority": 0}

    def values(self, service: Service, request: ApiRequest, record: Record | None) -> Record:
        values = super().values(service, request, record)
        return {name: value.isoformat() if isinstance(value, date) else value for name, value in values.items()}

    def list_(self, service: Service, request: ApiRequest) -> Record:
        campaign = service.campaign(request["campaign_id"])
        status, link_type, span = request["status"], request["link_type"], request["date_string"]

        def wanted(record: Record) -> bool:
            return (
                status in (None, record["status"])
                and link_type in ("", "all", record["link_type"])
                and (span is None or span[0].isoformat() <= record["date_published"] <= span[1].isoformat())
            )

        return self.page(service, request, lambda: service.account.backlink_ids(campaign["id"]), wanted)


# The reference shows only null for most of these.
_LISTED_ONLY = (
    *("date_deleted", "status", "engineA_ignore_places", "engineA_places_id", "engineA_cid"),
    *("engineA_business_id", "engineA_business_name", "timezone"),
)
TEXTS = ("link_type", "target_anchor", "target_url", "notes")
"""A backlink's fields that may be empty."""

CAMPAIGNS = Campaigns(
    name="campaign",
    records=lambda account: account.campaigns,
    fields=(
        *("id", "date_created", "date_modified", "url", "company", "scope", "account_id", "type", "group_title"),
        *_LISTED_ONLY,
    ),
    searched=("company", "url"),
    stored=("url", "company", "scope", "group_title"),
    hidden={"create": ("group_title", *_LISTED_ONLY), "get": _LISTED_ONLY, "update": _LISTED_ONLY},
)
USERS = Users(
    name="user",
    records=lambda account: account.users,
    fields=(
        *("id", "date_created", "email", "username", "first_name", "last_name", "role", "campaign_access"),
        *("account_id", "password"),
    ),
    searched=("first_name", "last_name", "username", "email"),
    stored=("first_name", "last_name", "username", "email", "role"),
    hidden={"create": ("password",), "update": ("password",)},
)
KEYWORDS = Keywords(
    name="keyword",
    fields=("id", "date_created", "date_modified", "keyword_phrase", "primary_keyword", "campaign_id"),
    searched=("keyword_phrase",),
)
BACKLINKS = Backlinks(
    name="backlink",
    records=lambda account: account.backlinks,
    fields=(
        *("id", "title", "status", "date_created", "date_published", "url", "link_type", "notes", "domain_authority"),
        *("page_authority", "target_anchor", "target_url", "campaign_id"),
    ),
    searched=("title", "url", "notes"),
    stored=("title", "url", "status", "date_published", *TEXTS),
    hidden={
        **dict.fromkeys(("get", "update"), ("campaign_id",)),
        "list": ("target_anchor", "target_url", "campaign_id"),
    },
    words=("search", "sort_metric", "sort_direction"),
)
