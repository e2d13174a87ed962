"""The findings of a benchmark: bars that are held or missed, tables, and figures for the chart."""

import argparse
from collections.abc import Callable, Sequence

import attrs

from benchmarks.alternating import Ratio


@attrs.frozen
class Bar:
    """A figure with a requirement.

    Attributes:
        says: the name of the figure.
        required: the bar.
        measured: the figure, or None if it could not be measured.
        at_least: whether the figure must be at least the bar; otherwise, at most.
        is_limit: whether the figure may miss the bar because of aiohttp's public interface.
        unit: the unit of both.
        note: a remark, such as a missing library.
    """

    says: str
    required: float
    measured: float | None
    at_least: bool = False
    is_limit: bool = False
    unit: str = "×"
    note: str = ""

    @property
    def verdict(self) -> str:
        """Whether the bar is held."""
        if self.measured is None:
            return "skipped"
        if self.at_least:
            is_held = self.measured >= self.required
        else:
            is_held = self.measured <= self.required
        if is_held:
            return "held"
        return "limit" if self.is_limit else "MISSED"

    @property
    def cells(self) -> tuple[str, str, str, str, str, str]:
        """The row of a table."""
        control = self.measured.control if isinstance(self.measured, Ratio) else None
        measured = "–" if self.measured is None else f"{self.measured:.3g} {self.unit}"
        required = f"{'≥' if self.at_least else '≤'} {self.required:g} {self.unit}"
        return (
            self.says,
            required,
            measured,
            "" if control is None else f"{control:.2f}",
            self.verdict,
            self.note,
        )


BAR_HEAD = ("bar", "required", "measured", "control", "", "note")


@attrs.frozen
class Table:
    """Figures behind the bars."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@attrs.frozen
class Panel:
    """A row of bars in the chart; the first is ours."""

    title: str
    unit: str
    values: Sequence[tuple[str, float]]


@attrs.frozen
class Findings:
    """All findings of one benchmark."""

    bars: Sequence[Bar] = ()
    tables: Sequence[Table] = ()
    panels: Sequence[Panel] = ()


def as_text(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table for a terminal."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def as_markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table for a document."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def show(findings: Findings) -> None:
    """Print all tables and bars of one benchmark."""
    for table in findings.tables:
        print(f"{table.title}\n{as_text(table.head, table.rows)}\n")
    if findings.bars:
        print(as_text(BAR_HEAD, [bar.cells for bar in findings.bars]))


def command(measure: Callable[[bool], Findings], about: str | None) -> None:
    """Run one benchmark from the command line."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "--quick", action="store_true", help="a smoke test: small runs, whose figures mean little"
    )
    show(measure(parser.parse_args().quick))
