"""One small night in every stored form, byte by byte as `golden.txt` has it; `RENEW_GOLDEN=1` writes that file anew."""

import asyncio
import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import pytest

from seorep_async import Feed, SeoRepClient
from seorep_async.export import pull_to
from seorep_async.sandbox import Sandbox
from seorep_async.tables.declared import all_tables
from tests.export.reports import END as DAY
from tests.export.reports import NIGHT

GOLDEN = Path(__file__).with_name("golden.txt")
VARYING = [
    (r"127\.0\.0\.1:\d+", "127.0.0.1:0"),
    (r"\b[0-9a-f]{12,}\b", "0" * 12),  # digests, marks and names of pulls
    (r'20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*(\+00:00|Z)?(?=["\s,])', "2023-04-02T00:00:00"),
    (r'("(?:bytes|seconds)": ?)[\d.]+', r"\g<1>0"),
    (r'("backoff": ?|""backoff"": ?)[\d.e-]+', r"\g<1>0"),
    (rf"\b{re.escape(version('seorep-async'))}\b", "0.0.0"),
]
"""What no two pulls have in common, and what stands for it."""
WHOLE: dict[str, Any] = {"feeds": list(Feed), "account": "acme", "snapshot_date": NIGHT}


async def pull(folder: Path) -> None:
    """Pull one night into files and a database."""
    async with (
        Sandbox(campaigns=3, keywords=1, rows="mixed", shape="mixed", failing={2: 404}) as sandbox,
        SeoRepClient(sandbox.base_url, sandbox.api_key) as client,
    ):
        for ending in ("csv", "jsonl", "duckdb"):
            await pull_to(client, None, DAY, DAY, out=folder / f"a.{ending}", **WHOLE)


def columns() -> str:
    """Return a line for each table: its key, and the name and type of each column, with ? if it may be null."""
    lines = []
    for table in all_tables():
        found = [f"{one.name} {one.type.name.lower()}{'?' * one.nullable}" for one in table.columns]
        lines.append(f"{table.name} ({', '.join(table.key)}): {', '.join(found)}")
    return "\n".join(lines)


def database(file: Path) -> str:
    with duckdb.connect(str(file), read_only=True) as opened:
        tables = opened.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
        views = opened.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1").fetchall()
    return " ".join(name for (name,) in (*tables, *views))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("golden")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SEOREP_API_KEY", "sandbox")
        asyncio.run(pull(folder))
    files = {
        path.name: path.read_bytes().decode()
        for path in sorted(folder.glob("*.*"))
        if path.suffix in (".csv", ".jsonl")
    }
    sections = {"columns": columns(), "views": database(folder / "a.duckdb")} | files
    for pattern, stand_in in VARYING:
        sections = {name: re.sub(pattern, stand_in, text) for name, text in sections.items()}
    return {name: text.replace("\r\n", "\\r\n").replace(str(folder), "").strip("\n") for name, text in sections.items()}


def stored() -> dict[str, str]:
    pieces = re.split(r"^=== (.+)\n", GOLDEN.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {name: text.strip("\n") for name, text in zip(pieces[::2], pieces[1::2], strict=True)}


def test_there_is_every_stored_form(found: dict[str, str]) -> None:
    if os.environ.get("RENEW_GOLDEN"):
        GOLDEN.write_text("".join(f"=== {name}\n{text}\n" for name, text in found.items()), encoding="utf-8")
    assert stored().keys() == found.keys()


@pytest.mark.parametrize("name", stored() if GOLDEN.exists() else ())
def test_a_night_is_stored_as_ever(found: dict[str, str], name: str) -> None:
    assert found[name] == stored()[name]
