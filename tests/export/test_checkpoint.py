"""A checkpoint stores reports and keywords, tells what is missing, and notices damage."""

import contextlib
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seorep_async import Feed
from seorep_async.export import ExportError
from seorep_async.tables.declared import table_of
from tests.export.door import Checkpoint, DamagedError, RowsFile, StagedReport, target_of
from tests.export.reports import spec_of

KEYWORDS = Feed.KEYWORD_BY_DATE


def staged(
    id_: int, *, campaign_id: int | None = None, data: bytes = b"rows", totals: str | None = None
) -> StagedReport:
    feed = Feed.CAMPAIGN if campaign_id is None else KEYWORDS
    return StagedReport(table_of(feed).name, campaign_id or id_, id_, 2, totals, data)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@pytest.fixture
def checkpoint(path: Path) -> Iterator[Checkpoint]:
    with contextlib.closing(Checkpoint(path)) as opened:
        yield opened


@pytest.fixture
def filled(path: Path) -> Path:
    return fill(path)


def fill(path: Path) -> Path:
    with contextlib.closing(Checkpoint(path)) as checkpoint:
        checkpoint.note(key="digest")
        checkpoint.plan([3, 1, 2])
        checkpoint.add([staged(1), staged(3, totals="[1]")], {1: [10, 11]})
    return path


def change(path: Path, *statements: tuple[Any, ...]) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(*statement)
        database.commit()


def verify(path: Path) -> None:
    with contextlib.closing(Checkpoint(path)) as checkpoint:
        checkpoint.verify()


def test_reports_come_in_the_order_of_the_campaigns(checkpoint: Checkpoint) -> None:
    checkpoint.plan([3, 1, 2])
    checkpoint.add([staged(2), staged(3)])
    checkpoint.add([staged(1)])
    assert [report.id for report in checkpoint.reports("keyword_rankings")] == [3, 1, 2]


def test_missing_are_those_without_a_report(checkpoint: Checkpoint) -> None:
    checkpoint.plan([3, 1, 2])
    checkpoint.add([staged(1)])
    assert checkpoint.missing(Feed.CAMPAIGN) == [3, 2]
    assert checkpoint.missing(Feed.CAMPAIGN_BY_DATE) == [3, 1, 2]


def test_a_keyword_is_missing_until_each_of_its_campaigns_has_it(checkpoint: Checkpoint) -> None:
    checkpoint.plan([1, 2])
    checkpoint.add([staged(7, campaign_id=1)], {1: [7], 2: [8, 7]})
    assert checkpoint.owners([8, 7]) == {8: [2], 7: [1, 2]}
    assert checkpoint.owners_without_report(7) == [2]
    assert checkpoint.missing(KEYWORDS) == [8, 7]


def test_reports_of_keywords_that_are_gone_are_deleted(checkpoint: Checkpoint) -> None:
    checkpoint.plan([1])
    checkpoint.add([staged(7, campaign_id=1)], {1: [7]})
    checkpoint.add((), {1: [8]})
    assert checkpoint.counts(KEYWORDS) == (0, 0)


def test_counts_up_to_a_number_are_those_of_an_earlier_run(checkpoint: Checkpoint) -> None:
    checkpoint.plan([1, 2, 3])
    checkpoint.add([staged(1), staged(2)])
    last = checkpoint.last_number()
    checkpoint.add([staged(3), staged(2)])  # one of them again
    assert checkpoint.counts(Feed.CAMPAIGN, last) == (1, 2)
    assert checkpoint.counts(Feed.CAMPAIGN) == (3, 6)


def test_ids_of_more_than_64_bits_are_stored(checkpoint: Checkpoint) -> None:
    checkpoint.plan([2**70])
    assert checkpoint.missing(Feed.CAMPAIGN) == [2**70]
    checkpoint.verify()


