"""`seorep shards`: a pull in pieces, with JSON in and out."""

import json
from pathlib import Path

from tests.cli.running import Seorep

DAYS = ("--from", "2023-01-01", "--to", "2023-03-31")


def test_plan_run_and_gather_make_a_night(seorep: Seorep, tmp_path: Path) -> None:
    with seorep.account(campaigns=5, keywords=2) as sandbox:
        planned = seorep("shards", "plan", "-o", "rankings/", "--shards", 2, "--account", "acme", *DAYS)
        assert (planned.code, planned.err, planned.out.count("\n")) == (0, "", 2)
        (tmp_path / "shards.jsonl").write_text(planned.out)
        missing = seorep("shards", "gather", "shards.jsonl")
        assert (missing.code, missing.out) == (7, "")
        assert missing.err == "Error: 2 of 2 shards have no receipt: 0, 1; run them first\n"
        one = seorep("shards", "run", "shards.jsonl", "--number", 1)
        assert (one.code, json.loads(one.out)["number"]) == (0, 1)
        requests = sandbox.stats.requests
        both = seorep("shards", "run", "shards.jsonl")
        assert both.out.splitlines()[1] == one.out.strip()
        assert sandbox.stats.requests == requests + 2
        gathered = seorep("shards", "gather", "shards.jsonl")
    summary = json.loads(gathered.out)
    assert (gathered.code, summary["ok"], summary["rows"]) == (0, True, {"campaign": 10})
    assert len(list((tmp_path / "rankings/keyword_rankings").rglob("*.parquet"))) == 2


def test_failed_campaigns_make_the_code_4(seorep: Seorep, tmp_path: Path) -> None:
    with seorep.account(campaigns=4, keywords=1, failing={2: 404}):
        plan = seorep("shards", "plan", "-o", "rankings/", "--shards", 2, "--campaign", "1,2,3", *DAYS).out
        (tmp_path / "shards.jsonl").write_text(plan)
        assert seorep("shards", "run", "shards.jsonl").code == 4
        gathered = seorep("shards", "gather", "shards.jsonl")
    assert gathered.code == 4
    assert [failure["campaign_id"] for failure in json.loads(gathered.out)["failures"]] == [2]


def test_a_warning_of_several_shards_is_said_once(seorep: Seorep, tmp_path: Path) -> None:
    with seorep.account(campaigns=2, keywords=1):
        options = ("--shards", 2, "--engine-names", "google,bing,wmt")
        (tmp_path / "shards.jsonl").write_text(seorep("shards", "plan", "-o", "rankings/", *options, *DAYS).out)
        said = seorep("shards", "run", "shards.jsonl").err
    assert said.startswith("Warning: rows have 'engineARanking', ")
    assert said.endswith("pass --engine-names\n")
    assert said.count("\n") == 1


def test_input_that_is_no_text_is_one_line(seorep: Seorep, tmp_path: Path) -> None:
    (tmp_path / "shards.jsonl").write_bytes(b"\xff")
    ended = seorep("shards", "run", "shards.jsonl")
    assert ended.code == 2
    assert "not the JSON of a Shard" in ended.err
