"""Nights with lost or damaged parts and receipts, pulls of one night that don't know of each other, and names."""

import datetime as dt
import logging
from pathlib import Path
from typing import Any

import attrs
import pytest

from seorep_async import SeoRepClient
from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export import pull_to
from seorep_async.models import Feed
from seorep_async.tables.arrow import arrow_schema
from seorep_async.tables.columns import Table
from seorep_async.tables.declared import all_tables
from tests.export.door import (
    Partition,
    ProgressTracker,
    PullSpec,
    Receipt,
    Replacement,
    Storage,
    busy,
    dataset,
    escape,
    from_json,
    part_table,
    read_receipt,
    run_export,
    storage_of,
    target_of,
)
from tests.export.made_nights import NIGHT as MADE
from tests.export.made_nights import OLDER, PowerFailure, contents, cut, receipt, vouched_for
from tests.export.reports import END, NIGHT, START, Fail, account, pull_into, rows, spec_of
from tests.export.s3 import Bucket

PARTITION = f"account=acme/snapshot_date={NIGHT}"


async def pull(client: SeoRepClient, folder: Path, ids: list[int] | None = None, **changes: Any) -> int:
    """Pull the night, and return how many reports were fetched."""
    options: dict[str, Any] = {"out": f"{folder}/rankings/", "account": "acme", "snapshot_date": NIGHT}
    return (await pull_to(client, ids, START, END, **options | changes)).rows


def check(folder: Path) -> None:
    """Check that the receipt names every part that is there, and no others."""
    assert vouched_for(storage_of(str(folder)), Partition("acme", NIGHT))


@pytest.mark.parametrize("table", all_tables(), ids=lambda table: table.name)
def test_a_part_without_rows_is_replaced_like_any_other(table: Table) -> None:
    empty = arrow_schema(part_table(table)).empty_table()
    spec = attrs.evolve(spec_of(), feeds=tuple(Feed))
    (remaining,) = Replacement(spec, []).remaining_rows(table, [empty], [empty])
    assert (remaining.num_rows, remaining.schema) == (0, empty.schema)


@pytest.mark.parametrize("damage", ["missing", "damaged"])
@pytest.mark.parametrize("first", [None, [1]])
async def test_pulled_again_a_damaged_night_is_whole(tmp_path: Path, damage: str, first: list[int] | None) -> None:
    out = tmp_path / "rankings"
    async with account(campaigns=2, keywords=2) as (_, client):
        await pull(client, tmp_path, first)
        for table in ("keyword_rankings", "totals", "campaigns"):
            part = out / table / PARTITION / "part-00000.parquet"
            part.unlink() if damage == "missing" else part.write_bytes(b"PAR1")
        await pull(client, tmp_path)
    check(out)
    assert len(rows(out, "keyword_rankings")) == 4


async def test_a_night_that_lost_a_part_has_something_to_retry(tmp_path: Path) -> None:
    out = tmp_path / "rankings"
    async with account(campaigns=2, keywords=2) as (_, client):
        await pull(client, tmp_path)
        assert await pull(client, tmp_path, retry_failed=True) == 0
        (out / "keyword_rankings" / PARTITION / "part-00000.parquet").unlink()
        assert await pull(client, tmp_path, retry_failed=True) == 4
    check(out)


async def test_files_of_others_in_a_night_stay(tmp_path: Path) -> None:
    async with account(campaigns=1, keywords=1) as (_, client):
        await pull(client, tmp_path)
        notes = tmp_path / "rankings" / "totals" / PARTITION / "notes" / "precious.txt"
        notes.parent.mkdir()
        notes.write_text("kept")
        await pull(client, tmp_path, restart=True)
    assert notes.read_text() == "kept"


async def test_rows_that_can_not_be_stored_are_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "rankings"
    async with account(campaigns=2, keywords=2) as (_, client):
        await pull(client, tmp_path, [1])
        lost = out / "keyword_rankings" / PARTITION / "part-00000.parquet"
        lost.unlink()
        with caplog.at_level(logging.WARNING, "seorep_async"):
            await pull(client, tmp_path, [2])
    check(out)
    assert len(rows(out, "keyword_rankings")) == 2
    (message,) = [record.getMessage() for record in caplog.records if str(lost) in record.getMessage()]
    assert "its rows are lost" in message


async def test_what_another_pull_replaced_is_not_called_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(place: Storage, there: Receipt, *_: object) -> None:
        raise busy(place, there.night)

    async with account(campaigns=2, keywords=2) as (_, client):
        await pull(client, tmp_path, [1])
        (tmp_path / "rankings/keyword_rankings" / PARTITION / "part-00000.parquet").unlink()
        monkeypatch.setattr(dataset, "commit", refuse)
        with caplog.at_level(logging.WARNING, "seorep_async"), pytest.raises(ExportError, match="another pull"):
            await pull(client, tmp_path, [2])
    assert not [record for record in caplog.records if "lost" in record.getMessage()]


