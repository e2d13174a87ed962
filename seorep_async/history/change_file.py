"""Files of changes, or of their counts by campaign, for people: workbooks or CSV."""

from __future__ import annotations

import csv
import datetime as dt
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias

import attrs

from seorep_async.errors import ExportError, counted
from seorep_async.export.files import check_file, has_content, refusal, replacing
from seorep_async.export.formats import SHEET_ROWS
from seorep_async.export.workbook import Sheet, read_sheet, was_changed, write_workbook
from seorep_async.history.comparing import ENGINES, KINDS, Change, Changes, smallest_move_in_words
from seorep_async.history.counting import CampaignChanges, CountedChanges
from seorep_async.resources.arguments import check_engine_names, names_unknown_arguments
from seorep_async.tables.columns import Column, Columns, ColumnType, Table, columns_of_model

_WINNERS_AND_LOSERS = ("winners", "losers")
_EMPTY = "no changes"
"""The name of the sheet of a workbook without changes."""
_NOT_COMPARED = Table(
    "not compared",
    "",
    (
        Column("campaign_id", ColumnType.INTEGER, "Id of the campaign."),
        Column("reason", ColumnType.STRING, "Why the two days could not be compared."),
    ),
    key=("campaign_id",),
)
_LONGEST_HEADER = 1024
"""The maximum length of the first line of a CSV file of changes."""
_DESCRIPTIONS: dict[str, str] = {
    "company": "Company of the campaign, as it was last pulled.",
    "keyword_phrase": "Phrase of the keyword.",
    "location": "Search location of the keyword.",
    "engine": "Search engine; empty for a keyword that is ranked in no engine.",
    "before": "Rank on the earlier day; empty if the keyword was not ranked.",
    "after": "Rank on the later day; empty if the keyword is not ranked.",
    "moved": "Places by which the rank became better (+) or worse (-); empty without both ranks.",
    "kinds": "Kinds of the change, such as fell or left_top_3.",
    "url": "Ranked address of the later day, or of the earlier day if the keyword is no longer "
    "ranked.",
    "campaign_id": "Id of the campaign.",
    "keyword_id": "Id of the keyword.",
    "account": "Name of the account.",
    "before_date": "Earlier day.",
    "after_date": "Later day.",
    "changes": "Number of changed ranks, of the requested kinds and engines: a keyword counts once "
    "in each engine.",
    "places": "Places by which these ranks became better, minus the places by which they became "
    "worse; found and lost do not count.",
    **{kind: f"Number of changes of the kind {kind}." for kind in KINDS},
}
_COLUMNS_OF_CHANGES = (
    "company",
    "keyword_phrase",
    "location",
    "engine",
    "before",
    "after",
    "moved",
    "kinds",
    "url",
    "campaign_id",
    "keyword_id",
    "account",
    "before_date",
    "after_date",
)
_COLUMNS_OF_COUNTS = (
    "company",
    "changes",
    "places",
    *KINDS,
    "campaign_id",
    "account",
    "before_date",
    "after_date",
)


Row: TypeAlias = Change | CampaignChanges


@names_unknown_arguments
def write_changes(
    changes: Iterable[Change] | Iterable[CampaignChanges] | CountedChanges,
    out: str | os.PathLike[str],
    *,
    engine_names: tuple[str, str] | None = None,
) -> Path:
    """Write changes for people.

    Each change becomes a row. The first columns are company, keyword, location, engine, both ranks
    and places moved. A result of `changes_by_campaign` becomes a row of counts for each campaign.

    A workbook has a sheet of winners and a sheet of losers. An existing file is replaced only if
    `write_changes` or `seorep changes` wrote it.

    Args:
        changes: the result of `changes(…)` or `changes_by_campaign(…)`, or some of its items, such
            as `result.campaigns[:10]`.
        out: the path of a workbook, `.xlsx` (extra `excel`), or of a `.csv` file.
        engine_names: names for engine A and engine B; by default `engine_a`, `engine_b` and so on.

    Raises:
        ConfigurationError: the path or the names are wrong, or the file contains something else.
        ExportError: the file can't be written, or the changes don't fit a sheet.
        ImportError: the extra `excel` is missing.
    """
    names = {} if engine_names is None else labels_by_engine(engine_names)
    file = ChangeFile.of(os.fspath(out))
    if isinstance(changes, CountedChanges):
        return file.write(changes.campaigns, CampaignChanges, changes)
    rows: list[Any] = list(changes)
    if rows and isinstance(rows[0], CampaignChanges):
        # None: a caller's own list does not say which days were compared
        return file.write(rows, CampaignChanges, None)
    # the same holds for a caller's own list of changes
    result = changes if isinstance(changes, Changes) else None
    return file.write(rename_engines(rows, names), Change, result)


