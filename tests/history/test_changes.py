"""Changes between two days: kinds, order, campaigns left out, and refused arguments."""

import datetime as dt
import json
import operator
import pickle
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from seorep_async import ConfigurationError
from seorep_async.history import changes, changes_by_campaign, write_changes
from seorep_async.history.comparing import ChangeKind
from tests.history.databases import FIRST, Pull, change, database_of, day, nightly, pull_of_night

KINDS: list[tuple[int | None, int | None, str]] = [
    (40, 37, "rose"),
    (40, 38, ""),
    (37, 40, "fell"),
    (4, 3, "entered_top_3"),
    (20, 21, "left_top_20"),
    (12, 2, "entered_top_3 entered_top_10 rose"),
    (None, 10, "found entered_top_10 entered_top_20"),
    (3, 0, "lost left_top_3 left_top_10 left_top_20"),
    (0, None, ""),
]
NEW = 100
REMOVED = 101


@pytest.fixture(scope="module")
def kinds_of_keywords(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[str, ...]]:
    """Return the kinds of each change between two days that have every pair of ranks."""
    before = {number: ranks[0] for number, ranks in enumerate(KINDS, 10)}
    after = {number: ranks[1] for number, ranks in enumerate(KINDS, 10)}
    before[REMOVED] = 0
    after[NEW] = 1
    # A campaign that has only one of its days would be left out.
    before[102] = 50
    after[102] = 50
    database = database_of(tmp_path_factory.mktemp("kinds"), nightly(before, after))
    return {change.keyword_id: change.kinds for change in changes(database, moved=3)}


@pytest.mark.parametrize("number", range(len(KINDS)), ids=[str(ranks) for ranks in KINDS])
def test_kinds_follow_from_both_ranks(
    kinds_of_keywords: dict[int, tuple[str, ...]], number: int
) -> None:
    _, _, kinds = KINDS[number]
    assert kinds_of_keywords.get(10 + number, ()) == tuple(kinds.split())


def test_keywords_are_new_or_removed(kinds_of_keywords: dict[int, tuple[str, ...]]) -> None:
    assert kinds_of_keywords[NEW] == ("new",)
    assert kinds_of_keywords[REMOVED] == ("removed",)


@pytest.mark.parametrize(
    ("options", "keywords", "total"),
    [
        ({}, [21, 13, 11, 12, 14], 5),
        ({"limit": 2}, [21, 13], 5),
        ({"campaign": 2}, [21], 1),
        ({"group": " retail "}, [13, 11, 12, 14], 4),
        ({"kind": "rose"}, [11, 12], 2),
        ({"kind": "entered_top_10", "limit": 1}, [11], 1),
        ({"kind": "rose", "moved": 4}, [11], 1),
        ({"kind": "removed"}, [], 0),
        ({"kind": ["rose", "lost"]}, [21, 11, 12], 3),
        ({"kind": ("lost",)}, [21], 1),
    ],
)
def test_changes_are_chosen_the_largest_first(
    five_changes: Path, options: dict[str, Any], keywords: list[int], total: int
) -> None:
    compared = changes(five_changes, **options)
    assert [change.keyword_id for change in compared] == keywords
    assert compared.total == total


def test_each_engine_is_compared_by_itself(tmp_path: Path) -> None:
    database = database_of(tmp_path, nightly({11: 9}))
    urls = {
        "engine_a_ranking_url": "https://a.example",
        "engine_b_ranking_url": "https://b.example",
    }
    ranks = {"engine_b_ranking": 5, "engine_a_places_ranking": 8}
    database_of(database, [pull_of_night(1, {11: 2})], **ranks, **urls)
    of_b, of_places, of_a = changes(database)
    facts = operator.attrgetter("engine", "before", "after", "url")
    assert facts(of_b) == ("engine_b", None, 5, "https://b.example")
    assert facts(of_places) == ("engine_a_places", None, 8, None)
    assert facts(of_a) == ("engine_a", 9, 2, "https://a.example")


