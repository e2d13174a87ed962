"""What the doctor says of the nights in a database.

`nights.txt` is a page as `tests.golden` describes it, with these commands:

- `nights`: a database of nights of March 2023. `7+3-12` is the night of 7 March, on which the
  report of campaign 3 came, and those of 1 and 2 failed
- `sql`: a change of the database
- `doctor`: the findings about all accounts or a named one on a day of March, and each account as
  JSON
"""

import datetime as dt
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from seorep_async.cli.findings import Findings
from seorep_async.cli.nights import add_nights
from tests.golden import Page
from tests.history.databases import Pull, change, database_of

FILE = Path("a.duckdb")


def day_in_march(number: str) -> dt.date:
    return dt.date(2023, 3, int(number))


def pull_of(words: str) -> Pull:
    """Return the pull of a night, of the month before the night."""
    number, arrived, failed = re.split("[+-]", words)
    night = day_in_march(number)
    first = night - dt.timedelta(30)
    last = night - dt.timedelta(1)
    ranks = {10 * int(campaign) + 1: 1 for campaign in arrived}
    return Pull(night, first, last, ranks, tuple(map(int, failed)), account="a b")


def answers(line: str) -> Iterator[str]:
    command, _, words = line.partition(" ")
    if command == "nights":
        FILE.unlink(missing_ok=True)
        database_of(FILE, map(pull_of, words.split()))
    elif command == "sql":
        change(FILE, words)
    else:
        number, _, account = words.partition(" ")
        findings = Findings(writes=False)
        add_nights(findings, str(FILE), account or None, day_in_march(number))
        facts = findings.facts()
        for check in facts["checks"]:
            yield f"{check['level'].value}: {check['message']}"
        for facts_of_account in facts["nights"]:
            yield json.dumps(facts_of_account, default=str)


def test_the_nights_are_described_as_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = Page(Path(__file__).with_name("nights.txt"))
    for line in page.questions():
        page.lines += answers(line)
    page.compare()
