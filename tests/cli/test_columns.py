"""`seorep columns` shows what every column means."""

from __future__ import annotations

import json

import pytest

from seorep_async.tables.declared import all_tables
from tests.cli.running import Seorep


@pytest.mark.parametrize(
    ("table", "column", "said"),
    [
        ("failures", "campaign_id", "or if the campaigns could not be listed (table_name is then campaigns)"),
        ("failures", "keyword_id", "if the campaign's keywords could not be found"),
        ("pulls", "failures", "a list of campaigns that could not be fetched is not counted"),
        ("pulls", "snapshot_date", "or the day given to the pull"),
        ("keyword_rankings", "extra", "{} in Python and JSON lines, an empty cell in CSV, else null"),
        ("keyword_rankings", "engine_a_ranking", "Of which day in the window is not documented"),
        ("keyword_rankings", "engine_a_ranking_change", "what null means against 0"),
        ("campaign_periods", "engine_b_rankings_51", "whether it counts keywords without a position is not documented"),
        ("campaigns", "timezone", "JSON text in CSV, Parquet, Arrow and databases"),
    ],
)
def test_what_the_reference_leaves_open_is_said_to_be(table: str, column: str, said: str) -> None:
    (meaning,) = (c.description for t in all_tables() if t.name == table for c in t.columns if c.name == column)
    assert said in meaning


def test_on_a_terminal_meanings_have_its_width(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seorep_async.cli.history.stdout_is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    lines = seorep("columns", "keyword_rankings").out.splitlines()
    assert max(map(len, lines)) <= 80
    place = lines.index("  engine_a_ranking (integer): Judging by its name, position of the keyword in")
    assert lines[place + 1].startswith("      the first search engine.")


def test_as_json_it_has_every_table(seorep: Seorep) -> None:
    said = json.loads(seorep("columns", "--json").out)
    assert [table["table"] for table in said] == [table.name for table in all_tables()]
    assert said[0]["columns"][0]["name"] == "account"
