"""JSON lines keep the data as it is."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seorep_async import Feed, SearchLocation, Tag
from seorep_async.tables.declared import table_of
from seorep_async.tables.text import columns_as_json_lines
from tests.export.reports import columns_of, owned, ranking


def line(**values: Any) -> dict[str, Any]:
    table = table_of(Feed.CAMPAIGN)
    found: dict[str, Any] = json.loads(columns_as_json_lines(table, columns_of(owned(ranking(**values)))))
    return found


def test_members_stand_in_the_order_of_the_columns() -> None:
    assert list(line()) == [column.name for column in table_of(Feed.CAMPAIGN).columns]


def test_a_line_ends_with_a_newline() -> None:
    table = table_of(Feed.CAMPAIGN)
    text = columns_as_json_lines(table, columns_of(owned(ranking(), ranking(keyword_id=2))))
    assert (text.count(b"\n"), text[-1:]) == (2, b"\n")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("engine_a_ranking", None, None),
        ("engine_a_ranking", 0, 0),
        ("primary_keyword", False, False),
        ("last_results_date", dt.date(2023, 3, 1), "2023-03-01"),
        ("tags", (), []),
        ("tags", (Tag(1, "ø"),), [{"id": 1, "label": "ø"}]),
        ("tags", (Tag(1, "a", {"b": 1}),), [{"id": 1, "label": "a", "extra": {"b": 1}}]),
        ("extra", {}, {}),
        ("extra", {"b": None, "a": [1, 2.5]}, {"a": [1, 2.5], "b": None}),
    ],
)
def test_a_value_is_written_as(name: str, value: object, expected: object) -> None:
    assert line(**{name: value})[name] == expected


def test_the_same_unknown_fields_give_the_same_bytes() -> None:
    table = table_of(Feed.CAMPAIGN)
    one, other = (
        columns_as_json_lines(table, columns_of(owned(ranking(extra=extra))))
        for extra in ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    )
    assert one == other


def test_a_place_is_flattened() -> None:
    found = line(search_location=SearchLocation(5, "Oslo", extra={"x": 1}))
    assert (found["search_location_id"], found["search_location_extra"]) == (5, {"x": 1})


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_string_comes_back(text: str) -> None:
    assert line(keyword_phrase=text)["keyword_phrase"] == text
