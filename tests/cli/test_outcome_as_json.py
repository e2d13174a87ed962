"""With --json a pull prints one object on stdout, however it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seorep_async import SeoRepClient
from seorep_async.session import Clock
from tests.cli.running import Ended, Seorep, serving
from tests.export.reports import names_in

PULL = ("pull", "--json", "--from", "2023-01-01", "--to", "2023-01-31")


def facts(ended: Ended) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ended.out)
    assert (found["exit_code"], found["ok"]) == (ended.code, ended.code == 0)
    return found


@pytest.mark.parametrize(
    ("options", "code", "kind", "said"),
    [
        (("-o", "missing/a.csv"), 2, "ConfigurationError", "there is no folder"),
        (("-o", "a.csv"), 3, "AuthenticationError", "check SEOREP_API_KEY"),
        (("-o", "a.csv", "--dry-run"), 3, "AuthenticationError", "check SEOREP_API_KEY"),
        (("-o", "a.csv", "--base-url", "http://127.0.0.1:9"), 5, "ConnectionFailedError", "check the base URL"),
        (("-o", "a.csv", "--base-url", "nonsense"), 2, "ClickException", "needs a scheme"),
        (("-o", "a.csv", "--profile", "acme"), 2, "ClickException", "there is no profile"),
    ],
)
def test_a_pull_that_fails_outright_says_so(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], code: int, kind: str, said: str
) -> None:
    monkeypatch.setattr(SeoRepClient, "_clock", Clock(jitter=lambda: 0.0))  # eight attempts without a wait
    with serving() as sandbox:
        monkeypatch.setenv("SEOREP_BASE_URL", sandbox.base_url)
        monkeypatch.setenv("SEOREP_API_KEY", "wr0ng-k3y")
        ended = seorep(*PULL, *options)
    found = facts(ended)
    assert (ended.code, found["error_type"]) == (code, kind)
    assert said in found["error"]
    assert f"Error: {found['error']}" in ended.err
    assert (found["start_date"], found["feeds"], found["files"]) == ("2023-01-01", ["campaign"], [])
    assert "wr0ng-k3y" not in ended.out


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ("--month 2023-13", "BadParameter", "'2023-13' is not a month"),
        ("--colour", "NoSuchOption", "No such option"),
        ("--json", "UsageError", "--json: given 2 times"),
        ("--last 3m --month 2023-03", "UsageError", "--last and --month can't be combined"),
        ("--keywords 4", "UsageError", "--keywords: only with --sandbox"),
        ("--sandbox --profile acme", "UsageError", "--profile: not with --sandbox"),
    ],
)
def test_wrong_usage_says_so_too(seorep: Seorep, options: str, kind: str, said: str) -> None:
    ended = seorep("pull", "--json", *options.split())
    found = facts(ended)
    assert (ended.code, found["error_type"]) == (2, kind)
    assert said in found["error"]
    assert f"Error: {found['error']}" in ended.err
    assert (found["start_date"], found["feeds"], found["files"]) == (None, None, [])


def test_a_disk_that_is_full_is_told(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("seorep_async.export.targets.files.write_table", full)
    found = facts(seorep(*PULL, "--sandbox", "-o", "a.parquet"))
    assert (found["exit_code"], found["error_type"]) == (7, "ExportError")


def test_an_unexpected_error_is_told_once(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("hm")

    monkeypatch.setattr("seorep_async.cli.pull.show_summary", broken)  # after the summary was printed
    ended = seorep(*PULL, "--sandbox", "-o", "a.csv")
    assert (ended.code, json.loads(ended.out)["exit_code"]) == (1, 0)


def test_a_pull_that_succeeds_has_no_error(seorep: Seorep) -> None:
    found = facts(seorep(*PULL, "--sandbox"))
    assert (found["error"], found["error_type"]) == (None, None)


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


@pytest.mark.parametrize("groups", [("Retial",), ("Retail", "Retial")])
def test_a_group_without_campaigns_is_8(seorep: Seorep, groups: tuple[str, ...]) -> None:
    arguments = ("pull", "--sandbox", *(word for group in groups for word in ("--group", group)))
    ended = seorep(*arguments)
    assert ended.code == 8
    assert "there is no group 'Retial'; near it: 'Retail'; pass --allow-empty" in ended.err
    allowed = seorep(*arguments, "--allow-empty", "--json")
    assert allowed.code == 0
    assert facts(allowed)["warnings"] == ["there is no group 'Retial'; near it: 'Retail'"]
    assert bool(facts(allowed)["campaigns"]) == ("Retail" in groups)


@pytest.mark.parametrize("choice", [(), ("--filter", "zzz"), ("--group", "x")])
def test_a_plan_of_no_campaign_is_8(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, choice: tuple[str, ...]
) -> None:
    plan = ("shards", "plan", "-o", "a/", *choice)
    with serving(campaigns=3 if choice else 0) as sandbox:
        monkeypatch.setenv("SEOREP_BASE_URL", sandbox.base_url)
        monkeypatch.setenv("SEOREP_API_KEY", "sandbox")
        ended = seorep(*plan)
        assert (ended.code, ended.out, names_in(tmp_path)) == (8, "", [])
        assert seorep(*plan, "--allow-empty").out.count("\n") == 1
