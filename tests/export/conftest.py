import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from seorep_async import SeoRepClient
from tests.export.accounts import Account, served
from tests.export.golden_nights import pull
from tests.scripted_api import Service

ClientAndService = tuple[SeoRepClient, Service]


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(tables_at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def account() -> Account:
    """Return the usual account. A test may change it, or name another as a parameter."""
    return Account()


@pytest.fixture
async def client_and_service(account: Account) -> AsyncIterator[ClientAndService]:
    async with served(account) as opened:
        yield opened


@pytest.fixture
def client(client_and_service: ClientAndService) -> SeoRepClient:
    """Return a client of the service that has `account`."""
    return client_and_service[0]


@pytest.fixture
def service(client_and_service: ClientAndService) -> Service:
    """Return the service that has `account`."""
    return client_and_service[1]


@pytest.fixture(scope="session")
def first_night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the database of a night of the usual account under the name acme.

    No test changes it.
    """
    out = tmp_path_factory.mktemp("night") / "x.duckdb"

    async def run() -> None:
        async with served(Account()) as (client, _):
            await pull(client, out, start="2023-03-01", snapshot_date="2023-03-31")

    asyncio.run(run())
    return out


@pytest.fixture
def pulled(first_night: Path, tmp_path: Path) -> Path:
    """Return a copy of the database of a night."""
    return Path(shutil.copy(first_night, tmp_path / "x.duckdb"))
