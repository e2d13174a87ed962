"""`seorep changes -o`: looks that the session `files` does not show, and files of others."""

from pathlib import Path

import openpyxl
import pytest

from tests.cli.running import Seorep
from tests.processes import full_disk


def test_moves_have_signs_and_headers_are_bold_and_explained(
    seorep: Seorep, five_changes: Path
) -> None:
    seorep("changes", five_changes, "-o", "fell.xlsx")
    workbook = openpyxl.load_workbook("fell.xlsx")
    assert workbook["winners"]["F3"].number_format == "+0;-0;0"
    for sheet in workbook:
        assert all(cell.font.b and cell.comment.text for cell in sheet[1])


def test_a_saved_workbook_of_changes_is_kept(seorep: Seorep, five_changes: Path) -> None:
    seorep("changes", five_changes, "-o", "fell.xlsx")
    workbook = openpyxl.load_workbook("fell.xlsx")
    workbook.properties.revision = "2"
    workbook.save("fell.xlsx")
    ended = seorep("changes", five_changes, "-o", "fell.xlsx")
    assert ended.code == 2
    assert "seorep changes did not write it, or it was edited since" in ended.err


def test_more_changes_than_a_sheet_can_contain_are_refused(
    seorep: Seorep, five_changes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seorep_async.history.change_file.SHEET_ROWS", 3)
    ended = seorep("changes", five_changes, "-o", "fell.xlsx")
    assert ended.code == 7
    assert "a sheet holds 3 rows, and there are 5 changes" in ended.err
    assert not Path("fell.xlsx").exists()
    assert seorep("changes", five_changes, "-o", "fell.csv").code == 0


@pytest.mark.usefixtures("only_new_garbage")
@pytest.mark.parametrize("most_bytes", [100, 6_000])
@pytest.mark.parametrize("options", [[], ["--by-campaign"]])
def test_a_full_disk_leaves_no_workbook(
    seorep: Seorep, five_changes: Path, most_bytes: int, options: list[str]
) -> None:
    with full_disk(most_bytes):
        ended = seorep("changes", five_changes, "-o", "a.xlsx", *options)
    assert ended.code == 7
    # pytest also fails if Python prints the error of an unfinished file
    assert ended.err.endswith("Error: can't write a.xlsx: File too large\n")
    assert not list(Path().glob("*a.xlsx*"))
