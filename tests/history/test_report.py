"""A report: its figures, what it refuses, and that nothing of the service's gets through as HTML."""

import base64
import datetime as dt
import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import html5lib
import pytest
from seorep_async.export.local_folder import LocalFolder
from tests.export.databases import change

from seorep_async import ConfigurationError, ExportError
from seorep_async.cli.application import run
from seorep_async.history import report
from seorep_async.history.report_style import axis, contrast, line, readable, rgb, stacked_bars, style_sheet
from tests.history.left_behind import pulled_windows
from tests.history.made_history import Ranks, as_dataset, made_history

HOSTILE = [
    "<script>alert(1)</script>",
    "\u202eabc \u0627\u0644\u0633\u0644\u0627\u0645",
    "\N{HIKING BOOT}\N{MAN}\N{ZERO WIDTH JOINER}\N{GIRL}",
    "x" * 500,
    "a\x01\x0b\x7f\x85\ufffe\U0010ffff",
    "]]>\"'><img src=x onerror=alert(1)>&amp;",
]
TWO_NIGHTS: list[Ranks] = [{11: 12, 12: 2, 13: 40, 14: 0}, {11: 3, 12: 9, 13: None, 14: None}]


@pytest.fixture(scope="module")
def two_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nights")
    return made_history(folder / "a.duckdb", TWO_NIGHTS, search_location_canonical_name="Leeds")


@pytest.fixture
def source(two_nights: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(two_nights, tmp_path / "rankings.duckdb"))


def made(source: Path, **options: Any) -> str:
    return report(source, out=source.with_name("page.html"), **options).read_text(encoding="utf-8")


def parsed(page: str) -> Any:
    """Return a page as an element tree; any mistake in it is an error."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)


def words(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


def panel(page: str, title: str) -> list[list[str]]:
    (found,) = (one for one in parsed(page).iter("div") if [words(head) for head in one.findall("h3")] == [title])
    return [[words(cell) for cell in row] for row in found.find("table").find("tbody")]


def test_zero_and_null_are_not_ranked_and_in_no_average(source: Path) -> None:
    rows = panel(made(source), "Engine A")
    assert rows == [
        ["1 to 3", "1", "1", "±0"],
        ["4 to 10", "0", "1", "+1"],
        ["11 to 20", "1", "0", "\N{MINUS SIGN}1"],
        ["21 to 50", "1", "0", "\N{MINUS SIGN}1"],
        ["51 on", "0", "0", "±0"],
        ["not ranked", "1", "2", "+1"],
    ]
    cards = [words(card) for card in parsed(made(source)).iter("dl")]
    assert cards == [
        "Keywords4±0 since 1 Mar 2026In the top 31±0 since 1 Mar 2026In the top 102+1 since 1 Mar 2026"
        "Average rank6.012.0 better since 1 Mar 2026"
    ]


def test_movers_and_lost_keywords_are_those_of_changes(source: Path) -> None:
    page = made(source)
    assert panel(page, "Risen") == [["shoes 11Leeds · Engine A", "12", "3", "+9"]]
    assert panel(page, "Fallen") == [["shoes 12Leeds · Engine A", "2", "9", "\N{MINUS SIGN}7"]]
    assert panel(page, "Lost") == [["shoes 13Leeds · Engine A", "40", "not ranked"]]


def test_of_lost_keywords_those_that_ranked_best_come_first(tmp_path: Path) -> None:
    page = made(made_history(tmp_path / "a.duckdb", [{11: 40, 12: 2, 13: 9}, {11: None, 13: None, 14: 1}]))
    assert [row[1:] for row in panel(page, "Lost")] == [["2", "removed"], ["9", "not ranked"], ["40", "not ranked"]]


def test_groups_are_compared_with_the_first_night(source: Path) -> None:
    assert panel(made(source), "By location") == [["Leeds", "4", "1±0", "2+1", "6.012.0 better"]]


def test_a_keyword_counts_once_for_each_of_its_tags(tmp_path: Path) -> None:
    tags = [{"id": 1, "label": "Brand", "extra": None}, {"id": 2, "label": "Brand", "extra": None}]
    page = made(made_history(tmp_path / "a.duckdb", [{11: 1, 12: 5}], tags=tags))
    assert panel(page, "By tag") == [["Brand", "2", "1±0", "2±0", "3.0±0"]]


def test_several_campaigns_are_compared(tmp_path: Path) -> None:
    source = made_history(tmp_path / "a.duckdb", [{11: 1, 21: 5}, {11: 1, 21: 4}])
    assert [row[0] for row in panel(made(source), "By campaign")] == ["Company 1 (1)", "Company 2 (2)"]
    assert "By campaign" not in made(source, campaign=2)
    assert "<title>Search rankings: Company 2</title>" in made(source, campaign=2)
    assert "<title>Search rankings: Retail</title>" in made(source, group="Retail")


def test_a_group_is_of_all_campaigns_whose_titles_differ_in_case(tmp_path: Path) -> None:
    source = made_history(tmp_path / "a.duckdb", [{11: 1, 21: 5}, {11: 1, 21: 4}])
    change(source, "UPDATE campaigns SET group_title = 'RETAIL' WHERE campaign_id = 2")
    assert [row[0] for row in panel(made(source, group=" retail "), "By campaign")] == [
        "Company 1 (1)",
        "Company 2 (2)",
    ]


def test_a_night_without_all_campaigns_is_told(tmp_path: Path) -> None:
    source = made_history(tmp_path / "a.duckdb", [{11: 1, 21: 5}, {11: 1}])
    assert "1 of 2 nights lack a campaign that others have." in made(source)


def test_groups_are_those_of_the_last_night(tmp_path: Path) -> None:
    page = made(made_history(tmp_path / "a.duckdb", [{11: 1, 21: 5}, {11: 1}]))
    assert [row[0] for row in panel(page, "By campaign")] == ["Company 1 (1)"]


@pytest.mark.parametrize("target", ["nights.duckdb", "nights/"])
@pytest.mark.parametrize("latest_first", [False, True])
async def test_of_several_windows_the_longest_that_ends_last_counts(
    tmp_path: Path, target: str, latest_first: bool
) -> None:
    page = made(Path(await pulled_windows(f"{tmp_path}/{target}", latest_first=latest_first)))
    assert [row[1:3] for row in panel(page, "Engine A")] == [
        ["0", "0"],
        ["0", "1"],  # 8, on the second night
        ["1", "0"],  # 15, on the first
        *[["0", "0"]] * 3,
    ]


def test_one_night_is_a_page_without_changes(tmp_path: Path) -> None:
    page = made(made_history(tmp_path / "a.duckdb", [{11: 7}]))
    assert "This is the first night" in page
    assert "Movers" not in page
    assert panel(page, "Engine A")[1] == ["4 to 10", "1"]


def test_keywords_that_are_never_ranked_make_a_page(tmp_path: Path) -> None:
    page = made(made_history(tmp_path / "a.duckdb", [{11: None}, {11: 0}]))
    parsed(page)
    assert "No keyword is ranked on any engine." in page


@pytest.fixture(scope="module")
def many_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database, and beside it a dataset, of 100 nights of campaign 1, and each ninth of campaign 2."""
    nights = [{11: 1 + night % 7, 12: night, **({21: night} if night % 9 == 4 else {})} for night in range(100)]
    source = made_history(tmp_path_factory.mktemp("many") / "a.duckdb", nights)
    as_dataset(source, parts=2)
    return source


