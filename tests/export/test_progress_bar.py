"""The progress bar shows itself in notebooks and on terminals, and nowhere else."""

import builtins
import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seorep_async import AuthenticationError
from seorep_async.export import ProgressBar, progress_bar, pull_to
from tests.export.accounts import Account, served


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def pull(
    tmp_path: Path, account: Account | None = None, bar: ProgressBar | None = None
) -> None:
    async with served(account or Account(hidden={2: 404})) as (client, _):
        await pull_to(
            client,
            None,
            "2023-03-01",
            "2023-03-31",
            out=tmp_path / "x.csv",
            on_progress=bar or ProgressBar(),
        )


async def test_a_terminal_has_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    await pull(tmp_path)
    lines = terminal.getvalue().split("\r")
    assert "listing campaigns" in lines[1]
    assert f"{'█' * 20} pulling rows, 2 of 2, 1 row, 1 failed" in lines[-3]
    assert f"{'█' * 20} writing, 1 row, 1 failed" in lines[-2]
    assert f"{'█' * 20} done, 1 row, 1 failed\n" in lines[-1]
    assert terminal.getvalue().count("\n") == 1


async def test_a_log_has_no_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await pull(tmp_path)
    assert capsys.readouterr().err == ""


class Widgets:
    """A stand-in for ipywidgets and IPython.display."""

    def __init__(self) -> None:
        self.bar = SimpleNamespace()
        self.label = SimpleNamespace()
        self.displayed: list[Any] = []

    def IntProgress(self, **_: int) -> SimpleNamespace:
        return self.bar

    def Label(self) -> SimpleNamespace:
        return self.label

    def HBox(self, children: list[Any]) -> list[Any]:
        return children

    def display(self, box: Any) -> None:
        self.displayed.append(box)


@pytest.fixture
def widgets(monkeypatch: pytest.MonkeyPatch) -> Widgets:
    """Let the program run in a notebook."""
    widgets = Widgets()
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    monkeypatch.setattr(progress_bar, "require", lambda _: widgets)
    return widgets


async def test_a_notebook_has_a_widget(tmp_path: Path, widgets: Widgets) -> None:
    await pull(tmp_path)
    assert widgets.displayed == [[widgets.bar, widgets.label]]
    assert widgets.label.value == "done, 1 row, 1 failed"
    assert (widgets.bar.value, widgets.bar.max) == (1, 1)
    assert widgets.bar.bar_style == "warning"


async def test_a_failed_pull_leaves_no_empty_bar(tmp_path: Path, widgets: Widgets) -> None:
    with pytest.raises(AuthenticationError):
        await pull(tmp_path, Account(lists=False))
    assert widgets.displayed == []


class Display:
    """A stand-in for IPython.display: one output, which is updated."""

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
def display(widgets: Widgets, monkeypatch: pytest.MonkeyPatch) -> Display:
    """Let the program run in a notebook without ipywidgets."""
    display = Display()

    def require(name: str) -> Display:
        if name == "ipywidgets":
            raise ImportError
        return display

    monkeypatch.setattr(progress_bar, "require", require)
    return display


async def test_a_notebook_without_widgets_has_one_line(
    tmp_path: Path, display: Display, capsys: pytest.CaptureFixture[str]
) -> None:
    await pull(tmp_path)
    assert display.outputs == [f"{'█' * 20} done, 1 row, 1 failed"]
    assert capsys.readouterr().out == ""


async def test_each_pull_of_a_bar_has_a_line(tmp_path: Path, display: Display) -> None:
    bar = ProgressBar()
    await pull(tmp_path, bar=bar)
    await pull(tmp_path, Account(), bar=bar)
    assert [line.split(" ", 1)[1] for line in display.outputs] == [
        "done, 1 row, 1 failed",
        "done, 2 rows",
    ]