def test_keywords_of_any_size_are_stored(checkpoint: Checkpoint) -> None:
    ids = [2**63 - 1, -(2**63), 2**63, -(2**70), 7]
    checkpoint.plan([1])
    checkpoint.add((), {1: [*ids, 7]})
    checkpoint.verify()
    assert (checkpoint.missing(KEYWORDS), checkpoint.owners(ids)) == (ids, {id_: [1] for id_ in ids})


def test_hundreds_of_reports_are_stored_at_once(checkpoint: Checkpoint) -> None:
    reports = [staged(id_, data=b"\0\xff%d" % id_, totals=f"[null, {id_}]") for id_ in range(1, 251)]
    checkpoint.plan(range(1, 251))
    checkpoint.add(reports)
    checkpoint.verify()
    assert list(checkpoint.reports("keyword_rankings")) == reports


def test_totals_come_in_the_order_of_the_campaigns(checkpoint: Checkpoint) -> None:
    checkpoint.plan([3, 1, 2])
    checkpoint.add([staged(2, totals="[1, null]"), staged(1), staged(3, totals="[0, 2.5]")])
    assert list(checkpoint.totals("keyword_rankings")) == [(3, 3, "[0, 2.5]"), (2, 2, "[1, null]")]


def test_clearing_it_leaves_nothing(checkpoint: Checkpoint) -> None:
    checkpoint.plan([1])
    checkpoint.add([staged(1)], {1: [7]})
    checkpoint.clear()
    assert (checkpoint.notes.planned, checkpoint.is_empty(), checkpoint.campaigns()) == (None, True, [])


@pytest.mark.parametrize("marked", [False, True])  # as versions were not at first
def test_a_checkpoint_of_another_version_is_called_so(tmp_path: Path, marked: bool) -> None:
    area = target_of(tmp_path / "a.csv", (Feed.CAMPAIGN,)).area()
    area.folder.mkdir(0o700)
    path = area.folder / "checkpoint"
    with contextlib.closing(sqlite3.connect(path)) as database:
        statement = "CREATE TABLE reports (rows)"
        database.execute(statement)
        database.execute(f"PRAGMA user_version={(zlib.crc32(repr([statement]).encode()) >> 1) * marked}")
    said = r"the checkpoint in \.a\.csv\.pull is of another version of seorep; .* pass restart=True to start over"
    with pytest.raises(ExportError, match=said):
        area.open(spec_of(), restart=False, retry_failed=False)
    area.open(spec_of(), restart=True, retry_failed=False)
    area.remove()


def test_changed_tables_of_this_version_are_damage(filled: Path) -> None:
    change(filled, ("DROP TABLE campaigns",))
    with pytest.raises(DamagedError, match="its tables are not as they were made"):
        Checkpoint(filled)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE reports SET start = 4 WHERE id = 1",
        "UPDATE reports SET size = 3 WHERE id = 1",
        "UPDATE reports SET data_checksum = 0 WHERE id = 1",
        "UPDATE reports SET rows = 3 WHERE id = 1",
        "UPDATE reports SET totals = '[2]' WHERE id = 3",
        "UPDATE reports SET name = 'campaign_periods' WHERE id = 1",
        "UPDATE reports SET id = 2 WHERE id = 1",
        "UPDATE campaigns SET id = 4 WHERE id = 1",
        "UPDATE campaigns SET place = 7 WHERE id = 2",
        "UPDATE campaigns SET keywords_found = 1 WHERE id = 2",
        "DELETE FROM campaigns WHERE id = 2",
        "DELETE FROM keywords WHERE id = 11",
        "UPDATE keywords SET id = 12 WHERE id = 11",
        "UPDATE keywords SET number = 5 WHERE id = 10",
        "UPDATE notes SET value = 'null' WHERE name = 'key'",
        "UPDATE notes SET value = '\"00\"' WHERE name = 'salt'",
        "DELETE FROM notes WHERE name = 'salt'",
        "DROP INDEX keywords_by_id",
        "CREATE TABLE another (a)",
        "ALTER TABLE reports ADD COLUMN more",
    ],
)
def test_a_record_that_was_changed_is_damage(filled: Path, statement: str) -> None:
    change(filled, (statement,))
    with pytest.raises(DamagedError):
        verify(filled)


