"""Sessions of the command, compared word for word.

They are pages as `tests.golden` describes them. A line after `$` is run, `>` begins a line of
stdout, `!` one of stderr, and `[4]` is an exit code that is not 0. `>` at the end of a line names a
file for stdout. JSON over several lines is shown on one.

Besides `seorep` there are these commands:

- `serve`: a sandbox that the environment names, on the same port each time
- `requests`: the requests of the sandbox since they were last counted
- `export`, `unset`, `write`
- `profile`: a pull with these lines in the profile, beside a usual address and key
- `stdin`: the next command's stdin, with escapes
- `replies`: what a person replies to the next questions; an empty reply says no
- `sh`: a line of a shell, in which `seorep` is a process
- `ls`: files, without those that every pull writes beside its rows
- `sql`: a query of files, or of the database that is named first
- `nights`: a database of nights from 1 March 2023 on, with the ranks of each: `{11: 12, 21: 2}` are
  keyword 11 of campaign 1, and 21 of campaign 2
- `sheets`: the look and the rows of all or some sheets of a workbook
"""

import ast
import contextlib
import datetime as dt
import io
import itertools
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import duckdb
import openpyxl
import pytest

from seorep_async import guides
from seorep_async.cli.app import run
from seorep_async.sandbox import Sandbox
from seorep_async.session import Clock
from tests.cli.running import KEY, TODAY, serving, shell
from tests.golden import Page
from tests.history.databases import FIRST, database_of, pull_of_night

FOLDER = Path(__file__).with_name("sessions")
SESSIONS = sorted(FOLDER.glob("*.txt"))
HEAVY = {"failures", "history", "months", "pull", "readings", "shell"}
PYTHON_WORDS = re.compile(r"\b(None|True|False|Settings|self|seorep_async)\b")
"""Arguments and values of Python, which no message of the command may mention."""
VARYING = {
    r"^Usage: seorep.*\nTry 'seorep .*--help' for help\.\n\n": "",
    r"127\.0\.0\.1:\d+": "127.0.0.1:PORT",
    # no session names a day after 2023
    r"20(?:2[4-9]|[3-9]\d)-\d\d-\d\d(?:[ T]\d\d:[\d:.]+)?": "TODAY",
    r"Time       .*": "Time       T",
    r"after \d+ ms": "after T ms",
    r"(\"(?:seconds|pull|bytes)\": )[^,}]*": r"\1…",
    r"(\"waited\": \{)[^}]*": r"\1…",
    r"((?:duckdb|xlsx) \()\d.*?\)": r"\1SIZE)",
    r"[\d.]+ GB free": "SIZE free",
    r"\b[0-9a-f]{64}\b": "TOKEN",
    r"duckdb [\d.]+, pyarrow [\d.]+": "duckdb VERSION, pyarrow VERSION",
    r"by seorep \d[\w.]*": "by seorep VERSION",
    r"\b[0-9a-f]{32} \| \d+\.\d+\.[\w.]+$": "DIGEST | VERSION",
}
"""Text that differs between runs, and its replacement."""
USUAL_PROFILE = {"base_url": "base_url = 'https://api.example.com'", "key": f"key = '{KEY}'"}
VARIABLES = (
    "SEOREP_BASE_URL",
    "SEOREP_API_KEY",
    "SEOREP_PROFILE",
    "SEOREP_REPORT_ENGINES",
)
SIDE_FILES = re.compile(r"\.(campaigns|keywords|pulls|totals|failures)\.")


def constant(text: str) -> str:
    text = text.replace(os.getcwd(), "FOLDER")
    for pattern, instead in VARYING.items():
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text


def on_one_line(text: str) -> str:
    """Return the indented JSON that a command prints as one line, anything else as it is."""
    try:
        facts = json.loads(text)
    except ValueError:
        return text
    indented = json.dumps(facts, ensure_ascii=False, indent=2) + "\n"
    if text != indented:
        return text
    return json.dumps(facts, ensure_ascii=False) + "\n"


