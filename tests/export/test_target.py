"""Where an export can go, and where it can't."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from seorep_async import ConfigurationError, Feed
from seorep_async.export import pull_to
from seorep_async.export.target import target_of
from tests.export.reports import END, START, account, names_in

ONE = (Feed.CAMPAIGN,)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("missing/a.csv", "there is no folder .*missing; create it first"),
        ("file/a.csv", "there is no folder|Not a directory"),
        (".", "it is a folder; name a file in it"),
        ("folder.csv", "it is a folder; name a file in it"),
        ("fifo.csv", "is not a regular file"),
        ("a" * 300 + ".csv", "File name too long"),
        ("a\0b.csv", "null byte"),
        ("a.xls", "the name must end in .csv, .jsonl, .parquet or .duckdb"),
        ("csv", "the name must end in"),
    ],
)
def test_where_nothing_can_be_is_refused_at_once(tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "fifo.csv")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ConfigurationError, match=problem):
        target_of(tmp_path / name, ONE)
    assert sorted(tmp_path.iterdir()) == before


def test_a_read_only_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").touch(0o400)
    monkeypatch.setattr("os.access", lambda *_: False)  # to root, whom tests may run as, nothing is read-only
    with pytest.raises(ConfigurationError, match=r"a\.csv is read-only"):
        target_of(tmp_path / "a.csv", ONE)


def test_a_file_beside_it_that_can_not_be_written_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "a.failures.csv").mkdir()
    with pytest.raises(ConfigurationError, match=r"a\.failures\.csv is a folder"):
        target_of(tmp_path / "a.csv", ONE)


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.b.parquet", "ø.jsonl", "a.duckdb"])
def test_one_feed_goes_to_the_name_itself(tmp_path: Path, name: str) -> None:
    assert target_of(tmp_path / name, ONE).rows(Feed.CAMPAIGN) == tmp_path / name


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "real" / "a.csv")
    target = target_of(link, ONE)
    assert target.path == tmp_path / "real" / "a.csv"
    assert target.as_named(target.path) == link


def test_a_relative_name_is_told_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    target = target_of("a.csv", tuple(Feed))
    assert target.as_named(target.rows(Feed.CAMPAIGN)) == Path("a.campaign.csv")


async def test_permissions_of_the_old_file_are_kept(tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    target.touch(0o600)
    async with account(campaigns=1) as (_, client):
        await pull_to(client, None, START, END, out=target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


async def test_a_long_name_is_possible(tmp_path: Path) -> None:
    target = tmp_path / ("a" * 230 + ".csv")
    async with account(campaigns=1) as (_, client):
        await pull_to(client, None, START, END, out=target)
    assert names_in(tmp_path) == [target.name]
