"""Keys refused during an export, and lookups of single campaigns."""

from pathlib import Path
from typing import Any

import pytest

from seorep_async import AuthenticationError, NotFoundError
from seorep_async.export import pull_to
from seorep_async.export.lookups import look_up
from tests.export.accounts import Account
from tests.scripted_api import LIST, ApiRequest, serving


def answer(request: ApiRequest) -> Any:
    """Return one campaign, or page 1 of a list so long that looking up each id is cheaper."""
    if request.path == "/v3/campaigns":
        return LIST.envelope([1], 500, 500)
    return {"data": LIST.row(int(request.path.rpartition("/")[2]))}


async def test_lookups_continue_in_order_after_a_missing_campaign() -> None:
    def script(request: ApiRequest) -> Any:
        return 404 if request.path.endswith("/3") else answer(request)

    async with serving(script) as (client, _):
        campaigns, failure = await look_up(client, [5, 3, 9])
    assert [campaign.id for campaign in campaigns] == [5, 9]
    assert isinstance(failure, NotFoundError)


@pytest.mark.parametrize(
    ("status", "most"),
    [
        (401, 1 + 16),  # one success, and the requests in flight
        (403, 1 + 16 + 8 + 1),  # eight more, and one that asks about the key
    ],
)
async def test_lookups_under_a_revoked_key_are_few(status: int, most: int) -> None:
    def script(request: ApiRequest) -> Any:
        return answer(request) if len(service.requests) == 1 else status

    async with serving(script) as (client, service):
        with pytest.raises(AuthenticationError):
            await look_up(client, range(1, 101))
    assert len(service.requests) <= most


async def test_lookups_continue_if_a_valid_key_gets_403s() -> None:
    def script(request: ApiRequest) -> Any:
        return answer(request) if request.path == "/v3/campaigns" else 403

    async with serving(script) as (client, service):
        campaigns, failure = await look_up(client, range(1, 101))
    assert campaigns == []
    assert isinstance(failure, AuthenticationError)
    assert len(service.requests) <= 1 + 100 + 3


@pytest.mark.parametrize(
    "accepted", [0, 6, 20, 40], ids=["at once", "early", "in the middle", "at the last report"]
)
async def test_an_export_under_a_revoked_key_raises_its_refusal(
    accepted: int, tmp_path: Path
) -> None:
    account = Account(campaigns=40)

    def script(request: ApiRequest) -> Any:
        return account.answer(request) if len(service.requests) <= accepted else 403

    async with serving(script) as (client, service):
        with pytest.raises(AuthenticationError) as caught:
            await pull_to(client, None, "2023-01-01", "2023-01-31", out=tmp_path / "x.csv")
    assert caught.value.subject is None
    assert not (tmp_path / "x.csv").exists()