@pytest.mark.parametrize(
    "options", [{}, {"campaign": 2}, {"start_date": "2026-03-05", "end_date": dt.date(2026, 5, 1)}]
)
def test_a_dataset_makes_the_page_of_a_database(many_nights: Path, options: dict[str, Any]) -> None:
    page = made(many_nights, **options)
    assert made(many_nights.with_suffix(""), force=True, **options) == page
    assert ("11 nights" in page) == (options == {"campaign": 2})


def test_nights_are_those_between_two_days(source: Path) -> None:
    page = made(source, start_date="2026-03-02", end_date="2026-03-09")
    assert "This is the first night" in page
    assert panel(page, "Engine A")[0] == ["1 to 3", "1"]


def test_of_many_nights_a_dataset_reads_those_drawn(many_nights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, read_file = set(), LocalFolder.read

    def read_and_noted(storage: LocalFolder, name: str, most: int | None = None) -> bytes | None:
        read.add(name.rpartition("/")[0])
        return read_file(storage, name, most)

    monkeypatch.setattr(LocalFolder, "read", read_and_noted)
    page = made(many_nights.with_suffix(""))
    assert sum(name.startswith("keyword_rankings/") for name in read) == 52
    assert "At least 47 of 100 nights lack a campaign that others have. The charts show 51 of 100 nights" in page


@pytest.mark.parametrize("words_of_service", HOSTILE)
def test_words_of_the_service_are_never_html(tmp_path: Path, words_of_service: str) -> None:
    tags = [{"id": 1, "label": words_of_service, "extra": None}]
    source = made_history(tmp_path / "a.duckdb", TWO_NIGHTS, search_location_canonical_name=words_of_service, tags=tags)
    with duckdb.connect(str(source)) as database:
        database.execute("UPDATE campaigns SET company = $1", [words_of_service])
        database.execute("UPDATE keyword_rankings SET keyword_phrase = $1", [words_of_service])
    page = made(source, campaign=1, title=words_of_service)
    tree = parsed(page)
    assert [element for tag in ("script", "img") for element in tree.iter(tag)] == []
    assert not re.search("[\0-\x09\x0b-\x1f\x7f-\x9f\ufffe\U0010ffff]", page)
    assert "x" * 201 not in page


def test_a_page_allows_no_request_and_only_its_own_style(source: Path) -> None:
    page = made(source)
    (style,) = (element.text for element in parsed(page).iter("style"))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:" in page
    assert not re.search(r"https?:|//|url\(|@import|style=|<script", page.replace(digest, ""))


def test_charts_and_tables_have_names_for_screen_readers(source: Path) -> None:
    tree = parsed(made(source))
    assert tree.get("lang") == "en"
    pictures = [one for one in tree.iter("{http://www.w3.org/2000/svg}svg") if not one.get("aria-hidden")]
    assert [(one.get("role"), bool(one.get("aria-label"))) for one in pictures] == [("img", True)] * 2
    assert all(words(table.find("caption")) for table in tree.iter("table"))
    assert {head.get("scope") for head in tree.iter("th")} == {"col", "row"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"campaign": 3}, "rankings.duckdb has no rankings of campaign 3; it has 1"),
        ({"group": "None"}, "has no rankings of group 'None'; it has Retail"),
        ({"group": "Retail", "campaign": 1}, "campaign=… and group=… can't be combined"),
        ({"account": "other"}, "there is no account 'other'"),
        ({"colours": ("red", "#000000")}, "colours must be two of the form"),
        ({"colours": "#000000"}, "colours must be two"),
        ({"logo": "no.png"}, "logo must be a PNG, JPEG or SVG file of at most 48 KiB, got no.png"),
        ({"out": "page.txt"}, r"the name must end in \.html"),
        ({"out": "no/page.html"}, "there is no folder .*no; create it first"),
        ({"out": 5}, "out must be the path of a file, got 5"),
        ({"title": ""}, "title must be"),
        (
            {"start_date": "2026-03-03"},
            r"no night from 2026-03-03: .*duckdb has rankings of acme of 2026-03-01, 2026-03-02$",
        ),
        ({"end_date": "2026-02-28"}, r"no night to 2026-02-28: .* has rankings of acme of 2026-03-01, 2026-03-02$"),
        (
            {"start_date": "2026-03-02", "end_date": "2026-03-01"},
            "end_date must be 2026-03-02 or a later day, got 2026-03-01",
        ),
        ({"start_date": "March"}, "start_date must be"),
        (
            {"start_date": "2026-03-02", "end_date": "2026-03-04", "campaign": 3},
            "no rankings of campaign 3 from 2026-03-02 to 2026-03-04; it has 1",
        ),
    ],
)
def test_wrong_arguments_are_refused(source: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        report(source, **{"out": source.with_name("page.html"), **options})
    assert not source.with_name("page.html").exists()


def test_no_rankings_are_refused(tmp_path: Path) -> None:
    source = made_history(tmp_path / "a.duckdb", [{11: 1}])
    change(source, "DELETE FROM keyword_rankings")
    with pytest.raises(ConfigurationError, match="has no keyword rankings of 'acme'; pull the feed campaign into it"):
        made(source)


def test_several_accounts_must_be_told_apart(source: Path) -> None:
    made_history(source, TWO_NIGHTS[:1], account="other")
    with pytest.raises(ConfigurationError, match="has several accounts"):
        made(source)
    assert panel(made(source, account="other"), "Engine A")[5] == ["not ranked", "1"]


def test_only_a_report_is_replaced(source: Path) -> None:
    page = source.with_name("page.html")
    made(source)
    made(source, title="Later")
    page.write_text("<p>Mine.", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="no report wrote it; force=True replaces it"):
        made(source)
    assert page.read_text(encoding="utf-8") == "<p>Mine."
    assert "Search rankings" in made(source, force=True)
    assert {file.name for file in source.parent.iterdir()} == {"page.html", "rankings.duckdb"}


def test_a_pipe_is_neither_a_page_nor_a_logo(source: Path) -> None:
    pipe = source.with_name("pipe.html")
    os.mkfifo(pipe)
    for options in ({"out": pipe}, {"out": source.with_name("page.html"), "logo": pipe}):
        with pytest.raises(ConfigurationError, match=r"regular file|logo must be"):
            report(source, **options)  # type: ignore[arg-type]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_can_not_be_written_is_an_export_error(source: Path) -> None:
    source.parent.chmod(0o500)
    with pytest.raises(ExportError, match=r"can't write .*page\.html: Permission denied"):
        made(source)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n...", "image/png"),
        (b"\xff\xd8\xff...", "image/jpeg"),
        (b'<?xml version="1.0"?>\n<!-- a -->\n<svg xmlns="http://www.w3.org/2000/svg"/>', "image/svg+xml"),
        (b"<html><svg>", None),
        (b"\x89PNG\r\n\x1a\n" + bytes(48 << 10), None),
    ],
)
def test_a_logo_is_an_image_in_the_page(source: Path, data: bytes, kind: str | None) -> None:
    logo = source.with_name("logo")
    logo.write_bytes(data)
    if kind is None:
        with pytest.raises(ConfigurationError, match="logo must be a PNG, JPEG or SVG file"):
            made(source, logo=logo)
    else:
        assert f'<img src="data:{kind};base64,{base64.b64encode(data).decode()}" alt="Logo">' in made(source, logo=logo)


