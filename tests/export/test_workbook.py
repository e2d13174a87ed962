"""Workbooks: a sheet for each table, values of their own types, and no cell that runs code."""
# ruff: noqa: ASYNC240, RUF001

import asyncio
import datetime as dt
import io
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest
import python_calamine
from openpyxl.utils.escape import unescape

from seorep_async import ConfigurationError, ExportError, Feed, SeoRepClient
from seorep_async.export import PullProgress, PullSummary, Stage
from seorep_async.export.formats import WorkbookRows
from seorep_async.export.workbook import cells_of
from seorep_async.tables.columns import ColumnType
from seorep_async.tables.output_tables import all_tables, table_of
from tests.export import golden_nights
from tests.export.accounts import Account, served
from tests.export.golden_nights import refused_unsent
from tests.export.staged import folder_of
from tests.scripted_api import Service

HOSTILE = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "{=1}",
    '=HYPERLINK("https://example.com")',
    "=cmd|' /C calc'!A0",
    "https://example.com/?q=1",
    "mailto:somebody@example.com",
    "internal:Sheet2!A1",
    "＝1+1",
    "<r><t>rich</t></r>",
    "<r></x></r>",
    "_x0041_",
    "a\x00b\x1fc",
    "two\nlines",
    " padded ",
    "1",
    "007",
    "1e5",
    "TRUE",
    "2023-03-01",
    "#N/A",
    "日本語 🎉",
    "\ufffe",
    "&<>\"'",
]


def hostile_rows(_: object) -> list[dict[str, Any]]:
    return [
        {"keywordId": number, "keywordPhrase": phrase} for number, phrase in enumerate(HOSTILE, 1)
    ]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "x.xlsx"


async def pull(client: SeoRepClient, out: Path, **options: Any) -> PullSummary:
    return await golden_nights.pull(client, out, **{"feeds": Feed.CAMPAIGN, **options})


def sheets_by_openpyxl(out: Path) -> dict[str, list[list[Any]]]:
    workbook = openpyxl.load_workbook(out)
    return {sheet.title: [list(row) for row in sheet.values] for sheet in workbook}


def sheets_by_calamine(out: Path) -> dict[str, list[list[Any]]]:
    workbook = python_calamine.CalamineWorkbook.from_path(str(out))
    return {name: workbook.get_sheet_by_name(name).to_python() for name in workbook.sheet_names}


def comparable(column: str, value: Any) -> Any:
    """Return a value from JSON or from a cell in a comparable form."""
    if isinstance(value, dt.datetime | dt.date):
        value = value.isoformat().removesuffix("T00:00:00")
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False, sort_keys=True) if value else None
    if column.endswith(("_date", "_modified", "_created")) and isinstance(value, str):
        value = value.removesuffix("T00:00:00")
    return None if value == "" else value


@pytest.mark.parametrize("read_sheets", [sheets_by_openpyxl, sheets_by_calamine])
async def test_values_are_those_of_the_models(tmp_path: Path, out: Path, read_sheets: Any) -> None:
    async with golden_nights.account(shape="mixed", rows="mixed") as client:
        for name in ("x.jsonl", "x.xlsx"):
            await pull(client, tmp_path / name, feeds=Feed, compare_previous_period=True)
    sheets = read_sheets(out)
    for table in all_tables():
        lines = (tmp_path / f"x.{table.name}.jsonl").read_bytes().splitlines()
        header, *rows = sheets[table.name]
        assert len(rows) == len(lines)
        for row, line in zip(rows, lines, strict=True):
            model = json.loads(line)
            for column, cell in zip(header, row, strict=True):
                if column in model and column not in golden_nights.VARYING["pulls"]:
                    assert comparable(column, cell) == comparable(column, model[column]), column


