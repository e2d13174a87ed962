"""A checkpoint that somebody else wrote, with right checksums, gives one clear error, and never a raw one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from seorep_async import ConfigurationError, Feed, PullPausedError, SeoRepClient
from seorep_async.export import ExportError
from tests.export.door import PullSpec, preview, target_of
from tests.export.forged_notes import change_note, forge_note, forge_report, forge_rows, opened
from tests.export.made_service import made
from tests.export.reports import END, START, pull_into, rows_in

DAMAGED = r"^can't write [^\n]*: the checkpoint in \.a\.\S+\.pull is damaged; pass restart=True to start over$"
WRONG: Mapping[str, Any] = {
    "no JSON": "{",
    "nothing": "",
    "NULL": None,
    "number": 7,
    "blob": b"\xff",
    "deep": "[" * 100_000,
    "digits": "9" * 5000,
    "NaN": "NaN",
    "huge": "1e999",
    "text": '"\\ud800"',
    "list": "[[]]",
    "object": '{"a": 1}',
}
NOTES = ["salt", "parameters", "planned", "ended", "key", "paused", "named"]
FIELDS: Mapping[str, list[Any]] = {
    "service": [7, ["a"], None],
    "account": [{}],
    "started_at": [None, "2023-04-02T03:00:00Z", "2023-04-02", "2023-13-02T03:00:00", "10000-01-01T00:00:00"],
    "snapshot_date": [None, 7, "today", "2023-02-30", "2023-04-02T00:00:00"],
    "start_date": ["x", 7],
    "end_date": ["9999-99-99"],
    "feeds": [7, [7], "campaign"],
    "options": [[]],
    "format": [0],
    "version": [None, 6, [], [6], ["6", "7"], "67", {"0": 6}],
}


async def pause(client: SeoRepClient, out: Path, **options: Any) -> None:
    """Leave a pull with the report of campaign 1, and without that of campaign 2."""
    with pytest.raises(PullPausedError):
        await pull_into(client, out, **{"max_requests": 2, **options})


async def check_damage(client: SeoRepClient, out: Path, **options: Any) -> None:
    """Check that a pull says that its checkpoint is damaged, also again, and that a restart mends that."""
    for _ in range(2):
        with pytest.raises(ExportError, match=DAMAGED):
            await pull_into(client, out, **options)
    assert (await pull_into(client, out, restart=True, **options)).ok


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("name", NOTES)
async def test_a_note_of_another_type_is_damage(tmp_path: Path, name: str, kind: str) -> None:
    out = tmp_path / "a.csv"
    async with made({1: [10], 2: [20]}) as (_, client):
        await pause(client, out, ids=[1, 2], max_requests=1)
        forge_note(out, name, WRONG[kind])
        if (name, kind) == ("key", "text"):  # a string like any other
            with pytest.raises(ConfigurationError, match="another API key"):
                await pull_into(client, out, ids=[1, 2])
        else:
            await check_damage(client, out, ids=[1, 2])


@pytest.mark.parametrize(("field", "value"), [(field, one) for field, some in FIELDS.items() for one in some])
async def test_a_parameter_of_another_type_is_damage(tmp_path: Path, field: str, value: Any) -> None:
    out = tmp_path / "a.csv"
    async with made({1: [10], 2: [20]}) as (_, client):
        await pause(client, out)
        change_note(out, "parameters", lambda found: found | {field: value})
        await check_damage(client, out)


@pytest.mark.parametrize("field", [*FIELDS, "campaigns"])
async def test_a_missing_parameter_is_damage(tmp_path: Path, field: str) -> None:
    out = tmp_path / "a.csv"
    async with made({1: [10], 2: [20]}) as (_, client):
        await pause(client, out)
        change_note(out, "parameters", lambda found: {name: one for name, one in found.items() if name != field})
        await check_damage(client, out)


async def test_fields_that_no_version_notes_are_left_out(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    async with made({1: [10], 2: [20]}) as (_, client):
        await pause(client, out)
        change_note(out, "parameters", lambda found: found | {"more": [1]})
        assert (await pull_into(client, out)).resumed == 1


@pytest.mark.parametrize("value", ["0001-01-01T00:00:00", "9999-12-31T23:59:59"])
async def test_the_first_and_the_last_time_are_read(tmp_path: Path, value: str) -> None:
    out = tmp_path / "a.csv"
    async with made({1: [10], 2: [20]}) as (_, client):
        await pause(client, out)
        change_note(out, "parameters", lambda found: found | {"started_at": value})
        with contextlib.suppress(ExportError):
            await pull_into(client, out)


async def test_a_dry_run_calls_a_forged_note_damage(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    async with made({1: [10], 2: [20]}) as (_, client):
        await pause(client, out)
        forge_note(out, "parameters", "[]")
        spec = PullSpec.of(client, None, START, END, "campaign", {})
        with pytest.raises(ExportError, match=DAMAGED):
            await preview(client, spec, target_of(out, spec.feeds))


# --- Reports


COLUMNS: Mapping[str, list[Any]] = {
    "name": [None],
    "campaign_id": [None, "x", 1.5, b"1"],
    "id": [None, "x", 1.5],
    "rows": [None, "x", -1, 1.5],
    "totals": [7, b"[]"],
    "start": [None, "x", -1],
    "size": [None, "x", -1, b"4"],
    "data_checksum": [None, "x", -1],
}


@pytest.mark.parametrize(("column", "value"), [(column, one) for column, some in COLUMNS.items() for one in some])
async def test_a_report_of_other_types_is_damage(tmp_path: Path, column: str, value: Any) -> None:
    out = tmp_path / "a.csv"
    async with made({1: [10], 2: [20]}) as (_, client):
        await pause(client, out)
        forge_report(out, column, value)
        await check_damage(client, out)


@pytest.mark.parametrize("column", ["start", "size"])
@pytest.mark.parametrize("value", [1 << 40, (1 << 63) - 1])
async def test_rows_beyond_their_file_are_fetched_again(tmp_path: Path, column: str, value: int) -> None:
    out = tmp_path / "a.csv"
    async with made({1: [10], 2: [20]}) as (service, client):
        await pause(client, out)
        forge_report(out, column, value)
        service.asked = []
        assert (await pull_into(client, out)).ok
    assert (service.asked, len(rows_in(out))) == (["1", "2"], 2)


@pytest.mark.parametrize(
    "totals", ["", "{", "7", "[]", "[1]", json.dumps([*["x"] * 16, {}]), json.dumps([*[None] * 16, []]), "[" * 100_000]
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
async def test_totals_that_no_report_has_are_damage(tmp_path: Path, ending: str, totals: str) -> None:
    out = tmp_path / f"a.{ending}"
    async with made({1: [10], 2: [20]}, totals={1: 5}) as (_, client):
        await pause(client, out, feeds=Feed.CAMPAIGN_BY_DATE)
        forge_report(out, "totals", totals)
        await check_damage(client, out, feeds=Feed.CAMPAIGN_BY_DATE)


@pytest.mark.parametrize("id_", [None, "x", "9" * 5000, b"\xff", float("inf")])
async def test_a_campaign_that_is_no_number_is_damage(tmp_path: Path, id_: Any) -> None:
    out = tmp_path / "a.csv"
    async with made({1: [10], 2: [20]}) as (_, client):
        await pause(client, out)
        with opened(out) as (database, checksum):
            database.execute("UPDATE campaigns SET id = ?, checksum = ? WHERE place = 1", (id_, checksum(1, id_, None)))
        await check_damage(client, out)


@pytest.mark.parametrize("id_", ["x", "9" * 5000, b"\xff"])
async def test_a_keyword_that_is_no_number_is_damage(tmp_path: Path, id_: Any) -> None:
    out = tmp_path / "a.csv"
    async with made({1: [10], 2: [20]}) as (_, client):
        await pause(client, out, feeds=Feed.KEYWORD_BY_DATE, max_requests=3)
        with opened(out) as (database, checksum):
            database.execute("UPDATE keywords SET id = ? WHERE campaign_id = 1", (id_,))
            database.execute("UPDATE campaigns SET checksum = ? WHERE id = 1", (checksum(0, 1, [id_]),))
        await check_damage(client, out, feeds=Feed.KEYWORD_BY_DATE)


@pytest.mark.parametrize("keywords", [1, 150])  # packed, and as a record batch
@pytest.mark.parametrize("ending", ["parquet", "duckdb"])
@pytest.mark.parametrize("shift", [0, 1])  # zeros, and as they were but later
async def test_rows_that_no_report_has_are_damage(tmp_path: Path, shift: int, ending: str, keywords: int) -> None:
    out = tmp_path / f"a.{ending}"
    async with made({1: [*range(10, 10 + keywords)], 2: [20]}) as (_, client):
        await pause(client, out)
        forge_rows(out, lambda data: data[shift:] + bytes(shift) if shift else bytes(len(data)))
        await check_damage(client, out)


async def test_text_that_is_no_utf_8_is_damage(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    async with made({1: [10], 2: [20]}) as (_, client):
        await pause(client, out, ids=[1, 2], max_requests=1)
        with opened(out) as (database, _):  # Python's message quotes it, but the file is not locked
            query = "UPDATE notes SET value = CAST(? AS TEXT) WHERE name = 'parameters'"
            database.execute(query, (b"\xff database is locked",))
        await check_damage(client, out, ids=[1, 2])


async def test_a_forged_account_is_one_short_line(tmp_path: Path) -> None:
    out = tmp_path / "a.csv"
    async with made({1: [10], 2: [20]}) as (_, client):
        await pause(client, out, ids=[1, 2], max_requests=1)
        change_note(out, "parameters", lambda found: found | {"account": "\n\x1b[31m" * 1000})
        with pytest.raises(ConfigurationError) as caught:
            await pull_into(client, out, ids=[1, 2])
        assert caught.value.message.isprintable()
        assert len(caught.value.message) < 600
