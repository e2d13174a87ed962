"""`seorep changes -o`: changes as a workbook or CSV, with names of the engines."""

import csv
from collections.abc import Iterator
from pathlib import Path

import openpyxl
import pytest

from seorep_async.history import open_history
from tests.cli.running import Seorep
from tests.history.databases import database_of, nightly

BEFORE = {11: 12, 12: 40, 13: None, 21: 2}
AFTER = {11: 3, 12: 47, 13: 60, 21: None}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A database of two nights, which no comparison changes. Opening it each time takes long."""
    file = tmp_path_factory.mktemp("history") / "a.duckdb"
    with open_history(database_of(file, nightly(BEFORE, AFTER))):
        yield file


def rows_of(file: Path) -> list[dict[str, object]]:
    """Return the rows of a file, empty cells as None."""
    if file.suffix == ".csv":
        with file.open(encoding="utf-8", newline="") as opened:
            header, *lines = csv.reader(opened)
        rows = [[value_of(text) for text in line] for line in lines]
        return [dict(zip(header, row, strict=True)) for row in rows]
    all_rows = []
    sheets = openpyxl.load_workbook(file).worksheets
    for sheet in [sheet for sheet in sheets if sheet.title in ("winners", "losers")] or sheets:
        header, *lines = sheet.values
        names = [name.replace(" ", "_") for name in header]
        all_rows += [dict(zip(names, line, strict=True)) for line in lines]
    return all_rows


def value_of(text: str) -> object:
    """Return what a cell of CSV stands for."""
    if text.lstrip("-").isdigit():
        return int(text)
    return text or None


LOST = ["shoes 21", "Google", 2, None, None, "lost, left_top_3, left_top_10, left_top_20"]
FOUND = ["shoes 13", "Google", None, 60, None, "found"]
ROSE = ["shoes 11", "Google", 12, 3, 9, "entered_top_3, entered_top_10, rose"]
FELL = ["shoes 12", "Google", 40, 47, -7, "fell"]


@pytest.mark.parametrize(
    ("name", "expected_rows"),
    [("fell.csv", [LOST, FOUND, ROSE, FELL]), ("fell.xlsx", [FOUND, ROSE, LOST, FELL])],
)
def test_changes_are_a_file(
    seorep: Seorep, database: Path, name: str, expected_rows: list[list[object]]
) -> None:
    ended = seorep("changes", database, "-o", name, "--engines", "Google, Bing")
    assert (ended.code, ended.out) == (0, f"{name}\n")
    rows = rows_of(Path(name))
    names = ("keyword_phrase", "engine", "before", "after", "moved", "kinds")
    values = [[row[name] for name in names] for row in rows]
    if name.endswith(".xlsx"):
        expected_rows = [[*row[:-1], str(row[-1]).replace("_", " ")] for row in expected_rows]
    assert values == expected_rows
    assert seorep("changes", database, "-o", name).code == 0


def test_an_engine_may_have_its_own_name(seorep: Seorep, database: Path) -> None:
    command = ("changes", database, "--engines", "Google, Bing", "--format", "csv", "--engine")
    assert seorep(*command, "google").out == seorep(*command, "engine_a").out
    assert "engine_a," in seorep(*command, "google").out
    assert seorep(*command, "yahoo").code == 2


def test_winners_and_losers_are_two_sheets(seorep: Seorep, database: Path) -> None:
    seorep("changes", database, "-o", "fell.xlsx")
    winners, losers = openpyxl.load_workbook("fell.xlsx")
    assert (winners.title, losers.title) == ("winners", "losers")
    # the largest first, no rank counts as 101
    assert [cell.value for cell in winners["F"]] == ["moved", None, 9]
    assert [cell.value for cell in losers["F"]] == ["moved", None, -7]
    assert winners["F3"].number_format == "+0;-0;0"


@pytest.mark.parametrize("options", [[], ["--by-campaign"], ["--kind", "removed"]])
def test_a_workbook_names_the_campaigns_not_compared(seorep: Seorep, options: list[str]) -> None:
    database = database_of(Path("a.duckdb"), nightly({11: 12, 21: 2}, {11: 3}))
    seorep("changes", database, *options, "-o", "a.xlsx")
    *_, sheet = openpyxl.load_workbook("a.xlsx")
    assert sheet.title == "not compared"
    assert [*sheet.values] == [("campaign id", "reason"), (2, "there are no rows of 2026-03-02")]


def test_each_number_of_places_has_a_rule(seorep: Seorep, database: Path) -> None:
    # In a row where none applies, LibreOffice prints the cells to the right without an indent.
    seorep("changes", database, "--by-campaign", "-o", "counts.xlsx")
    (cells,) = openpyxl.load_workbook("counts.xlsx").active.conditional_formatting
    rules = sorted(rule.operator for rule in cells.rules)
    assert rules == ["equal", "greaterThan", "lessThan"]


@pytest.mark.parametrize(
    ("kinds", "titles"),
    [
        (["fell"], ["losers"]),
        (["found"], ["winners"]),
        (["rose", "lost"], ["winners", "losers"]),
        (["removed"], ["no changes"]),
    ],
)
def test_a_workbook_has_the_sheets_that_have_rows(
    seorep: Seorep, database: Path, kinds: list[str], titles: list[str]
) -> None:
    options = [option for kind in kinds for option in ("--kind", kind)]
    assert seorep("changes", database, *options, "-o", "a.xlsx").code == 0
    assert openpyxl.load_workbook("a.xlsx").sheetnames == titles


def test_a_workbook_of_changes_looks_like_that_of_a_pull(seorep: Seorep, database: Path) -> None:
    seorep("changes", database, "-o", "fell.xlsx")
    for sheet in openpyxl.load_workbook("fell.xlsx"):
        assert sheet.freeze_panes == "C2"
        assert sheet.auto_filter.ref == sheet.dimensions
        assert all(cell.font.b and cell.comment.text for cell in sheet[1])
        days = "2026-03-01 to 2026-03-02, acme"
        assert sheet.oddHeader.left.text.endswith(f"{days}; rose, fell: by 3 places or more")


def test_a_workbook_says_how_many_changes_it_leaves_out(seorep: Seorep, database: Path) -> None:
    seorep("changes", database, "--limit", "1", "-o", "a.xlsx")
    (sheet,) = openpyxl.load_workbook("a.xlsx")
    assert ", acme; 1 of 4 changes; rose" in sheet.oddHeader.left.text
    seorep("changes", database, "--by-campaign", "--limit", "1", "-o", "b.xlsx")
    (sheet,) = openpyxl.load_workbook("b.xlsx")
    assert ", acme; 1 of 2 campaigns; rose" in sheet.oddHeader.left.text


@pytest.mark.parametrize("name", ["counts.xlsx", "counts.csv"])
def test_numbers_by_campaign_are_a_file(seorep: Seorep, database: Path, name: str) -> None:
    # numbers may replace changes, and the other way round
    seorep("changes", database, "-o", name)
    ended = seorep("changes", database, "--by-campaign", "-o", name)
    assert (ended.code, ended.out) == (0, f"{name}\n")
    assert "4 changes in 2 campaigns" in ended.err
    rows = rows_of(Path(name))
    names = ("company", "changes", "places", "rose", "fell", "lost", "campaign_id")
    values = [[row[name] for name in names] for row in rows]
    assert values == [["Company 1", 3, 2, 1, 1, 0, 1], ["Company 2", 1, 0, 0, 0, 1, 2]]
    assert seorep("changes", database, "-o", name).code == 0


@pytest.mark.parametrize("name", ["counts.xlsx", "counts.csv"])
def test_campaigns_with_the_most_places_come_first(
    seorep: Seorep, tmp_path: Path, name: str
) -> None:
    before = {11: 20, 21: 10, 31: 20, 32: 5, 41: 7}
    after = {11: 11, 21: 30, 31: 11, 32: 6, 41: None}
    database = database_of(tmp_path / "b.duckdb", nightly(before, after))
    options = ["--by-campaign", "--moved", "1", "-o", name]
    assert seorep("changes", database, *options).code == 0
    assert [row["places"] for row in rows_of(Path(name))] == [-20, 9, 8, 0]
    assert seorep("changes", database, *options, "--limit", "2").code == 0
    assert [row["places"] for row in rows_of(Path(name))] == [-20, 9]


@pytest.mark.parametrize("name", ["mine.xlsx", "mine.csv", "none.txt"])
@pytest.mark.parametrize("content", [b"mine", b"\0" * 200_000, b'"' + b"x" * 200_000])
def test_another_file_is_kept(seorep: Seorep, database: Path, name: str, content: bytes) -> None:
    Path(name).write_bytes(content)
    ended = seorep("changes", database, "-o", name)
    assert ended.code == 2
    assert f"can't write {name}" in ended.err
    assert Path(name).read_bytes() == content


def test_a_saved_workbook_of_changes_is_kept(seorep: Seorep, database: Path) -> None:
    seorep("changes", database, "-o", "fell.xlsx")
    workbook = openpyxl.load_workbook("fell.xlsx")
    workbook.properties.revision = "2"
    workbook.save("fell.xlsx")
    ended = seorep("changes", database, "-o", "fell.xlsx")
    assert ended.code == 2
    assert "was edited, or not written by seorep changes" in ended.err


def test_more_changes_than_a_sheet_can_contain_are_refused(
    seorep: Seorep, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seorep_async.history.change_file.SHEET_ROWS", 3)
    ended = seorep("changes", database, "-o", "fell.xlsx")
    assert ended.code == 7
    assert "a sheet holds 3 rows, and there are 4 changes" in ended.err
    assert not Path("fell.xlsx").exists()
    assert seorep("changes", database, "-o", "fell.csv").code == 0


def test_a_workbook_of_a_pull_names_the_engines(seorep: Seorep) -> None:
    with seorep.account():
        assert seorep("pull", "-o", "x.xlsx", "--engines", "Google, Bing").code == 0
    header = openpyxl.load_workbook("x.xlsx")["keyword_rankings"][1]
    assert "Bing ranking" in {cell.value for cell in header}
