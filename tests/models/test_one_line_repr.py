"""The repr of rows and other wide models."""

import datetime as dt
import pickle
from typing import Any

import attrs
import pytest

from seorep_async import Campaign, CampaignPeriod, KeywordPeriod, KeywordRanking, RankingTotals, Tag, User

DAY = dt.date(2023, 1, 1)
WIDE = [
    KeywordRanking(1, "shoes", engine_a_ranking=3),
    KeywordRanking(1, "x" * 500),
    CampaignPeriod(DAY),
    KeywordPeriod(DAY, "day"),
    RankingTotals(),
    Campaign(1, "https://www.example.com", "Example"),
]


@pytest.mark.parametrize("model", WIDE, ids=lambda model: type(model).__name__)
def test_a_repr_is_one_line_of_the_first_fields(model: Any) -> None:
    shown = repr(model)
    assert len(shown) <= 110
    assert shown.endswith(", …)")
    first = attrs.fields(type(model))[0].name
    assert shown.startswith(f"{type(model).__name__}({first}=")


def test_a_long_string_is_cut_in_a_repr() -> None:
    assert repr(KeywordRanking(1, "x" * 500)).startswith(f"KeywordRanking(keyword_id=1, keyword_phrase='{'x' * 39}…', ")


def test_a_password_is_in_no_repr() -> None:
    assert "secret" not in repr(User(1, "ann", password="secret"))


def test_the_whole_model_is_still_there() -> None:
    row = KeywordRanking(1, "shoes", engine_a_ranking=3)
    assert attrs.asdict(row)["engine_a_ranking"] == 3
    assert pickle.loads(pickle.dumps(row)) == row  # noqa: S301


def test_a_model_that_fits_is_shown_whole() -> None:
    assert repr(Tag(7, "shoes")) == "Tag(id=7, label='shoes', extra={})"
