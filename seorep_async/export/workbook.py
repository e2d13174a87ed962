"""A workbook as a target: a sheet for each table, for people who work in Excel or LibreOffice.

xlsxwriter writes it row by row, in constant memory. A table is therefore read twice: first to find
out which columns have values and how wide they are, then to write the rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs

from seorep_async.export.files import (
    COMMON_COLUMNS,
    Target,
    check_file,
    has_content,
    overwriting,
    put,
    sync_file,
    sync_folder,
)
from seorep_async.export.formats import WorkbookRows
from seorep_async.export.pieces import UNFINISHED
from seorep_async.export.staging import Contents
from seorep_async.tables.columns import (
    Column,
    Columns,
    ColumnType,
    FeedTable,
    Table,
    as_json,
    important_first,
)
from seorep_async.tables.optional import require
from seorep_async.tables.output_tables import (
    campaigns_table,
    keywords_table,
    pulls_table,
)

_LARGEST_INTEGER = 2**53
"""The largest integer that Excel holds exactly: all its numbers are floating-point."""
_FIRST_YEAR = 1900
"""The first year of Excel's dates."""
_LONGEST_TEXT = 32_767
_CUT_MARK = "… (cut)"
_WIDEST_COLUMN = 50
_MARGIN = 4
"""The width of the filter's button in a header, in characters."""
_NUMBER_FORMATS = {
    # without a format, LibreOffice shows booleans as 1 and 0
    ColumnType.BOOLEAN: '"TRUE";;"FALSE"',
    ColumnType.DATE: "yyyy-mm-dd",
    ColumnType.DATETIME: "yyyy-mm-dd hh:mm:ss",
}
_FROZEN = ("company", "keyword_phrase")
"""First columns of a sheet that stay in view."""
_NOTE = {"author": "", "width": 280, "height": 130}
_OPTIONS = {
    # a row is written to the disk before the next one begins
    "constant_memory": True,
    # no string becomes a formula or a link
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "nan_inf_to_errors": True,
}


@attrs.frozen
class WorkbookFile(Target):
    """One file with a sheet for each table with rows."""

    format: WorkbookRows
    force: bool

    def check(self) -> None:
        """Refuse to replace a file that no pull wrote, unless `force`."""
        check_file(self.out, self.path)
        if self.force or not has_content(self.path):
            return
        names = {column.name for column in pulls_table().columns[:COMMON_COLUMNS]}
        if not names <= self.replaced_pull().keys():
            raise overwriting(self.out, self.path)

    def replaced_pull(self) -> Mapping[str, Any]:
        return read_sheet(self.path, pulls_table()) if has_content(self.path) else {}

    def write(self, contents: Contents, folder: Path) -> list[Path]:
        """Write the workbook in the staging folder, and put it in place in one step."""
        if not contents.received:
            return []
        with TemporaryDirectory(prefix=UNFINISHED, dir=folder) as temporary_folder:
            file = Path(temporary_folder, "rows.xlsx")
            write_workbook(file, _sheets(contents, self.format))
            sync_file(file)
            put(file, self.path, permissions_of=self.path)
        sync_folder(self.path.parent)
        return [self.out]


@attrs.frozen
class Sheet:
    """A table as a sheet of a workbook.

    Attributes:
        parts: reads the rows in parts, each a sequence of values for each column. It can be called
            several times.
        may_be_left_out: whether the workbook omits the sheet if it has no rows.
    """

    table: Table
    columns: Sequence[Column]
    parts: Callable[[], Iterator[Columns]]
    may_be_left_out: bool = False

    def cells(self) -> Iterator[list[list[Any]]]:
        """Yield the cells in parts, each a list of cells for each column."""
        for part in self.parts():
            columns = zip(self.columns, part, strict=True)
            yield [cells_of(column.type, values) for column, values in columns]


def write_workbook(file: Path, sheets: Iterable[Sheet]) -> None:
    """Write sheets to a new file, in constant memory.

    Its folder must be private, because it also gets the rows of unfinished sheets.
    """
    options = {**_OPTIONS, "tmpdir": str(file.parent)}
    workbook = require("xlsxwriter").Workbook(str(file), options)
    try:
        workbook.use_zip64()
        for sheet in sheets:
            _write_sheet(workbook, sheet)
        workbook.close()
    except BaseException:
        # closes the temporary files
        with suppress(Exception):
            workbook.close()
        raise


@attrs.frozen
class _Names:
    """The names of campaigns or keywords, for tables that have only their ids."""

    column: Column
    id_name: str
    by_id: Mapping[int, str | None]

    @classmethod
    def of(cls, table: Table, name: str, id_name: str, parts: Iterable[Columns]) -> _Names:
        """Read the names from the table that has them."""
        columns = {column.name: column for column in table.columns}
        by_id: dict[int, str | None] = {}
        for part in parts:
            values = dict(zip(columns, part, strict=True))
            by_id.update(zip(values[id_name], values[name], strict=True))
        return cls(columns[name], id_name, by_id)


def _sheets(contents: Contents, format_: WorkbookRows) -> Iterator[Sheet]:
    """Yield the sheets. Rows with the id of a campaign or keyword also have its name."""

    def read(table: Table) -> Iterator[Columns]:
        return format_.parts(contents.table(table))

    campaigns = campaigns_table()
    keywords = keywords_table()
    names = [
        _Names.of(campaigns, "company", "campaign_id", read(campaigns)),
        _Names.of(keywords, "keyword_phrase", "keyword_id", read(keywords)),
    ]
    for table in contents.request.tables:
        yield _sheet(table, names, partial(read, table))