class Session:
    """Runs the lines of a session in the current folder.

    Args:
        ending: closes what the session opens.
    """

    def __init__(self, ending: contextlib.ExitStack) -> None:
        self._ending = ending
        self._serving: contextlib.ExitStack | None = None
        self._port = 0
        self._counted_requests = 0
        self._sandbox: Sandbox | None = None

    def lines_of(self, line: str) -> Iterator[str]:
        """Run a line. Return its marked output, and the exit code unless it is 0."""
        line, _, file = line.partition(" > ")
        command, *words = shlex.split(line)
        out = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")
        err = io.StringIO()
        code = 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            if command == "profile":
                self.profile(*words)
                code = run(["pull", "--profile", "acme"], today=TODAY)
            elif command == "seorep":
                code = run(words, today=TODAY)
            elif command == "sh":
                ended = shell(*words)
                print(ended.stdout, end="")
                print(ended.stderr, end="", file=sys.stderr)
                code = ended.returncode
            else:
                print(*getattr(self, command)(*words), sep="\n", end="")
            out.flush()
        assert isinstance(out.buffer, io.BytesIO)
        text = on_one_line(out.buffer.getvalue().decode())
        if file:
            self.write(file, *text.splitlines())
            text = ""
        for out_line in constant(text).splitlines():
            yield f"> {out_line}".rstrip()
        for err_line in constant(err.getvalue()).splitlines():
            yield f"! {err_line}".rstrip()
        if code:
            yield f"[{code}]"

    def serve(self, *options: str) -> list[str]:
        values = {"port": self._port}
        for option in options:
            name, _, value = option.partition("=")
            values[name] = ast.literal_eval(value)
        if self._serving is not None:
            self._serving.close()
        self._serving = self._ending.enter_context(contextlib.ExitStack())
        self._sandbox = self._serving.enter_context(serving(**values))
        self._port = int(self._sandbox.base_url.rpartition(":")[2])
        self._counted_requests = 0
        os.environ["SEOREP_BASE_URL"] = self._sandbox.base_url
        os.environ["SEOREP_API_KEY"] = self._sandbox.api_key
        return []

    def requests(self) -> list[str]:
        assert self._sandbox is not None
        before = self._counted_requests
        self._counted_requests = self._sandbox.stats.requests
        return [str(self._counted_requests - before)]

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
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{os.path.expandvars(line)}\n" for line in lines)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        return []

    def profile(self, *lines: str) -> None:
        names = {line.partition(" ")[0] for line in lines}
        usual = [line for name, line in USUAL_PROFILE.items() if name not in names]
        self.write(".config/seorep/config.toml", "[acme]", *lines, *usual)

    def stdin(self, content: str) -> list[str]:
        escaped = content.encode("latin-1", "backslashreplace")
        data = escaped.decode("unicode_escape").encode("latin-1")
        stdin = io.TextIOWrapper(io.BytesIO(data), "utf-8")
        self._ending.enter_context(patch("sys.stdin", stdin))
        return []

    def replies(self, *replies: str) -> list[str]:
        left = map(os.path.expandvars, replies)

        def reply_to(question: str, **_: object) -> str:
            print(question, file=sys.stderr)
            return next(left)

        for name in ("click.prompt", "click.confirm"):
            self._ending.enter_context(patch(name, reply_to))
        for name in ("login.can_ask", "output.can_ask"):
            self._ending.enter_context(patch(f"seorep_async.cli.{name}", lambda: True))
        return []

    def ls(self) -> list[str]:
        names = {path.name for path in Path().iterdir()} - {".config"}
        return sorted(name for name in names if not SIDE_FILES.search(name))

    def sql(self, *words: str) -> list[str]:
        *files, query = words
        with duckdb.connect(files[0] if files else ":memory:") as database:
            rows = database.execute(query).fetchall()
        return [" ".join(map(str, row)) for row in rows]

    def nights(self, name: str, *nights: str) -> list[str]:
        first = (dt.date(2023, 3, 1) - FIRST).days
        ranks = map(ast.literal_eval, nights)
        database_of(Path(name), itertools.starmap(pull_of_night, enumerate(ranks, first)))
        return []

    def sheets(self, name: str, *titles: str) -> list[str]:
        workbook = openpyxl.load_workbook(name)
        lines = []
        for title in titles or workbook.sheetnames:
            sheet = workbook[title]
            page = sheet.page_setup
            look = [sheet.sheet_state, sheet.freeze_panes, sheet.auto_filter.ref]
            look += [sheet.print_area, sheet.print_title_rows, sheet.print_title_cols]
            look += [page.orientation, sheet.sheet_properties.pageSetUpPr.fitToPage]
            look += [page.fitToHeight, sheet.oddHeader.left.text, sheet.oddFooter.right.text]
            for cells in sheet.conditional_formatting:
                look += [rule.operator for rule in cells.rules]
            lines.append(f"[{title}] {' '.join(map(str, look))}")
            for row in sheet.values:
                lines.append(" | ".join("" if cell is None else str(cell) for cell in row))
        return lines


def replay(session: Path) -> None:
    """Run the lines of a session in an empty folder, and compare what they print."""
    page = Page(session)
    with contextlib.ExitStack() as ending:
        folder = ending.enter_context(tempfile.TemporaryDirectory())
        ending.enter_context(contextlib.chdir(folder))
        environment = {"XDG_CONFIG_HOME": f"{os.getcwd()}/.config", "COLUMNS": "80"}
        ending.enter_context(patch.dict(os.environ, environment))
        at_once = Clock(jitter=lambda: 0.0)  # retries do not wait
        ending.enter_context(patch("seorep_async.session.clock.SYSTEM", at_once))
        for name in VARIABLES:
            os.environ.pop(name, None)
        running = Session(ending)
        for line in page.questions():
            page.lines += running.lines_of(line)
    page.compare()


@pytest.mark.parametrize(
    ("session", "never"), [("usage", PYTHON_WORDS), ("usage", "s3cret"), ("profiles", "s3cret")]
)
def test_no_refusal_speaks_python_or_repeats_a_secret(
    session: str, never: str | re.Pattern[str]
) -> None:
    text = (FOLDER / f"{session}.txt").read_text(encoding="utf-8")
    # the doctor's refusals are on stdout
    refusals = [line for line in text.splitlines() if line.startswith(("! ", "> FAIL", "> note"))]
    assert len(refusals) > 40
    assert [line for line in refusals if re.search(never, line)] == []


@pytest.mark.usefixtures("tables_at_once", "port")
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.heavy] if path.stem in HEAVY else [], id=path.stem)
        for path in SESSIONS
    ],
)
def test_a_session_matches_its_golden(path: Path) -> None:
    replay(path)


def test_the_guide_shows_what_a_first_pull_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "TODAY", dt.date(2026, 11, 27))
    page = guides.pages()["command"]
    (transcript,) = re.findall(r"```console\n(\$ .*?)```", page, re.DOTALL)
    lines = re.sub(r"^(?=[^$\n])", "! ", constant(transcript), flags=re.MULTILINE)
    session = tmp_path / "session.txt"
    session.write_text(lines, encoding="utf-8")
    replay(session)