@pytest.mark.parametrize("colour", ["#ffffff", "#ffff00", "#1f4e79", "#000000", "#808080"])
def test_any_colour_can_be_read_on_light_and_dark(colour: str) -> None:
    for variables in style_sheet((colour, colour)).split("@media print")[0].split("@media screen"):
        found = dict(re.findall(r"--(\w+):(#\w+)", variables))
        named = {name: rgb(value if len(value) == 7 else "#ffffff") for name, value in found.items()}
        page = named["page"]
        inks = ("ink", "soft", "good", "bad", "brand", "accent")
        assert [name for name in inks if contrast(named[name], page) < 4.5] == []
        assert contrast(named["title"], named["head"]) >= 4.5


def test_a_readable_colour_stays() -> None:
    assert readable(rgb("#1f4e79"), rgb("#ffffff")) == rgb("#1f4e79")
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)


@pytest.mark.parametrize(
    ("lowest", "highest", "marks"),
    [(0, 4, [0, 1, 2, 3, 4]), (0, 1, [0, 1]), (0, 2000, [0, 500, 1000, 1500, 2000]), (24.1, 24.1, [24, 25])],
)
def test_marks_of_an_axis_are_round(lowest: float, highest: float, marks: list[int]) -> None:
    assert axis(lowest, highest) == marks