def _sheet(
    table: Table, all_names: Iterable[_Names], read: Callable[[], Iterator[Columns]]
) -> Sheet:
    table_columns = [column.name for column in table.columns]
    missing_names = [
        names
        for names in all_names
        if names.id_name in table_columns and names.column.name not in table_columns
    ]
    columns = [*(names.column for names in missing_names), *important_first(table)]

    def parts() -> Iterator[Columns]:
        for part in read():
            values: dict[str, Sequence[Any]] = dict(zip(table_columns, part, strict=True))
            for names in missing_names:
                ids = values[names.id_name]
                values[names.column.name] = [names.by_id.get(id_) for id_ in ids]
            yield [values[column.name] for column in columns]

    return Sheet(table, columns, parts, may_be_left_out=not isinstance(table, FeedTable))


def _survey(sheet: Sheet) -> tuple[int, list[int]]:
    """Read a sheet once. Return the number of rows, and each column's longest cell."""
    row_count = 0
    longest = [0] * len(sheet.columns)
    for columns in sheet.cells():
        row_count += len(columns[0])
        for place, cells in enumerate(columns):
            lengths = [len(str(cell)) for cell in {*cells} if cell is not None]
            longest[place] = max([longest[place], *lengths])
    return row_count, longest


def _write_sheet(workbook: Any, sheet: Sheet) -> None:
    """Write a table as a sheet, unless it may be left out and has no rows."""
    row_count, longest = _survey(sheet)
    if not row_count and sheet.may_be_left_out:
        return
    # empty columns are left out, except those of the key
    shown = [
        index
        for index, column in enumerate(sheet.columns)
        if longest[index] or column.name in sheet.table.key
    ]
    names = [sheet.columns[index].name for index in shown]
    worksheet = workbook.add_worksheet(sheet.table.name)
    worksheet.add_write_handler(str, _write_string)
    worksheet.freeze_panes(1, sum(name in _FROZEN for name in names))
    worksheet.autofilter(0, 0, row_count, len(names) - 1)
    bold = workbook.add_format({"bold": True})
    for place, index in enumerate(shown):
        column = sheet.columns[index]
        width = max(len(column.name) + _MARGIN, longest[index] + 1)
        number_format = _NUMBER_FORMATS.get(column.type, "General")
        cell_format = workbook.add_format({"num_format": number_format})
        worksheet.set_column(place, place, min(width, _WIDEST_COLUMN), cell_format)
        worksheet.write_string(0, place, column.name, bold)
        worksheet.write_comment(0, place, column.description, _NOTE)
    row_number = 1
    for columns in sheet.cells():
        for row in zip(*(columns[index] for index in shown), strict=True):
            worksheet.write_row(row_number, 0, row)
            row_number += 1


def _write_string(worksheet: Any, row: int, place: int, text: str, *_: Any) -> int:
    """Write a string unchanged."""
    if text.startswith("<r>") and text.endswith("</r>"):
        # `write_string` would take such a string for rich text, and would not escape it
        return int(worksheet.write_rich_string(row, place, text[0], text[1], text[2:]))
    return int(worksheet.write_string(row, place, text))


def cells_of(kind: ColumnType, values: Sequence[Any]) -> list[Any]:
    """Return the values of a column as cells: None, booleans, numbers, dates and strings.

    A value that Excel can't hold with its type becomes text.
    """
    convert = _CELLS[kind]
    return [None if value is None else convert(value) for value in values]


def _number(value: float) -> float | str:
    is_exact = isinstance(value, float) or abs(value) <= _LARGEST_INTEGER
    return value if is_exact else str(value)


def _date(value: dt.date) -> dt.date | str:
    return value.isoformat() if value.year < _FIRST_YEAR else value


def _fields(value: Any) -> str | None:
    return _json(value) if value else None


def _json(value: Any) -> str:
    return _text(as_json(value))


def _text(text: str) -> str:
    """Return a string that fits into a cell. A longer one is cut and marked.

    Excel counts UTF-16 units, of which a character has one or two.
    """
    # nearly all texts are so short that nothing has to be counted
    if len(text) <= _LONGEST_TEXT // 2:
        return text
    units = text.encode("utf-16-le")
    if len(units) <= 2 * _LONGEST_TEXT:
        return text
    kept = units[: 2 * (_LONGEST_TEXT - len(_CUT_MARK))]
    # the last character may have been halved
    return kept.decode("utf-16-le", errors="ignore") + _CUT_MARK


_CELLS: dict[ColumnType, Callable[[Any], Any]] = {
    ColumnType.INTEGER: _number,
    ColumnType.NUMBER: _number,
    ColumnType.STRING: _text,
    ColumnType.BOOLEAN: bool,
    ColumnType.DATE: _date,
    ColumnType.DATETIME: _date,
    ColumnType.TAGS: _fields,
    ColumnType.FIELDS: _fields,
    ColumnType.ANY: _json,
}


def read_sheet(file: Path, table: Table) -> dict[str, Any]:
    """Return the first row of a table in a workbook, by column.

    If the sheet has only a header, all values are None. Without such a sheet, the result is empty.
    """
    try:
        workbook = require("openpyxl").load_workbook(file, read_only=True)
    except Exception:  # any error of a file that is not a workbook
        return {}
    try:
        if table.name not in workbook.sheetnames:
            return {}
        # Older versions of openpyxl keep the file open until the last row is read.
        rows = [*workbook[table.name].iter_rows(max_row=2, values_only=True)]
    finally:
        workbook.close()
    if not rows:
        return {}
    header, *first_rows = rows
    row = dict.fromkeys(header)
    for cells in first_rows:
        row = dict(zip(header, cells, strict=True))
    dates = [column.name for column in table.columns if column.type is ColumnType.DATE]
    for name, cell in row.items():
        # a sheet adds a time to dates
        if name in dates and isinstance(cell, dt.datetime):
            row[name] = cell.date()
    return row
