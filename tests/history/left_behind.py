"""A database and a dataset of the same pulls, of two accounts in two nights."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from seorep_async import Feed
from seorep_async.export import pull_to
from tests.export.reports import account

NIGHTS = ("2023-03-01", "2023-03-02")


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
