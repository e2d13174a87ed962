"""What changed between two nights: kinds, several windows, and databases that somebody changed.

`tests.export.test_any_nights` asks of any nights.
"""

import datetime as dt
import zlib
from pathlib import Path

import duckdb
import pytest
from tests.export.databases import change

from seorep_async import ExportError
from seorep_async.history import changes, report
from seorep_async.history.source import pulled_feeds
from seorep_async.session.secrets import Authentication
from tests.history.left_behind import compute_accounts, pulled_windows
from tests.history.made_history import FIRST, Ranks, made_history


@pytest.mark.parametrize("target", ["nights.duckdb", "nights/"])
@pytest.mark.parametrize("latest_first", [False, True])
async def test_of_several_windows_the_longest_that_ends_last_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, latest_first: bool
) -> None:
    monkeypatch.setattr(
        Authentication, "fingerprint", lambda self, salt: str(zlib.crc32(self.header().encode(), salt[0]))
    )
    source = await pulled_windows(f"{tmp_path}/{target}", latest_first=latest_first)
    assert [(one.kind, one.before, one.after) for one in changes(source, moved=3)] == [
        ("rose", 15, 8),
        ("entered_top_10", 15, 8),
    ]


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ({11: 40}, {11: 37}, ["rose"]),
        ({11: 40}, {11: 38}, []),
        ({11: 37}, {11: 40}, ["fell"]),
        ({11: 4}, {11: 3}, ["entered_top_3"]),
        ({11: 20}, {11: 21}, ["left_top_20"]),
        ({11: None}, {11: 10}, ["found", "entered_top_10", "entered_top_20"]),
        ({11: 3}, {11: 0}, ["lost", "left_top_3", "left_top_10", "left_top_20"]),
        ({11: 0}, {11: None}, []),
        ({11: 50}, {11: 50, 12: 1}, ["new"]),
        ({11: 50, 12: 0}, {11: 50}, ["removed"]),
    ],
)
def test_kinds_follow_from_both_ranks(tmp_path: Path, before: Ranks, after: Ranks, kinds: list[str]) -> None:
    source = made_history(tmp_path / "a.duckdb", [before, after])
    assert [change.kind for change in changes(source, moved=3)] == kinds


@pytest.mark.parametrize(
    ("after", "failed", "left_out"),
    [
        ({11: 1}, "keyword_rankings", {2: "the report of 2026-03-02 failed"}),
        ({11: 1}, "campaign_periods", {2: "there are no rows of 2026-03-02"}),
        ({11: 1, 21: 9}, "keyword_rankings", {}),
    ],
)
def test_a_failed_report_leaves_out_a_campaign_without_rows(
    tmp_path: Path, after: Ranks, failed: str, left_out: dict[int, str]
) -> None:
    source = made_history(tmp_path / "a.duckdb", [{11: 1, 21: 9}, after])
    with duckdb.connect(str(source)) as database:
        columns = "account, snapshot_date, campaign_id, table_name, start_date, end_date"
        values = ["acme", FIRST + dt.timedelta(1), 2, failed, FIRST, FIRST]
        database.execute(f"INSERT INTO failures ({columns}) VALUES (?, ?, ?, ?, ?, ?)", values)
    assert changes(source).left_out == left_out


# --- Databases that somebody changed: rows that are not ours change no answer


@pytest.mark.parametrize(
    "changed",
    [
        "ALTER TABLE campaigns ADD COLUMN engine VARCHAR; ALTER TABLE campaigns ADD COLUMN keyword_phrase VARCHAR",
        "ALTER TABLE pulls ADD COLUMN feed VARCHAR DEFAULT 'mine'",
        "INSERT INTO campaigns FROM campaigns",
        "UPDATE pulls SET feeds = feeds || ',' || 'no feed of ours'",
        """INSERT INTO pulls BY NAME SELECT * REPLACE (DATE '290000-01-01' AS snapshot_date,
            NULL::TIMESTAMP AS started_at) FROM pulls; INSERT INTO keyword_rankings BY NAME
            SELECT * REPLACE (DATE 'infinity' AS snapshot_date) FROM keyword_rankings""",
    ],
)
def test_what_others_added_changes_no_answer(source: Path, changed: str) -> None:
    file = source / "a.duckdb"

    def answers() -> object:
        found = changes(file, account="acme")
        page = report(file, account="acme", out=source / "page.html").read_text(encoding="utf-8")
        return found.after, list(found), page, pulled_feeds(file, account="acme", selection=None, compared=False)

    change(file, "UPDATE keyword_rankings SET engine_a_ranking = keyword_id + 4 * day(snapshot_date)")
    change(file, "ALTER TABLE pulls ALTER started_at DROP NOT NULL")
    before = answers()
    change(file, changed)
    assert answers() == before


def test_a_question_that_fails_is_an_export_error(source: Path) -> None:
    compute_accounts(source / "a.duckdb")
    with pytest.raises(ExportError, match=r"can't read .*a.duckdb: .*computed"):
        changes(source / "a.duckdb", account="acme")


@pytest.mark.parametrize(("began", "complete"), [("2023-01-31 23:59:59", False), ("2023-02-01", True)])
def test_a_pull_is_complete_if_it_began_after_its_last_day(source: Path, began: str, complete: bool) -> None:
    change(source / "a.duckdb", f"UPDATE pulls SET started_at = TIMESTAMP '{began}'")
    found = pulled_feeds(source / "a.duckdb", account="acme", selection=None, compared=False)
    assert {is_complete for is_complete, _ in found.values()} == {complete}
