"""Databases that somebody changed: what is no row of ours changes no answer, and what can't be read is an error."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from seorep_async import ExportError
from seorep_async.history import changes, report
from seorep_async.history.source import pulled_feeds
from tests.history.left_behind import compute_accounts


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

    with duckdb.connect(str(file)) as database:
        database.execute("UPDATE keyword_rankings SET engine_a_ranking = keyword_id + 4 * day(snapshot_date)")
        database.execute("ALTER TABLE pulls ALTER started_at DROP NOT NULL")
    before = answers()
    with duckdb.connect(str(file)) as database:
        database.execute(changed)
    assert answers() == before


def test_a_question_that_fails_is_an_export_error(source: Path) -> None:
    compute_accounts(source / "a.duckdb")
    with pytest.raises(ExportError, match=r"can't read .*a.duckdb: .*computed"):
        changes(source / "a.duckdb", account="acme")


@pytest.mark.parametrize(("began", "complete"), [("2023-01-31 23:59:59", False), ("2023-02-01", True)])
def test_a_pull_is_complete_if_it_began_after_its_last_day(source: Path, began: str, complete: bool) -> None:
    with duckdb.connect(str(source / "a.duckdb")) as database:
        database.execute("UPDATE pulls SET started_at = ?::TIMESTAMP", [began])
    found = pulled_feeds(source / "a.duckdb", account="acme", selection=None, compared=False)
    assert {is_complete for is_complete, _ in found.values()} == {complete}
