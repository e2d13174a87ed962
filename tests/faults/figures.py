"""Figures that were measured, each beside what is required, as one table."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import attrs

BUSY = 1.0
"""A load for each processor above which timed figures say little."""


@attrs.frozen
class Figure:
    """One figure of one run.

    Attributes:
        row: of the fault matrix.
        fault: what went wrong in it.
        name: what was measured.
        limit: the most that is allowed.
        measured: what it was.
        load: load of the machine for each of its processors.
    """

    row: str
    fault: str
    name: str
    limit: float
    measured: float
    load: float

    @property
    def held(self) -> bool:
        """Whether the limit held."""
        return self.measured <= self.limit


def table(figures: Iterable[Figure]) -> str:
    """Return one line for each figure, the worst over all runs first and the mean after it."""
    lines = [("row", "fault", "figure", "required", "measured", "held")]
    figures = sorted(figures, key=_place)
    for _, group in groupby(figures, key=_place):
        runs = list(group)
        worst = max(runs, key=lambda figure: figure.measured)
        measured = f"{worst.measured:.4g}"
        if len(runs) > 1:
            measured += f" (mean of {len(runs)}: {sum(figure.measured for figure in runs) / len(runs):.4g})"
        required = f"≤ {worst.limit:.4g}" if worst.limit else "0"
        held = "yes" if worst.held else "NO"
        if max(figure.load for figure in runs) > BUSY:
            held += " (busy)"
        lines.append((worst.row, worst.fault, worst.name, required, measured, held))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _place(figure: Figure) -> tuple[int, str, str, str]:
    digits = "".join(character for character in figure.row if character.isdigit())
    return int(digits or 99), figure.row, figure.fault, figure.name
