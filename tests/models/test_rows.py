"""Rows behave as the tuple of their models."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from operator import attrgetter

import pytest

from seorep_async.models import KeywordRanking, Tag
from seorep_async.models.rows import Rows, attributes, joined
from seorep_async.normalisation import Decoder
from seorep_async.settings import EngineNames
from tests.normalisation.wire import as_bytes, envelope, wire_row

MODELS = tuple(KeywordRanking(keyword_id=number, keyword_phrase=f"keyword {number}") for number in range(1, 6))


class Record:
    """What a decoder gives: the attributes of a model, and no more."""

    def __init__(self, model: KeywordRanking) -> None:
        self.keyword_id = model.keyword_id
        self.keyword_phrase = model.keyword_phrase


def make(record: Record) -> KeywordRanking:
    return KeywordRanking(record.keyword_id, record.keyword_phrase)


def recorded(models: Sequence[KeywordRanking]) -> Rows[KeywordRanking]:
    return Rows([Record(model) for model in models], make)


rows = recorded(MODELS)


def test_rows_hold_models_in_order() -> None:
    assert list(rows) == list(MODELS)
    assert len(rows) == 5


@pytest.mark.parametrize("place", [0, 4, -1, -5])
def test_a_row_is_found_by_its_place(place: int) -> None:
    assert rows[place] == MODELS[place]


@pytest.mark.parametrize("place", [5, -6])
def test_beyond_the_end_there_is_no_row(place: int) -> None:
    with pytest.raises(IndexError):
        rows[place]


@pytest.mark.parametrize("part", [slice(1, 3), slice(None, None, -1), slice(9, 12)])
def test_a_slice_of_rows_is_rows(part: slice) -> None:
    assert isinstance(rows[part], Rows)
    assert rows[part] == MODELS[part]


def test_rows_equal_rows_and_tuples_of_equal_models_and_nothing_else() -> None:
    assert rows == recorded(MODELS)
    assert rows == MODELS
    assert MODELS == rows  # noqa: SIM300  # the tuple is asked first
    assert rows != MODELS[:4]
    assert rows != recorded(MODELS[::-1])
    assert rows != list(MODELS)


def test_rows_hash_and_print_as_their_tuple() -> None:
    assert hash(rows) == hash(MODELS)
    assert repr(rows) == repr(MODELS)


def test_no_rows_are_false() -> None:
    assert not recorded(())


def test_a_model_is_among_the_rows() -> None:
    assert MODELS[2] in rows
    assert rows.index(MODELS[2]) == 2
    assert list(reversed(rows)) == list(reversed(MODELS))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])  # noqa: S301
def test_copied_and_pickled_rows_equal_them(again: object) -> None:
    assert callable(again)
    assert again(rows) == rows
    assert isinstance(again(rows), Rows)


def test_rows_can_not_be_changed() -> None:
    with pytest.raises(TypeError):
        rows[0] = MODELS[0]  # type: ignore[index]
    with pytest.raises(AttributeError):
        rows.first = MODELS[0]  # type: ignore[attr-defined]


def test_a_model_made_of_a_decoded_row_is_frozen() -> None:
    body = as_bytes(envelope([wire_row(KeywordRanking, 1)], "nested"))
    row = Decoder(EngineNames()).feed_page(body, KeywordRanking, 1).items[0]
    with pytest.raises(AttributeError):
        row.keyword_id = 2  # type: ignore[misc]


def test_the_rows_of_pages_are_joined_without_making_models() -> None:
    def no_model(_: object) -> KeywordRanking:
        raise AssertionError("a model was made")

    pages = [Rows([Record(MODELS[0])], no_model), Rows([Record(MODELS[1])], no_model)]
    assert list(attributes(joined(pages), attrgetter("keyword_id"))) == [1, 2]


def test_rows_and_models_are_joined_into_models() -> None:
    assert joined([rows, MODELS, recorded(())]) == MODELS + MODELS


def test_rows_add_up_with_rows_and_tuples() -> None:
    assert rows + rows == MODELS + MODELS
    assert rows + MODELS[:1] == MODELS + MODELS[:1]
    assert MODELS[:1] + rows == MODELS[:1] + MODELS
    with pytest.raises(TypeError):
        rows + [MODELS[0]]  # noqa: RUF005  # as a tuple does


@pytest.mark.parametrize("day", ["2023-01-01", "2023-01-01 09:30:00"], ids=["exact", "by the reference converter"])
def test_a_page_has_rows_whatever_came(day: str) -> None:
    body = as_bytes(envelope([wire_row(KeywordRanking, 1) | {"lastResultsDate": day}], "nested"))
    assert isinstance(Decoder(EngineNames()).feed_page(body, KeywordRanking, 1).items, Rows)


def test_attributes_are_read_from_rows_and_from_models_alike() -> None:
    read = attrgetter("keyword_phrase")
    assert list(attributes(rows, read)) == list(attributes(MODELS, read))
    assert list(attributes((Tag(1, "a"),), attrgetter("label"))) == ["a"]
