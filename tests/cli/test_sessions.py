"""Sessions of the command, word for word as they were read: `python -m tests.cli.test_sessions` rewrites them.

In a file of `sessions/`, a line after `$` is run, `>` begins a line of stdout, `!` one of stderr, and `[4]` is an exit
code that is not 0. `>` at the end of a line names a file for stdout. Besides `seorep` there are `serve` (a sandbox that
the environment names, on the same port each time), `export`, `unset`, `write`, `profile` (a pull with these lines in the
profile, beside a usual address and key), `stdin` (what the next command reads there, with escapes), `ls` (without what
every pull writes beside its rows), `sql` (asked of files, or of the database that is named first) and `requests` (of
the sandbox, since they were last counted). JSON over several lines is shown on one, without click's lines on usage.
"""

import ast
import contextlib
import datetime as dt
import io
import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import duckdb
import pytest

from seorep_async import guides
from seorep_async.cli.app import run
from seorep_async.sandbox import Sandbox
from seorep_async.session import Clock
from tests.cli.running import KEY, TODAY, serving

SESSIONS = sorted(Path(__file__).with_name("sessions").glob("*.txt"))
HEAVY = {"failures", "history", "months", "pull"}
PYTHON_WORDS = re.compile(r"\b(None|True|False|Settings|self|seorep_async)\b")
"""What no refusal says: arguments and values of Python."""
VARYING = {
    r"^Usage: seorep.*\nTry 'seorep .*--help' for help\.\n\n": "",
    r"127\.0\.0\.1:\d+": "127.0.0.1:PORT",
    r"20(?:2[4-9]|[3-9]\d)-\d\d-\d\d(?:[ T]\d\d:[\d:.]+)?": "TODAY",  # no session names a day after 2023
    r"Time       .*": "Time       T",
    r"after \d+ ms": "after T ms",
    r"(\"(?:seconds|pull|bytes)\": )[^,}]*": r"\1…",
    r"(\"waited\": \{)[^}]*": r"\1…",
    r"(duckdb \()\d.*?\)": r"\1SIZE)",
    r"[\d.]+ GB free": "SIZE free",
    r"duckdb [\d.]+, pyarrow [\d.]+": "duckdb VERSION, pyarrow VERSION",
    r"by seorep \d[\w.]*": "by seorep VERSION",
}
"""What is not the same each time, and what stands in its place."""


def constant(text: str) -> str:
    text = text.replace(os.getcwd(), "FOLDER")
    for pattern, instead in VARYING.items():
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text


def _on_one_line(shown: str) -> str:
    """Return the indented JSON that a command prints as one line, anything else as it is."""
    try:
        found = json.loads(shown)
    except ValueError:
        return shown
    whole = json.dumps(found, ensure_ascii=False, indent=2) + "\n"
    return json.dumps(found, ensure_ascii=False) + "\n" if shown == whole else shown


