"""CSV for readers that want other line ends, a byte order mark, or no formulas."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from seorep_async import ConfigurationError, Feed
from seorep_async.export import CsvOptions, pull_to
from seorep_async.tables.declared import table_of
from seorep_async.tables.text import csv_header
from tests.export.reports import END, START, account, columns_as_csv, columns_of, owned, parsed, ranking

ALL = CsvOptions(line_end="\n", bom=True, guard=True)
TABLE = table_of(Feed.CAMPAIGN)


def phrase_of(phrase: str | None, **options: Any) -> str:
    data = columns_as_csv(TABLE, columns_of(owned(ranking(keyword_phrase=phrase))), CsvOptions(**options))
    (row,) = parsed((csv_header(TABLE) + data).decode())
    return row["keyword_phrase"]


@pytest.mark.parametrize("phrase", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", '=HYPERLINK("x,y")'])
def test_the_guard_keeps_strings_from_being_formulas(phrase: str) -> None:
    assert phrase_of(phrase) == phrase
    assert phrase_of(phrase, guard=True) == f"'{phrase}"


@pytest.mark.parametrize("phrase", ["", "a=1", "'=1", " =1", "shoes", "1"])
def test_the_guard_leaves_other_strings_alone(phrase: str) -> None:
    assert phrase_of(phrase, guard=True) == phrase


def test_the_guard_leaves_numbers_alone() -> None:
    columns = columns_of(owned(ranking(engine_a_ranking_change=-3)))
    assert columns_as_csv(TABLE, columns, CsvOptions(guard=True)) == columns_as_csv(TABLE, columns)


def test_only_ends_of_lines_change_not_those_in_cells() -> None:
    columns = columns_of(owned(ranking(keyword_phrase="a\r\nb"), ranking()))
    crlf, lf = (columns_as_csv(TABLE, columns, CsvOptions(line_end=end)) for end in ("\r\n", "\n"))
    assert (crlf.count(b"\r\n"), lf.count(b"\r\n"), lf.count(b"\n")) == (3, 1, 3)
    assert list(csv.reader(lf.decode().splitlines(keepends=True))) == list(csv.reader(crlf.decode().splitlines(True)))


async def test_every_file_of_a_pull_has_the_options(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    async with account(keywords=2, failing={2: 404}) as (_, client):
        for options in (ALL, CsvOptions(), ALL):
            summary = await pull_to(client, None, START, END, out=out, feeds=Feed.CAMPAIGN_BY_DATE, csv=options)
            assert len(summary.paths) == 5
            for path in map(Path, summary.paths):
                data = path.read_bytes()
                assert data.startswith(b"\xef\xbb\xbf") is options.bom
                assert (b"\r\n" in data) is not options.bom


async def test_a_pull_is_resumed_with_the_same_options_only(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    async with account(failing={2: 404}) as (sandbox, client):
        await pull_to(client, None, START, END, out=out, csv=ALL)
        asked = sandbox.stats.requests
        with pytest.raises(ConfigurationError, match=r"format CSV, LF line ends, BOM, guard, not CSV\. Repeat"):
            await pull_to(client, None, START, END, out=out, retry_failed=True)
        await pull_to(client, None, START, END, out=out, csv=ALL, retry_failed=True)
        assert sandbox.stats.requests == asked + 1


@pytest.mark.parametrize(
    ("options", "said"),
    [({"line_end": "lf"}, r"line_end must be"), ({"bom": 1}, "bom must be"), ({"guard": "yes"}, "guard must be")],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        CsvOptions(**options)
