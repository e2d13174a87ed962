"""The 21 operations, and how each is called: the tests' own copy of part 4 of the reference.

A line of the table is an operation of the client, with the method and path that it must use. Below
it are the inputs that the reference names; `!` marks those that it requires. An input that is part
of the path is not sent in another place.
"""

import datetime as dt
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import attrs
import pytest

from seorep_async import Listing, SeoRepClient

Arguments = dict[str, Any]
Pairs = list[tuple[str, str]]

_TABLE = """
    campaigns.create POST /v3/campaigns
        url! company! scope group_title
    campaigns.get GET /v3/campaigns/7
        id!
    campaigns.update PUT /v3/campaigns/7
        id! url company scope group_title
    campaigns.list GET /v3/campaigns
        filter limit order_by order_direction
    campaigns.delete DELETE /v3/campaigns/7
        id!
    users.login_grant GET /v3/users/7/loginGrant
        id!
    users.create POST /v3/users
        first_name! last_name! username! password! email role! email_credentials
    users.get GET /v3/users/7
        id!
    users.update PUT /v3/users/7
        id! first_name last_name username email password role
    users.list GET /v3/users
        filter limit order_by order_direction role
    users.delete DELETE /v3/users/7
        id!
    keywords.get GET /v3/keywords/7
        id!
    keywords.list GET /v3/keywords
        filter limit order_by order_direction
    rankings.campaign_by_date GET /v3/resources/rankings/campaign/date
        campaign_id! start_date! end_date! search limit sort_metric sort_direction
        compare_previous_period
    rankings.campaign GET /v3/resources/rankings/campaign
        campaign_id! start_date! end_date! search limit sort_metric sort_direction
        compare_previous_period
    rankings.keyword_by_date GET /v3/resources/rankings/keyword/date
        keyword_id! start_date! end_date! search limit sort_metric sort_direction
        compare_previous_period
    backlinks.create POST /v3/backlinks
        campaign_id! title! url! status! date_published! link_type target_anchor target_url
        notes
    backlinks.get GET /v3/backlinks/7
        id!
    backlinks.update PUT /v3/backlinks/7
        id! date_published status url link_type notes title target_anchor target_url
    backlinks.list GET /v3/resources/backlinks/manager/links
        campaign_id! status limit sort_metric sort_direction date_string search link_type
    backlinks.delete DELETE /v3/backlinks/7
        id!
"""

IDS = frozenset({"id", "campaign_id", "keyword_id"})
DATES = frozenset({"start_date", "end_date", "date_published"})
CHECKED = IDS | DATES | {"status", "limit", "date_string", "password"}
"""Inputs that do not accept every string."""

VALUES: dict[str, Any] = {
    "id": 7,
    "campaign_id": 7,
    "keyword_id": 7,
    "url": "https://wren.example/?a=1&b=ü",
    "company": "Wren & Søn 100%+",
    "scope": "galaxy",
    "group_title": "#1 birds; rare",
    "filter": "running shoes",
    "search": "running shoes",
    "limit": 50,
    "order_by": "whim",
    "order_direction": "sideways",
    "sort_metric": "engineARanking",
    "sort_direction": "sideways",
    "first_name": "Ida",
    "last_name": "Wren-Ånd",
    "username": "ida@wren",
    "password": "p=ss&w rd",
    "email": "ida+1@wren.example",
    "role": "wizard",
    "email_credentials": True,
    "compare_previous_period": False,
    "start_date": dt.date(2023, 1, 2),
    "end_date": "2023-03-04",
    "title": "Ten wrens",
    "status": "unpublished",
    "date_published": "2022-03-04",
    "date_string": (dt.date(2014, 1, 2), "2015-06-07"),
    "link_type": "carrier pigeon",
    "target_anchor": "wrens",
    "target_url": "https://wren.example/all",
    "notes": "ask\nIda",
}
"""One value for each input. Where the reference lists no values, it is an unlikely one."""

