"""Record `seorep pull` in a terminal: one that succeeds, and one that is interrupted and resumed.

    python .recordings/record.py

It types at a real shell in a real terminal of 100 columns, against `seorep sandbox`, and draws the screen
as `pull.svg` and `resumed.svg` beside this file. It needs `seorep-async[test]`, a system with pseudo-terminals, the
sandbox's port free, and about a minute.

The line that shows progress vanishes when a pull ends; a recording keeps one moment of it.
"""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
COLUMNS, ROWS = 100, 30
PROMPT = "$ "
STYLES = re.compile(r"\x1b\[[\d;]*m")
PULL = "seorep pull -o rankings.parquet"
CTRL_C = "\x03"


class Terminal:
    """A shell in a terminal, and its screen, which understands the control sequences that rich uses here."""

    def __init__(self, folder: str, address: str) -> None:
        environment = {
            "PATH": f"{BIN}{os.pathsep}{os.defpath}",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }
        environment |= {
            "HOME": folder,
            "PS1": PROMPT,
            "SEOREP_BASE_URL": address,
            "SEOREP_API_KEY": "sandbox",
        }
        self._lines, self._row = [""], 0
        self._shell, self._keyboard = pty.fork()
        if not self._shell:
            os.chdir(folder)
            os.execvpe("sh", ["sh", "-i"], environment)  # noqa: S606, S607
        termios.tcsetwinsize(self._keyboard, (ROWS, COLUMNS))
        self._screen = os.fdopen(self._keyboard, encoding="utf-8", newline="")

    def run(self, command: str) -> None:
        """Type a command when the one before has ended."""
        self.wait_for_prompt()
        self.press(command + "\n")
        self.wait_for(re.escape(command))

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._keyboard, keys.encode())

    def wait_for_prompt(self) -> None:
        """Wait until the last command has ended."""
        self.wait_for(f"^{re.escape(PROMPT)}$")

    def wait_for(self, pattern: str, *, keep: bool = False) -> None:
        """Wait until the line that is being written matches; with `keep`, leave a copy of it on the screen."""
        line = ""
        while not re.search(pattern, line):
            if line == PROMPT:
                raise RuntimeError(f"the command ended without {pattern!r}")
            self._read()
            line = STYLES.sub("", self._lines[self._row])
            if len(line) > COLUMNS:
                raise NotImplementedError(f"a terminal would wrap {line!r}")
        if keep:
            while self._read() != "\r":
                pass  # it goes on
            self._lines.insert(self._row, self._lines[self._row])
            self._row += 1

    def draw(self, file: Path, title: str) -> None:
        """Draw all but the last prompt."""
        console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False)
        for line in self._lines[: self._row]:
            console.print(Text.from_ansi(line))
        svg = console.export_svg(title=title, unique_id=file.stem)
        svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # fetched from elsewhere
        svg = svg.replace("Fira Code, monospace", "monospace")
        file.write_text(svg, encoding="utf-8")

    def close(self) -> None:
        """Hang up."""
        self._screen.close()
        os.waitpid(self._shell, 0)

    def _read(self) -> str:
        match letter := self._screen.read(1):
            case "\n":
                self._row += 1
                self._lines += [""] * (self._row == len(self._lines))
            case "\x1b":
                self._obey(self._screen.read(2))
            case "\r":
                pass  # a new line follows, or this one is emptied
            case _:
                self._lines[self._row] += letter
        return letter

    def _obey(self, sequence: str) -> None:
        while not sequence[-1].isalpha():
            sequence += self._screen.read(1)
        match sequence:
            case "[2K":
                self._lines[self._row] = ""
            case "[1A":
                self._row -= 1
            case "[?25l" | "[?25h":
                pass  # the cursor is not drawn
            case _ if sequence.endswith("m"):
                self._lines[self._row] += f"\x1b{sequence}"
            case _:
                raise NotImplementedError(f"the terminal was sent {sequence!r}")


@contextlib.contextmanager
def recording(name: str, title: str) -> Iterator[Terminal]:
    """Give a terminal in which to pull from a sandbox, and draw it in the end."""
    command = [str(BIN / "seorep"), "sandbox", "--campaigns=80", "--latency=0.7"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sandbox,  # noqa: S603
        contextlib.ExitStack() as stack,
    ):
        stack.callback(sandbox.terminate)
        address = next(line.split()[1] for line in sandbox.stdout or () if "Address" in line)
        terminal = Terminal(folder, address)
        stack.callback(terminal.close)
        yield terminal
        terminal.wait_for_prompt()
        terminal.draw(HERE / f"{name}.svg", title)


def main() -> None:
    """Make both recordings."""
    with recording("pull", "A pull") as terminal:
        terminal.run(PULL)
        terminal.wait_for(" [45]./80 .* left", keep=True)
        terminal.run("echo $?")

    with recording("resumed", "A pull that was interrupted, and resumed") as terminal:
        terminal.run(PULL)
        terminal.wait_for(" [45]./80 .* left")
        terminal.press(CTRL_C)
        terminal.wait_for(r"\^C", keep=True)
        terminal.run("echo $?")
        terminal.run(PULL)
        terminal.wait_for(" [67]./80 .* left", keep=True)
        terminal.run("echo $?")


if __name__ == "__main__":
    main()
