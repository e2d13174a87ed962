"""`seorep changes` and `seorep forget`, in the words of the shell."""

import csv
import io
import json
from pathlib import Path

import duckdb
import pytest

from tests.cli.running import Seorep
from tests.history.left_behind import pulled


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database in which one keyword rose from 12 to 2, its phrase with a control character, and a report failed."""
    folder = pulled(tmp_path_factory.mktemp("cli"))
    with duckdb.connect(str(folder / "a.duckdb")) as own:
        ((keyword,),) = own.execute("SELECT min(keyword_id) FROM keyword_rankings").fetchall()
        own.execute("UPDATE keyword_rankings SET engine_a_ranking = 5, keyword_phrase = 'red' || chr(27) || 'shoes'")
        for rank, night in ((12, "2023-03-01"), (2, "2023-03-02")):
            changed = "UPDATE keyword_rankings SET engine_a_ranking = ? WHERE keyword_id = ? AND snapshot_date = ?"
            own.execute(changed, [rank, keyword, night])
        own.execute("DELETE FROM keyword_rankings WHERE campaign_id = 2 AND snapshot_date = '2023-03-02'")
        own.execute("""INSERT INTO failures BY NAME SELECT account, snapshot_date, 'keyword_rankings' AS table_name,
            2 AS campaign_id, start_date, end_date, 'ServerError' AS error, 'down' AS message FROM pulls
            WHERE snapshot_date = '2023-03-02'""")
    return folder


KINDS = ["rose", "entered_top_3", "entered_top_10"]


def test_a_table_has_a_line_for_each_keyword(seorep: Seorep, left_behind: Path) -> None:
    ended = seorep("changes", left_behind / "a.duckdb", "--account", "acme")
    assert (ended.code, len(ended.out.splitlines())) == (0, 2)
    assert ended.out.splitlines()[1].split()[-6:] == [
        "engine_a",
        "12",
        "2",
        *(f"{one}," for one in KINDS[:2]),
        KINDS[2],
    ]
    assert ended.err.splitlines() == [
        "acme, 2023-03-01 to 2023-03-02: 3 changes",
        "Warning: not compared, as the report of 2023-03-02 failed: campaigns 2",
    ]


def test_every_format_has_the_same_rows(seorep: Seorep, left_behind: Path) -> None:
    source = (left_behind / "a.duckdb", "--account", "acme", "--moved", 4)
    found = json.loads(seorep("changes", *source, "--json").out)
    assert [row["kind"] for row in found] == KINDS
    assert (found[0]["keyword_phrase"], found[0]["before"], found[0]["after"]) == ("red\x1bshoes", 12, 2)
    lines = seorep("changes", *source, "--jsonl").out
    assert "\x1b" not in lines
    assert [json.loads(line) for line in lines.splitlines()] == found
    rows = list(csv.DictReader(io.StringIO(seorep("changes", *source, "--csv").out)))
    assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in found] == rows


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("changes a.duckdb", "several accounts; name one with --account: 'acme', 'other'"),
        (
            "changes a.duckdb --account acme --to 2023-03-05",
            "there is no night 2023-03-05: a.duckdb has rankings of acme",
        ),
        ("changes a.duckdb --account acme --to 2023-03-01", "no night before 2023-03-01 to compare: a.duckdb has rank"),
        (
            "changes a.duckdb --account acme --from 2023-03-02 --to 2023-03-01",
            "--from must be a night before 2023-03-01, got 2023-03-02",
        ),
        ("changes a.duckdb --moved 0", "'0' is not an integer from 1"),
        ("forget a.duckdb --account x --yes", "there is no account 'x' in"),
        ("forget a.duckdb --yes", "Missing option '--account'"),
    ],
)
def test_what_is_not_there_is_refused(
    seorep: Seorep, left_behind: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.chdir(left_behind)
    ended = seorep(*words.split())
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_forget_asks_first(seorep: Seorep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pulled(tmp_path)
    asked = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        return len(asked) > 1

    monkeypatch.setattr("seorep_async.cli.terminal.can_ask", lambda: True)
    monkeypatch.setattr("click.confirm", confirm)
    refused = seorep("forget", tmp_path / "a.duckdb", "--account", "acme")
    assert (refused.code, refused.err) == (130, "Nothing was deleted.\n")
    ended = seorep("forget", tmp_path / "a.duckdb", "--account", "acme")
    assert (ended.code, ended.err.splitlines()[-1]) == (
        0,
        "Deleted every row of account 'acme'. Backups and copies still have theirs.",
    )
    assert (
        asked[0]
        == f"Delete every row of account 'acme' in {tmp_path / 'a.duckdb'}? Backups and copies are not reached."
    )
