"""Figures of the fault matrix. Rows 9, 30 to 34 and 36 are in `tests/session/test_pace.py`.

`python -m pytest -m slow tests/faults -q` measures all of them in about half an hour. Without
`-m slow`, short versions run. Both print their figures at the end as a table, and
`FAULT_FIGURES=file` also writes it to a file. Figures that were measured on a busy machine are
marked: their times say little.

`check("1", "5 % RST", amplification=(1.09, 1.16))` notes figures for the table, each measured and
its limit, and fails the test if one is over its limit.
"""

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import NamedTuple, Protocol

import pytest

from tests.faults.run import load_of_the_machine
from tests.faults.server import ServerProcess

BUSY = 1.0
"""A load for each processor above which timed figures say little."""


class Figure(NamedTuple):
    """A figure of one run under a fault of a row, beside its limit."""

    row: str
    fault: str
    name: str
    limit: float
    measured: float
    load: float

    @property
    def holds(self) -> bool:
        return self.measured <= self.limit

    @property
    def place(self) -> tuple[int, str, str, str]:
        """The place in the table. Runs with other seeds have the same place."""
        digits = "".join(filter(str.isdigit, self.row))
        return int(digits or 99), self.row, self.fault, self.name


_FIGURES = pytest.StashKey[list[Figure]]()


class Check(Protocol):
    """The fixture `check`."""

    def __call__(
        self, row: str, fault: str, /, *, load: float | None = None, **figures: tuple[float, float]
    ) -> None: ...


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    process = ServerProcess()
    yield process
    process.close()


@pytest.fixture(scope="session")
def check(pytestconfig: pytest.Config) -> Check:
    noted = pytestconfig.stash.setdefault(_FIGURES, [])

    def note(
        row: str, fault: str, /, *, load: float | None = None, **figures: tuple[float, float]
    ) -> None:
        if load is None:
            load = load_of_the_machine()
        excesses = []
        for name, (measured, limit) in figures.items():
            figure = Figure(row, fault, name.replace("_", " "), limit, measured, load)
            noted.append(figure)
            if not figure.holds:
                excesses.append(f"{figure.name}: {measured:.4g} > {limit:.4g}")
        assert not excesses, f"row {row}, {fault}: {'; '.join(excesses)} (load {load:.2g})"

    return note


def table(figures: list[Figure]) -> str:
    """Return one line for each figure: the worst over all runs, and the mean after it."""
    lines = [("row", "fault", "figure", "required", "measured", "held")]
    ordered = sorted(figures, key=lambda figure: figure.place)
    for _, group in groupby(ordered, key=lambda figure: figure.place):
        lines.append(line_of(list(group)))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(" | ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def line_of(runs: list[Figure]) -> tuple[str, str, str, str, str, str]:
    """Return the cells of the runs of one figure."""
    worst = max(runs, key=lambda figure: figure.measured)
    required = "0"
    if worst.limit:
        required = f"≤ {worst.limit:.4g}"
    measured = f"{worst.measured:.4g}"
    if len(runs) > 1:
        average = mean(figure.measured for figure in runs)
        measured += f" (mean of {len(runs)}: {average:.4g})"
    verdict = "yes" if worst.holds else "NO"
    if max(figure.load for figure in runs) > BUSY:
        verdict += " (busy)"
    return worst.row, worst.fault, worst.name, required, measured, verdict


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    figures = config.stash.get(_FIGURES, [])
    if not figures:
        return
    busiest = max(figure.load for figure in figures)
    text = f"{table(figures)}\nload a processor: at most {busiest:.2g}"
    if busiest > BUSY:
        text += "; the machine was busy, so times say little"
    terminalreporter.section("fault matrix")
    terminalreporter.write_line(text)
    if "FAULT_FIGURES" in os.environ:
        Path(os.environ["FAULT_FIGURES"]).write_text(text + "\n")
