"""A history opens a database only for reading, without access to other files; complete windows."""

import datetime as dt
import shutil
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import duckdb
import pytest

from seorep_async import ConfigurationError, ExportError, Feed
from seorep_async.export.database_use import use_of
from seorep_async.history import changes, comparing, complete_windows, open_history, source
from tests.history.databases import (
    Pull,
    change,
    database_of,
    day,
    insert,
    nightly,
    opened,
)
from tests.processes import opening_a_database


@pytest.fixture(scope="module")
def two_accounts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("accounts")
    database_of(folder, nightly({11: 1}, {11: 2}))
    return database_of(folder, nightly({11: 9}, account="other"))


@pytest.fixture
def database(two_accounts: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(two_accounts, tmp_path))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (3, "must be the path of a file, got 3"),
        ("missing.duckdb", "there is no such file; .* with seorep pull -o rankings.duckdb"),
        ("text.duckdb", "it is not a DuckDB database"),
        ("sqlite.duckdb", "it is not a DuckDB database"),
        ("own.duckdb", "it has no table keyword_rankings"),
        ("empty.duckdb", "no pull wrote it"),
        (".", "there is no such file"),
        ("a\0b", "there is no such file"),
        ("what?/a.duckdb", r"DuckDB takes no path with a \? or a \\ in it"),
        ("caf\udce9.duckdb", "its name is not UTF-8"),
    ],
)
def test_a_file_that_no_pull_wrote_is_refused(tmp_path: Path, name: Any, words: str) -> None:
    (tmp_path / "text.duckdb").write_text("no database")
    (tmp_path / "sqlite.duckdb").write_bytes(b"SQLite format 3\0" + bytes(4080))
    change(tmp_path / "own.duckdb", "CREATE TABLE pulls (account VARCHAR)")
    (tmp_path / "what?").mkdir()
    shutil.copy(database_of(tmp_path / "empty.duckdb", []), tmp_path / "what?" / "a.duckdb")
    shutil.copy(tmp_path / "empty.duckdb", tmp_path / "caf\udce9.duckdb")
    with (
        pytest.raises(ConfigurationError, match=words),
        open_history(tmp_path / name if isinstance(name, str) else name),
    ):
        pass


def test_a_database_that_answers_otherwise_is_refused(database: Path) -> None:
    change(database, "ALTER TABLE totals RENAME TO mine; CREATE VIEW totals AS FROM mine")
    with pytest.raises(ConfigurationError, match="its view totals was not made by a pull"):
        changes(database, account="acme", moved=1)


@pytest.mark.parametrize(
    "added",
    [
        "ALTER TABLE campaigns ADD COLUMN engine VARCHAR; "
        "ALTER TABLE campaigns ADD COLUMN keyword_phrase VARCHAR",
        "ALTER TABLE pulls ADD COLUMN feed VARCHAR DEFAULT 'mine'",
        "INSERT INTO campaigns FROM campaigns",
        "CREATE TABLE mine AS FROM pulls",
    ],
)
def test_tables_of_other_programs_change_no_answer(database: Path, added: str) -> None:
    before = [*changes(database, account="acme", moved=1)]
    change(database, added)
    assert [*changes(database, account="acme", moved=1)] == before != []


def test_a_damaged_answer_is_an_export_error(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = comparing._CHANGES.replace("kinds <> ''", "error('damaged ' || keyword_id)")
    monkeypatch.setattr(comparing, "_CHANGES", damaged)
    with pytest.raises(ExportError, match=r"can't read .*a.duckdb: .*damaged"):
        changes(database, account="acme", moved=1)


def by_another_program(use: ExitStack, database: Path) -> None:
    use.enter_context(opening_a_database(database))


def by_this_program(use: ExitStack, database: Path) -> None:
    use.enter_context(duckdb.connect(str(database)))


def by_a_pull(use: ExitStack, database: Path) -> None:
    use.enter_context(use_of(database).writing())
    by_this_program(use, database)


@pytest.mark.parametrize(
    ("is_written", "words"),
    [
        (
            by_another_program,
            r"it is open in another program \(process \d+\), or a pull is writing it",
        ),
        (by_this_program, r"has it open already; .* restart the kernel"),
        (by_a_pull, "a pull of this program is writing it"),
    ],
)
def test_a_database_that_is_being_written_is_waited_for_or_named(
    database: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_written: Callable[[ExitStack, Path], None],
    words: str,
) -> None:
    with ExitStack() as use:
        is_written(use, database)
        monkeypatch.setattr(source, "WAIT_SECONDS", 0.0)
        with pytest.raises(ExportError, match=words):
            changes(database)
        monkeypatch.setattr(source, "WAIT_SECONDS", 60.0)
        # the use ends while the question waits
        monkeypatch.setattr("time.sleep", lambda _: use.close())
        assert len(changes(database, account="acme", moved=1)) == 1


def test_many_threads_read_a_database_at_once(database: Path) -> None:
    with open_history(database) as history, ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda _: len(changes(database, account="acme")), range(8)))
        assert results == [len(changes(database, account="acme"))] * 8
        assert history.accounts() == ["acme", "other"]