WRITTEN: dict[str, Pairs] = {name: [(name, str(value))] for name, value in VALUES.items()}
WRITTEN |= {
    "search": [("filter", "running shoes"), ("search", "running shoes")],
    "email_credentials": [("email_credentials", "true")],
    "compare_previous_period": [("compare_previous_period", "false")],
    "date_string": [("date_string", "2014-01-02-2015-06-07")],
}
"""The parameters that each of these values becomes."""


@attrs.frozen
class Operation:
    """One operation: its name on the client, and its description in the reference."""

    name: str
    method: str
    path: str
    inputs: tuple[str, ...]
    required: tuple[str, ...]

    @property
    def verb(self) -> str:
        return self.name.partition(".")[2]

    @property
    def resource(self) -> str:
        return self.name.partition(".")[0]

    @property
    def is_write(self) -> bool:
        return self.method not in ("GET", "DELETE")

    @property
    def is_listing(self) -> bool:
        return self.verb == "list" or self.resource == "rankings"

    @property
    def optional(self) -> tuple[str, ...]:
        return tuple(name for name in self.inputs if name not in self.required)

    @property
    def least(self) -> Arguments:
        """The fewest arguments for a call."""
        return {name: VALUES[name] for name in self.required}

    @property
    def all(self) -> Arguments:
        """All arguments, except extra parameters."""
        return {name: VALUES[name] for name in self.inputs}

    @property
    def changing(self) -> Arguments:
        """Like `least`; a change changes something."""
        if self.verb != "update":
            return self.least
        changed = self.optional[0]
        return self.least | {changed: VALUES[changed]}

    def method_of(self, client: SeoRepClient) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(getattr(client, self.resource), self.verb)
        return method

    def ask(self, client: SeoRepClient, **arguments: Any) -> Awaitable[Any]:
        """Call the operation. Only page 1 of a listing is requested."""
        response: Any = self.method_of(client)(**arguments)
        return response.page(1) if isinstance(response, Listing) else response

    def written(self, arguments: Arguments) -> Pairs:
        """Return the parameters that values of `VALUES` must become."""
        pairs: Pairs = []
        for name in arguments:
            if name != "id":
                pairs += self._written(name)
        if self.is_listing:
            pairs.append(("page", "1"))
        return pairs

    def _written(self, name: str) -> Pairs:
        if self.name == "backlinks.list" and name == "search":
            return [("search", VALUES[name])]
        if self.name == "users.list" and name == "role":
            return [("role[]", VALUES[name])]
        return WRITTEN[name]

    @property
    def answer(self) -> dict[str, Any]:
        """The least that the service can answer; nothing for a deletion."""
        if self.is_listing:
            return {"metadata": {"total_pages": 1, "total_records": 0}, "data": []}
        least = LEAST.get(self.name, LEAST[self.resource])
        return {"metadata": {"total_pages": 1, "total_records": 1}, "data": least}


LEAST: dict[str, dict[str, Any]] = {
    "campaigns": {"id": 7, "url": "wren.example", "company": "Wren"},
    "users": {"id": 7, "username": "ida"},
    "users.login_grant": {"token": "t", "login_url": "u", "user_id": 7},
    "keywords": {"id": 7, "keyword_phrase": "shoes"},
    "backlinks": {"id": 7, "title": "Ten wrens"},
}


def _operation(lines: str) -> Operation:
    name, method, path, *marked_names = lines.split()
    inputs = tuple(marked_name.rstrip("!") for marked_name in marked_names)
    required = tuple(name.rstrip("!") for name in marked_names if name.endswith("!"))
    return Operation(name, method, path, inputs, required)


OPERATIONS = tuple(_operation(lines) for lines in re.split(r"\n {4}(?=\w)", _TABLE.strip()))
BY_NAME = {operation.name: operation for operation in OPERATIONS}


def each(operations: Iterable[Operation]) -> pytest.MarkDecorator:
    """Test each of some operations."""
    return pytest.mark.parametrize("operation", operations, ids=lambda operation: operation.name)
