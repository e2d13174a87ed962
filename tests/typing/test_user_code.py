"""The types that users see."""

import datetime as dt
import pathlib
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Literal, get_type_hints

import attrs
import pytest

import seorep_async
from seorep_async import RankingTotals, SearchLanguage, SearchLocation, Tag, models
from tests.models.reference import REFERENCE
from tests.processes import run_python

HERE = pathlib.Path(__file__).parent
REPO = HERE.parent.parent
USER_CODE = HERE / "user_code.py"
REQUIRED = {"id", "phrase", "month", "period"}
"""The kinds of fields of the reference that are never None."""
KINDS: dict[str, Any] = dict.fromkeys(("id", "integer", "metric"), int)
KINDS |= dict.fromkeys(("phrase", "text", "null"), str)
KINDS |= dict.fromkeys(("day", "last", "month", "period"), dt.date)
KINDS |= {
    "flag": bool,
    "moment": dt.datetime,
    "unknown": Any,
    "location": SearchLocation,
    "language": SearchLanguage,
    "tags": tuple[Tag, ...],
}
"""The type of each kind of field, or Any if the reference does not show it."""
PRECISION = Literal["month", "day"]
OTHERS = {
    "RankingReport": """
        feed: Feed, id: int, start_date: dt.date, end_date: dt.date, rows: tuple[R_co, ...],
        totals: RankingTotals | None, total_records: int | None, version: bool | None,
        extra: Mapping[str, Any], account: str | None, snapshot_date: dt.date | None,
        compared: bool
    """,
    "Page": """
        items: tuple[T, ...], number: int, total_pages: int | None, total_records: int | None,
        totals: RankingTotals | None, version: bool | None, extra: Mapping[str, Any]
    """,
    "PullOutcome": """
        id: int, report: RankingReport[R_co] | None, error: SeoRepError | None, ok: bool
    """,
    "PulledReport": "id: int, report: RankingReport[R_co], error: None, ok: Literal[True]",
    "FailedReport": "id: int, error: SeoRepError, report: None, ok: Literal[False]",
    "Stats": """
        requests: int, attempts: int, retries: Mapping[str, int], throttled: int,
        bytes_received: int, in_flight: int, concurrency: int, pace: float | None,
        waited: Mapping[str, float], account: str, page_sizes: Mapping[str, int],
        outage: float | None
    """,
    "RawAnswer": """
        method: str, path: str, status: int, body: bytes, headers: Mapping[str, str], number: int,
        seconds: float
    """,
    "Attempt": """
        method: str, path: str, subject: str | None, number: int, status: int | None,
        error: type[BaseException] | None, cause: str | None, bytes: int, seconds: float,
        waited: float, account: str
    """,
}


@pytest.mark.slow
def test_user_code_has_its_stated_types() -> None:
    pytest.importorskip("mypy")
    checked = run_python("-m", "mypy", "--strict", str(USER_CODE), cwd=REPO)
    assert checked.returncode == 0, checked.stdout + checked.stderr


CHECKERS = {
    "mypy": ["--strict"],
    "pyright": ["--pythonpath", sys.executable],
    "ty": ["check", "--python", sys.executable],
    "pyrefly": ["check"],
}
"""The arguments of each type checker."""


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_program_passes_every_type_checker(checker: str) -> None:
    executable = pathlib.Path(sys.executable).with_name(checker)
    if not executable.exists():
        pytest.skip(f"{checker} is not installed")
    command = [str(executable), *CHECKERS[checker], str(HERE / "program.py")]
    checked = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("model", REFERENCE, ids=lambda model: str(model.__name__))
def test_a_field_has_the_type_that_the_reference_shows(model: type) -> None:
    hints = get_type_hints(model)
    expected: dict[str, Any] = {"extra": Mapping[str, Any]}
    if "date_precision" in hints:
        expected["date_precision"] = PRECISION
    for line in REFERENCE[model]:
        kind: Any = float if model is RankingTotals else KINDS[line.kind]
        if line.kind not in {*REQUIRED, "tags", "unknown"}:
            kind |= None
        expected[line.attribute] = kind
    declared = {field.name: hints[field.name] for field in attrs.fields(model)}
    assert declared == expected


@pytest.mark.parametrize("name", OTHERS)
def test_a_field_of_another_public_value_has_its_type(name: str) -> None:
    declared = [
        f"{field.name}: {field.type}" for field in attrs.fields(getattr(seorep_async, name))
    ]
    assert ", ".join(declared) == " ".join(OTHERS[name].split())


def test_the_types_of_all_public_values_are_checked() -> None:
    public = {name for name, value in vars(models).items() if isinstance(value, type)}
    checked = {model.__name__ for model in REFERENCE} | OTHERS.keys()
    assert checked == public - {"Feed"} | OTHERS.keys()
