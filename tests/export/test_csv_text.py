"""CSV keeps the data as it is."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seorep_async import Tag
from seorep_async.models import Feed
from seorep_async.tables.declared import table_of
from tests.export.reports import as_csv, columns_as_csv, columns_of, owned, parsed, ranking


def cell(name: str, **values: object) -> str:
    (row,) = parsed(as_csv(owned(ranking(**values))))
    return row[name]


def test_without_a_row_there_is_the_header() -> None:
    assert as_csv().count("\r\n") == 1
    assert as_csv().startswith("account,snapshot_date,campaign_id,start_date,end_date,keyword_id,")


def test_lines_end_as_rfc_4180_has_it() -> None:
    text = as_csv(owned(ranking(), ranking(keyword_id=2)))
    assert text.count("\r\n") == text.count("\n") == 3
    assert text.endswith("\r\n")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("engine_a_ranking", None, ""),
        ("engine_a_ranking", 0, "0"),
        ("engine_a_ranking_change", -3, "-3"),
        ("primary_keyword", True, "true"),
        ("primary_keyword", False, "false"),
        ("primary_keyword", None, ""),
        ("last_results_date", dt.date(2023, 3, 1), "2023-03-01"),
        ("last_results_date", None, ""),
        ("keyword_phrase", "=1+1", "=1+1"),
        ("keyword_phrase", "@løft \N{RUNNER}", "@løft \N{RUNNER}"),
        ("tags", (), "[]"),
        ("tags", (Tag(1, "ø"), Tag(2, 'b"\\')), '[{"id": 1, "label": "ø"}, {"id": 2, "label": "b\\"\\\\"}]'),
        ("tags", (Tag(1, "a", {"colour": "red"}),), '[{"extra": {"colour": "red"}, "id": 1, "label": "a"}]'),
        ("extra", {}, ""),
        ("extra", {"b": None, "a": [1, 2.5]}, '{"a": [1, 2.5], "b": null}'),
    ],
)
def test_a_value_is_written_as(name: str, value: object, expected: str) -> None:
    assert cell(name, **{name: value}) == expected


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_string_comes_back(text: str) -> None:
    assert cell("keyword_phrase", keyword_phrase=text) == text
    assert json.loads(cell("tags", tags=(Tag(1, text),))) == [{"id": 1, "label": text}]


@given(st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.booleans())))
def test_unknown_fields_come_back(extra: dict[str, object]) -> None:
    assert json.loads(cell("extra", extra=extra) or "{}") == extra


def test_a_string_that_is_no_unicode_is_refused() -> None:
    table = table_of(Feed.CAMPAIGN)
    with pytest.raises(ValueError, match="surrogates"):
        columns_as_csv(table, columns_of(owned(ranking(keyword_phrase="\ud800"))))
