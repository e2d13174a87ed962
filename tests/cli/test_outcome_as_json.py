"""With --json a pull prints one object on stdout, however it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Ended, Seorep
from tests.export.reports import names_in

PULL = ("pull", "--json", "--from", "2023-01-01", "--to", "2023-01-31")


def facts(ended: Ended) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ended.out)
    assert (found["exit_code"], found["ok"]) == (ended.code, ended.code == 0)
    return found


def test_a_disk_that_is_full_is_told(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("seorep_async.export.targets.files.write_table", full)
    found = facts(seorep(*PULL, "--sandbox", "-o", "a.parquet"))
    assert (found["exit_code"], found["error_type"]) == (7, "ExportError")


def test_an_unexpected_error_is_told_once(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("hm")

    monkeypatch.setattr("seorep_async.cli.summary.show_summary", broken)  # after the summary was printed
    ended = seorep(*PULL, "--sandbox", "-o", "a.csv")
    assert (ended.code, json.loads(ended.out)["exit_code"]) == (1, 0)


# --- No campaigns


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ((), "the account has no campaign; pass --allow-empty"),
        (("--filter", "zzz"), "the filter 'zzz' finds no campaign; pass --allow-empty"),
    ],
)
@pytest.mark.parametrize("out", ["a.csv", "a.duckdb", "a/", "-"])
def test_a_pull_that_finds_no_campaign_is_8(
    seorep: Seorep, tmp_path: Path, choice: tuple[str, ...], said: str, out: str
) -> None:
    empty = ("pull", "--sandbox", "--campaigns", 0 if not choice else 3, *choice)
    ended = seorep(*empty, "-o", out)
    assert (ended.code, ended.out, ended.err.count("\n")) == (8, "", 1)
    assert said in ended.err
    assert names_in(tmp_path) == []
    assert seorep(*empty, "--dry-run").code == 8
    allowed = seorep(*empty, "--allow-empty", "-o", out)
    assert (allowed.code, allowed.out.count("\n")) == (0, out == "-")  # a header
    assert f"Warning: {said.partition('; pass')[0]}" in allowed.err


def test_the_rows_of_an_earlier_pull_survive_an_empty_one(seorep: Seorep, tmp_path: Path) -> None:
    assert seorep("pull", "--sandbox", "-o", "a.csv", "--quiet").code == 0
    before = (tmp_path / "a.csv").read_bytes()
    ended = seorep(*PULL, "--sandbox", "--campaigns", 0, "-o", "a.csv")
    assert (facts(ended)["exit_code"], facts(ended)["error_type"]) == (8, "NoCampaignsError")
    assert (tmp_path / "a.csv").read_bytes() == before


@pytest.mark.parametrize("choice", [(), ("--filter", "zzz"), ("--group", "x")])
def test_a_plan_of_no_campaign_is_8(seorep: Seorep, tmp_path: Path, choice: tuple[str, ...]) -> None:
    plan = ("shards", "plan", "-o", "a/", *choice)
    with seorep.account(campaigns=3 if choice else 0):
        ended = seorep(*plan)
        assert (ended.code, ended.out, names_in(tmp_path)) == (8, "", [])
        assert seorep(*plan, "--allow-empty").out.count("\n") == 1
