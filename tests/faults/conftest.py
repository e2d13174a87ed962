"""Figures of the fault matrix. `tests/session/test_pace.py` has rows 4, 6, 8, 9, 30 to 34 and 36.

`python -m pytest -m slow tests/faults -q` measures all of them in about half an hour. Without
`-m slow`, short versions run. Both print their figures at the end. Figures that were measured on a
busy machine are marked: their times say little.

`check("1", "5 % RST", amplification=(1.09, 1.16))` notes figures, each measured and its limit, and
fails the test if one is over its limit.
"""

from typing import Protocol

import pytest

from tests.faults.run import load_of_the_machine

BUSY = 1.0
"""A load for each processor above which timed figures say little."""

_FIGURES = pytest.StashKey[list[str]]()


class Check(Protocol):
    """The fixture `check`."""

    def __call__(
        self, row: str, fault: str, /, *, load: float | None = None, **figures: tuple[float, float]
    ) -> None: ...


@pytest.fixture(scope="session")
def check(pytestconfig: pytest.Config) -> Check:
    noted = pytestconfig.stash.setdefault(_FIGURES, [])

    def note(
        row: str, fault: str, /, *, load: float | None = None, **figures: tuple[float, float]
    ) -> None:
        if load is None:
            load = load_of_the_machine()
        busy = " (busy)" if load > BUSY else ""
        excesses = []
        for name, (measured, limit) in figures.items():
            figure = f"{name.replace('_', ' ')} {measured:.4g}, required ≤ {limit:.4g}{busy}"
            noted.append(f"row {row}, {fault}: {figure}")
            holds = measured <= limit
            if not holds:
                excesses.append(figure)
        assert not excesses, f"row {row}, {fault}: {'; '.join(excesses)} (load {load:.2g})"

    return note


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    figures = config.stash.get(_FIGURES, [])
    if figures:
        terminalreporter.section("fault matrix")
        terminalreporter.write_line("\n".join(figures))
