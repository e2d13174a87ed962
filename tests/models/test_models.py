"""The models as values: frozen, slotted, comparable, hashable, picklable, and free of the wire."""

import copy
import datetime as dt
import json
import pickle
from typing import Any

import attrs
import pytest

from seorep_async import RankingReport, models
from seorep_async.models import (
    Backlink,
    Campaign,
    CampaignPeriod,
    Feed,
    Keyword,
    KeywordPeriod,
    KeywordRanking,
    LoginGrant,
    Page,
    RankingTotals,
    SearchLanguage,
    SearchLocation,
    Tag,
    User,
)

DAY = dt.date(2023, 1, 31)

GRANT = LoginGrant("canary-token", "https://reports.example/login?token=canary-url", user_id=7)
EXAMPLES: list[Any] = [
    Backlink(300001, "Ten shoes", "published", DAY, notes="", extra={"anchor_type": None}),
    Campaign(7, "www.example.com", "Example Ltd", timezone=["Europe/London"]),
    CampaignPeriod(DAY, engine_a_rankings_1_3=4),
    Keyword(300001, "running shoes", primary_keyword=False),
    KeywordPeriod(DAY, "day", backlinks=2),
    KeywordRanking(
        1,
        "running shoes",
        SearchLocation(2, "London", extra={"lat": 51.5}),
        SearchLanguage(3, "English"),
        primary_keyword=False,
        tags=(Tag(4, "brand"),),
    ),
    RankingTotals(engine_a_ranking=3.5, extra={"visibility": {"value": 1}}),
    SearchLanguage(3, "English"),
    SearchLocation(2, "London"),
    Tag(4, "brand", {"colour": [1, 2]}),
    Page(items=(Tag(4, "brand"),), number=1, totals=RankingTotals(competitors=1), extra={"took": [1]}),
    RankingReport(
        Feed.CAMPAIGN, 42, DAY, DAY, rows=(KeywordPeriod(DAY),), totals=RankingTotals(), extra={"metadata": {}}
    ),
    User(7, "ida.wren", first_name="Ida", extra={"teams": [{}]}),
    GRANT,
]

every_model = pytest.mark.parametrize("model", EXAMPLES, ids=lambda model: type(model).__name__)
every_model_but_the_secret = pytest.mark.parametrize(
    "model", [model for model in EXAMPLES if model is not GRANT], ids=lambda model: type(model).__name__
)


def test_there_is_an_example_of_every_model_that_is_public() -> None:
    assert {type(model).__name__ for model in EXAMPLES} == {*models.__all__, "RankingReport"} - {"Feed"}


@every_model
def test_a_model_can_not_be_changed(model: Any) -> None:
    for field in attrs.fields(type(model)):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(model, field.name, None)


@every_model
def test_a_model_takes_no_attribute_that_it_does_not_name(model: Any) -> None:
    assert not hasattr(model, "__dict__")
    with pytest.raises((AttributeError, TypeError)):
        object.__setattr__(model, "engine_c_ranking", 1)


@every_model_but_the_secret
def test_a_pickled_model_equals_the_original(model: Any) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(model, protocol))  # noqa: S301
        assert type(again) is type(model)
        assert again == model
        assert again.extra == model.extra


@every_model_but_the_secret
def test_a_copied_model_equals_the_original(model: Any) -> None:
    assert copy.copy(model) == copy.deepcopy(model) == model


@every_model
def test_equal_models_have_equal_hashes_whatever_is_extra(model: Any) -> None:
    assert len({model, attrs.evolve(model)}) == 1
    assert hash(attrs.evolve(model, extra={"unhashable": [{}]})) == hash(model)


@every_model
def test_what_is_extra_counts_in_a_comparison(model: Any) -> None:
    assert attrs.evolve(model, extra={"another": 1}) != model


@every_model
def test_a_docstring_names_the_section_of_the_reference(model: Any) -> None:
    assert "the service's reference, section" in str(type(model).__doc__) or isinstance(model, RankingReport)


@every_model
def test_a_model_can_be_made_a_dictionary(model: Any) -> None:
    found = attrs.asdict(model)
    assert set(found) == {field.name for field in attrs.fields(type(model))}


@every_model
def test_a_model_without_unknown_fields_has_an_immutable_extra(model: Any) -> None:
    plain = type(model)(
        **{
            field.name: getattr(model, field.name)
            for field in attrs.fields(type(model))
            if field.default is attrs.NOTHING
        }
    )
    assert plain.extra == {}
    assert isinstance(plain.extra, dict)
    assert json.dumps(plain.extra) == "{}"
    for change in (
        lambda: plain.extra.update(a=1),
        lambda: plain.extra.setdefault("a", 1),
        lambda: plain.extra.__setitem__("a", 1),
        lambda: plain.extra.__ior__({"a": 1}),
    ):
        with pytest.raises(TypeError, match="cannot be changed"):
            change()
    assert plain.extra == {}


@pytest.mark.parametrize(
    ("feed", "campaign_id", "keyword_id"),
    [(Feed.CAMPAIGN, 42, None), (Feed.CAMPAIGN_BY_DATE, 42, None), (Feed.KEYWORD_BY_DATE, None, 42)],
)
def test_a_report_knows_whose_it_is(feed: Feed, campaign_id: int | None, keyword_id: int | None) -> None:
    report: RankingReport[Any] = RankingReport(feed, 42, DAY, DAY, rows=())
    assert (report.campaign_id, report.keyword_id) == (campaign_id, keyword_id)


def test_the_version_does_not_tell_equal_reports_apart() -> None:
    nested: RankingReport[Any] = RankingReport(Feed.CAMPAIGN, 42, DAY, DAY, rows=(), version=None)
    flat: RankingReport[Any] = RankingReport(Feed.CAMPAIGN, 42, DAY, DAY, rows=(), version=False)
    assert nested == flat
    assert hash(nested) == hash(flat)


@pytest.mark.parametrize("name", ["feed", "id", "start_date", "end_date", "rows", "totals", "total_records", "extra"])
def test_everything_else_tells_reports_apart(name: str) -> None:
    report: Any = RankingReport(Feed.CAMPAIGN, 42, DAY, DAY, rows=(KeywordPeriod(DAY),), totals=RankingTotals())
    assert attrs.evolve(report, **{name: {"other": 1}}) != report


def test_there_are_three_feeds() -> None:
    assert {feed.name: feed.value for feed in Feed} == {
        "CAMPAIGN": "campaign",
        "CAMPAIGN_BY_DATE": "campaign-by-date",
        "KEYWORD_BY_DATE": "keyword-by-date",
    }


# --- How they are shown

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


def test_a_model_that_fits_is_shown_whole() -> None:
    assert repr(Tag(7, "shoes")) == "Tag(id=7, label='shoes', extra={})"
