"""Where an export can go, and what is refused before any request."""

import datetime as dt
import itertools
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from seorep_async import ConfigurationError, Feed
from seorep_async.export import CsvOptions, ExportError, pull_to
from seorep_async.tables.declared import totals_table
from seorep_async.tables.text import csv_header
from tests.export.door import target_of
from tests.export.reports import END, FORMATS, START, account, contents, names_in, pull_into, rows_in

ONE = (Feed.CAMPAIGN,)


def prepare(folder: Path) -> None:
    """Make what is in the way of some targets."""
    (folder / "full").mkdir()
    (folder / "folder.csv").mkdir()
    (folder / "beside.failures.csv").mkdir()
    (folder / "astray.totals.csv").symlink_to(folder / "missing" / "file.csv")
    os.mkfifo(folder / "fifo.csv")
    for name, held in {
        "file": b"",
        "a.csv": b"",
        "full/thesis.tex": b"",
        "deep.totals.jsonl": b"[" * 100_000,
        "wider.totals.csv": csv_header(totals_table()).replace(b"\r\n", b",note\r\n"),
        **{f"{side}.{side}.{ending}": b'{"feed": "mine"}\n' for side, ending in SIDECARS},
    }.items():
        (folder / name).write_bytes(held)


SIDECARS = list(itertools.product(("totals", "failures"), ("csv", "jsonl", "parquet")))
REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    # where nothing can be
    ("missing/a.csv", {}, "there is no folder .*missing; create it first"),
    ("file/a.csv", {}, "there is no folder|Not a directory"),
    (".", {}, "it is a folder; name a file in it"),
    ("folder.csv", {}, "it is a folder; name a file in it"),
    ("fifo.csv", {}, "is not a regular file"),
    ("a" * 300 + ".csv", {}, "File name too long"),
    ("a\0b.csv", {}, "null byte|null character"),
    ("a?.duckdb", {}, r"DuckDB takes no path with a \? or a \\ in it"),
    ("a\\b.duckdb", {}, r"DuckDB takes no path with a \? or a \\ in it"),
    ("a.xlsx", {}, "the name must end in .csv, .jsonl, .parquet or .duckdb"),
    ("csv", {}, "the name must end in"),
    (Path("csv"), {}, r"the name must end in .* or in / \(as a string: a Path drops it\) for a dataset"),
    (5, {}, "out must be a path"),
    ("full/", {}, "the folder holds files that no pull wrote"),
    ("full", {}, "it is a folder; name a file in it, or end the name in / for a dataset"),
    ("a.csv/", {}, "it is a file; a dataset is a folder"),
    ("missing/rankings/", {}, "there is no folder"),
    ("rankings", {}, "or in / for a dataset"),
    # files beside it
    ("beside.csv", {}, r"beside\.failures\.csv is a folder"),
    ("astray.csv", {}, r"astray\.totals\.csv links to .*missing, which does not exist"),
    ("deep.jsonl", {}, "no pull of this version wrote it"),
    ("wider.csv", {}, "no pull of this version wrote it"),
    *(
        (f"{one}.{end}", {}, rf"{one}\.{one}\.{end} exists, and no pull of this version wrote it")
        for one, end in SIDECARS
    ),
    # other arguments
    ("a.csv", {"ids": [0]}, "campaign_id must be an integer"),
    ("a.csv", {"ids": [*range(1, 5002), 1.5]}, "campaign_id must be an integer .* got 1.5"),
    ("a.csv", {"ids": "12"}, "ids must be several"),
    ("a.csv", {"ids": 12}, "ids must be several"),
    ("a.csv", {"start_date": "2023-02-30"}, "start_date must be"),
    ("a.csv", {"end_date": dt.date(2022, 1, 1)}, "is before start_date"),
    ("a.csv", {"feeds": "weekly"}, "feed must be one of"),
    ("a.csv", {"feeds": [Feed.CAMPAIGN, "weekly"]}, "feed must be one of"),
    ("a.csv", {"feeds": ()}, "feeds must name at least one"),
    ("a.csv", {"limit": 0}, "limit must be"),
    ("a.csv", {"colour": "red"}, "has no argument 'colour'"),
    ("a.csv", {"account": " "}, "account must be a name"),
    ("a.csv", {"snapshot_date": dt.datetime.now(dt.UTC).date() + dt.timedelta(3)}, "snapshot_date must be tomorrow"),
    *(("a.csv", {"max_requests": wrong}, "max_requests must be an integer") for wrong in (0, -1, 1.5, True, "10")),
    *((f"a.{ending}", {"csv": CsvOptions(bom=True)}, "leave it out, or write CSV") for ending in FORMATS[1:]),
    *((out, {"search": "shoes"}, "search narrows the rows") for out in ("a.duckdb", "a/")),
]


