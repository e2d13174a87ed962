"""What the rows of the fault matrix share.

`python -m pytest -m slow tests/faults -q` measures all of them, one after the other, in about half an hour; without
`-m slow` short versions run. Either prints its figures at the end as one table; `FAULT_FIGURES=file` writes it to a
file too. A figure that was measured on a busy machine is marked; its times say little.

- `server`: the fault server's process, `with server.serving(Plan(…)) as served: …` (see `server`).
- `check`: `check("1", "5 % RST", amplification=(1.09, 1.16))` notes figures for the table, each measured and its limit,
  and fails the test if one is over its limit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.faults.figures import BUSY, Figure, table
from tests.faults.run import load_of_the_machine
from tests.faults.server import ServerProcess

_FIGURES = pytest.StashKey[list[Figure]]()


class Check(Protocol):
    """The fixture `check`."""

    def __call__(
        self, row: str, fault: str, /, *, load: float | None = None, **figures: tuple[float, float]
    ) -> None: ...


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    with ServerProcess() as process:
        yield process


@pytest.fixture(scope="session")
def check(pytestconfig: pytest.Config) -> Check:
    noted = pytestconfig.stash.setdefault(_FIGURES, [])

    def note(row: str, fault: str, /, *, load: float | None = None, **figures: tuple[float, float]) -> None:
        load = load_of_the_machine() if load is None else load
        found = [
            Figure(row, fault, name.replace("_", " "), limit, measured, load)
            for name, (measured, limit) in figures.items()
        ]
        noted.extend(found)
        over = [f"{figure.name}: {figure.measured:.4g} > {figure.limit:.4g}" for figure in found if not figure.held]
        assert not over, f"row {row}, {fault}: {'; '.join(over)} (load {load:.2g} a processor)"

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    figures = config.stash.get(_FIGURES, [])
    if not figures:
        return
    text = table(figures)
    busiest = max(figure.load for figure in figures)
    text += f"\nload a processor: at most {busiest:.2g}"
    text += "; the machine was busy, so times say little" if busiest > BUSY else ""
    terminalreporter.section("fault matrix")
    terminalreporter.write_line(text)
    if (file := os.environ.get("FAULT_FIGURES")) is not None:
        Path(file).write_text(text + "\n")
