"""A small account on a local port: campaigns, each with a report of one row or of a test's rows."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from seorep_async import SeoRepClient
from tests.scripted_api import ApiRequest, Service, serving


class Account:
    """Campaigns of an account, a month of each by date, and a number in every row.

    Attributes:
        lists: whether campaigns may be listed.
        pages: the number of pages that the list says it has.
        zero: campaigns of account 0.
        hidden: campaigns that can't be looked up, with the status, or with status and body.
        rows: returns the rows of a report, if they are not the usual ones.
    """

    number = 1
    pages = 1
    lists = True
    zero: tuple[int, ...] = ()
    hidden: Mapping[int, object] = {}
    rows: Callable[[ApiRequest], list[dict[str, Any]]]

    def __init__(self, account_id: int | None = 1, *, campaigns: int = 2, **facts: Any) -> None:
        self.account_id = account_id
        self.campaigns = campaigns
        self.rows = self.one_row
        self.__dict__ |= facts

    def answer(self, request: ApiRequest) -> object:
        if request.path.startswith("/v3/campaigns/"):
            id_ = int(request.path.rpartition("/")[2])
            return self.hidden.get(id_, {"data": self.campaign(id_)})
        if request.path == "/v3/campaigns":
            if not self.lists:
                return 403
            campaigns = [self.campaign(number) for number in range(1, self.campaigns + 1)]
            return page(campaigns, campaigns, self.pages)
        rows = self.rows(request)
        report = page({"rows": rows, "totals": False}, rows)
        return self.hidden.get(request.id, report)

    def one_row(self, request: ApiRequest) -> list[dict[str, Any]]:
        if "date" in request.path:
            row: dict[str, Any] = {"date": "2023-03"}
        else:
            row = {"keywordId": 10 * request.id, "keywordPhrase": "shoes"}
        return [row | {"competitors": self.number}]

    def campaign(self, id_: int) -> dict[str, Any]:
        account_id = 0 if id_ in self.zero else self.account_id
        return {"id": id_, "account_id": account_id, "url": "u", "company": "-c"}


def page(data: object, rows: list[Any], pages: int = 1) -> dict[str, Any]:
    return {"metadata": {"total_pages": pages, "total_records": len(rows)}, "data": data}


def reports_in(service: Service) -> list[ApiRequest]:
    """Return the requests for reports that arrived."""
    return [request for request in service.requests if "rankings" in request.path]


@asynccontextmanager
async def served(account: Account) -> AsyncIterator[tuple[SeoRepClient, Service]]:
    async with serving(account.answer) as (client, service):
        yield client, service
