"""What the rows of the fault matrix share; 9, 30 to 34 and 36 are in `tests/session/test_pace.py`.

`python -m pytest -m slow tests/faults -q` measures all of them in about half an hour; without `-m slow` short versions
run. Either prints its figures at the end as one table; `FAULT_FIGURES=file` writes it to a file too. A figure that was
measured on a busy machine is marked; its times say little.

`check("1", "5 % RST", amplification=(1.09, 1.16))` notes figures for the table, each measured and its limit, and fails
the test if one is over its limit.
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
    """What was measured in one run under a fault of a row, beside the most that is allowed."""

    row: str
    fault: str
    name: str
    limit: float
    measured: float
    load: float

    @property
    def held(self) -> bool:
        return self.measured <= self.limit

    @property
    def place(self) -> tuple[int, str, str, str]:
        """Where it stands in the table; runs with other seeds have the same place."""
        return int("".join(filter(str.isdigit, self.row)) or 99), self.row, self.fault, self.name


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
        load = load_of_the_machine() if load is None else load
        found = [
            Figure(row, fault, name.replace("_", " "), limit, measured, load)
            for name, (measured, limit) in figures.items()
        ]
        noted.extend(found)
        over = [
            f"{figure.name}: {figure.measured:.4g} > {figure.limit:.4g}"
            for figure in found
            if not figure.held
        ]
        assert not over, f"row {row}, {fault}: {'; '.join(over)} (load {load:.2g} a processor)"

    return note


def table(figures: list[Figure]) -> str:
    """Return one line for each figure, the worst over all runs first and the mean after it."""
    lines = [("row", "fault", "figure", "required", "measured", "held")]
    for _, group in groupby(
        sorted(figures, key=lambda figure: figure.place), key=lambda figure: figure.place
    ):
        runs = [*group]
        worst = max(runs, key=lambda figure: figure.measured)
        average = (
            f" (mean of {len(runs)}: {mean(figure.measured for figure in runs):.4g})"
            if len(runs) > 1
            else ""
        )
        busy = " (busy)" if max(figure.load for figure in runs) > BUSY else ""
        required = f"≤ {worst.limit:.4g}" if worst.limit else "0"
        figure = f"{worst.measured:.4g}{average}", f"{'yes' if worst.held else 'NO'}{busy}"
        lines.append((worst.row, worst.fault, worst.name, required, *figure))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(" | ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if not (figures := config.stash.get(_FIGURES, [])):
        return
    busiest = max(figure.load for figure in figures)
    text = f"{table(figures)}\nload a processor: at most {busiest:.2g}"
    text += "; the machine was busy, so times say little" if busiest > BUSY else ""
    terminalreporter.section("fault matrix")
    terminalreporter.write_line(text)
    if (file := os.environ.get("FAULT_FIGURES")) is not None:
        Path(file).write_text(text + "\n")
