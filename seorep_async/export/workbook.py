"""A workbook as a target: a sheet for each table, for people who work in Excel or LibreOffice.

xlsxwriter writes it row by row, in constant memory. A table is therefore read twice: first to find
out which columns have values and how wide they are, then to write the rows.
"""

from __future__ import annotations

import datetime as dt
import gc
import math
import re
import shutil
import sys
import traceback
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self

import attrs

from seorep_async.export.files import (
    IDENTIFYING_COLUMN_COUNT,
    Target,
    check_file,
    has_content,
    put,
    refusal_to_replace,
    sync_file,
    sync_folder,
)
from seorep_async.export.formats import WorkbookRows
from seorep_async.export.pieces import unfinished_path
from seorep_async.export.staging import Contents
from seorep_async.models import Feed
from seorep_async.tables.columns import (
    Column,
    Columns,
    ColumnType,
    FeedTable,
    Table,
    as_json,
)
from seorep_async.tables.optional import require
from seorep_async.tables.output_tables import (
    campaigns_table,
    keywords_table,
    pulls_table,
)

_LARGEST_INTEGER = 2**53
"""The largest integer that Excel stores exactly. All its numbers are floating-point."""
_FIRST_YEAR = 1900
"""The first year of Excel's dates."""
_LONGEST_TEXT = 32_767
"""The length of the longest string in a cell, in UTF-16 units."""
_CUT_MARK = "… (cut)"
_WIDEST_COLUMN = 50
_MARGIN = 4
"""The width of the indent and of the filter's button in a header, in characters."""
_GAP = 3
"""The width of the indent in a cell."""
_NUMBER_FORMATS = {
    # without a format, LibreOffice shows booleans as 1 and 0
    ColumnType.BOOLEAN: '"TRUE";;"FALSE"',
    ColumnType.DATE: "yyyy-mm-dd",
    ColumnType.DATETIME: "yyyy-mm-dd hh:mm:ss",
}
_SIGNED = ("moved", "places")
"""Columns of places gained (+) or lost (-)."""
_SIGNED_FORMAT = "+0;-0;0"
_COLORS = {">": "#0B6E37", "<": "#B42318", "=": "#000000"}
"""Green above 0, red below, and black at 0.

Black needs a rule as well: where none applies, LibreOffice prints the cells to the right without
their indent.
"""
_HEADER: dict[str, Any] = {
    "bold": True,
    "bg_color": "#DCE6F1",
    "bottom": 1,
    "text_wrap": True,
    "valign": "vcenter",
}
_HEADER_HEIGHT = 30
"""The height of two lines of text. Not every program adapts the height of a row to its text."""
_ALIGNED_TO_THE_RIGHT = (
    ColumnType.INTEGER,
    ColumnType.NUMBER,
    ColumnType.DATE,
    ColumnType.DATETIME,
)
"""The types whose values a spreadsheet aligns to the right."""
_WIDTHS = {ColumnType.DATE: 15, ColumnType.DATETIME: 24}
"""The least widths of columns of dates and times."""
_HIDDEN = ("keywords", "pulls")
"""Sheets for programs and later pulls. People find these columns in the other sheets."""
_FROZEN = ("company", "keyword_phrase")
"""Columns that stay in view and are repeated on each printed page."""
_WIDEST_FROZEN_COLUMN = 32
_A4 = 9
_PRINTED = re.compile(r"engine_\w+_ranking|engine_\w+_ranking_change|kinds|fell|date_created")
"""A sheet is printed up to the last of these columns."""
_ORDER = (
    "company",
    "keyword_phrase",
    "search_location_canonical_name|date|date_precision",
    "url|group_title|error|message",
    r"engine_\w+_ranking",
    r"engine_\w+_ranking_change",
    r"engine_\w+_ranking_url|engine_\w+_rankings_\w+",
    "engine|before|after|moved|kinds|changes|places",
)
"""The first columns of a sheet, in this order. Constant columns come last."""
_PROPERTIES = "docProps/core.xml"
_TITLE = "&L&B&A&B "
"""The name of the sheet, in bold, at the top of a page."""
_FOOTER = "&R&P / &N"
"""The number of the page, and the number of pages."""
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
    """One file with a sheet for each table with rows.

    Attributes:
        engine_names: names of engine A and engine B for the headers, or None.
    """

    format: WorkbookRows
    force: bool
    engine_names: tuple[str, str] | None

    def check(self) -> None:
        """Refuse to replace a file that no pull wrote, or that a person changed, unless `force`."""
        check_file(self.out, self.path)
        if self.force or not has_content(self.path):
            return
        names = {column.name for column in pulls_table().columns[:IDENTIFYING_COLUMN_COUNT]}
        if not names <= self.replaced_pull_as_strings().keys():
            raise refusal_to_replace(self.out, self.path, "exists, and no pull wrote it")
        if was_changed(self.path):
            raise refusal_to_replace(self.out, self.path, "was changed since a pull wrote it")

    def replaced_pull(self) -> Mapping[str, Any]:
        return read_sheet(self.path, pulls_table().name) if has_content(self.path) else {}

    def write(self, contents: Contents, folder: Path) -> list[Path]:
        """Write the workbook in the staging folder, and put it in place in one step.

        Return the path as the caller wrote it, or nothing if no report was received.
        """
        if not contents.received:
            return []
        temporary_folder = unfinished_path(folder, "workbook")
        temporary_folder.mkdir(mode=0o700, exist_ok=True)
        try:
            file = temporary_folder / "rows.xlsx"
            # not the present time, so that equal rows always give equal bytes
            created = contents.request.started_at
            write_workbook(file, _sheets(contents, self.format, self.engine_names), created)
            sync_file(file)
            # somebody may have saved the workbook while the reports were fetched
            self.check()
            put(file, self.path, permissions_of=self.path)
        finally:
            # on Windows, a virus scanner may keep files open; the next pull removes what is left
            shutil.rmtree(temporary_folder, ignore_errors=True)
        sync_folder(self.path.parent)
        return [self.out]