@pytest.fixture(scope="module")
def workbook(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the workbook of a small account. No test changes it."""
    out = tmp_path_factory.mktemp("workbook") / "x.xlsx"

    async def run() -> None:
        async with golden_nights.account() as client:
            await pull(client, out, feeds=Feed, compare_previous_period=True, account="A & B")

    asyncio.run(run())
    return openpyxl.load_workbook(out)


def test_a_header_is_bold_and_explained(workbook: Any) -> None:
    for sheet in workbook:
        for cell in sheet[1]:
            assert cell.font.b
            assert cell.comment.text
            assert 8 <= sheet.column_dimensions[cell.column_letter].width <= 62


def test_numbers_stand_below_their_headers(workbook: Any) -> None:
    for header, *cells in workbook["keyword_rankings"].iter_cols(max_row=3):
        for cell in cells:
            if cell.value is not None:
                assert cell.alignment.horizontal == header.alignment.horizontal
                assert cell.alignment.indent == header.alignment.indent


@pytest.mark.parametrize(
    ("title", "name", "kind", "number_format"),
    [
        ("keyword_rankings", "start_date", "d", "yyyy-mm-dd"),
        ("campaigns", "engine_a_ignore_places", "b", '"TRUE";;"FALSE"'),
    ],
)
def test_dates_and_booleans_have_formats(
    workbook: Any, title: str, name: str, kind: str, number_format: str
) -> None:
    header, cells, *_ = workbook[title].iter_rows()
    cell = cells[[column.value for column in header].index(name)]
    assert (cell.data_type, cell.number_format) == (kind, number_format)


async def test_columns_without_values_are_left_out_but_for_keys(out: Path) -> None:
    rows = [{"keywordId": 1, "keywordPhrase": ""}]
    async with served(Account(None, campaigns=1, rows=lambda _: rows)) as (client, _):
        await pull(client, out)
    header, row = sheets_by_openpyxl(out)["keyword_rankings"]
    assert header[0] == "company"
    assert set(table_of(Feed.CAMPAIGN).key) <= {*header}
    assert "keyword_phrase" not in header
    assert "engine_a_ranking" not in header
    assert None not in row


async def test_no_cell_is_a_formula_a_link_or_a_number_by_chance(out: Path) -> None:
    async with served(Account(campaigns=1, rows=hostile_rows)) as (client, _):
        await pull(client, out)
    sheet = openpyxl.load_workbook(out, rich_text=False)["keyword_rankings"]
    header = [cell.value for cell in sheet[1]]
    cells = [row[header.index("keyword_phrase")] for row in sheet.iter_rows(min_row=2)]
    assert {cell.data_type for cell in cells} <= {"s", "inlineStr"}
    assert not any(cell.hyperlink for cell in cells)
    assert [unescape(cell.value) for cell in cells] == HOSTILE


LARGE = 2**53
LONG = "a" * 32_767


@pytest.mark.parametrize(
    ("kind", "value", "cell"),
    [
        (ColumnType.INTEGER, LARGE, LARGE),
        (ColumnType.INTEGER, -LARGE, -LARGE),
        (ColumnType.INTEGER, LARGE + 1, "9007199254740993"),
        (ColumnType.INTEGER, -(10**30), f"-1{'0' * 30}"),
        (ColumnType.NUMBER, 1.5, 1.5),
        (ColumnType.NUMBER, 1e300, 1e300),
        (ColumnType.DATE, dt.date(1900, 1, 1), dt.date(1900, 1, 1)),
        (ColumnType.DATE, dt.date(1899, 12, 31), "1899-12-31"),
        (ColumnType.DATETIME, dt.datetime(1753, 1, 1, 2), "1753-01-01T02:00:00"),
        (ColumnType.STRING, LONG, LONG),
        (ColumnType.STRING, f"{LONG}a", "a" * 32_760 + "… (cut)"),
        (ColumnType.STRING, "🎉" * 16_383, "🎉" * 16_383),
        (ColumnType.STRING, "🎉" * 16_384, "🎉" * 16_380 + "… (cut)"),
        (ColumnType.STRING, "", None),
        (ColumnType.FIELDS, {}, None),
        (ColumnType.FIELDS, {"b": 1, "a": [2]}, '{"a": [2], "b": 1}'),
        (ColumnType.TAGS, [], None),
        (ColumnType.ANY, ["a"], '["a"]'),
        (ColumnType.BOOLEAN, False, False),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_value_unfit_for_a_cell_becomes_text(kind: ColumnType, value: Any, cell: Any) -> None:
    (written,) = cells_of(kind, [value])
    assert written == cell
    assert type(written) is type(cell)


async def test_too_many_rows_end_the_pull_as_soon_as_they_are_counted(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkbookRows, "most_rows", 100)
    monkeypatch.setattr("seorep_async.export.fetch.GROUP_ROWS", 1)
    rows = [{"keywordId": number, "keywordPhrase": "a"} for number in range(1, 41)]
    async with served(Account(campaigns=500, rows=lambda _: rows)) as (client, service):
        with pytest.raises(
            ExportError, match=r"a sheet holds 100 rows.*write \.parquet or \.duckdb"
        ):
            await pull(client, out)
        assert len(service.requests) < 100
    assert not out.exists()
    assert not folder_of(out).exists()


def workbook_of_somebody_else() -> bytes:
    workbook = openpyxl.Workbook()
    workbook.create_sheet("pulls").append(["mine"])
    file = io.BytesIO()
    workbook.save(file)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [b"no workbook", b"PK\x03\x04 broken", workbook_of_somebody_else()],
    ids=["text", "broken", "another workbook"],
)
async def test_a_file_that_no_pull_wrote_is_kept(
    client: SeoRepClient, out: Path, content: bytes
) -> None:
    out.write_bytes(content)
    await refused_unsent(client, out, r"x\.xlsx exists, and no pull wrote it")
    assert (await pull(client, out, force=True)).ok


@pytest.fixture
async def pulled_an_hour_ago(
    client: SeoRepClient, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pull by an older clock, because a workbook stores whole seconds."""
    an_hour_ago = client.now() - dt.timedelta(hours=1)
    with monkeypatch.context() as patch:
        patch.setattr(SeoRepClient, "now", lambda _: an_hour_ago)
        await pull(client, out)


def saved_by_openpyxl(file: Path) -> None:
    workbook = openpyxl.load_workbook(file)
    workbook["keyword_rankings"]["A2"] = "my note"
    workbook.save(file)


def saved_by_libreoffice(file: Path) -> None:
    """Save a workbook with LibreOffice, if it is installed."""
    program = shutil.which("soffice")
    if program is None:
        pytest.skip("LibreOffice is missing")
    profile = f"-env:UserInstallation=file://{file.parent}/profile"
    command = [program, profile, "--headless", "--convert-to", "xlsx", "--outdir"]
    subprocess.run([*command, file.parent / "saved", file], check=True, capture_output=True)
    os.replace(file.parent / "saved" / file.name, file)


def saved_without_properties(file: Path) -> None:
    """Save a workbook as web applications do, without its times."""
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    del parts["docProps/core.xml"]
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    "save",
    [
        saved_by_openpyxl,
        pytest.param(saved_by_libreoffice, marks=pytest.mark.heavy),
        saved_without_properties,
    ],
)
@pytest.mark.usefixtures("pulled_an_hour_ago")
async def test_a_workbook_that_a_person_saved_is_kept(
    client: SeoRepClient, out: Path, save: Callable[[Path], None]
) -> None:
    save(out)
    content = out.read_bytes()
    await refused_unsent(client, out, r"x\.xlsx was changed since a pull wrote it")
    assert out.read_bytes() == content
    assert (await pull(client, out, force=True)).ok