@pytest.mark.parametrize(("out", "options", "words"), REFUSED, ids=lambda part: str(part)[:40].replace("\0", "NUL"))
async def test_it_is_refused_before_any_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: Any, options: dict[str, Any], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    before = contents(tmp_path)
    arguments = {"ids": None, "start_date": START, "end_date": END, "out": out} | options
    async with account() as (sandbox, client):
        with pytest.raises(ConfigurationError, match=words) as caught:
            await pull_to(client, **arguments)
        assert sandbox.stats.requests == 0
    assert caught.value.argument == "max_requests" or "max_requests" not in options
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("out", "named"),
    [
        ("a.duckdb", "duckdb: pip install 'seorep-async[duckdb]'"),
        ("a/", "duckdb: pip install 'seorep-async[duckdb]'"),
        ("s3://bucket/a.csv", "obstore: pip install 'seorep-async[cloud]'"),
        ("s3://bucket/a.parquet", "obstore: pip install 'seorep-async[cloud]'"),
        ("s3://bucket/a/", "obstore and duckdb: pip install 'seorep-async[cloud,duckdb]'"),
    ],
)
def test_one_command_installs_all_that_a_target_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for library in ("duckdb", "obstore", "pyarrow"):  # the extras of the others bring pyarrow along
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=re.escape(f"this needs {named}, or in a clone")):
        target_of(out, ONE)


def test_a_read_only_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").touch(0o400)
    monkeypatch.setattr("os.access", lambda *_: False)  # to root, whom tests may run as, nothing is read-only
    with pytest.raises(ConfigurationError, match=r"a\.csv is read-only"):
        target_of(tmp_path / "a.csv", ONE)


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.b.parquet", "ø.jsonl", "a.duckdb"])
def test_one_feed_goes_to_the_name_itself(tmp_path: Path, name: str) -> None:
    assert target_of(tmp_path / name, ONE).row_files() == [tmp_path / name]


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "real" / "a.csv")
    target = target_of(link, ONE)
    assert target.path == tmp_path / "real" / "a.csv"
    assert target.as_named(target.path) == link


def test_a_relative_name_is_shown_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    target = target_of("a.csv", tuple(Feed))
    assert target.row_files()[0] == Path("a.keyword_rankings.csv")


@pytest.mark.parametrize("name", ["a.campaign_periods.csv", "a.totals.csv"])
async def test_links_among_several_files_are_followed_too(tmp_path: Path, name: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / name).symlink_to(tmp_path / "real" / "file.csv")
    async with account() as (_, client):
        await pull_into(client, tmp_path / "a.csv", feeds=Feed)
    assert (tmp_path / name).is_symlink()
    assert rows_in(tmp_path / "real" / "file.csv")


async def test_where_a_link_leads_goes_what_is_there_no_more(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "a.failures.csv").symlink_to(tmp_path / "real" / "file.csv")
    for failing in ({2: 404}, {}):
        async with account(failing=failing) as (_, client):
            await pull_into(client, tmp_path / "a.csv")
    assert (names_in(tmp_path / "real"), (tmp_path / "a.failures.csv").is_symlink()) == ([], True)