def write_workbook(file: Path, sheets: Iterable[Sheet], created: dt.datetime) -> None:
    """Write sheets to a new file, in constant memory.

    Args:
        file: the new file, in a private folder, which also gets the rows of unfinished sheets.
        created: the time that the file names for its creation and its last modification.
    """
    options = {**_OPTIONS, "tmpdir": str(file.parent)}
    workbook = require("xlsxwriter").Workbook(str(file), options)
    try:
        workbook.set_properties({"created": created})
        workbook.use_zip64()
        for sheet in sheets:
            _write_sheet(workbook, sheet)
        workbook.close()
    except BaseException as error:
        original = error
        if isinstance(error, require("xlsxwriter.exceptions").FileCreateError):
            # callers explain the system's own error
            (original,) = error.args
        with _unprinted_errors():
            # closes the temporary files
            with suppress(Exception):
                workbook.close()
            # on a full disk, closing fails as well, so the files close when their objects are freed
            del workbook
            traceback.clear_frames(error.__traceback__)
            traceback.clear_frames(original.__traceback__)
            gc.collect()
        if original is not error:
            raise original from None
        raise


@contextmanager
def _unprinted_errors() -> Iterator[None]:
    """Suppress the errors that Python prints when it frees objects, such as an unwritable file."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = hook


@attrs.frozen
class Sheet:
    """A table as a sheet of a workbook.

    Attributes:
        parts: reads the rows in parts, each a sequence of values for each column. It can be called
            several times.
        may_be_left_out: whether the workbook omits the sheet if it has no rows.
        heading: a line at the top of each printed page.
        engine_names: names of engine A and engine B.
            With None, headers are the columns' names.
            With two names, headers are words that contain these names.
            With an empty tuple, headers are words, but engines are not renamed.
    """

    table: Table
    columns: Sequence[Column]
    parts: Callable[[], Iterator[Columns]]
    may_be_left_out: bool = False
    heading: str = ""
    engine_names: tuple[str, ...] | None = None

    def cells(self) -> Iterator[list[list[Any]]]:
        """Yield the cells in parts, each a list of cells for each column."""
        for part in self.parts():
            columns = zip(self.columns, part, strict=True)
            yield [cells_of(column.type, values) for column, values in columns]

    @classmethod
    def of(
        cls, table: Table, names: Iterable[_Names], parts: Callable[[], Iterator[Columns]]
    ) -> Self:
        """Return the sheet of a table, and add names if the table has only ids.

        Args:
            names: the known names of campaigns or keywords.
            parts: reads the rows of the table in parts; called once for each reading.
        """
        table_columns = [column.name for column in table.columns]
        lookups_to_add = [
            lookup
            for lookup in names
            if lookup.id_name in table_columns and lookup.column.name not in table_columns
        ]
        columns = [*(lookup.column for lookup in lookups_to_add), *table.columns]
        columns.sort(key=lambda column: _sort_position(column.name))

        def parts_with_names() -> Iterator[Columns]:
            """Yield the parts with the names that their ids have, in the order of `columns`."""
            for part in parts():
                values: dict[str, Sequence[Any]] = dict(zip(table_columns, part, strict=True))
                for lookup in lookups_to_add:
                    ids = values[lookup.id_name]
                    values[lookup.column.name] = [lookup.by_id.get(id_) for id_ in ids]
                yield [values[column.name] for column in columns]

        may_be_left_out = not isinstance(table, FeedTable)
        return cls(table, columns, parts_with_names, may_be_left_out)

    def in_words(self, text: str) -> str:
        """Return a column's name or description in words, if the sheet's headers are words."""
        if self.engine_names is None:
            return text
        # Descriptions say `the first search engine`, and names begin with `engine_a_`. With an
        # empty tuple, the loop does nothing: the engines keep their letters.
        for ordinal, letter, name in zip(
            ("first", "second"), "ab", self.engine_names, strict=False
        ):
            text = text.replace(f"the {ordinal} search engine", name)
            text = text.replace(f"engine_{letter}_", f"{name} ")
        return text.replace("_", " ")


@attrs.frozen
class _Names:
    """The names of campaigns or keywords, for tables that have only their ids.

    Attributes:
        column: the column of the names.
        id_name: the name of the column of the ids.
        by_id: the names.
    """

    column: Column
    id_name: str
    by_id: Mapping[int, str | None]

    @classmethod
    def of(cls, table: Table, name: str, id_name: str, parts: Iterable[Columns]) -> Self:
        """Read the names from the table that has them.

        `name` and `id_name` are the names of its columns with the names and the ids. `parts` are
        the rows of that table in several parts, each by column.
        """
        columns = {column.name: column for column in table.columns}
        by_id: dict[int, str | None] = {}
        for part in parts:
            values = dict(zip(columns, part, strict=True))
            by_id.update(zip(values[id_name], values[name], strict=True))
        return cls(columns[name], id_name, by_id)


def _sort_position(name: str) -> int:
    """Return a sort key for a column. Names come first, then dates, ranks and all others."""
    for position, pattern in enumerate(_ORDER):
        if re.fullmatch(pattern, name):
            return position
    return len(_ORDER)


def _sheets(
    contents: Contents, format_: WorkbookRows, engine_names: tuple[str, str] | None
) -> Iterator[Sheet]:
    """Yield the sheets. Rows with the id of a campaign or keyword also have its name."""

    def read(table: Table) -> Iterator[Columns]:
        return format_.parts(contents.source_of(table))

    campaigns = campaigns_table()
    names = [_Names.of(campaigns, "company", "campaign_id", read(campaigns))]
    request = contents.request
    if Feed.KEYWORD_BY_DATE in request.feeds:
        keywords = keywords_table()
        names.append(_Names.of(keywords, "keyword_phrase", "keyword_id", read(keywords)))
    # printed on each page, where nothing else shows the days and the account
    heading = f"{request.start_date} to {request.end_date}, {request.account}"
    for table in request.tables:
        sheet = Sheet.of(table, names, partial(read, table))
        yield attrs.evolve(sheet, heading=heading, engine_names=engine_names)


@attrs.define
class _Survey:
    """The facts about a column that the first reading of its sheet finds.

    Attributes:
        width: the characters that the header and the longest cell need.
        sample: at most two different cells, which show whether the column is empty or constant.
    """

    width: int
    sample: set[Any] = attrs.Factory(set)


def _survey(sheet: Sheet) -> tuple[int, list[_Survey]]:
    """Read a sheet once. Return the number of rows, and the facts about each column."""
    surveys = []
    for column in sheet.columns:
        header = sheet.in_words(column.name)
        # A header is wrapped into at most two lines. Each holds about half of it, plus up to half
        # of the longest word, because words do not break.
        longest_word = max(map(len, header.split()))
        width = (len(header) + longest_word) // 2 + _MARGIN
        surveys.append(_Survey(max(width, _WIDTHS.get(column.type, 0))))
    row_count = 0
    for part in sheet.cells():
        for survey, column_cells in zip(surveys, part, strict=True):
            cells = {*column_cells}
            survey.sample = {*islice(survey.sample | cells, 2)}
            longest = max((len(str(cell)) for cell in cells), default=0)
            survey.width = max(survey.width, longest + _GAP)
        row_count += len(part[0])
    return row_count, surveys


def _write_sheet(workbook: Any, sheet: Sheet) -> None:
    """Write a table as a sheet, unless it may be left out and has no rows."""
    # a sheet's file begins with the widths of the columns, so the rows are read twice
    row_count, surveys = _survey(sheet)
    if not row_count and sheet.may_be_left_out:
        return
    worksheet = workbook.add_worksheet(sheet.table.name)
    worksheet.add_write_handler(str, _write_string)
    indexes = _shown_indexes(sheet, surveys)
    names = [sheet.columns[index].name for index in indexes]
    if sheet.table.name in _HIDDEN:
        worksheet.hide()
        # LibreOffice also prints hidden sheets, so the only printed cell is an empty one
        worksheet.print_area("XFD1")
    else:
        _set_printing(worksheet, names, row_count)
    worksheet.freeze_panes(1, _frozen_count(names))
    worksheet.set_row(0, _HEADER_HEIGHT)
    _set_heading(worksheet, sheet.heading)
    worksheet.autofilter(0, 0, row_count, len(indexes) - 1)
    for position, index in enumerate(indexes):
        column = sheet.columns[index]
        layout: dict[str, Any] = {"indent": 1}
        if column.type in _ALIGNED_TO_THE_RIGHT:
            # the filter's button covers the end of a header
            layout = {"align": "right", "indent": 2}
        header_format = workbook.add_format(layout | _HEADER)
        number_format = _NUMBER_FORMATS.get(column.type, "General")
        if column.name in _SIGNED:
            number_format = _SIGNED_FORMAT
            for criteria, color in _COLORS.items():
                color_format = workbook.add_format({"font_color": color})
                rule = {"type": "cell", "criteria": criteria, "value": 0, "format": color_format}
                # row 0 is the header; a range without rows would be invalid
                worksheet.conditional_format(1, position, max(row_count, 1), position, rule)
        cell_format = workbook.add_format(layout | {"num_format": number_format})
        widest = _WIDEST_FROZEN_COLUMN if column.name in _FROZEN else _WIDEST_COLUMN
        worksheet.set_column(position, position, min(surveys[index].width, widest), cell_format)
        worksheet.write_string(0, position, sheet.in_words(column.name), header_format)
        # a cell that has no value is empty
        note = sheet.in_words(column.description).replace("Null", "Empty").replace("null", "empty")
        worksheet.write_comment(0, position, note, _note_options(note))
    _write_rows(worksheet, sheet, indexes)


def _shown_indexes(sheet: Sheet, surveys: Sequence[_Survey]) -> list[int]:
    """Return the indexes of the columns that a sheet shows. Most constant columns come last."""
    indexes = []
    for index, column in enumerate(sheet.columns):
        # empty columns are left out, except key columns
        if surveys[index].sample - {None} or column.name in sheet.table.key:
            indexes.append(index)

    def comes_last(index: int) -> bool:
        # a constant column says little, so it comes last unless `_ORDER` gives it a place
        has_place = _sort_position(sheet.columns[index].name) < len(_ORDER)
        return len(surveys[index].sample) < 2 and not has_place

    return sorted(indexes, key=comes_last)


def _write_rows(worksheet: Any, sheet: Sheet, indexes: Sequence[int]) -> None:
    """Write the rows of a sheet below its header, in the columns with these indexes."""
    row_number = 1
    for part in sheet.cells():
        for row in zip(*(part[index] for index in indexes), strict=True):
            worksheet.write_row(row_number, 0, row)
            row_number += 1


def _set_heading(worksheet: Any, heading: str) -> None:
    """Print the heading, if any, at the top of each page, and page numbers at the bottom."""
    if heading:
        # An & begins a code, such as the code of the page number. A doubled & would print one, but
        # openpyxl does not know that.
        plain_heading = heading.replace("&", "and")
        worksheet.set_header(f"{_TITLE}{plain_heading}")
    worksheet.set_footer(_FOOTER)


def _frozen_count(names: Sequence[str]) -> int:
    """Return the number of columns that stay in view. They are the first ones."""
    return sum(name in _FROZEN for name in names)


def _set_printing(worksheet: Any, names: Sequence[str], row_count: int) -> None:
    """Print the columns of names and ranks. Repeat the header and the names on each page."""
    frozen_count = _frozen_count(names)
    worksheet.repeat_rows(0)
    if frozen_count:
        worksheet.repeat_columns(0, frozen_count - 1)
    worksheet.set_landscape()
    worksheet.set_paper(_A4)
    worksheet.fit_to_pages(1, 0)
    # forty columns don't fit on a page, so the sheet of rankings is printed up to its last rank
    printed_positions = [
        position for position, name in enumerate(names) if _PRINTED.fullmatch(name)
    ]
    last_position = max(printed_positions, default=len(names) - 1)
    worksheet.print_area(0, 0, row_count, last_position)


def _write_string(worksheet: Any, row: int, column: int, text: str, *_: Any) -> int:
    """Write a string unchanged."""
    if text.startswith("<r>") and text.endswith("</r>"):
        # `write_string` would take such a string for finished rich text, and would not escape it.
        # The fragments of new rich text are escaped, and xlsxwriter wants three of them.
        return int(worksheet.write_rich_string(row, column, text[0], text[1], text[2:]))
    return int(worksheet.write_string(row, column, text))


def _note_options(description: str) -> dict[str, Any]:
    """Return the size of a note that shows a whole description."""
    # about 40 letters fit in a line of 280 pixels, and more lines are needed at long words
    lines = math.ceil(len(description) / 40) + 1
    return {"author": "", "width": 280, "height": 18 * lines, "font_size": 9}


def cells_of(kind: ColumnType, values: Sequence[Any]) -> list[Any]:
    """Return the values of a column as cells. These are None, booleans, numbers, dates or strings.

    A value that Excel can't store with its type becomes text.
    """
    convert = _CELLS[kind]
    return [None if value is None else convert(value) for value in values]


def _number(value: float) -> float | str:
    is_exact = isinstance(value, float) or abs(value) <= _LARGEST_INTEGER
    return value if is_exact else str(value)


def _date(value: dt.date) -> dt.date | str:
    return value.isoformat() if value.year < _FIRST_YEAR else value


def _fields(value: Any) -> str | None:
    return _json_text(value) if value else None


def _json_text(value: Any) -> str:
    return _cut(as_json(value))


def _text(value: str) -> str | None:
    return _cut(value) or None


_CELLS: dict[ColumnType, Callable[[Any], Any]] = {
    ColumnType.INTEGER: _number,
    ColumnType.NUMBER: _number,
    ColumnType.STRING: _text,
    ColumnType.BOOLEAN: bool,
    ColumnType.DATE: _date,
    ColumnType.DATETIME: _date,
    # staged tags are JSON
    ColumnType.TAGS: _fields,
    ColumnType.FIELDS: _fields,
    ColumnType.ANY: _json_text,
}


def _cut(text: str) -> str:
    """Return a string that fits into a cell. A longer string is cut and marked.

    Excel counts UTF-16 units. A character has one or two of them.
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


