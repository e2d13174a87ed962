"""The operations on records: the reference's sections 2.1 to 2.5, 4.1 to 4.3 and 4.5.

The reference leaves some questions open. Here, a created user's `campaign_access` is restricted,
because no request can set it. A role may be any string. `date_string` filters backlinks by
`date_published`, including both days. A campaign's `type` and the keywords' parameter `campaign_id`
are not in the reference, but live services have them.
"""

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence

from seorep_async.sandbox import request as fields
from seorep_async.sandbox.account import Records
from seorep_async.sandbox.request import ApiRequest, Fields, Operation, Refusal, found_record
from seorep_async.sandbox.seeds import NEW_CAMPAIGN, RESTRICTED, STATUSES, RecordData, as_text
from seorep_async.sandbox.service import SandboxService, contains_all, in_order

_OWNER_ID = 1  # the user of the key's login grants
_SINGLE = {"total_pages": 1, "total_records": 1}
"""The metadata of a single record."""


class RecordEndpoints:
    """A kind of record, and the operations on it.

    Attributes:
        name: the service's word for a record of this kind.
        path: the path of the collection.
        list_path: the path of its list, if it differs.
        visible: all fields of a record, in the order of responses.
        hidden: the fields that the responses of an operation leave out.
        searched: the fields in which a list searches; one must contain the string.
        search_name: the parameter of a list's search; `order_name` and `direction_name` sort it.
        filters: the other parameters of a list.
        required_filters: the filters that a list requires.
        written: the fields of a write, if there are any.
        created: the fields that only a create takes.
        required: the fields that a create requires.
        defaults: values of a created record, unless the request sets them.
    """

    name: str
    path: str
    list_path: str = ""
    visible: Sequence[str]
    hidden: Mapping[str, Collection[str]] = {}
    searched: Sequence[str]
    search_name: str = "filter"
    order_name: str = "order_by"
    direction_name: str = "order_direction"
    filters: Fields = {}
    required_filters: Sequence[str] = ()
    written: Fields = {}
    created: Fields = {}
    required: Sequence[str] = ()
    defaults: Mapping[str, object] = {}

    def operations(self) -> Iterator[Operation]:
        """Yield the operations."""
        list_path = self.list_path or self.path
        list_parameters = {
            self.search_name: fields.STRING,
            **fields.PAGE,
            self.order_name: fields.choice(self.visible),
            self.direction_name: fields.DIRECTION,
            **self.filters,
        }
        record_path = f"{self.path}/:id"
        yield Operation("GET", record_path, self.get)
        yield Operation("GET", list_path, self.list_records, list_parameters, self.required_filters)
        if self.written:
            create_fields = {**self.created, **self.written}
            yield Operation("POST", self.path, self.create, create_fields, self.required)
            yield Operation("PUT", record_path, self.update, self.written)
            yield Operation("DELETE", record_path, self.delete)

    def ids(self, service: SandboxService, request: ApiRequest) -> Sequence[int]:
        """Return the ids of all records of a list, oldest first."""
        return self._records(service).ids()

    def is_selected(self, request: ApiRequest, record: RecordData) -> bool:
        """Return whether the filters of a list let a record through."""
        return True

    def record(self, service: SandboxService, record_id: int) -> RecordData:
        """Return a record. Refuse an id that no record has."""
        return found_record(self.name, record_id, self._records(service).get(record_id))

    def find(self, service: SandboxService, record_id: int) -> RecordData:
        """Return the record to get, change or delete. Refuse a forbidden or failing campaign."""
        return self.record(service, record_id)

    def values(
        self, service: SandboxService, request: ApiRequest, record: RecordData
    ) -> RecordData:
        """Return the values that a write sets. `record` is empty if it is being created."""
        return request.sent

    def get(self, service: SandboxService, request: ApiRequest) -> RecordData:
        """Return one record."""
        record = self.find(service, request.id)
        return self._single("get", record)

    def list_records(self, service: SandboxService, request: ApiRequest) -> RecordData:
        """Return one page of a list."""

        def find() -> tuple[Sequence[int], None]:
            return self._listed_ids(service, request), None

        metadata, page_ids, _ = service.page(self.name, request, find)
        data = []
        for record_id in page_ids:
            record = self.record(service, record_id)
            data.append(self._response("list", record))
        return {"metadata": metadata, "data": data}

    def _listed_ids(self, service: SandboxService, request: ApiRequest) -> Sequence[int]:
        """Return the ids of a whole list, all its pages, after its search, filters and order."""
        ids = self.ids(service, request)
        # Without a filter or an order, only the records of one page need to be made.
        if request.sent.keys() <= fields.PAGE.keys():
            return ids
        searches = [request[self.search_name]]
        selected = []
        for record_id in ids:
            record = self.record(service, record_id)
            is_match = any(contains_all(record[name], searches) for name in self.searched)
            if is_match and self.is_selected(request, record):
                selected.append(record)
        order = request[self.order_name] or "id"
        selected = in_order(
            selected,
            lambda record: record.get(order),
            descending=request[self.direction_name],
        )
        return [record["id"] for record in selected]

    def create(self, service: SandboxService, request: ApiRequest) -> RecordData:
        """Create a record."""
        record = {
            "date_created": as_text(service.now()),
            "account_id": service.account.account_id,
            **self.defaults,
            **self.values(service, request, record={}),
        }
        added = self._records(service).add(record)
        return self._single("create", added)

    def update(self, service: SandboxService, request: ApiRequest) -> RecordData:
        """Change the fields of a record that the request names."""
        record = self.find(service, request.id)
        values = self.values(service, request, record)
        if values:
            date_modified = as_text(service.now())
            changed = {**record, **values, "date_modified": date_modified}
            record = self._records(service).put(changed)
        return self._single("update", record)

    def delete(self, service: SandboxService, request: ApiRequest) -> None:
        """Delete a record."""
        record = self.find(service, request.id)
        self._records(service).remove(record["id"])

    def _records(self, service: SandboxService) -> Records:
        return service.account.records[self.name]

    def _single(self, operation: str, record: RecordData) -> RecordData:
        return {"metadata": _SINGLE, "data": self._response(operation, record)}

    def _response(self, operation: str, record: RecordData) -> RecordData:
        """Return the fields of a record that the response of an operation shows."""
        hidden = self.hidden.get(operation, ())
        return {name: record.get(name) for name in self.visible if name not in hidden}