class Session:
    """Runs the lines of a session in the current folder."""

    def __init__(self, ending: contextlib.ExitStack) -> None:
        self._ending = ending
        self._serving: contextlib.ExitStack | None = None
        self._port = self._counted = 0
        self._sandbox: Sandbox | None = None

    def lines_of(self, line: str) -> Iterator[str]:
        """Run a line; give what it prints, marked, and the exit code unless that is 0."""
        line, _, file = line.partition(" > ")
        command, *words = shlex.split(line)
        out, err, code = io.TextIOWrapper(io.BytesIO(), "utf-8", newline=""), io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            if command == "profile":
                self.profile(*words)
                command, words = "seorep", ["pull", "--profile", "acme"]
            if command == "seorep":
                code = run(words, today=TODAY)
            else:
                print(*getattr(self, command)(*words), sep="\n", end="")
            out.flush()
        assert isinstance(out.buffer, io.BytesIO)
        shown = _on_one_line(out.buffer.getvalue().decode())
        if file:
            self.write(file, *shown.splitlines())
            shown = ""
        yield from (f"> {each}".rstrip() for each in constant(shown).splitlines())
        yield from (f"! {each}".rstrip() for each in constant(err.getvalue()).splitlines())
        if code:
            yield f"[{code}]"

    def serve(self, *options: str) -> list[str]:
        given = {
            name: ast.literal_eval(value)
            for name, _, value in (option.partition("=") for option in options)
        }
        if self._serving is not None:
            self._serving.close()
        self._serving = self._ending.enter_context(contextlib.ExitStack())
        self._sandbox = self._serving.enter_context(serving(**{"port": self._port, **given}))
        self._port, self._counted = int(self._sandbox.base_url.rpartition(":")[2]), 0
        return self.export(
            f"SEOREP_BASE_URL={self._sandbox.base_url}", f"SEOREP_API_KEY={self._sandbox.api_key}"
        )

    def requests(self) -> list[str]:
        assert self._sandbox is not None
        before, self._counted = self._counted, self._sandbox.stats.requests
        return [str(self._counted - before)]

    def export(self, *variables: str) -> list[str]:
        for variable in variables:
            name, _, value = variable.partition("=")
            os.environ[name] = os.path.expandvars(value)
        return []

    def unset(self, *names: str) -> list[str]:
        for name in names:
            del os.environ[name]
        return []

    def write(self, name: str, *lines: str) -> list[str]:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(
            "".join(f"{os.path.expandvars(line)}\n" for line in lines), encoding="utf-8"
        )
        Path(name).chmod(0o600)
        return []

    def profile(self, *lines: str) -> None:
        usual = {"base_url": "base_url = 'https://api.example.com'", "key": f"key = '{KEY}'"}
        others = (
            line
            for name, line in usual.items()
            if not any(re.match(rf"(api_)?{name}", one) for one in lines)
        )
        self.write(".config/seorep/config.toml", "[acme]", *lines, *others)

    def stdin(self, content: str) -> list[str]:
        data = (
            content.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1")
        )
        self._ending.enter_context(patch("sys.stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8")))
        return []

    def ls(self) -> list[str]:
        beside = re.compile(r"\.(campaigns|keywords|pulls|totals|failures)\.")
        return sorted(
            path.name
            for path in Path().iterdir()
            if not beside.search(path.name) and path.name != ".config"
        )

    def sql(self, *words: str) -> list[str]:
        *files, query = words
        with duckdb.connect(files[0] if files else ":memory:") as database:
            return [" ".join(map(str, row)) for row in database.execute(query).fetchall()]


def replayed(session: str) -> str:
    """Run the lines of a session in an empty folder; return it with what they print now."""
    names = ("SEOREP_BASE_URL", "SEOREP_API_KEY", "SEOREP_PROFILE")
    with contextlib.ExitStack() as ending:
        folder = ending.enter_context(tempfile.TemporaryDirectory())
        ending.enter_context(contextlib.chdir(folder))
        ending.enter_context(
            patch.dict(os.environ, XDG_CONFIG_HOME=f"{os.getcwd()}/.config", COLUMNS="80")
        )
        ending.enter_context(
            patch("seorep_async.session.clock.SYSTEM", Clock(jitter=lambda: 0.0))
        )  # retries at once
        for name in names:
            os.environ.pop(name, None)
        running = Session(ending)
        lines: list[str] = []
        for line in session.splitlines():
            if line.startswith("$ "):
                lines += [line, *running.lines_of(line[2:])]
            elif not line.startswith((">", "!", "[")):
                lines.append(line)
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize(
    ("session", "never"), [("usage", PYTHON_WORDS), ("usage", "s3cret"), ("profiles", "s3cret")]
)
def test_no_refusal_speaks_python_or_repeats_a_secret(
    session: str, never: str | re.Pattern[str]
) -> None:
    lines = (
        Path(__file__)
        .with_name("sessions")
        .joinpath(f"{session}.txt")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    refusals = [line for line in lines if line.startswith("! ")]
    assert len(refusals) > 60
    assert [line for line in refusals if re.search(never, line)] == []


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.heavy][: path.stem in HEAVY], id=path.stem)
        for path in SESSIONS
    ],
)
def test_a_session_is_as_it_was_read(path: Path) -> None:
    session = path.read_text(encoding="utf-8")
    assert replayed(session) == session


def test_the_guide_shows_what_a_first_pull_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "TODAY", dt.date(2026, 11, 27))
    (shown,) = re.findall(r"```console\n(.*?)```", guides.pages()["command"], re.DOTALL)
    session = re.sub(r"^(?=[^$\n])", "! ", constant(shown), flags=re.MULTILINE)
    assert replayed(session) == session


if __name__ == "__main__":
    for each in SESSIONS:
        each.write_text(replayed(each.read_text(encoding="utf-8")), encoding="utf-8")