def was_changed(file: Path) -> bool:
    """Return whether a program saved a workbook after a pull had written it.

    A pull writes the same time for creation and modification. A program that saves a workbook
    changes the time of modification, or leaves both out.
    """
    with zipfile.ZipFile(file) as archive:
        if _PROPERTIES not in archive.namelist():
            return True
        tree = require("openpyxl.xml.functions").fromstring(archive.read(_PROPERTIES))
    properties = require("openpyxl.packaging.core").DocumentProperties.from_tree(tree)
    # LibreOffice can be set to keep the times, but it always writes a number of revisions
    return properties.created != properties.modified or properties.revision is not None


def read_sheet(file: Path, name: str) -> dict[str, Any]:
    """Return the first row of a sheet of a workbook, by column.

    If the sheet has only a header, all values are None. Without such a sheet, the result is empty.
    """
    try:
        workbook = require("openpyxl").load_workbook(file, read_only=True)
    except Exception:  # any error of a file that is not a workbook
        return {}
    try:
        if name not in workbook.sheetnames:
            return {}
        # Older versions of openpyxl keep the file open until the last row is read.
        rows = [*workbook[name].iter_rows(max_row=2, values_only=True)]
    finally:
        workbook.close()
    if not rows:
        return {}
    # headers may have spaces instead of underscores
    header, *first_rows = rows
    names = [str(title).replace(" ", "_") for title in header]
    row = dict.fromkeys(names)
    for cells in first_rows:
        row = dict(zip(names, map(_read_value, cells), strict=True))
    return row


def _read_value(cell: Any) -> Any:
    """Return the value that the table had. A sheet adds a time to dates, and escapes strings."""
    if isinstance(cell, dt.datetime) and cell.time() == dt.time():
        return cell.date()
    if isinstance(cell, str):
        return require("openpyxl.utils.escape").unescape(cell)
    return cell