# The reference shows only null for most of these.
_LIST_ONLY_FIELDS = fields.field_names("""
    date_deleted status engineA_ignore_places engineA_places_id engineA_cid
    engineA_business_id engineA_business_name timezone
""")


class CampaignEndpoints(RecordEndpoints):
    """Campaigns, deleted with their keywords, feeds and list of backlinks."""

    name = "campaign"
    path = "/v3/campaigns"
    visible: Sequence[str] = (
        *fields.field_names("id date_created date_modified url company scope account_id type"),
        "group_title",
        *_LIST_ONLY_FIELDS,
    )
    hidden: Mapping[str, Collection[str]] = {
        "create": ("group_title", *_LIST_ONLY_FIELDS),
        "get": _LIST_ONLY_FIELDS,
        "update": _LIST_ONLY_FIELDS,
    }
    searched: Sequence[str] = ("company", "url")
    required: Sequence[str] = ("url", "company")
    written: Fields = {
        **dict.fromkeys(("url", "company", "scope"), fields.FILLED),
        "group_title": fields.CLEARABLE,
    }
    defaults: Mapping[str, object] = NEW_CAMPAIGN

    def find(self, service: SandboxService, record_id: int) -> RecordData:
        return service.campaign(record_id)


class UserEndpoints(RecordEndpoints):
    """Users, whose passwords are neither stored nor visible."""

    name = "user"
    path = "/v3/users"
    visible: Sequence[str] = fields.field_names("""
        id date_created email username first_name last_name role campaign_access account_id
        password
    """)
    hidden: Mapping[str, Collection[str]] = {"create": ("password",), "update": ("password",)}
    searched: Sequence[str] = ("first_name", "last_name", "username", "email")
    filters: Fields = {"role": fields.STRINGS}
    required: Sequence[str] = fields.field_names("first_name last_name username password role")
    written: Fields = {**dict.fromkeys(required, fields.FILLED), "email": fields.STRING}
    created: Fields = {"email_credentials": fields.STRING}
    defaults: Mapping[str, object] = {"email": "", "campaign_access": RESTRICTED}

    def operations(self) -> Iterator[Operation]:
        yield from super().operations()
        yield Operation("GET", f"{self.path}/:id/loginGrant", self.login_grant)

    def is_selected(self, request: ApiRequest, record: RecordData) -> bool:
        return not request["role"] or record["role"] in request["role"]

    def values(
        self, service: SandboxService, request: ApiRequest, record: RecordData
    ) -> RecordData:
        """Return the values to store. Refuse the username of another user."""
        # A password is never stored.
        values = {name: value for name, value in request.sent.items() if name != "password"}
        if "username" not in values:
            return values
        # A user may keep its own name, but not take another's.
        for user_id in self._records(service).ids():
            username = self.record(service, user_id)["username"]
            if username == values["username"] and user_id != record.get("id"):
                raise Refusal(409, "username is taken: it must be unique")
        return values

    def login_grant(self, service: SandboxService, request: ApiRequest) -> RecordData:
        """Grant a login to a user. Each grant has a token of its own."""
        user = self.find(service, request.id)
        grant = {
            "token": secrets.token_hex(),
            "time": as_text(service.now()),
            "user_id": user["id"],
            "origin_user_id": _OWNER_ID,
            # As in the reference's sample: plain http, and another token than the one above.
            "login_url": f"http://reports.example/login?token={secrets.token_hex()}",
        }
        return {"metadata": _SINGLE, "data": grant}