def test_a_line_is_interrupted_where_there_is_no_value() -> None:
    drawn = line("Ranks", [1, None, 2, 3], 1, 3, 2)
    assert 'd="M5 0h0M25 50L35 100h0"' in drawn


def test_bars_stand_on_each_other() -> None:
    drawn = stacked_bars("Bars", [[1, 0, 3]] * 10, 4, 2)
    assert re.findall(r'class="(b\d)" d="M0.8 (\S+?)h8.4V(\S+?)h', drawn) == [("b0", "100", "75"), ("b2", "75", "0")]


def test_the_worst_page_has_200_kb_at_most(tmp_path: Path) -> None:
    source = made_history(tmp_path / "a.duckdb", [])
    with duckdb.connect(str(source)) as database:
        database.execute("INSERT INTO pulls BY NAME SELECT 'acme' AS account")
        database.execute("""INSERT INTO keyword_rankings BY NAME
            SELECT 'acme' AS account, DATE '2025-01-01' + night::INTEGER AS snapshot_date, 1 + id % 40 AS campaign_id,
                DATE '2025-01-01' AS start_date, DATE '2025-01-01' AS end_date, id AS keyword_id,
                repeat('"', 499) || id AS keyword_phrase,
                repeat('&', 200) || id % 100 AS search_location_canonical_name,
                [{'id': id, 'label': repeat('<', 200) || id % 500, 'extra': NULL}] AS tags,
                (id * 7 + night) % 101 AS engine_a_ranking, (id * 3 + night) % 101 AS engine_a_mobile_ranking,
                (id * 5 + night) % 101 AS engine_a_places_ranking, (id * 11 + night) % 101 AS engine_b_ranking
            FROM range(400) AS nights(night), range(1000) AS keywords(id)""")
        database.execute("UPDATE campaigns SET company = repeat('&', 500)")
    logo = tmp_path / "logo.png"
    logo.write_bytes(b"\x89PNG\r\n\x1a\n".ljust(48 << 10, b"."))
    page = made(source, logo=logo)
    assert len(page.encode()) <= 200_000
    assert "and 490 more" in page
    parsed(page)


def test_the_command_makes_a_page(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = source.with_name("page.html")
    options = ["--account", "acme", "--title", "Acme", "--colour", "#14532d", "--accent", "#b45309"]
    assert run(["report", str(source), "-o", str(page), *options]) == 0
    assert "<title>Acme</title>" in page.read_text(encoding="utf-8")
    assert capsys.readouterr() == ("", "")
