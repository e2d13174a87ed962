"""Changes for people, with names of engines and places moved, as a table or a file for Excel."""

from __future__ import annotations

import csv
import datetime as dt
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import attrs

from seorep_async.errors import ExportError
from seorep_async.export.files import check_file, has_content, refusal, replacing
from seorep_async.export.formats import SHEET_ROWS
from seorep_async.export.workbook import Sheet, read_sheet, was_changed, write_workbook
from seorep_async.history.comparing import ENGINES, Change
from seorep_async.resources.arguments import check_engine_names
from seorep_async.tables.columns import Columns, Table, columns_of_model, model_columns

_LONGEST_HEADER = 1024
_DESCRIPTIONS = {
    "company": "Company of the campaign, as it was last pulled.",
    "keyword_phrase": "Phrase of the keyword.",
    "location": "Search location of the keyword.",
    "engine": "Search engine; empty for a keyword that is ranked in none.",
    "before": "Rank on the earlier day; empty if the keyword was not ranked.",
    "after": "Rank on the later day; empty if the keyword is not ranked.",
    "moved": "Places by which the rank became better (+) or worse (-); empty without both ranks.",
    "kinds": "Kinds of the change, such as fell or left_top_3.",
    "url": "Ranked address, of the later day if the keyword is ranked there.",
    "campaign_id": "Id of the campaign.",
    "keyword_id": "Id of the keyword.",
    "account": "Name of the account.",
    "before_date": "Earlier day.",
    "after_date": "Later day.",
}


@attrs.frozen
class ChangeRow:
    """A change for people: the columns of a table or a file, in order.

    Attributes:
        moved: the places by which the rank became better, negative if it became worse.
        kinds: the kinds, separated by commas.
    """

    company: str | None
    keyword_phrase: str
    location: str | None
    engine: str | None
    before: int | None
    after: int | None
    moved: int | None
    kinds: str
    url: str | None
    campaign_id: int
    keyword_id: int
    account: str
    before_date: dt.date
    after_date: dt.date

    @classmethod
    def of(cls, change: Change, engine_names: Mapping[str, str]) -> Self:
        engine = change.engine
        if engine is not None:
            engine = engine_names.get(engine, engine)
        return cls(
            company=change.company,
            keyword_phrase=change.keyword_phrase,
            location=change.location,
            engine=engine,
            before=change.before,
            after=change.after,
            moved=change.moved,
            kinds=", ".join(change.kinds),
            url=change.url,
            campaign_id=change.campaign_id,
            keyword_id=change.keyword_id,
            account=change.account,
            before_date=change.before_date,
            after_date=change.after_date,
        )


def write_changes(
    changes: Iterable[Change],
    out: str | os.PathLike[str],
    *,
    engine_names: tuple[str, str] | None = None,
) -> Path:
    """Write changes for people: company, keyword, location, engine, both ranks and places moved.

    An existing file is replaced only if `write_changes` or `seorep changes` wrote it.

    Args:
        changes: the result of `changes(…)`, or some of it.
        out: the path of a workbook, `.xlsx` (extra `excel`), or of a `.csv` file.
        engine_names: names for engine A and engine B; by default `engine_a`, `engine_b` and so on.

    Raises:
        ConfigurationError: the path or the names are wrong, or the file contains something else.
        ExportError: the file can't be written, or a sheet can't hold the changes.
        ImportError: the extra `excel` is missing.
    """
    names = {} if engine_names is None else names_of_engines(engine_names)
    file = ChangeFile.of(os.fspath(out))
    return file.write([ChangeRow.of(change, names) for change in changes])


def names_of_engines(engine_names: object) -> dict[str, str]:
    """Return the names of all engines, made from those of engines A and B.

    Raises:
        ConfigurationError: there are not two names.
    """
    engine_a, engine_b = check_engine_names(engine_names)
    all_names = (engine_a, f"{engine_a}, mobile", f"{engine_a}, places", engine_b)
    return dict(zip(ENGINES, all_names, strict=True))


@attrs.frozen
class ChangeFile:
    """A file of changes: a workbook with one sheet, or CSV.

    Attributes:
        out: the path as the caller wrote it.
        path: the same path, absolute and with links followed.
    """

    out: Path
    path: Path

    @classmethod
    def of(cls, out: str) -> Self:
        """Check that a file can be written, and that it replaces only changes.

        Raises:
            ConfigurationError: it can't be written, or it contains something else.
        """
        file = cls(Path(out), Path(os.path.realpath(out)))
        if file.path.suffix.lower() not in (".xlsx", ".csv"):
            raise refusal(out, "the name must end in .xlsx or .csv")
        check_file(file.out, file.path)
        is_empty = not has_content(file.path)
        if not is_empty and not file._holds_changes():
            advice = "name another file, or delete this one first"
            problem = f"{file.path.name} exists, and seorep changes did not write all of it"
            raise refusal(out, f"{problem}; {advice}")
        return file

    @property
    def _is_workbook(self) -> bool:
        return self.path.suffix.lower() == ".xlsx"

    def _holds_changes(self) -> bool:
        if self._is_workbook:
            table = _table()
            rows = read_sheet(self.path, table)
            has_key = any(row.keys() >= set(table.key) for row in rows)
            return has_key and not was_changed(self.path)
        with open(self.path, encoding="utf-8-sig", errors="replace", newline="") as file:
            # the header of changes is short, but other files may have a line without an end
            return file.readline(_LONGEST_HEADER).rstrip("\r\n") == ",".join(_names())

    def write(self, rows: Sequence[ChangeRow]) -> Path:
        """Write a temporary file, put it in place in one step, and return its path.

        Raises:
            ExportError: it can't be written, or a sheet can't hold the rows.
        """
        if self._is_workbook and len(rows) > SHEET_ROWS:
            advice = "choose fewer changes, or name a .csv file"
            problem = f"a sheet holds {SHEET_ROWS:,} rows, and there are {len(rows):,} changes"
            raise ExportError(f"can't write {self.out}: {problem}; {advice}", file=self.out)
        with replacing(self.out, self.path) as file:
            if self._is_workbook:
                _write_workbook(file, rows)
            else:
                _write_csv(file, rows)
        return self.out


def _names() -> list[str]:
    return [column.name for column in _table().columns]


def _table() -> Table:
    columns = [
        attrs.evolve(column, description=_DESCRIPTIONS[column.name])
        for column in columns_of_model(ChangeRow)
    ]
    key = ("keyword_phrase", "engine", "before", "after", "moved", "kinds", "campaign_id")
    return Table("changes", "A changed rank.", tuple(columns), key)


def _write_workbook(file: Path, rows: Sequence[ChangeRow]) -> None:
    def parts() -> Iterator[Columns]:
        if rows:
            yield model_columns(ChangeRow, rows)

    table = _table()
    created = dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0)
    write_workbook(file, [Sheet(table, table.columns, parts)], created, file.parent)


def _write_csv(file: Path, rows: Iterable[ChangeRow]) -> None:
    with open(file, "w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(_names())
        writer.writerows(attrs.astuple(row) for row in rows)
