"""Where an export can go, and what is refused before any request."""

import re
import stat
import sys
from pathlib import Path

import pytest

from seorep_async import ConfigurationError, Feed
from seorep_async.export import ExportError
from tests.export.door import target_of
from tests.export.reports import account, names_in, pull_into, rows_in

ONE = (Feed.CAMPAIGN,)


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


def test_a_null_in_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"null byte|null character"):
        target_of(tmp_path / "a\0b.csv", ONE)


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