class KeywordEndpoints(RecordEndpoints):
    """Keywords, which no operation changes."""

    name = "keyword"
    path = "/v3/keywords"
    visible: Sequence[str] = fields.field_names(
        "id date_created date_modified keyword_phrase primary_keyword campaign_id"
    )
    searched: Sequence[str] = ("keyword_phrase",)
    filters: Fields = {"campaign_id": fields.INT32}

    def ids(self, service: SandboxService, request: ApiRequest) -> Sequence[int]:
        """Return the ids of the account's keywords, or of a campaign's.

        An unknown campaign has no keywords.
        """
        if request["campaign_id"]:
            return service.account.keyword_ids(request["campaign_id"])
        return service.account.all_keyword_ids()

    def record(self, service: SandboxService, record_id: int) -> RecordData:
        """Return a keyword as the service sends it."""
        keyword = found_record(self.name, record_id, service.account.keyword(record_id))
        return {
            "id": keyword.id,
            "date_created": as_text(keyword.created),
            "date_modified": as_text(keyword.modified),
            "keyword_phrase": keyword.phrase,
            "primary_keyword": str(keyword.primary).lower(),
            "campaign_id": keyword.campaign_id,
        }


_OPTIONAL_TEXTS = fields.field_names("link_type target_anchor target_url notes")


class BacklinkEndpoints(RecordEndpoints):
    """Backlinks, each of one campaign."""

    name = "backlink"
    path = "/v3/backlinks"
    list_path = "/v3/resources/backlinks/manager/links"
    visible: Sequence[str] = fields.field_names("""
        id title status date_created date_published url link_type notes domain_authority
        page_authority target_anchor target_url campaign_id
    """)
    hidden: Mapping[str, Collection[str]] = {
        "get": ("campaign_id",),
        "update": ("campaign_id",),
        "list": ("target_anchor", "target_url", "campaign_id"),
    }
    searched: Sequence[str] = ("title", "url", "notes")
    search_name = "search"
    order_name = "sort_metric"
    direction_name = "sort_direction"
    filters: Fields = {
        "campaign_id": fields.INT32,
        "status": fields.choice(STATUSES),
        "date_string": fields.DAYS,
        "link_type": fields.STRING,
    }
    required_filters: Sequence[str] = ("campaign_id",)
    created: Fields = {"campaign_id": fields.INT32}
    required: Sequence[str] = ("campaign_id", "title", "url", "status", "date_published")
    written: Fields = {
        "title": fields.FILLED,
        "url": fields.FILLED,
        "status": fields.choice(STATUSES),
        "date_published": fields.DAY,
        **dict.fromkeys(_OPTIONAL_TEXTS, fields.STRING),
    }
    # A created backlink has no authority yet.
    defaults: Mapping[str, object] = dict.fromkeys(_OPTIONAL_TEXTS, "") | {
        "domain_authority": 0,
        "page_authority": 0,
    }

    def ids(self, service: SandboxService, request: ApiRequest) -> Sequence[int]:
        campaign = service.campaign(request["campaign_id"])
        return service.account.backlink_ids(campaign["id"])

    def is_selected(self, request: ApiRequest, record: RecordData) -> bool:
        if request["status"] not in (None, record["status"]):
            return False
        if request["link_type"] not in ("", "all", record["link_type"]):
            return False
        days = request["date_string"]  # already parsed into the first and the last day
        return days is None or days[0] <= record["date_published"] <= days[1]

    def values(
        self, service: SandboxService, request: ApiRequest, record: RecordData
    ) -> RecordData:
        if record:
            return request.sent
        # A new backlink needs a campaign that exists and that the key has access to.
        service.campaign(request["campaign_id"])
        return {**request.sent, "date_created": service.now().date().isoformat()}


RECORDS: tuple[RecordEndpoints, ...] = (
    CampaignEndpoints(),
    UserEndpoints(),
    KeywordEndpoints(),
    BacklinkEndpoints(),
)
