"""What pulls leave behind: a database and a dataset of two accounts in two nights, and nights of several windows."""

import asyncio
from pathlib import Path
from typing import Any

import duckdb
from tests.export.reports import account

from seorep_async import Feed
from seorep_async.export import pull_to
from tests.scripted_api import Asked, serving

NIGHTS = ("2023-03-01", "2023-03-02")
WINDOWS = {("06-01", "06-20"): (2, 40), ("06-01", "06-30"): (15, 8), ("06-11", "06-30"): (30, 1)}
"""The first and last day of each window, and the rank of a keyword in it, on two nights."""


def pulled(folder: Path) -> Path:
    """Pull into `a.duckdb` and `a/` in a folder, and return it."""

    async def pull() -> None:
        async with account(campaigns=2, keywords=2) as (_, client):
            for night in NIGHTS:
                for name in ("acme", "other"):
                    for out in (folder / "a.duckdb", f"{folder}/a/"):
                        options: Any = {"account": name, "snapshot_date": night, "feeds": Feed}
                        await pull_to(client, None, "2023-01-01", "2023-01-31", out=out, **options)

    asyncio.run(pull())
    return folder


async def pulled_windows(out: str, *, latest_first: bool) -> str:
    """Pull each of WINDOWS on two nights, and return the target."""
    windows = sorted(WINDOWS, key=lambda window: window[1], reverse=latest_first)
    rank: int

    def answer(asked: Asked) -> object:
        row = {"keywordId": 11, "keywordPhrase": "shoes", "engineARanking": rank}
        campaigns: object = [{"id": 1, "account_id": 1, "url": "u", "company": "c"}]
        data = campaigns if asked.path == "/v3/campaigns" else {"rows": [row], "totals": False}
        return {"metadata": {"total_pages": 1, "total_records": 1}, "data": data}

    async with serving(answer) as (client, _):
        for number, night in enumerate(("2022-07-01", "2022-07-02")):
            for first, last in windows:
                rank = WINDOWS[first, last][number]
                await pull_to(client, None, f"2022-{first}", f"2022-{last}", out=out, snapshot_date=night)
    return out


def compute_accounts(file: Path) -> None:
    """Put a computed column in place of the accounts of a database's pulls, which fails once it is read."""
    computed = "CASE current_setting('access_mode') WHEN 'read_only' THEN error('computed') ELSE service END"
    with duckdb.connect(str(file)) as database:
        columns = database.execute("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'pulls'")
        others = ", ".join(f"{name} {kind}" for name, kind in columns.fetchall() if name != "account")
        database.execute(f"DROP TABLE pulls; CREATE TABLE pulls (account VARCHAR AS ({computed}), {others})")
        database.execute("INSERT INTO pulls (service) VALUES ('x')")