@pytest.mark.parametrize("damage", ["missing", "another pull's"])
async def test_a_lost_part_of_another_feed_is_vouched_for_no_more(tmp_path: Path, damage: str) -> None:
    out = tmp_path / "rankings"
    async with account(campaigns=1, keywords=1) as (_, client):
        await pull(client, tmp_path)
        part = out / "keyword_rankings" / PARTITION / "part-00000.parquet"
        part.unlink() if damage == "missing" else part.write_bytes(b"PAR1")
        await pull(client, tmp_path, feeds="campaign-by-date")
    check(out)


async def test_files_of_one_name_in_two_buckets_stay_apart(tmp_path: Path, bucket: Bucket, fail: Fail) -> None:
    options: dict[str, Any] = {"storage_options": bucket.server.options, "work_dir": tmp_path}
    async with account(campaigns=2, keywords=1) as (_, client):
        fail(2)
        await pull(client, tmp_path, out=f"{bucket.url}/a.csv", **options)
        fail()
        for out in (f"{bucket.server.bucket().url}/a.csv", f"{bucket.url}/folder/a.csv"):
            summary = await pull_into(client, out, account="acme", retry_failed=True, **options)
            assert (summary.rows, summary.resumed) == (2, 0)


async def test_no_dataset_begins_among_objects_of_others(tmp_path: Path, bucket: Bucket) -> None:
    storage_of(f"{bucket.url}/some/", bucket.server.options).write("totals/precious.parquet", b"PAR1")
    options: dict[str, Any] = {"storage_options": bucket.server.options, "work_dir": tmp_path}
    async with account() as (sandbox, client):
        with pytest.raises(ConfigurationError, match=r"no pull wrote s3://.*/some/totals/precious.parquet"):
            await pull(client, tmp_path, out=f"{bucket.url}/some/", **options)
        assert sandbox.stats.requests == 0


# --- Receipts and names of accounts


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"{", b'{"parts": 5}', b"\xff"])
def test_a_damaged_receipt_is_one_line(tmp_path: Path, data: bytes) -> None:
    storage = storage_of(str(tmp_path))
    storage.write(MADE.receipt, data)
    with pytest.raises(ExportError, match=r"^can't read [^\n]*not a receipt of this version; move it away[^\n]*$"):
        read_receipt(storage, MADE)


def test_an_account_that_differs_in_case_only_is_named(tmp_path: Path) -> None:
    storage, night = storage_of(str(tmp_path)), Partition("Acme", MADE.snapshot_date)
    storage.write(
        night.receipt, receipt("older", contents("older", *OLDER)).to_json()
    )  # as a disk that ignores case finds it
    with pytest.raises(
        ExportError, match=r"it is the receipt of account 'acme', .* takes both names for one; name .*"
    ) as caught:
        read_receipt(storage, night)
    assert "move it away" not in str(caught.value)


@pytest.mark.parametrize(
    ("account", "name"),
    [
        ("acme", "acme"),
        ("a/b", "a%2Fb"),
        ("a=b", "a%3Db"),
        ("a b", "a b"),
        ("ü 日本", "ü 日本"),
        ("..a", "..a"),
        ("Condor", "Condor"),
        ("nul-a", "nul-a"),
        ("100%", "100%25"),
        ("a:b*c?", "a%3Ab%2Ac%3F"),
        ("a\tb", "a%09b"),
    ],
)
def test_an_account_is_escaped_as_hive_does(account: str, name: str) -> None:
    assert escape(account) == name


@pytest.mark.parametrize("account", ["", "x" * 201, "ü" * 101, "/" * 70, "\ud800", "__HIVE_DEFAULT_PARTITION__"])
def test_an_account_that_no_folder_can_be_named_after_is_refused(account: str) -> None:
    with pytest.raises(ConfigurationError, match="can't be the name of a folder"):
        escape(account)


@pytest.mark.parametrize(
    "account", ["CON", "nul", "Com1", "LPT\u00b9", "aux.de", "prn .x", "a.", "..", "a ", "a<b", "a>", "|"]
)
def test_an_account_that_no_windows_folder_can_have_is_refused(account: str) -> None:
    with pytest.raises(ConfigurationError, match="can't be the name of a folder on Windows; choose another"):
        escape(account)


def test_a_receipt_is_the_same_from_its_json() -> None:
    one = receipt("older", contents("older", *OLDER))
    assert from_json(one.to_json(), Receipt) == one


async def test_an_older_night_cut_off_in_its_commit_is_resumed_at_once(tmp_path: Path) -> None:
    out, nights = tmp_path / "rankings", [NIGHT, NIGHT + dt.timedelta(1)]
    async with account(campaigns=1, keywords=1) as (_, client):
        for night in nights:
            await pull(client, tmp_path, snapshot_date=night)
        spec = PullSpec.of(client, None, START, END, Feed.CAMPAIGN, {}, account="acme", snapshot_date=NIGHT)
        whole: Any = target_of(f"{out}/", spec.feeds, account="acme")
        target = attrs.evolve(whole, storage=cut(whole.storage, 10))
        with pytest.raises(PowerFailure):
            await run_export(client, spec, target, ProgressTracker(), restart=True)
        assert await pull(client, tmp_path) == 1
