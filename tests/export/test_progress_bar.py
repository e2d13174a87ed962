"""The progress bar shows itself in notebooks and on terminals, and nowhere else."""

import builtins
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from seorep_async import AuthenticationError
from seorep_async.export import ProgressBar, progress_bar, pull_to
from tests.export.accounts import Account, served

BAR = "█" * 20


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def pull(
    tmp_path: Path, account: Account | None = None, bar: ProgressBar | None = None
) -> None:
    async with served(account or Account(hidden={2: 404})) as (client, _):
        out = tmp_path / "x.csv"
        shown = bar or ProgressBar()
        await pull_to(client, None, "2023-03-01", "2023-03-31", out=out, on_progress=shown)


async def test_a_terminal_has_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    await pull(tmp_path)
    lines = terminal.getvalue().split("\r")
    assert f"{BAR} pulling rows, 2 of 2, 1 row, 1 failed" in lines[-3]
    assert f"{BAR} writing, 1 row, 1 failed" in lines[-2]
    assert f"{BAR} done, 1 row, 1 failed\n" in lines[-1]
    assert terminal.getvalue().count("\n") == 1


async def test_a_log_has_no_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await pull(tmp_path)
    assert capsys.readouterr().err == ""


class Display:
    """A stand-in for IPython.display: outputs, which are updated."""

    def __init__(self) -> None:
        self.outputs: list[str] = []

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> "Display":
        assert raw
        assert display_id
        self.outputs.append(data["text/plain"])
        return self

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.outputs[-1] = data["text/plain"]


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Display:
    """Let the program run in a notebook."""
    display = Display()
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    monkeypatch.setattr(progress_bar, "require", lambda _: display)
    return display


async def test_a_notebook_has_a_line_for_each_pull(
    tmp_path: Path, display: Display, capsys: pytest.CaptureFixture[str]
) -> None:
    bar = ProgressBar()
    await pull(tmp_path, bar=bar)
    await pull(tmp_path, Account(), bar=bar)
    assert display.outputs == [f"{BAR} done, 1 row, 1 failed", f"{BAR} done, 2 rows"]
    assert capsys.readouterr().out == ""


async def test_a_failed_pull_leaves_no_empty_bar(tmp_path: Path, display: Display) -> None:
    with pytest.raises(AuthenticationError):
        await pull(tmp_path, Account(lists=False))
    assert display.outputs == []
