"""Mistakes in calls from Python, and their errors.

`mistakes.txt` is a page as `tests.golden` describes it. An error is shown with the argument that it
names. `c` is an open client, whose account has campaign 1, and some files are in the way of
targets.
"""

import datetime as dt
import os
import re
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from multidict import MultiDict

import seorep_async as api
from seorep_async.export import pull_to, stream
from seorep_async.integrations.engines import table_schema
from seorep_async.sandbox import Faults, RateLimit, Sandbox
from tests.golden import Page, error_of

WRONG = re.compile(r"^(?!UsageError).*(?<!\w)--\w|^taken|s3cret")
"""What no error may say: an option of the command, a value, or a secret."""
NAMES: dict[str, Any] = {
    name: getattr(api, name) for name in dir(api) if name[0].isupper() and name != "TYPE_CHECKING"
}
NAMES |= {
    "Faults": Faults,
    "Path": Path,
    "RateLimit": RateLimit,
    "Sandbox": Sandbox,
    "pull_to": pull_to,
    "stream": stream,
    "table_schema": table_schema,
    "MultiDict": MultiDict,
    "DAYS": ("2023-01-01", "2023-01-31"),
    "attrs": attrs,
    "dt": dt,
    "partial": partial,
}
FILES_OF_OTHERS = [
    "deep.totals.jsonl",
    "totals.totals.csv",
    "totals.totals.jsonl",
    "totals.totals.parquet",
    "failures.failures.csv",
    "failures.failures.jsonl",
    "failures.failures.parquet",
]


def put_in_the_way(folder: Path) -> None:
    """Make files and folders in the way of some targets."""
    for name in ("full", "folder.csv", "beside.failures.csv"):
        (folder / name).mkdir()
    os.mkfifo(folder / "fifo.csv")
    for name in ("file", "a.csv"):
        (folder / name).touch()
    for name in FILES_OF_OTHERS:
        (folder / name).write_bytes(b'{"feed": "mine"}\n')


def contents(folder: Path) -> set[tuple[str, bytes | None]]:
    files = sorted(folder.rglob("*"))
    return {(str(file), file.read_bytes() if file.is_file() else None) for file in files}


async def test_mistakes_raise_the_errors_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("SEOREP_BASE_URL", "SEOREP_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    put_in_the_way(tmp_path)
    before = contents(tmp_path)
    page = Page(Path(__file__).with_name("mistakes.txt"))
    async with (
        Sandbox(campaigns=1, keywords=1) as sandbox,
        api.SeoRepClient(sandbox.base_url, sandbox.api_key) as client,
    ):

        async def pull(out: Any, **options: Any) -> object:
            january = {"ids": None, "start_date": "2023-01-01", "end_date": "2023-01-31"}
            return await pull_to(client, out=out, **{**january, **options})

        names = NAMES | {"c": client, "pull": pull}
        for mistake in page.questions():
            error = await error_of(mistake, names)
            assert not WRONG.search(error)
            page.lines.append(error)
        # All mistakes but one are found before anything is sent: a campaign that does not exist.
        assert sandbox.stats.requests == 1
    assert contents(tmp_path) == before
    page.compare()