def test_a_record_of_another_checkpoint_is_damage(filled: Path, tmp_path: Path) -> None:
    other = str(fill(tmp_path / "other"))
    replaced = [("DELETE FROM reports",), ("INSERT INTO reports SELECT * FROM other.reports",)]
    change(filled, ("ATTACH ? AS other", (other,)), *replaced)
    with pytest.raises(DamagedError):
        verify(filled)


def rows_of(path: Path) -> Path:
    return path.with_name("checkpoint-rows")


@pytest.mark.parametrize("rows", [b"Rowsrows", b"rows", b"", None])
def test_a_campaign_with_damaged_rows_is_forgotten(filled: Path, rows: bytes | None) -> None:
    rows_of(filled).unlink()
    if rows is not None:
        rows_of(filled).write_bytes(rows)
    with contextlib.closing(Checkpoint(filled)) as checkpoint:
        checkpoint.verify()
        damaged = [3, 1] if not rows else [3] if rows == b"rows" else [1]
        assert checkpoint.missing(Feed.CAMPAIGN) == [id_ for id_ in (3, 1, 2) if id_ in (*damaged, 2)]
        assert checkpoint.owners([10]) == {10: [] if 1 in damaged else [1]}
        assert checkpoint.without_keywords() == ([3, 1, 2] if 1 in damaged else [3, 2])
        checkpoint.add([staged(1), staged(3)], {1: [10]})
        checkpoint.verify()
        assert len(list(checkpoint.reports("keyword_rankings"))) == 2


def test_a_damaged_part_of_the_list_of_campaigns_is_damage(checkpoint: Checkpoint, path: Path) -> None:
    checkpoint.add([StagedReport("campaigns", 0, 0, 2, None, b"names")], durable=True)
    rows_of(path).write_bytes(b"Names")
    with pytest.raises(DamagedError):
        checkpoint.verify()


def test_damage_is_noticed_by_reading_too(filled: Path) -> None:
    rows_of(filled).write_bytes(b"rowsRows")
    with contextlib.closing(Checkpoint(filled)) as checkpoint, pytest.raises(DamagedError):
        list(checkpoint.reports("keyword_rankings"))


def test_rows_that_a_crash_left_without_a_record_are_dropped(filled: Path) -> None:
    with open(rows_of(filled), "ab") as rows:
        rows.write(b"torn")
    verify(filled)
    assert rows_of(filled).read_bytes() == b"rowsrows"


def test_rows_are_on_the_disk_before_a_durable_record_is(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    monkeypatch.setattr("os.fsync", lambda _: synced.append(checkpoint.last_number()))
    checkpoint.add([staged(1)])
    checkpoint.add([staged(2)], durable=True)
    assert (synced, checkpoint.last_number()) == ([1], 2)


def test_rows_are_not_written_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic link"):
        RowsFile(tmp_path / "link")
    assert not (tmp_path / "victim").exists()


def test_damage_is_noticed_by_clearing_too(filled: Path) -> None:
    with contextlib.closing(Checkpoint(filled)) as checkpoint:
        checkpoint.add((), {2: range(5000)})
    with open(filled, "r+b") as file:
        file.seek(10 * 4096)
        file.write(bytes(4 * 4096))
    with contextlib.closing(Checkpoint(filled)) as checkpoint, pytest.raises(DamagedError):
        checkpoint.clear()


def test_what_is_no_database_is_damage(path: Path) -> None:
    path.write_bytes(b"no database at all, but long enough to be looked at" * 100)
    with pytest.raises(DamagedError):
        Checkpoint(path)
