"""Mistakes of people who call it from Python, and the answers: `python -m tests.test_mistakes` rewrites these.

`mistakes.txt` is a page as `tests.golden` describes it; an error is shown with the argument that it names. `c` is an
open client, whose account has campaign 1; some files are in the way.
"""

import asyncio
import contextlib
import datetime as dt
import itertools
import os
import re
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs
from tests.export.reports import END, FORMATS, START, account, contents

import seorep_async.public as api
from seorep_async.cli.choosing import ids_in
from seorep_async.export import CsvOptions, pull_to
from seorep_async.sandbox import Faults, RateLimit, Sandbox
from seorep_async.tables.declared import totals_table
from seorep_async.tables.text import csv_header
from tests.golden import answered

PAGE = Path(__file__).with_name("mistakes.txt")
OURS = (CsvOptions, Faults, Path, RateLimit, Sandbox, ids_in, pull_to)
KNOWN = {name: getattr(api, name) for name in api.__all__} | {one.__name__: one for one in OURS}
KNOWN |= {"START": START, "END": END, "DAYS": ("2023-01-01", "2023-01-31"), "attrs": attrs, "dt": dt}


def prepare(folder: Path) -> None:
    """Make what is in the way of some targets."""
    for name in ("full", "folder.csv", "beside.failures.csv"):
        (folder / name).mkdir()
    (folder / "astray.totals.csv").symlink_to(folder / "missing" / "file.csv")
    os.mkfifo(folder / "fifo.csv")
    sides = itertools.product(("totals", "failures"), FORMATS[:3])
    for name, held in {
        "file": b"",
        "a.csv": b"",
        "full/thesis.tex": b"",
        "deep.totals.jsonl": b"[" * 100_000,
        "wider.totals.csv": csv_header(totals_table()).replace(b"\r\n", b",note\r\n"),
        **{f"{side}.{side}.{ending}": b'{"feed": "mine"}\n' for side, ending in sides},
    }.items():
        (folder / name).write_bytes(held)


async def answers_to(page: str) -> str:
    """Return the page with the errors of today."""

    async def pull(out: Any, **options: Any) -> object:
        arguments: dict[str, Any] = {"ids": None, "start_date": START, "end_date": END} | options
        return await pull_to(c, out=out, **arguments)

    async with account(campaigns=1, keywords=1) as (sandbox, c):
        known = KNOWN | {"c": c, "pull": pull}
        found = await answered(page, known)
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
    answers = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if not line.startswith((">>>", "#"))]
    assert [one for one in answers if re.search(r"^(?!UsageError).*(?<!\w)--\w|^taken|s3cret", one)] == []


if __name__ == "__main__":
    PAGE.write_text(replayed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
