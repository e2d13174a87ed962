"""CSV and JSON lines keep the data as it is; CSV also with other line ends, a byte order mark, or no formulas."""

import csv
import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seorep_async import ConfigurationError, Feed, SearchLocation, Tag
from seorep_async.export import CsvOptions
from seorep_async.tables.declared import table_of
from seorep_async.tables.text import columns_as_json_lines, csv_header
from tests.export.reports import account, columns_as_csv, columns_of, owned, parsed, pull_into, ranking

TABLE = table_of(Feed.CAMPAIGN)
NAMES = [column.name for column in TABLE.columns]
SOME_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def as_csv(**values: Any) -> dict[str, str]:
    text = (csv_header(TABLE) + columns_as_csv(TABLE, columns_of(owned(ranking(**values))))).decode()
    (row,) = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    return row


def as_line(**values: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(columns_as_json_lines(TABLE, columns_of(owned(ranking(**values)))))
    return found


def test_lines_end_as_the_formats_have_it() -> None:
    columns = columns_of(owned(ranking(), ranking(keyword_id=2)))
    text = columns_as_csv(TABLE, columns)
    assert (text.count(b"\r\n"), text.count(b"\n"), text[-2:]) == (2, 2, b"\r\n")
    lines = columns_as_json_lines(TABLE, columns)
    assert (lines.count(b"\n"), lines[-1:]) == (2, b"\n")


def test_columns_stand_in_the_order_of_the_table() -> None:
    assert csv_header(TABLE).decode().strip().split(",") == list(as_line()) == NAMES


@pytest.mark.parametrize(
    ("name", "value", "in_csv", "in_a_line"),
    [
        ("engine_a_ranking", None, "", None),
        ("engine_a_ranking", 0, "0", 0),
        ("engine_a_ranking_change", -3, "-3", -3),
        ("primary_keyword", True, "true", True),
        ("primary_keyword", False, "false", False),
        ("primary_keyword", None, "", None),
        ("last_results_date", dt.date(2023, 3, 1), "2023-03-01", "2023-03-01"),
        ("last_results_date", None, "", None),
        ("keyword_phrase", "=1+1", "=1+1", "=1+1"),
        ("keyword_phrase", "@løft \N{RUNNER}", "@løft \N{RUNNER}", "@løft \N{RUNNER}"),
        ("tags", (), "[]", []),
        (
            *("tags", (Tag(1, "ø"), Tag(2, 'b"\\')), '[{"id": 1, "label": "ø"}, {"id": 2, "label": "b\\"\\\\"}]'),
            [{"id": 1, "label": "ø"}, {"id": 2, "label": 'b"\\'}],
        ),
        (
            *("tags", (Tag(1, "a", {"b": 1}),), '[{"extra": {"b": 1}, "id": 1, "label": "a"}]'),
            [{"id": 1, "label": "a", "extra": {"b": 1}}],
        ),
        ("extra", {}, "", None),
        ("extra", {"b": None, "a": [1, 2.5]}, '{"a": [1, 2.5], "b": null}', {"a": [1, 2.5], "b": None}),
    ],
)
def test_a_value_is_written_as(name: str, value: object, in_csv: str, in_a_line: object) -> None:
    assert as_csv(**{name: value})[name] == in_csv
    assert as_line(**{name: value})[name] == in_a_line


def test_a_place_is_flattened() -> None:
    found = as_line(search_location=SearchLocation(5, "Oslo", extra={"x": 1}))
    assert (found["search_location_id"], found["search_location_extra"]) == (5, {"x": 1})
    assert [found for name, found in as_line().items() if name.startswith("search_location")] == [None] * 5


def test_the_same_unknown_fields_give_the_same_bytes() -> None:
    one, other = ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    for write in (columns_as_json_lines, columns_as_csv):
        assert write(TABLE, columns_of(owned(ranking(extra=one)))) == write(
            TABLE, columns_of(owned(ranking(extra=other)))
        )


@given(SOME_TEXT)
def test_every_string_comes_back(text: str) -> None:
    assert as_csv(keyword_phrase=text)["keyword_phrase"] == text
    assert json.loads(as_csv(tags=(Tag(1, text),))["tags"]) == [{"id": 1, "label": text}]
    assert as_line(keyword_phrase=text)["keyword_phrase"] == text


@given(st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.booleans())))
def test_unknown_fields_come_back(extra: dict[str, object]) -> None:
    assert json.loads(as_csv(extra=extra)["extra"] or "{}") == extra


def test_a_string_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        columns_as_csv(TABLE, columns_of(owned(ranking(keyword_phrase="\ud800"))))


# --- Options of CSV


ALL = CsvOptions(line_end="\n", bom=True, guard=True)


def phrase_of(phrase: str | None, **options: Any) -> str:
    data = columns_as_csv(TABLE, columns_of(owned(ranking(keyword_phrase=phrase))), CsvOptions(**options))
    (row,) = parsed((csv_header(TABLE) + data).decode())
    return row["keyword_phrase"]


def test_the_guard_keeps_strings_from_being_formulas() -> None:
    for phrase in ("=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", '=HYPERLINK("x,y")'):
        assert (phrase_of(phrase), phrase_of(phrase, guard=True)) == (phrase, f"'{phrase}")
    for other in ("", "a=1", "'=1", " =1", "shoes", "1"):
        assert phrase_of(other, guard=True) == other


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
            summary = await pull_into(client, out, feeds=Feed.CAMPAIGN_BY_DATE, csv=options)
            assert len(summary.paths) == 5
            for path in map(Path, summary.paths):
                data = path.read_bytes()
                assert data.startswith(b"\xef\xbb\xbf") is options.bom
                assert (b"\r\n" in data) is not options.bom


async def test_a_pull_is_resumed_with_the_same_options_only(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    async with account(failing={2: 404}) as (sandbox, client):
        await pull_into(client, out, csv=ALL)
        asked = sandbox.stats.requests
        with pytest.raises(ConfigurationError, match=r"format CSV, LF line ends, BOM, guard, not CSV\. Repeat"):
            await pull_into(client, out, retry_failed=True)
        await pull_into(client, out, csv=ALL, retry_failed=True)
        assert sandbox.stats.requests == asked + 1