@pytest.mark.usefixtures("pulled_an_hour_ago")
async def test_a_workbook_that_is_saved_while_a_pull_runs_is_kept(
    client: SeoRepClient, service: Service, out: Path
) -> None:
    def save(progress: PullProgress) -> None:
        if progress.stage is Stage.WRITING:
            saved_by_openpyxl(out)

    with pytest.raises(ConfigurationError, match="was changed since a pull wrote it"):
        await pull(client, out, on_progress=save)
    request_count = len(service.requests)
    assert (await pull(client, out, force=True)).ok
    assert len(service.requests) - request_count <= 2, "the reports were staged"


async def test_a_temporary_folder_that_is_in_use_fails_no_pull(
    client: SeoRepClient, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rmdir = os.rmdir

    def refuse(path: Any, **options: Any) -> None:
        if "made-" in os.fspath(path):
            raise PermissionError(13, "Access is denied", path)
        rmdir(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", refuse)
        assert (await pull(client, out)).ok
    assert (await pull(client, out)).ok
    assert not folder_of(out).exists()


async def test_lost_names_leave_the_company_out(out: Path) -> None:
    async with served(Account(lists=False)) as (client, _):
        summary = await pull(client, out, ids=[1, 2])
    header, *rows = sheets_by_openpyxl(out)["keyword_rankings"]
    assert (summary.rows, len(rows)) == (2, 2)
    assert "company" not in header
