"""Rows are attrs models that the garbage collector does not see."""

import datetime as dt
import gc
import pickle
from typing import Any

import attrs
import pytest

from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking
from seorep_async.models.gc_untracked import gc_untracked_struct
from tests.normalisation.wire import FEED_ROWS, Shape, as_bytes, decoder, envelope, finished, wire_row


@gc_untracked_struct
@attrs.frozen
class Ranks:
    id: int
    ranking: int | None = None
    clicks: int | None = None


@gc_untracked_struct
@attrs.frozen
class LaterRanks:
    id: int
    places: int | None = None
    ranking: int | None = None
    clicks: int | None = None


@attrs.frozen
class AfterInit:
    id: int = 0

    def __attrs_post_init__(self) -> None:
        raise AssertionError("never called")


UNSUITABLE: dict[str, Any] = {
    "converter": attrs.field(converter=int),
    "validator": attrs.field(validator=attrs.validators.gt(0)),
    "factory": attrs.field(factory=list),
    "kw_only": attrs.field(kw_only=True),
    "no_init": attrs.field(init=False, default=1),
    "alias": attrs.field(alias="other"),
}
TOO_MUCH = [attrs.make_class(name, {"held": field}, frozen=True) for name, field in UNSUITABLE.items()] + [AfterInit]

DAY = dt.date(2023, 1, 31)
MADE = [CampaignPeriod(DAY), KeywordPeriod(DAY, "day"), KeywordRanking(1, "running shoes")]


@pytest.mark.parametrize("row", MADE, ids=lambda row: type(row).__name__)
def test_a_row_is_of_no_concern_to_the_garbage_collector(row: Any) -> None:
    assert not gc.is_tracked(row)


@pytest.mark.parametrize("model", FEED_ROWS)
@pytest.mark.parametrize("extra", [{}, {"visibility": [1]}], ids=["known", "with an unknown field"])
@pytest.mark.parametrize("shape", ["nested", "flat"])
def test_a_decoded_row_is_such_a_model(model: type, extra: dict[str, Any], shape: Shape) -> None:
    row: Any = finished(decoder().feed_page(as_bytes(envelope([wire_row(model, 1) | extra], shape)), model, 1)).items[0]
    assert (type(row), gc.is_tracked(row)) == (model, False)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        row.extra = {}


@pytest.mark.parametrize("model", FEED_ROWS)
def test_a_row_model_can_not_be_made_without_what_every_row_has(model: type) -> None:
    with pytest.raises(TypeError, match="Missing required argument"):
        model()


def test_a_row_model_takes_no_argument_that_it_does_not_name() -> None:
    with pytest.raises(TypeError, match="Unexpected keyword argument"):
        KeywordRanking(1, "shoes", visibility=2)  # type: ignore[call-arg]


def test_rows_are_matched_by_their_places() -> None:
    match MADE[2]:
        case KeywordRanking(number, phrase):
            assert (number, phrase) == (1, "running shoes")
        case _:
            pytest.fail("no match")


def test_a_row_is_pickled_by_the_names_of_its_fields() -> None:
    reduced: Any = Ranks(1, 7, 2).__reduce__()
    restore, (_, *fields) = reduced
    assert restore(LaterRanks, *fields) == LaterRanks(1, places=None, ranking=7, clicks=2)


def test_a_further_row_in_a_pickle_repeats_no_field_names() -> None:
    two, three = (len(pickle.dumps([KeywordRanking(id_, "shoes") for id_ in range(count)])) for count in (2, 3))
    assert three - two < 2 * len(attrs.fields(KeywordRanking))


def test_a_row_model_can_not_be_subclassed() -> None:
    with pytest.raises(TypeError, match=r"KeywordRanking can't be subclassed"):
        attrs.frozen(type("Mine", (KeywordRanking,), {}))


@pytest.mark.parametrize("model", TOO_MUCH, ids=lambda model: model.__name__)
def test_a_model_that_a_struct_can_not_hold_is_refused(model: type) -> None:
    with pytest.raises(TypeError, match="does more than hold values"):
        gc_untracked_struct(model)


def test_rows_of_two_types_are_never_equal() -> None:
    rows: list[Any] = [CampaignPeriod(DAY), KeywordPeriod(DAY)]
    assert rows[0] != rows[1]