def test_a_history_with_other_limits_waits(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"memory_limit": "100MB"}
    with ExitStack() as stack:
        stack.enter_context(open_history(database))
        with (
            pytest.raises(ExportError, match="this program has it open"),
            open_history(database, limits=limits),
        ):
            pass
        monkeypatch.setattr("time.sleep", lambda _: stack.close())
        with open_history(database, limits=limits, wait_seconds=60.0) as history:
            query = "SELECT current_setting('memory_limit')"
            assert history.connection.execute(query).fetchone() == ("95.3 MiB",)


def test_a_waiting_pull_of_this_program_goes_first(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = use_of(database)
    use.waiting_pulls = 1
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        use.waiting_pulls = 0

    monkeypatch.setattr("time.sleep", nap)
    assert len(changes(database, account="acme", moved=1)) == 1
    assert len(naps) == 1


@pytest.mark.parametrize(("handler", "error"), [(None, KeyboardInterrupt), (print, RuntimeError)])
def test_a_query_ended_by_ctrl_c_is_an_interrupt(
    database: Path, monkeypatch: pytest.MonkeyPatch, handler: object, error: type[BaseException]
) -> None:
    monkeypatch.setattr("signal.getsignal", {signal.SIGALRM: handler}.get)
    with pytest.raises(error), open_history(database):
        raise RuntimeError("Query interrupted")  # as DuckDB raises where a signal came


# --- Windows that are complete

WINDOW = (day(-30), day(0))
COMPLETE: list[tuple[int, str, bool]] = [
    (1, "", True),
    (0, "", False),  # its last day had not ended
    (1, "NotFoundError AuthenticationError InvalidRequestError DecodeError", True),
    (1, "NotFoundError ServerError", False),
    (1, "RateLimitedError", False),
    (1, "InvalidRequestError=408", False),
    (1, "PaginationError", False),
    (1, "ConnectionFailedError", False),
]
"""The night of a window, its failures, and whether it is complete."""


def test_a_window_is_complete_unless_a_failure_may_pass(tmp_path: Path) -> None:
    pulls = []
    rows = []
    expected = {}
    for number, (night, failures, complete) in enumerate(COMPLETE):
        pull = Pull(day(night), day(-30 - number), day(0), {11: 1})
        pulls.append(pull)
        began = dt.datetime.combine(day(night), dt.time(3))
        expected[pull.first, pull.last, Feed.CAMPAIGN] = (complete, began)
        for campaign_id, failure in enumerate(failures.split(), 2):
            error, _, status = failure.partition("=")
            facts = {"table_name": "keyword_rankings", "campaign_id": campaign_id, "message": "m"}
            rows.append(pull.place | facts | {"error": error, "status": int(status or 0) or None})
    database = database_of(tmp_path, pulls)
    with opened(database) as tables:
        insert(tables, "failures", rows)
    assert complete_windows(database, account="acme") == expected
    # later nights complete all
    database_of(
        tmp_path, [attrs.evolve(pull, night=day(9), ranks={11: 1, 21: 1}) for pull in pulls]
    )
    assert all(complete for complete, _ in complete_windows(database, account="acme").values())


@pytest.mark.parametrize(
    ("selection", "complete"),
    [
        (None, False),
        ('{"exclude": [2]}', True),
        ('{"exclude": [3]}', False),
        ('{"exclude": [2], "filter": "x"}', None),
    ],
)
def test_failures_of_excluded_campaigns_do_not_count(
    tmp_path: Path, selection: str | None, complete: bool | None
) -> None:
    database = database_of(tmp_path, [Pull(day(1), *WINDOW, {11: 1}, failed=(2,))])
    windows = complete_windows(database, account="acme", selection=selection)
    assert windows.get((*WINDOW, Feed.CAMPAIGN), [None])[0] is complete


@pytest.mark.parametrize(
    "options",
    [
        {"account": "other"},
        {"account": "acme", "selection": '{"ids": [1]}'},
        {"account": "acme", "compared": True},
    ],
)
def test_windows_of_other_pulls_do_not_count(tmp_path: Path, options: dict[str, Any]) -> None:
    assert complete_windows(database_of(tmp_path, nightly({11: 1})), **options) == {}
