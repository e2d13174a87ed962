"""Mistakes of people who call it from Python, and the answers: `python -m tests.test_mistakes` rewrites these.

`mistakes.txt` is a page as `tests.golden` describes it; an error is shown with the argument that it names. `c` is an
open client, whose account has campaign 1; some files are in the way.
"""

import asyncio
import contextlib
import datetime as dt
import os
import re
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs

import seorep_async as api
from seorep_async.export import pull_to
from seorep_async.sandbox import Faults, RateLimit, Sandbox
from tests.golden import answered

PAGE = Path(__file__).with_name("mistakes.txt")
KNOWN = {
    name: getattr(api, name) for name in dir(api) if name[0].isupper() and name != "TYPE_CHECKING"
}
KNOWN |= {one.__name__: one for one in (Faults, Path, RateLimit, Sandbox, pull_to)}
KNOWN |= {"DAYS": ("2023-01-01", "2023-01-31"), "attrs": attrs, "dt": dt}


def prepare(folder: Path) -> None:
    """Make what is in the way of some targets."""
    for name in ("full", "folder.csv", "beside.failures.csv"):
        (folder / name).mkdir()
    os.mkfifo(folder / "fifo.csv")
    sides = [
        f"{side}.{side}.{ending}"
        for side in ("totals", "failures")
        for ending in ("csv", "jsonl", "parquet")
    ]
    for name in ("file", "a.csv", "deep.totals.jsonl", *sides):
        (folder / name).write_bytes(
            b"" if "." not in name or name == "a.csv" else b'{"feed": "mine"}\n'
        )


def contents(folder: Path) -> set[tuple[str, bytes | None]]:
    files = sorted(folder.rglob("*"))
    return {(str(file), file.read_bytes() if file.is_file() else None) for file in files}


async def answers_to(page: str) -> str:
    """Return the page with the errors of today."""

    async def pull(out: Any, **options: Any) -> object:
        arguments: dict[str, Any] = {
            "ids": None,
            "start_date": "2023-01-01",
            "end_date": "2023-01-31",
        } | options
        return await pull_to(c, out=out, **arguments)

    async with (
        Sandbox(campaigns=1, keywords=1) as sandbox,
        api.SeoRepClient(sandbox.base_url, sandbox.api_key) as c,
    ):
        found = await answered(page, KNOWN | {"c": c, "pull": pull})
        assert sandbox.stats.requests == 1  # for the campaign that there is not
    return found


def replayed(page: str) -> str:
    with contextlib.ExitStack() as ending:
        folder = Path(ending.enter_context(tempfile.TemporaryDirectory()))
        ending.enter_context(contextlib.chdir(folder))
        ending.enter_context(patch.dict(os.environ))
        for name in ("SEOREP_BASE_URL", "SEOREP_API_KEY"):
            os.environ.pop(name, None)
        prepare(folder)
        before = contents(folder)
        found = asyncio.run(answers_to(page))
        assert contents(folder) == before
    return found


def test_a_mistake_is_answered_as_it_was_read() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert replayed(page) == page


def test_an_answer_speaks_python_and_repeats_no_secret() -> None:
    answers = [
        line
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if not line.startswith((">>>", "#"))
    ]
    assert [
        one for one in answers if re.search(r"^(?!UsageError).*(?<!\w)--\w|^taken|s3cret", one)
    ] == []


if __name__ == "__main__":
    PAGE.write_text(replayed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
