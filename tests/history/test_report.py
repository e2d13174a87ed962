"""A report: its figures and refusals, and no string of the service becomes HTML."""

import base64
import functools
import hashlib
import re
import shutil
from pathlib import Path
from typing import Any

import html5lib
import pytest

from seorep_async import ConfigurationError
from seorep_async.history import report
from seorep_async.history.reporting import marks
from tests.history.databases import (
    Ranks,
    change,
    database_of,
    day,
    nightly,
    opened,
    pull_of_night,
)

TWO_DAYS: list[Ranks] = [{11: 12, 12: 2, 13: 40, 14: 0}, {11: 3, 12: 9, 13: None, 14: None}]
LEEDS = "Leeds,England"


@pytest.fixture(scope="module")
def two_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("days")
    return database_of(folder, nightly(*TWO_DAYS), search_location_canonical_name=LEEDS)


@pytest.fixture
def database(two_days: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(two_days, tmp_path / "rankings.duckdb"))


def page_of(database: Path, **options: Any) -> str:
    page = report(database, out=database.with_name("page.html"), **options)
    return page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page_of_two_days(two_days: Path) -> str:
    """Return the report of two days, which most tests of its content share."""
    return page_of(two_days)


@functools.cache
def parsed(page: str) -> Any:
    """Return a page as an element tree. Any mistake in the page is an error."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)


def words(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


def panel(page: str, title: str) -> list[list[str]]:
    """Return the cells of the table under a title."""
    for division in parsed(page).iter("div"):
        if any(words(head) == title for head in division.findall("h3")):
            body = division.find("table").find("tbody")
            return [[words(cell) for cell in row] for row in body]
    raise LookupError(title)


def paths(page: str, kind: str) -> list[str]:
    """Return the lines of a kind in the charts."""
    elements = parsed(page).iter("{http://www.w3.org/2000/svg}path")
    of_kind = [path for path in elements if path.get("class") == kind]
    return [path.get("d") for path in of_kind]


@pytest.mark.parametrize(
    ("title", "rows"),
    [
        (
            "Engine A",  # zero and null are not ranked
            [
                ["1 to 3", "1", "1", "±0"],
                ["4 to 10", "0", "1", "+1"],
                ["11 to 20", "1", "0", "\N{MINUS SIGN}1"],
                ["21 to 50", "1", "0", "\N{MINUS SIGN}1"],
                ["51+", "0", "0", "±0"],
                ["not ranked", "1", "2", "+1"],
            ],
        ),
        ("Risen", [["shoes 11Leeds, England · Engine A", "12", "3", "+9"]]),
        ("Fallen", [["shoes 12Leeds, England · Engine A", "2", "9", "\N{MINUS SIGN}7"]]),
        ("Lost", [["shoes 13Leeds, England · Engine A", "40", "not ranked"]]),
        ("By location", [["Leeds, England", "4", "1±0", "2+1", "6.01.0 better"]]),
    ],
)
def test_two_days_are_compared(page_of_two_days: str, title: str, rows: list[list[str]]) -> None:
    assert panel(page_of_two_days, title) == rows


def test_unranked_keywords_are_in_no_average(page_of_two_days: str) -> None:
    # The change is that of keywords ranked on both days, from 12 to 3 and from 2 to 9. The lost
    # keyword was at 40.
    (card,) = [words(card) for card in parsed(page_of_two_days).iter("dl")]
    assert card.replace(" since 1 Mar 2026 ", "; ") == (
        "Keywords4 ±0; In the top 31 ±0; In the top 102 +1; Average rank6.0 18.0 on 1 Mar 2026"
    )
    assert '6.0<small><span class="good">1.0 better</span></small>' in page_of_two_days


@pytest.mark.parametrize(
    ("nights", "title", "rows"),
    [
        pytest.param(
            # 14 is new, but ranked nowhere
            [{11: None, 12: 5}, {11: 40, 12: 5, 13: 9, 14: None}],
            "Found",
            [["shoes 13Engine A", "new", "9"], ["shoes 11Engine A", "not ranked", "40"]],
            id="found",
        ),
        pytest.param(
            [{11: 40, 12: 2, 13: 9}, {11: None, 13: None, 14: 1}],
            "Lost",
            [
                ["shoes 12Engine A", "2", "removed"],
                ["shoes 13Engine A", "9", "not ranked"],
                ["shoes 11Engine A", "40", "not ranked"],
            ],
            id="those that ranked best come first",
        ),
        pytest.param(
            [{11: 9, 12: None, 13: 1}, {11: 3, 12: 2, 13: 2}],
            "Entered the top 3",
            [
                ["shoes 12Engine A", "not ranked", "2", "found"],
                ["shoes 11Engine A", "9", "3", "+6"],
            ],
            id="entered the top 3",
        ),
        pytest.param(
            [{11: 3, 12: 2, 13: 1}, {11: 9, 12: None, 13: 2}],
            "Left the top 3",
            [
                ["shoes 12Engine A", "2", "not ranked", "lost"],
                ["shoes 11Engine A", "3", "9", "\N{MINUS SIGN}6"],
            ],
            id="left the top 3",
        ),
        pytest.param(
            [{11: 9, 21: 1}, {11: 1, 21: 9}],
            "Risen",
            [["shoes 11Company 1 · Engine A", "9", "1", "+8"]],
            id="one of several campaigns",
        ),
        pytest.param(
            [{11: 9, 21: 1}, {11: 1, 21: 9}],
            "Fallen",
            [["shoes 21campaign 2 · Engine A", "1", "9", "\N{MINUS SIGN}8"]],
            id="a campaign without a name",
        ),
        pytest.param(
            [{11: 1, 21: 5}, {11: 1}],
            "By campaign",
            [["Company 1 (1)", "1", "1±0", "1±0", "1.0±0"]],
            id="a day without all campaigns",
        ),
    ],
)
def test_a_panel_has_these_rows(
    tmp_path: Path, nights: list[Ranks], title: str, rows: list[list[str]]
) -> None:
    database = database_of(tmp_path, nightly(*nights))
    change(database, "UPDATE campaigns SET company = NULL WHERE campaign_id = 2")
    assert panel(page_of(database), title) == rows


def test_those_that_left_the_top_3_are_beside_those_that_entered(page_of_two_days: str) -> None:
    titles = [title.text for title in parsed(page_of_two_days).iter("h3")]
    assert titles.index("Left the top 3") == titles.index("Entered the top 3") + 1


@pytest.mark.parametrize(
    ("nights", "options", "sentence"),
    [
        ([{11: 1, 21: 5}, {11: 1}], {}, "1 of 2 days lack a campaign that other days have."),
        (
            [{11: 3}, {11: 7}],
            {"start_date": day(1)},
            "One day is shown; changes appear once there is a second day.",
        ),
        (
            [{11: 1 + number % 7} for number in range(100)],
            {},
            "The charts show 51 of 100 days, evenly spaced.",
        ),
    ],
)
def test_a_page_says_which_days_it_shows(
    tmp_path: Path, nights: list[Ranks], options: dict[str, Any], sentence: str
) -> None:
    assert sentence in page_of(database_of(tmp_path, nightly(*nights)), **options)


@pytest.mark.parametrize(
    "days", [{"start_date": day(1)}, {"start_date": "2026-03-02", "end_date": "2026-03-09"}]
)
def test_one_day_is_a_page_without_changes(database: Path, days: dict[str, Any]) -> None:
    page = page_of(database, **days)
    assert "Movers" not in page
    assert panel(page, "Engine A")[0] == ["1 to 3", "1"]


def test_engines_have_the_requested_names(tmp_path: Path) -> None:
    engines = {f"engine_{name}_ranking": 4 for name in ("a_mobile", "a_places", "b")}
    database = database_of(tmp_path, nightly({11: 9}, {11: 1}), **engines)
    page = page_of(database, engine_names=("Google", "Bing"))
    for name in ("Google", "Google mobile", "Google places", "Bing"):
        assert len(panel(page, name)) == 6
    assert "Engine" not in page


def test_several_campaigns_are_compared(tmp_path: Path) -> None:
    nights = nightly({11: 1, 21: 5}, {11: 1, 21: 4})
    database = database_of(tmp_path, nights)
    assert [row[0] for row in panel(page_of(database), "By campaign")] == [
        "Company 1 (1)",
        "Company 2 (2)",
    ]
    page_of_campaign = page_of(database, campaign=2)
    assert "By campaign" not in page_of_campaign
    assert "<title>Search rankings: Company 2</title>" in page_of_campaign
    assert "<title>Search rankings: Retail</title>" in page_of(database, group=" retail ")


def notes_of(page: str) -> list[str]:
    paragraphs = parsed(page).iter("p")
    return [words(paragraph) for paragraph in paragraphs if paragraph.get("class") == "note"]


def test_campaigns_that_failed_on_the_last_day_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pulls = [
        pull_of_night(0, {11: 1, 21: 5, 31: 7}, failed=(4,)),
        pull_of_night(1, {11: 1, 21: 5}, failed=(3, 4)),
        pull_of_night(2, {11: 1}, failed=(2, 3, 4)),
    ]
    page = page_of(database_of(tmp_path, pulls))
    campaigns = "Company 2 (2), Company 3 (3), campaign 4"
    note = f"Not in the figures of 2026-03-03: 3 campaigns ({campaigns})."
    assert notes_of(page)[0] == note
    assert note in caplog.text


def test_a_title_takes_the_place_of_the_account(database: Path, page_of_two_days: str) -> None:
    assert "acme" in page_of_two_days
    assert "acme" not in page_of(database, title="Rankings of March")


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>"
        "\u202eabc \u0627\u0644\u0633\u0644\u0627\u0645"
        "\N{HIKING BOOT}\N{MAN}\N{ZERO WIDTH JOINER}\N{GIRL}"
        "a\x01\x0b\x7f\x85\ufffe"
        "]]>\"'><img src=x onerror=alert(1)>&amp;"
        "{{ 7 * 7 }}{% raw %}",
        "x" * 500,
    ],
    ids=["hostile", "long"],
)
def test_words_of_the_service_are_never_html(tmp_path: Path, text: str) -> None:
    tags = [{"id": 1, "label": text, "extra": None}]
    columns: dict[str, Any] = {"search_location_canonical_name": text, "tags": tags}
    database = database_of(tmp_path, nightly(*TWO_DAYS), **columns)
    with opened(database) as tables:
        tables.execute("UPDATE campaigns SET company = $1", [text])
        tables.execute("UPDATE keyword_rankings SET keyword_phrase = $1", [text])
    page = page_of(database, campaign=1, title=text, engine_names=(text, text))
    tree = parsed(page)
    assert [element for tag in ("script", "img") for element in tree.iter(tag)] == []
    assert not re.search("[\0-\x09\x0b-\x1f\x7f-\x9f\ufffe]", page)
    assert "x" * 201 not in page
    # A template of ours is no template of the page.
    assert "{" not in text or "{{ 7 * 7 }}" in page


def test_a_page_allows_no_request_and_only_its_own_style(page_of_two_days: str) -> None:
    page = page_of_two_days
    (style,) = (element.text for element in parsed(page).iter("style"))
    sha256 = hashlib.sha256(style.encode())
    digest = base64.b64encode(sha256.digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:" in page
    assert not re.search(r"https?:|//|url\(|@import|style=|<script", page.replace(digest, ""))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"campaign": 1, "start_date": day(5)},
            "no rankings of Company 1 from 2026-03-06; it has rankings for 2026-03-01, 2026-03-02$",
        ),
        ({"group": ""}, "has no rankings of group ''; it has Retail"),
        ({"group": "Retail", "campaign": 1}, "campaign=… and group=… can't be combined"),
        ({"engine_names": ("Google",)}, "engine_names must be the two names of engines A and B"),
        ({"out": "page.txt"}, r"the name must end in \.html"),
        ({"out": "no/page.html"}, "there is no folder .*no; create it first"),
        ({"title": ""}, "title must not be blank"),
        (
            {"start_date": "2026-03-03"},
            r"of acme from 2026-03-03; it has rankings for 2026-03-01, 2026-03-02$",
        ),
        ({"end_date": "2026-02-28"}, "no rankings of acme to 2026-02-28; it has rankings for"),
        (
            {"start_date": "2026-03-02", "end_date": "2026-03-01"},
            "no rankings of acme from 2026-03-02 to 2026-03-01",
        ),
        ({"start_date": "March"}, "start_date must be"),
    ],
)
def test_wrong_arguments_are_refused(database: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        report(database, **{"out": database.with_name("page.html"), **options})
    assert not database.with_name("page.html").exists()


def test_only_a_report_is_replaced(database: Path) -> None:
    page = database.with_name("page.html")
    page_of(database)
    page_of(database)
    page.write_text("<p>Mine.", encoding="utf-8")
    with pytest.raises(
        ConfigurationError,
        match="it is not a page of `report`; name another file, or delete this one first",
    ):
        page_of(database)
    assert page.read_text(encoding="utf-8") == "<p>Mine."
    assert {file.name for file in database.parent.iterdir()} == {"page.html", "rankings.duckdb"}


# --- Charts


@pytest.mark.parametrize(
    ("lowest", "highest", "first", "expected"),
    [
        (0, 4, 0, [0, 1, 2, 3, 4]),
        (0, 1, 0, [0, 1]),
        (0, 2000, 0, [0, 500, 1000, 1500, 2000]),
        # Ranks begin with 1.
        (1, 1, 1, [1, 2]),
        (3.5, 14, 1, [1, 6, 11, 16]),
        (88, 91.5, 1, [88, 89, 90, 91, 92]),
    ],
)
def test_marks_of_an_axis_are_round(
    lowest: float, highest: float, first: int, expected: list[int]
) -> None:
    assert marks(lowest, highest, first=first) == expected


@pytest.mark.parametrize(
    ("nights", "lines"),
    [
        pytest.param(
            [{11: 1}, {11: 0}, {11: 2}, {11: 3}, {11: None}],
            {"line": "M05 0.0h0M25 50.0h0L35 100.0h0", "dot": "M35 100.0h0"},
            id="a line is interrupted where nothing is ranked",
        ),
        pytest.param(
            [{11: 1, 12: 0, 13: 5, 14: 0}, {11: 1, 12: 1, 13: 9, 14: 0}],
            {
                "b0": "M05 100.0V75.0M15 100.0V50.0",
                "b1": "M05 75.0V50.0M15 50.0V25.0",
                "b2": "",
                "b5": "M05 50.0V-0.0M15 25.0V-0.0",
            },
            id="bars stand on each other",
        ),
    ],
)
def test_charts_are_drawn(tmp_path: Path, nights: list[Ranks], lines: dict[str, str]) -> None:
    page = page_of(database_of(tmp_path, nightly(*nights)))
    for kind, line in lines.items():
        assert paths(page, kind)[0] == line


def test_the_worst_page_has_200_kb_at_most(tmp_path: Path) -> None:
    database = database_of(tmp_path, nightly({11: 1}))
    change(
        database,
        """INSERT INTO keyword_rankings BY NAME
            SELECT 'acme' AS account, DATE '2025-01-01' + night::INTEGER AS snapshot_date,
                1 + id % 40 AS campaign_id,
                DATE '2025-01-01' AS start_date, DATE '2027-01-01' AS end_date, id AS keyword_id,
                repeat('"', 499) || id AS keyword_phrase,
                repeat('&', 200) || id % 100 AS search_location_canonical_name,
                [{'id': id, 'label': repeat('<', 200) || id % 500, 'extra': NULL}] AS tags,
                (id * 7 + night) % 101 AS engine_a_ranking,
                (id * 3 + night) % 101 AS engine_a_mobile_ranking,
                (id * 5 + night) % 101 AS engine_a_places_ranking,
                (id * 11 + night * id) % 101 AS engine_b_ranking
            FROM range(90) AS nights(night), range(200) AS keywords(id);
        UPDATE campaigns SET company = repeat('&', 500)""",
    )
    page = page_of(database)
    assert len(page.encode()) <= 200_000
    assert panel(page, "Risen")[9][-1] == "+68"
    assert "and 606 more" in page
