"""A small account on a local port: campaigns, each with a report of a row or of chosen ones."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from seorep_async import SeoRepClient
from tests.scripted_api import ApiRequest, Service, serving


class Account:
    """What the service has: campaigns of an account, a month of each by date, and a number in every row.

    Attributes:
        lists: whether campaigns may be listed; `pages`: how many pages the list is said to have.
        zero: campaigns of account 0.
        hidden: campaigns that can't be looked up, with the status, or with status and body.
        rows: the rows of a report, if they are others.
    """

    number = 1
    pages = 1
    lists = True
    zero: tuple[int, ...] = ()
    hidden: Mapping[int, object] = {}
    rows: Callable[[ApiRequest], list[dict[str, Any]]]

    def __init__(self, account_id: int | None = 1, *, campaigns: int = 2, **facts: Any) -> None:
        self.account_id, self.campaigns, self.rows = account_id, campaigns, self.one_row
        self.__dict__ |= facts

    def answer(self, asked: ApiRequest) -> object:
        if asked.path.startswith("/v3/campaigns/"):
            id_ = int(asked.path.rpartition("/")[2])
            return self.hidden.get(id_, {"data": self.campaign(id_)})
        if asked.path == "/v3/campaigns":
            found = [self.campaign(one) for one in range(1, self.campaigns + 1)]
            return page(found, found, self.pages) if self.lists else 403
        rows = self.rows(asked)
        return self.hidden.get(asked.id, page({"rows": rows, "totals": False}, rows))

    def one_row(self, asked: ApiRequest) -> list[dict[str, Any]]:
        row = (
            {"date": "2023-03"}
            if "date" in asked.path
            else {"keywordId": 10 * asked.id, "keywordPhrase": "shoes"}
        )
        return [row | {"competitors": self.number}]

    def campaign(self, id_: int) -> dict[str, Any]:
        account_id = 0 if id_ in self.zero else self.account_id
        return {"id": id_, "account_id": account_id, "url": "u", "company": "-c"}


def page(data: object, rows: list[Any], pages: int = 1) -> dict[str, Any]:
    return {"metadata": {"total_pages": pages, "total_records": len(rows)}, "data": data}


@asynccontextmanager
async def served(account: Account) -> AsyncIterator[tuple[SeoRepClient, Service]]:
    async with serving(account.answer) as (client, service):
        yield client, service
