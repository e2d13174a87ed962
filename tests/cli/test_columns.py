"""`seorep columns` shows what every column means."""

from __future__ import annotations

import json

import pytest

from seorep_async.tables.declared import all_tables
from tests.cli.running import Seorep


def test_it_shows_every_column_of_a_table(seorep: Seorep) -> None:
    lines = seorep("columns", "keyword_rankings").out.splitlines()
    assert lines[0] == "keyword_rankings: A keyword of a campaign on one night. Feed campaign."
    (line,) = (line for line in lines if " wmt_ctr " in line)
    assert line.endswith(
        "its unit (percent, per mille or other) is not documented. Only in the older variant of the feed, else null."
    )


def test_as_json_it_has_every_table(seorep: Seorep) -> None:
    told = json.loads(seorep("columns", "--json").out)
    assert [table["table"] for table in told] == [table.name for table in all_tables()]
    assert told[0]["columns"][0]["name"] == "account"


def test_an_unknown_table_is_refused(seorep: Seorep) -> None:
    assert "'keyword_periods'" in seorep("columns", "campaign").err


@pytest.mark.parametrize(("option", "told"), [((), 1), (("--compare-previous-period",), 0)])
def test_the_summary_says_if_changes_were_not_asked_for(seorep: Seorep, option: tuple[str, ...], told: int) -> None:
    ended = seorep("pull", "--sandbox", "--campaigns", 1, "--keywords", 1, *option)
    assert ended.err.count("Changes from the previous period were not asked for") == told


def test_another_account_of_the_shell_is_told_its_options(seorep: Seorep) -> None:
    ask = ("pull", "--sandbox", "--campaigns", 1, "--keywords", 1, "-o", "a.duckdb")
    assert seorep(*ask).code == 0
    assert "give this account a name of its own with --account NAME" in seorep(*ask, "--seed", 2).err
    assert seorep(*ask, "--seed", 2, "--account", "second", "--snapshot-date", "2023-04-02").code == 0