def rename_engines(changes: Iterable[Change], labels: Mapping[Any, str]) -> list[Change]:
    """Return changes with their engines renamed to their labels."""
    return [
        attrs.evolve(change, engine=labels.get(change.engine, change.engine)) for change in changes
    ]


def labels_by_engine(engine_names: object) -> dict[str, str]:
    """Return the label of each engine, made from the names of engines A and B.

    Raises:
        ConfigurationError: there are not two names.
    """
    engine_a, engine_b = check_engine_names(engine_names)
    # as in the headers of a pull's workbook
    labels = (engine_a, f"{engine_a} mobile", f"{engine_a} places", engine_b)
    return dict(zip(ENGINES, labels, strict=True))


def engines_by_name(engine_names: object) -> dict[str, str]:
    """Return the engines by their names, in lower case."""
    return {label.lower(): engine for engine, label in labels_by_engine(engine_names).items()}


@attrs.frozen
class ChangeFile:
    """A workbook or a CSV file of changes, or of their counts by campaign.

    Attributes:
        out: the path as the caller wrote it.
        path: the same path, absolute and with links followed.
    """

    out: Path
    path: Path

    @classmethod
    def of(cls, out: str) -> Self:
        """Return the file of a path. It may replace only an earlier file of changes.

        Raises:
            ConfigurationError: the file can't be written, or contains something else.
        """
        file = cls(Path(out), Path(os.path.realpath(out)))
        if file.path.suffix.lower() not in (".xlsx", ".csv"):
            raise refusal(out, "the name must end in .xlsx or .csv")
        check_file(file.out, file.path)
        if has_content(file.path) and not file._contains_changes():
            advice = "name another file, or delete this one first"
            problem = "exists, and seorep changes did not write it, or it was edited since"
            raise refusal(out, f"{file.path.name} {problem}; {advice}")
        return file

    @property
    def _is_workbook(self) -> bool:
        return self.path.suffix.lower() == ".xlsx"

    def _contains_changes(self) -> bool:
        """Return whether `write` wrote the file and, if it is a workbook, nobody edited it since.

        An edited CSV file is not recognised as edited if its header is unchanged.
        """
        if self._is_workbook:
            # each sheet that `write` makes, and the columns that it always has
            counts = _table_of(CampaignChanges)
            key_of_changes = _table_of(Change).key
            keys = {counts.name: counts.key} | dict.fromkeys(
                (*_WINNERS_AND_LOSERS, _EMPTY), key_of_changes
            )
            is_ours = any(
                read_sheet(self.path, name).keys() >= set(key) for name, key in keys.items()
            )
            return is_ours and not was_changed(self.path)
        with open(self.path, encoding="utf-8-sig", errors="replace", newline="") as file:
            # another file may have a very long first line
            header = file.readline(_LONGEST_HEADER).rstrip("\r\n")
        names = header.split(",")
        return names in (
            _column_names(_table_of(Change)),
            _column_names(_table_of(CampaignChanges)),
        )

    def write(
        self, rows: Sequence[Row], model: type[Row], result: Changes | CountedChanges | None
    ) -> Path:
        """Write a temporary file, put it in place in one step, and return its path.

        Args:
            rows: all of one type.
            model: the type of the rows, because there may be no rows.
            result: the comparison that returned the rows, or None for a caller's own list.

        Raises:
            ExportError: the file can't be written, or the rows don't fit a sheet.
        """
        if self._is_workbook and len(rows) > SHEET_ROWS:
            advice = "choose fewer changes, or name a .csv file"
            problem = f"a sheet holds {SHEET_ROWS:,} rows, and there are {len(rows):,} changes"
            raise ExportError(f"can't write {self.out}: {problem}; {advice}", file=self.out)
        with replacing(self.out, self.path) as file:
            if self._is_workbook:
                # Excel's times have no zone
                created = dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0)
                sheets = _sheets(model, rows, result)
                # xlsxwriter may write temporary files beside `file`, in the folder that `replacing`
                # made for it alone
                write_workbook(file, sheets, created)
            else:
                _write_csv(file, _table_of(model), rows)
        return self.out


