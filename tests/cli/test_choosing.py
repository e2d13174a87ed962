"""Which days and which campaigns the command line chooses, and several months in one command."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from seorep_async.cli.application import run
from seorep_async.cli.choosing import ChosenDays, chosen_days, ids_in

ZONE = dt.timezone(dt.timedelta(hours=2))


def days(today: str, **options: Any) -> ChosenDays:
    return chosen_days(options, dt.datetime.fromisoformat(today).replace(hour=1, tzinfo=ZONE))


# --- Days


@pytest.mark.parametrize(
    ("option", "today", "expected"),
    [
        # a missing date means the last three full months
        ({}, "2023-07-15", "2023-04-01 2023-06-30"),
        ({}, "2023-07-01", "2023-04-01 2023-06-30"),
        ({}, "2023-07-31", "2023-04-01 2023-06-30"),
        ({}, "2023-01-31", "2022-10-01 2022-12-31"),
        ({}, "2024-03-31", "2023-12-01 2024-02-29"),
        ({"from": dt.date(2022, 5, 6)}, "2023-07-15", "2022-05-06 2023-06-30"),
        ({"to": dt.date(2023, 7, 10)}, "2023-07-15", "2023-05-01 2023-07-10"),
        ({"to": dt.date(2023, 2, 28)}, "2023-07-15", "2022-12-01 2023-02-28"),
        ({"to": dt.date(1, 2, 1)}, "2023-07-15", "0001-01-01 0001-02-01"),
        ({"from": dt.date(2023, 7, 1), "to": dt.date(2023, 7, 2)}, "2023-07-15", "2023-07-01 2023-07-02"),
        # a period is counted from today
        ({"last": (1, "d")}, "2023-03-01", "2023-02-28 2023-02-28"),
        ({"last": (30, "d")}, "2023-07-15", "2023-06-15 2023-07-14"),
        ({"last": (4, "w")}, "2023-07-15", "2023-06-17 2023-07-14"),
        ({"last": (1, "m")}, "2023-07-15", "2023-06-01 2023-06-30"),
        ({"last": (13, "m")}, "2023-01-31", "2021-12-01 2022-12-31"),
        ({"month": (dt.date(2023, 3, 1),)}, "2023-07-15", "2023-03-01 2023-03-31"),
        ({"month": (dt.date(9999, 12, 1),)}, "2023-07-15", "9999-12-01 9999-12-31"),
        ({"month": (dt.date(2024, 2, 1),)}, "2024-07-15", "2024-02-01 2024-02-29"),
        ({"month": (dt.date(2023, 12, 1),)}, "2024-07-15", "2023-12-01 2023-12-31"),
        ({"month_to_date": True}, "2023-07-01", "2023-07-01 2023-07-01"),
        ({"month_to_date": True}, "2024-02-29", "2024-02-01 2024-02-29"),
    ],
)
def test_the_days_that_options_choose(option: dict[str, Any], today: str, expected: str) -> None:
    found = days(today, **option)
    assert f"{found.first} {found.last}" == expected


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({}, "the 3 full months before 2023-07-15 (UTC+02:00)"),
        ({"last": (7, "d")}, "the 7 days before 2023-07-15 (UTC+02:00)"),
        ({"month_to_date": True}, "the month up to 2023-07-15 (UTC+02:00)"),
        ({"from": dt.date(2023, 5, 2)}, "up to the end of the month before 2023-07-15 (UTC+02:00)"),
        ({"month": (dt.date(2023, 6, 1),)}, ""),
        ({"to": dt.date(2023, 7, 15)}, ""),
    ],
)
def test_days_that_follow_from_today_say_so(option: dict[str, Any], said: str) -> None:
    found = days("2023-07-15", **option)
    assert (found.origin, found.notes) == (said, ())


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"month": (dt.date(2023, 7, 1),)}, "2023-07-16 to 2023-07-31"),
        ({"to": dt.date(2023, 7, 16)}, "2023-07-16 to 2023-07-16"),
        ({"from": dt.date(2023, 7, 16), "to": dt.date(2023, 8, 1)}, "2023-07-16 to 2023-08-01"),
    ],
)
def test_days_in_the_future_are_pointed_out(option: dict[str, Any], said: str) -> None:
    (note,) = days("2023-07-15", **option).notes
    assert note == f"Note: {said} is in the future, as today is 2023-07-15 (UTC+02:00); it has no rankings yet."


# --- Ids in a file


@pytest.mark.parametrize(
    ("contents", "ids"),
    [
        ("3\n1\n2", [3, 1, 2]),
        ("1\r\n\r\n2\r\n", [1, 2]),
        ("1\r2", [1, 2]),
        ("\ufeff1\n2\n", [1, 2]),
        ("# the shops\n1 # Acme, Ltd\n  # 9\n2\n", [1, 2]),
        ('"1"\n"2"\n', [1, 2]),
        ("campaign_id\n1\n2\n", [1, 2]),
        ("\ufeffcampaign_id,company\r\n1,Acme #1\r\n2,\r\n", [1, 2]),
        ('# exported\n\n"company","campaign_id"\n"Acme\nLtd","1"\n,,\nBeta,2 # ours\n', [1, 2]),
        ("account,id,campaign_id\n9,8,1\n9,8,2\n", [1, 2]),
    ],
)
def test_ids_are_read_one_a_line_or_from_their_column(contents: str, ids: list[int]) -> None:
    assert ids_in(contents.encode(), "ids.txt") == ids


# --- Several months


SANDBOX = ("pull", "--sandbox", "--campaigns=3", "--keywords=2", "--quiet")
FEEDS = ("--feed=campaign", "--feed=campaign-by-date", "--feed=keyword-by-date")
NIGHTLESS = "SELECT * EXCLUDE (snapshot_date) FROM {} ORDER BY ALL"
TABLES = ("keyword_rankings", "campaign_periods", "keyword_periods", "totals", "campaigns", "keywords")


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def pull(*options: str) -> int:
    return run([*SANDBOX, *options])


def rows_in_tables(file: str) -> dict[str, list[Any]]:
    with duckdb.connect(file, read_only=True) as database:
        return {name: database.execute(NIGHTLESS.format(name)).fetchall() for name in TABLES}


def as_json(capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("out", ["parts.duckdb", "parts/"])
def test_nights_of_few_requests_lose_nothing(out: str, capfd: pytest.CaptureFixture[str]) -> None:
    months = ("--each=month", "--from=2022-01-01", "--to=2022-03-31", *FEEDS)
    assert pull(*months, "--out=whole.duckdb", "--json") == 0
    whole = as_json(capfd)
    codes: list[int] = []
    rows_pulled = 0
    while not codes or codes[-1] == 5:
        codes.append(pull(*months, f"--out={out}", "--skip-complete", "--max-requests=12", "--json"))
        found = as_json(capfd)
        rows_pulled += found["rows"]
        assert found["requests"] <= 12 + 1
    assert (codes[-1], len(codes) > 3, rows_pulled) == (0, True, whole["rows"])
    if out.endswith("duckdb"):
        assert rows_in_tables("parts.duckdb") == rows_in_tables("whole.duckdb")


@pytest.mark.heavy
@pytest.mark.parametrize("out", ["a.duckdb", "a/"])
def test_a_campaign_that_always_fails_keeps_no_month_back(out: str, capfd: pytest.CaptureFixture[str]) -> None:
    months = ("--each=month", "--from=2022-01-01", "--to=2022-04-30", "--forbidden=2", f"--out={out}")
    pulled: list[str] = []
    for _ in range(8):
        pull(*months, "--skip-complete", "--max-requests=4", "--json")
        pulled += [one["start_date"] for one in as_json(capfd)["pulls"]]
    assert pulled == ["2022-01-01", "2022-02-01", "2022-03-01", "2022-04-01"] * 2