@pytest.mark.parametrize(
    ("engine", "engines"),
    [
        ("engine_b", ["engine_b"]),
        (["engine_a", "engine_b"], ["engine_b", "engine_a"]),
        ("engine_a_mobile", []),
    ],
)
def test_one_engine_can_be_compared_alone(tmp_path: Path, engine: Any, engines: list[str]) -> None:
    database = database_of(tmp_path, nightly({11: 9}))
    database_of(database, [pull_of_night(1, {11: 2})], engine_b_ranking=5)
    compared = changes(database, engine=engine)
    assert [change.engine for change in compared] == engines
    assert compared.total == len(engines)


def test_counts_of_campaigns_are_those_of_their_changes(five_changes: Path) -> None:
    counted = changes_by_campaign(five_changes)
    compared = changes(five_changes)
    for campaign in counted.campaigns:
        id_ = campaign.campaign_id
        its_changes = [change for change in compared if change.campaign_id == id_]
        assert campaign.changes == len(its_changes)
        assert campaign.places == sum(change.moved or 0 for change in its_changes)
        for kind in get_args(ChangeKind):
            count = sum(kind in change.kinds for change in its_changes)
            assert getattr(campaign, kind) == count, kind
    assert counted.total == compared.total


def test_a_notebook_shows_counted_changes_as_a_table(five_changes: Path) -> None:
    counted = changes_by_campaign(five_changes)
    assert repr(counted) == "<Changes of acme, 2026-03-01 to 2026-03-02: 5 in 2 campaigns>"
    assert f"{repr(counted)[1:-1]}: 2 rows</div>" in counted._repr_html_()


def test_counted_changes_name_their_filters_and_become_a_frame(five_changes: Path) -> None:
    counted = changes_by_campaign(five_changes, kind="lost", engine="engine_a")
    assert "2026-03-02, lost, engine_a: 1 in 1 campaign" in repr(counted)
    assert counted.to_pandas()["lost"].tolist() == [1]
    assert counted.to_polars()["lost"].to_list() == [1]


def test_a_requested_kind_hides_no_count_of_another(tmp_path: Path) -> None:
    nights = nightly({11: 3, 12: 5, 21: 7}, {11: 12, 12: None, 21: 1})
    counted = changes_by_campaign(database_of(tmp_path, nights), kind="fell")
    (campaign,) = counted.campaigns
    assert campaign.changes == 1
    assert campaign.fell == 1
    assert campaign.lost == 1
    assert counted.total == 1


def test_a_slice_of_changes_knows_its_days(five_changes: Path) -> None:
    compared = changes(five_changes)
    first = pickle.loads(pickle.dumps(compared[:2].copy()))  # noqa: S301
    assert (first.account, first.before, first.total) == ("acme", FIRST, 5)
    assert [change.keyword_id for change in first] == [21, 13]
    assert len((compared[1:] + compared[:1]).to_pandas()) == 5


def test_changes_are_a_table(five_changes: Path) -> None:
    compared = changes(five_changes)
    assert compared.to_pandas()["kind"].tolist() == [change.kind for change in compared]
    assert [change.moved for change in compared] == [None, None, 9, 3, None]
    line = json.loads(compared.to_jsonl().splitlines()[0])
    assert line["kinds"] == ["lost", "left_top_3", "left_top_10", "left_top_20"]
    assert (line["company"], line["keyword_phrase"]) == ("Company 2", "shoes 21")


@pytest.mark.parametrize(
    ("after", "left_out"),
    [
        (
            pull_of_night(1, {11: 1}, failed=(2,)),
            {2: f"the report of {day(1)} failed (an error of the service)"},
        ),
        (pull_of_night(1, {11: 1}), {2: f"there are no rows of {day(1)}"}),
        (pull_of_night(1, {11: 1, 21: 9}), {}),
    ],
)
def test_a_campaign_without_both_reports_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, after: Pull, left_out: dict[int, str]
) -> None:
    database = database_of(tmp_path, [*nightly({11: 1, 21: 9}), after])
    compared = changes(database)
    assert compared.left_out == left_out
    assert [*compared] == []
    assert ("(1 campaign not compared)" in repr(compared)) == bool(left_out)
    for reason in left_out.values():
        assert f"Not compared: campaign 2, because {reason}" in caplog.text


