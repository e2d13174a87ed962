"""The formats of a target, and how finished reports are kept in each until the target is put together."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import attrs

from seorep_async.errors import ExportError
from seorep_async.export.csv_text import columns_as_csv
from seorep_async.export.json_lines import rows_as_json_lines
from seorep_async.models import RankingTotals
from seorep_async.reports import RankingReport, column_values, row_values
from seorep_async.tables.arrow import record_batch
from seorep_async.tables.columns import FeedTable, totals_values
from seorep_async.tables.json_strings import as_json
from seorep_async.tables.optional import require

_SPARE_LEVELS = 50


class Format(enum.Enum):
    """What a target is written as; the value is the ending of its name."""

    CSV = ".csv"
    JSON_LINES = ".jsonl"
    PARQUET = ".parquet"
    DUCKDB = ".duckdb"

    @property
    def is_text(self) -> bool:
        """Whether its pieces are text, which is joined; the others' are Arrow record batches."""
        return self in (Format.CSV, Format.JSON_LINES)

    def require_extra(self) -> None:
        """Import what it needs.

        Raises:
            ImportError: an extra is missing; the message says how to get it.
        """
        if self is Format.DUCKDB:
            require("duckdb")
        if not self.is_text:
            require("pyarrow")


@attrs.frozen
class Unit:
    """A report, and the campaign that it belongs to."""

    campaign_id: int
    report: RankingReport[Any]


@attrs.frozen
class Block:
    """Several reports' rows as they are kept.

    Attributes:
        data: all of them.
        lengths: how much of it each report is: bytes of a text, or rows of a record batch.
    """

    data: bytes
    lengths: list[int]


def block_of(kind: Format, table: FeedTable, units: Sequence[Unit]) -> Block:
    """Return reports as they are kept for a format.

    Raises:
        OverflowError: an integer needs more than 64 bits, and the format has no more.
        RecursionError: an unknown field is nested too deep.
        ValueError: a text is not valid Unicode.
    """
    if not units:
        return Block(b"", [])
    for unit in units:
        # they are written when all is there, which is too late to find that they can't be
        _check_totals(kind, unit.report.totals)
    if kind.is_text:
        if kind is Format.CSV:
            pieces = [columns_as_csv(table, column_values(unit.report, unit.campaign_id)) for unit in units]
        else:
            pieces = [rows_as_json_lines(table, row_values(unit.report, unit.campaign_id)) for unit in units]
        return Block(b"".join(pieces), [len(piece) for piece in pieces])
    columns = [column_values(unit.report, unit.campaign_id) for unit in units]
    joined = columns[0] if len(columns) == 1 else [list(chain(*parts)) for parts in zip(*columns, strict=True)]
    data = record_batch(table, joined).serialize().to_pybytes()
    return Block(data, [len(unit.report.rows) for unit in units])


def fits(number: int) -> bool:
    """Tell whether an integer has at most 64 bits, as databases and Arrow hold it."""
    return -(2**63) <= number < 2**63


def unstorable(kind: Format, error: Exception) -> ExportError:
    """Return the error for a report with a value that a format can't hold, from what was raised for it."""
    if isinstance(error, OverflowError):
        return ExportError(f"an integer has more than 64 bits, which {kind.value} can't hold; .csv and .jsonl can")
    if isinstance(error, RecursionError):
        return ExportError(f"an unknown field is nested too deep to be written to {kind.value}")
    return ExportError(f"a value can't be written to {kind.value}: {error}")


def _check_totals(kind: Format, totals: RankingTotals | None) -> None:
    for value in () if totals is None else totals_values(totals):
        if isinstance(value, int) and not kind.is_text and not fits(value):
            raise OverflowError("a total has more than 64 bits")
        if isinstance(value, Mapping) and value:
            as_json(_further_in(value)).encode()


def _further_in(value: object) -> object:
    """Return a value nested deeper than it is, as it will be written from deeper in the stack."""
    for _ in range(_SPARE_LEVELS):
        value = [value]
    return value