async def test_permissions_of_the_old_file_stay(tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    target.touch(0o600)
    async with account(campaigns=1) as (_, client):
        await pull_into(client, target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


async def test_a_long_name_is_possible(tmp_path: Path) -> None:
    target = tmp_path / ("a" * 230 + ".csv")
    async with account(campaigns=1) as (_, client):
        await pull_into(client, target)
    assert names_in(tmp_path) == [target.name]


@pytest.mark.parametrize("contents", ["campaign_id,note\n1,mine\n", "mine\n", '{"campaign_id": 1}\n', "[1]\n", "\0"])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
async def test_a_file_that_no_pull_wrote_needs_force(tmp_path: Path, ending: str, contents: str) -> None:
    mine = tmp_path / f"a.{ending}"
    mine.write_text(contents)
    async with account(campaigns=1) as (sandbox, client):
        with pytest.raises(ConfigurationError, match=rf"a\.{ending} exists, and no pull .* replace it with force=True"):
            await pull_into(client, mine)
        assert (sandbox.stats.requests, mine.read_text(), names_in(tmp_path)) == (0, contents, [mine.name])
        summary = await pull_into(client, mine, force=True)
        assert (await pull_into(client, mine)).rows == summary.rows == 30


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_an_empty_file_is_nobodys(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"a.{ending}").touch()
    target_of(tmp_path / f"a.{ending}", ONE)


def test_any_of_several_files_may_be_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / "a.keyword_periods.csv").write_text("mine\n")
    with pytest.raises(ConfigurationError, match=r"a\.keyword_periods\.csv exists, and no pull"):
        target_of(tmp_path / "a.csv", tuple(Feed))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
async def test_files_of_an_earlier_pull_are_replaced_or_go(tmp_path: Path, ending: str) -> None:
    out, feed = tmp_path / f"a.{ending}", Feed.CAMPAIGN_BY_DATE
    async with account(failing={2: 404}) as (_, client):
        await pull_into(client, out, feeds=feed)
        assert {f"a.failures.{ending}", f"a.totals.{ending}"} < set(names_in(tmp_path))
    async with account() as (_, client):
        await pull_into(client, out, feeds=feed)
    assert names_in(tmp_path) == [out.name, f"a.totals.{ending}"]


async def test_a_file_of_a_version_with_fewer_columns_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.failures.csv").write_text("account,snapshot_date,table_name,campaign_id,keyword_id,error\r\n")
    async with account(campaigns=1) as (_, client):
        await pull_into(client, tmp_path / "a.csv")
    assert names_in(tmp_path) == ["a.csv"]


async def test_a_file_put_beside_it_meanwhile_stays(tmp_path: Path) -> None:
    async with account(campaigns=1) as (_, client):
        mine = lambda _: (tmp_path / "a.totals.csv").write_text("mine")  # noqa: E731
        await pull_into(client, tmp_path / "a.csv", on_progress=mine)
    assert (tmp_path / "a.totals.csv").read_text() == "mine"


async def test_nor_is_it_overwritten(tmp_path: Path) -> None:
    async with account(failing={2: 404}) as (_, client):
        mine = lambda _: (tmp_path / "a.failures.csv").write_text("mine")  # noqa: E731
        with pytest.raises(ExportError, match=r"a\.failures\.csv: it exists, and no pull wrote it"):
            await pull_into(client, tmp_path / "a.csv", on_progress=mine)
    assert names_in(tmp_path) == [".a.csv.pull", "a.failures.csv"]
    assert (tmp_path / "a.failures.csv").read_text() == "mine"


def test_a_folder_in_a_work_folder_is_named_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()
    target = target_of("a.csv", ONE, work_dir="work")
    assert target.as_named(target.staging_folder) == target.staging_folder
    assert target.as_named(target.path) == Path("a.csv")