def test_a_campaign_without_both_days_is_named(tmp_path: Path) -> None:
    nights = nightly({11: 1, 21: 9}, {11: 1}, {11: 1})
    compared = changes(database_of(tmp_path, nights), before=day(1))
    reason = f"there are no rows of {day(1)} and there are no rows of {day(2)}"
    assert compared.left_out == {2: reason}


def test_a_campaign_that_failed_is_retried(tmp_path: Path) -> None:
    nights = [*nightly({11: 1, 21: 9}), pull_of_night(1, {11: 1}, failed=(2,))]
    words = f"The reports of {day(1)} failed: pull them again, with retry_failed=True"
    with pytest.raises(ConfigurationError, match=words):
        changes(database_of(tmp_path, nights), campaign=2)


OWN_DAYS = [
    pull_of_night(-9, {21: 3, 31: 3}),
    pull_of_night(-2, {21: 9}, failed=(4,)),
    *nightly({11: 5}, {11: 6}),
]
"""A nightly campaign, two weekly ones, and one that failed."""


@pytest.fixture(scope="module")
def days_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return database_of(tmp_path_factory.mktemp("days"), OWN_DAYS)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"campaign": 3},
            f"no day before {day(-9)} .*: .*a.duckdb has rankings of Company 3 for {day(-9)}. For",
        ),
        (
            {"campaign": 2, "after": day(1)},
            f"has no rankings of Company 2 for {day(1)}; the nearest: {day(-2)}$",
        ),
        (
            {"campaign": 4},
            r"no keyword rankings of campaign 4; its reports failed \(an error of the service\)$",
        ),
    ],
)
def test_a_refusal_is_about_the_days_of_its_campaign(
    days_of_their_own: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        changes(days_of_their_own, **options)


def test_a_misspelt_argument_is_named(tmp_path: Path) -> None:
    misspelt: Any = {"kinds": "fell"}
    with pytest.raises(ConfigurationError, match=r"no argument 'kinds'\. Did you mean kind\?"):
        changes_by_campaign(tmp_path, **misspelt)


def test_the_403_of_a_campaign_is_no_word_on_the_key(tmp_path: Path) -> None:
    nights = [*nightly({11: 1, 21: 1}, {11: 2, 21: 2}), pull_of_night(2, {11: 3}, failed=(2, 3))]
    path = database_of(tmp_path, nights)
    change(path, "UPDATE failures SET error = 'AuthenticationError', status = 403")
    assert (
        changes(path).left_out[2]
        == f"the report of {day(2)} failed (the API key has no access to it)"
    )
    with pytest.raises(
        ConfigurationError, match=r"its reports failed \(the API key has no access to it"
    ):
        changes(path, campaign=3)


SEVERAL = {11: 1, 21: 1, 31: 1}


@pytest.mark.parametrize(
    ("last", "last_day", "note"),
    [
        (
            pull_of_night(2, {11: 3}),
            day(1),
            "2026-03-03 has only 1 report and 0 failures, so 2026-03-02",
        ),
        (pull_of_night(2, {11: 3}, failed=(2, 3)), day(2), "Not compared: campaigns 2, 3, because"),
        (pull_of_night(2, {11: 3, 21: 3}), day(2), "Not compared: campaign 3, because there"),
        (
            pull_of_night(2, {}, failed=(1, 2)),
            day(1),
            "2026-03-03 has only 0 reports and 2 failures, so 2026-03-02",
        ),
    ],
    ids=["one pulled", "most failed", "most pulled", "all failed"],
)
def test_the_last_day_is_one_of_most_campaigns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, last: Pull, last_day: Any, note: str
) -> None:
    nights = nightly(SEVERAL, dict.fromkeys(SEVERAL, 2))
    compared = changes(database_of(tmp_path, [*nights, last]))
    assert compared.after == last_day
    assert caplog.messages[0].startswith(note)
    assert compared.notes == [words for words in caplog.messages if "Not compared" not in words]