def _table_of(model: type[Row]) -> Table:
    """Return a file's table: for `CampaignChanges` the counts by campaign, otherwise the changes.

    Its `key` does not identify a row: it lists the columns that a sheet always has, by which
    `_contains_changes` recognises a sheet.
    """
    columns = {column.name: column for column in columns_of_model(model)}
    key: tuple[str, ...]
    if model is CampaignChanges:
        name = "changes_by_campaign"
        column_names: Sequence[str] = _COLUMNS_OF_COUNTS
        key = ("changes", "places", "campaign_id")
    else:
        name = "changes"
        column_names = _COLUMNS_OF_CHANGES
        key = (
            "keyword_phrase",
            "engine",
            "before",
            "after",
            "moved",
            "kinds",
            "campaign_id",
        )
        # this column has words, not a tuple
        columns["kinds"] = Column("kinds", ColumnType.STRING, "")
    described_columns = [
        attrs.evolve(columns[column_name], description=_DESCRIPTIONS[column_name])
        for column_name in column_names
    ]
    return Table(name, description="", columns=tuple(described_columns), key=key)


def _value(row: Row, name: str) -> object:
    """Return a value for CSV. Several kinds become one string."""
    value = getattr(row, name)
    return ", ".join(value) if isinstance(value, tuple) else value


def _value_in_words(row: Row, name: str) -> object:
    """Return a value for a workbook, in which kinds are words."""
    value = _value(row, name)
    return str(value).replace("_", " ") if name == "kinds" else value


def _column_names(table: Table) -> list[str]:
    return [column.name for column in table.columns]


def _sheets(
    model: type[Row], rows: Sequence[Any], result: Changes | CountedChanges | None
) -> list[Sheet]:
    """Return the sheets of a workbook. Changes are divided into winners and losers."""
    heading = ""
    left_out: Mapping[int, str] = {}
    # a caller's own list may join several comparisons, so it has no heading
    if result is not None:
        smallest_move = smallest_move_in_words(result.moved)
        omission = _omission_in_words(rows, result)
        heading = f"{result.before} to {result.after}, {result.account}{omission}{smallest_move}"
        left_out = result.left_out
    table = _table_of(model)
    if not rows:
        empty_table = attrs.evolve(_table_of(Change), name=_EMPTY)
        sheets = [_sheet(empty_table, rows, heading)]
    elif model is CampaignChanges:
        sheets = [_sheet(table, rows, heading)]
    else:
        winners = [row for row in rows if _is_winner(row)]
        losers = [row for row in rows if not _is_winner(row)]
        sheets = [
            _sheet(attrs.evolve(table, name=name), sheet_rows, heading)
            for name, sheet_rows in zip(_WINNERS_AND_LOSERS, (winners, losers), strict=True)
            if sheet_rows
        ]
    if left_out:
        sheets.append(_sheet(_NOT_COMPARED, [*left_out.items()], heading))
    return sheets


def _omission_in_words(rows: Sequence[Any], result: Changes | CountedChanges) -> str:
    """Return the part of a heading that says how many of all rows the file has, if not all."""
    noun = "change"
    total = result.total
    if isinstance(result, CountedChanges):
        noun = "campaign"
        total = len(result.campaigns)
    return f"; {len(rows):,} of {counted(total, noun)}" if len(rows) < total else ""


def _is_winner(change: Change) -> bool:
    """Return whether a rank became better, or a keyword is new."""
    if change.moved is None:
        return change.after is not None or change.kind == "new"
    return change.moved > 0


def _sheet(table: Table, rows: Sequence[Any], heading: str) -> Sheet:
    """Return a sheet of rows that are in memory."""

    def parts() -> Iterator[Columns]:
        """Yield the columns of the rows, or nothing without rows."""
        # one part at most, because the rows are in memory anyway
        if rows and table is _NOT_COMPARED:
            yield list(zip(*rows, strict=True))
        elif rows:
            names = _column_names(table)
            yield [[_value_in_words(row, name) for row in rows] for name in names]

    # without engine names, headers are words, but none is an engine's name
    return Sheet(table, table.columns, parts, heading=heading, engine_names=())


def _write_csv(file: Path, table: Table, rows: Iterable[Row]) -> None:
    names = _column_names(table)
    with open(file, "w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(names)
        writer.writerows([_value(row, name) for name in names] for row in rows)
