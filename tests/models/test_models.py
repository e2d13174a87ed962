"""The models as values, and rows that the garbage collector does not track."""

import copy
import datetime as dt
import gc
import json
import pickle
from typing import Any, get_args

import attrs
import pytest

from seorep_async import RankingReport
from seorep_async.models import (
    Campaign,
    CampaignPeriod,
    Feed,
    KeywordPeriod,
    KeywordRanking,
    LoginGrant,
    Page,
    RankingTotals,
    Tag,
)
from seorep_async.models.gc_untracked import gc_untracked_struct
from tests.models.reference import REFERENCE, example_of, shapes_of
from tests.normalisation.wire import (
    FEED_ROWS,
    Shape,
    decode,
    envelope,
    wire_row,
)

DAY = dt.date(2023, 1, 31)
TOTALS = RankingTotals(engine_a_ranking=3.5)
REPORT = RankingReport[Any](Feed.CAMPAIGN, 42, DAY, DAY, (KeywordPeriod(DAY),), TOTALS)
EXAMPLES = [example_of(model, shapes_of(model)[0])[1] for model in REFERENCE]
EXAMPLES += [Page(items=(Tag(4, "brand"),), number=1, totals=TOTALS), REPORT]
EXAMPLES = [attrs.evolve(model, extra={"unhashable": [{}]}) for model in EXAMPLES]
NOT_SECRET = [model for model in EXAMPLES if not isinstance(model, LoginGrant)]


def class_name(model: object) -> str:
    return type(model).__name__


every_model = pytest.mark.parametrize("model", EXAMPLES, ids=class_name)


@every_model
def test_a_model_can_not_be_changed(model: Any) -> None:
    for field in attrs.fields(type(model)):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(model, field.name, None)
    assert not hasattr(model, "__dict__")
    with pytest.raises((AttributeError, TypeError)):
        object.__setattr__(model, "engine_c_ranking", 1)


@pytest.mark.parametrize("model", NOT_SECRET, ids=class_name)
def test_a_pickled_or_copied_model_equals_the_original(model: Any) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(model, protocol))  # noqa: S301
        assert type(again) is type(model)
        assert again == model
        assert again.extra == model.extra
    assert copy.copy(model) == copy.deepcopy(model) == model


@every_model
def test_extra_counts_in_a_comparison_and_not_in_a_hash(model: Any) -> None:
    other = attrs.evolve(model, extra={})
    assert len({model, attrs.evolve(model)}) == 1
    assert other != model
    assert hash(other) == hash(model)


@every_model
def test_a_model_without_unknown_fields_has_an_immutable_extra(model: Any) -> None:
    required = {}
    for field in attrs.fields(type(model)):
        if field.default is attrs.NOTHING:
            required[field.name] = getattr(model, field.name)
    extra = type(model)(**required).extra
    for change in ("update", "setdefault", "__setitem__", "__ior__"):
        with pytest.raises(TypeError, match="cannot be changed"):
            getattr(extra, change)("a", 1)
    assert extra == {}
    assert isinstance(extra, dict)
    assert json.dumps(extra) == "{}"


@pytest.mark.parametrize(
    ("feed", "campaign_id", "keyword_id"),
    [
        (Feed.CAMPAIGN, 42, None),
        (Feed.CAMPAIGN_BY_DATE, 42, None),
        (Feed.KEYWORD_BY_DATE, None, 42),
    ],
)
def test_a_report_knows_whose_it_is(
    feed: Feed, campaign_id: int | None, keyword_id: int | None
) -> None:
    report = attrs.evolve(REPORT, feed=feed)
    assert report.campaign_id == campaign_id
    assert report.keyword_id == keyword_id


def test_version_account_and_night_tell_no_reports_apart() -> None:
    report: Any = REPORT
    assert hash(attrs.evolve(report, version=False)) == hash(report)
    for field in attrs.fields(RankingReport):
        other = attrs.evolve(report, **{field.name: {"other": 1}})
        assert (other == report) is (field.name in ("version", "account", "snapshot_date"))


# --- How they are shown


def test_a_repr_of_a_row_shows_its_ranks() -> None:
    row = KeywordRanking(
        1, "shoes", engine_a_ranking=3, engine_a_places_ranking=0, engine_b_ranking=7
    )
    assert repr(row) == (
        "KeywordRanking(keyword_id=1, keyword_phrase='shoes', engine_a_ranking=3, "
        "engine_a_mobile_ranking=None, engine_a_places_ranking=0, engine_b_ranking=7, …)"
    )
    assert repr(CampaignPeriod(DAY, "day", 4)).startswith(
        f"CampaignPeriod(date={DAY!r}, date_precision='day', engine_a_ranking=4, "
    )


def test_a_repr_of_a_record_is_one_line_of_its_first_fields() -> None:
    campaign = Campaign(1, "https://a.example", "x" * 500, scope="x" * 90)
    start = f"Campaign(id=1, url='https://a.example', company='{'x' * 39}…', "
    assert repr(campaign).startswith(start)
    assert repr(campaign).endswith(", …)")
    assert len(repr(campaign)) <= 110


# --- Rows


@pytest.mark.parametrize("shape", get_args(Shape))
@pytest.mark.parametrize("extra", [{}, {"visibility": [1]}], ids=["known", "with an unknown field"])
@pytest.mark.parametrize("model", FEED_ROWS)
def test_a_row_is_of_no_concern_to_the_garbage_collector(
    model: Any, extra: dict[str, Any], shape: Shape
) -> None:
    page = decode(envelope([wire_row(model, 1) | extra], shape), model)
    for row in (page.items[0], attrs.evolve(page.items[0])):
        assert type(row) is model
        assert not gc.is_tracked(row)


def test_a_row_is_pickled_by_the_names_of_its_fields() -> None:
    def ranks(*names: str) -> Any:
        fields = {name: attrs.field(default=None, type=int) for name in names}
        return gc_untracked_struct(attrs.make_class("Ranks", fields, frozen=True))

    restore, (_, *fields) = ranks("id", "ranking")(1, 7).__reduce__()
    later = ranks("id", "places", "ranking")
    assert restore(later, *fields) == later(1, places=None, ranking=7)