TWO_MONTHS = [pull_of_night(number, {11: number + 40}) for number in (-5, -2, 3, 9)]
TOMORROW = [*nightly({11: 1}, {11: 2}), Pull(day(1), day(2), day(32), {11: 9})]
IN_SPRING = [*nightly({11: 1}, {11: 2}), Pull(day(1), day(90), day(120), {11: 9})]
"""Pulls of a month that had not begun."""


@pytest.mark.parametrize(
    ("pulls", "options", "days"),
    [
        pytest.param(OWN_DAYS, {"campaign": 2}, (-9, -2), id="of a weekly campaign"),
        pytest.param(
            nightly(SEVERAL, {11: 9}, {**SEVERAL, 11: 5}),
            {},
            (0, 2),
            id="a day of few campaigns is skipped",
        ),
        pytest.param(nightly(SEVERAL, {11: 9}), {}, (0, 1), id="a second day after one of more"),
        pytest.param(TWO_MONTHS, {"after": "2026-03"}, (-2, 9), id="the month before"),
        pytest.param(TWO_MONTHS, {"before": "2026-02", "after": "2026-03"}, (-2, 9), id="months"),
        pytest.param(TOMORROW, {}, (0, 1), id="not a month that had not begun"),
        pytest.param(TOMORROW, {"after": day(2)}, (1, 2), id="a month that had not begun"),
        # East of UTC a month begins a day earlier.
        pytest.param(
            [*TOMORROW, Pull(day(1), day(2), day(2), {11: 9})], {}, (1, 2), id="a month has begun"
        ),
        pytest.param(IN_SPRING, {}, (0, 1), id="not a month in spring"),
        pytest.param(IN_SPRING, {"after": day(90)}, (1, 90), id="a month in spring"),
        pytest.param(
            [*IN_SPRING, Pull(day(89), day(90), day(90), {11: 9})],
            {},
            (1, 90),
            id="a month in spring has begun",
        ),
    ],
)
def test_these_days_are_compared(
    tmp_path: Path, pulls: list[Pull], options: dict[str, Any], days: tuple[int, int]
) -> None:
    compared = changes(database_of(tmp_path, pulls), **options)
    assert (compared.before, compared.after) == tuple(map(day, days))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"after": "2026-03-05"},
            r"has no rankings of acme for 2026-03-05; the nearest: 2026-03-02$",
        ),
        (
            {"after": FIRST},
            "no day before 2026-03-01 to compare it with: .* of acme for 2026-03-01, 2026-03-02$",
        ),
        (
            {"before": day(1), "after": FIRST},
            "before must be a day before 2026-03-01, got 2026-03-02",
        ),
        ({"before": "March"}, "before must be"),
        ({"account": "other"}, "there is no account 'other' in .*; it has 'acme'"),
        ({"kind": ["rose", "risen"]}, "kind must be one of new, .*, got 'risen'"),
        ({"kind": []}, r"kind must be one of new, .*, got \[\]"),
        ({"kind": "losers"}, "got 'losers'$"),
        ({"kind": "fel"}, "got 'fel'. Did you mean fell"),
        ({"kind": {}}, "kind must be one of new, .*, got a value of type dict"),
        ({"kind": "risen"}, "kind must be one of new, removed, found, lost, .*, got 'risen'"),
        ({"limit": 0}, "limit must be"),
        ({"campaign": "1"}, "campaign must be"),
        ({"moved": 0}, "moved must be"),
        ({"group": "x"}, "no rankings of group 'x'; it has Retail"),
        ({"group": 3}, "no rankings of group 3; it has Retail"),
        ({"group": "Retail", "campaign": 1}, "campaign=… and group=… can't be combined"),
    ],
)
def test_wrong_arguments_are_refused(
    five_changes: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        changes(five_changes, **options)


def test_a_month_is_never_compared_with_an_older_one(tmp_path: Path) -> None:
    nights = [pull_of_night(number, {11: number + 60}) for number in (-40, 9)]
    database = database_of(tmp_path, nights)
    with pytest.raises(
        ConfigurationError, match=r"no rankings of acme for 2026-02-28; .*before=…$"
    ):
        changes(database, after="2026-03")
    with pytest.raises(ConfigurationError, match="for 2026-03-31 and 2026-04-30; the nearest: "):
        changes(database, before="2026-03-31", after="2026-04")


def test_printed_changes_are_one_line(five_changes: Path) -> None:
    assert str(changes(five_changes)) == "<Changes of acme, 2026-03-01 to 2026-03-02: 5>"
    few = changes(five_changes, limit=2)
    assert repr(few) == "<Changes of acme, 2026-03-01 to 2026-03-02: 2 of 5>"


def test_the_kinds_of_a_change_are_a_list_in_frames(five_changes: Path) -> None:
    compared = changes(five_changes, kind="rose")
    kinds = [["entered_top_3", "entered_top_10", "rose"], ["rose"]]
    assert compared.to_polars()["kinds"].to_list() == kinds
    assert compared.to_pandas()["kinds"].to_list() == kinds


def test_changes_are_written_from_python(five_changes: Path, tmp_path: Path) -> None:
    file = write_changes(changes(five_changes), tmp_path / "a.csv", engine_names=("Google", "Bing"))
    header, first, *_ = file.read_text(encoding="utf-8").splitlines()
    assert header.startswith("company,keyword_phrase,location,engine,before,after,moved")
    assert first.startswith("Company 2,shoes 21,")
    assert ",Google,2,,," in first
    no_counts = changes_by_campaign(five_changes, kind="fell")
    file = write_changes(no_counts, tmp_path / "b.csv")
    assert file.read_text(encoding="utf-8").startswith("company,changes,places,")


@pytest.mark.parametrize("kind", [None, "lost", "found"])
def test_a_notebook_shows_keyword_and_both_ranks_first(five_changes: Path, kind: Any) -> None:
    page = changes(five_changes, kind=kind)._repr_html_()
    names = [re.sub(r"<[^>]+>", "", head) for head in re.findall(r"<th.*?</th>", page)]
    assert names[:3] == ["keyword_phrase", "before", "after"]
    assert not {"account", "before_date", "after_date"} & {*names}


def test_a_caption_names_the_requested_kinds_and_engines(five_changes: Path) -> None:
    compared = changes(five_changes, kind=["rose", "fell"], engine="engine_a")
    caption = "Changes of acme, 2026-03-01 to 2026-03-02, rose, fell, engine_a, the largest of 2: "
    assert caption in compared[:1]._repr_html_()


@pytest.fixture(scope="module")
def four_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pulls = [pull_of_night(n, {11: 5 + n}) for n in (0, 1, 2, 5)]
    return database_of(tmp_path_factory.mktemp("days"), pulls)


@pytest.mark.parametrize(
    ("argument", "missing", "nearest"),
    [
        ("before", day(-5), f"the nearest: {day(0)}"),
        ("before", day(4), f"the nearest: {day(2)} and {day(5)}"),
        ("after", day(4), f"the nearest: {day(2)} and {day(5)}"),
        ("after", day(9), f"the nearest: {day(5)}"),
        # a month that a pull can add
        ("before", day(-1), f"the nearest: {day(0)}; .* pull --month 2026-02 -o .*a.duckdb\\)"),
        ("after", dt.date(2099, 3, 31), f"the nearest: {day(5)}"),
        ("after", dt.date.max, f"the nearest: {day(5)}"),
    ],
)
def test_a_day_without_rankings_names_the_nearest(
    four_days: Path, argument: str, missing: dt.date, nearest: str
) -> None:
    options: dict[str, Any] = {argument: missing}
    words = f"no rankings of acme for {missing}; {nearest}$"
    with pytest.raises(ConfigurationError, match=words) as caught:
        changes(four_days, **options)
    assert caught.value.argument == argument


def test_the_first_month_of_the_calendar_has_no_month_before(four_days: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"for 0001-01-31; the nearest: {day(0)}"):
        changes(four_days, after="0001-01")


def test_the_first_and_the_last_day_of_the_calendar_are_compared(tmp_path: Path) -> None:
    days = [dt.date(1, 1, 31), dt.date(9999, 12, 31)]
    pulls = [Pull(day, day, day, {11: rank}) for rank, day in enumerate(days, 1)]
    database = database_of(tmp_path, pulls)
    assert changes(database, before=days[0], after=days[1], moved=1).total == 1
