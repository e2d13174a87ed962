"""A checkpoint that somebody else wrote, with right checksums, gives one clear error, and never a raw one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from seorep_async import ConfigurationError, Feed, PullPausedError, SeoRepClient
from seorep_async.export import ExportError, PullSummary
from tests.export.door import PullSpec, preview, target_of
from tests.export.forged_notes import change_note, forge_note, forge_report, forge_rows, opened
from tests.export.made_service import Made, made
from tests.export.reports import END, START, pull_into, rows_in

DAMAGED = r"^can't write [^\n]*: the checkpoint in \.a\.\S+\.pull is damaged; pass restart=True to start over$"
NOTES = ["salt", "parameters", "planned", "ended", "key", "paused", "named"]
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
FAILED = {"feed": "campaign", "id": 1, "kind": "NotFoundError", "message": "gone"}
FAILURES: Mapping[str, Any] = {
    "no list": 7,
    "no object": [7],
    "no field": [{}],
    "feed": [FAILED | {"feed": "none"}],
    "id": [FAILED | {"id": "1"}],
    "kind": [FAILED | {"kind": "annotations"}],
    "other kind": [FAILED | {"kind": "Path"}],
    "NaN": [FAILED | {"kind": "ServerError", "retry_after": float("nan")}],
    "field of another kind": [FAILED | {"page": 1}],
    "field": [FAILED | {"more": 1}],
    "message": [FAILED | {"message": None}],
    "status": [FAILED | {"status": 2**70}],
    "text": [FAILED | {"subject": "\ud800"}],
}
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


def forge_campaign(out: Path, id_: Any) -> None:
    with opened(out) as (database, checksum):
        database.execute("UPDATE campaigns SET id = ?, checksum = ? WHERE place = 1", (id_, checksum(1, id_, None)))


def forge_encoding(out: Path) -> None:
    """Store bytes that Python's message quotes; the file is not locked."""
    with opened(out) as (database, _):
        query = "UPDATE notes SET value = CAST(? AS TEXT) WHERE name = 'parameters'"
        database.execute(query, (b"\xff database is locked",))


def changed(field: str, value: Any) -> Callable[[Path], None]:
    return lambda out: change_note(out, "parameters", lambda found: found | {field: value})


FORGERIES: Mapping[str, Callable[[Path], None]] = {
    **{
        f"{name}: {kind}": partial(forge_note, name=name, value=value)
        for name in NOTES
        for kind, value in WRONG.items()
        if (name, kind) != ("key", "text")  # a string like any other
    },
    **{f"{field}: {value!r}": changed(field, value) for field, some in FIELDS.items() for value in some},
    **{
        f"failure: {kind}": partial(forge_note, name="paused", value=json.dumps(value))
        for kind, value in FAILURES.items()
    },
    **{
        f"report's {column}: {value!r}": partial(forge_report, column=column, value=value)
        for column, some in COLUMNS.items()
        for value in some
    },
    **{
        f"campaign: {str(id_)[:9]}": partial(forge_campaign, id_=id_)
        for id_ in (None, "x", "9" * 5000, b"\xff", float("inf"))
    },
    "no UTF-8": forge_encoding,
}


@attrs.frozen
class Paused:
    """A pull that has paused with the report of campaign 1, and without that of campaign 2."""

    service: Made
    client: SeoRepClient
    out: Path
    feed: Feed
    ids: list[int] | None

    async def pull(self, **options: Any) -> PullSummary:
        return await pull_into(self.client, self.out, self.ids, feeds=self.feed, **options)

    async def check_damage(self) -> None:
        """Check that the pull says that its checkpoint is damaged, also again, and that a restart mends that."""
        for _ in range(2):
            with pytest.raises(ExportError, match=DAMAGED):
                await self.pull()
        assert (await self.pull(restart=True)).ok


@asynccontextmanager
async def paused(
    out: Path,
    feed: Feed = Feed.CAMPAIGN,
    ids: list[int] | None = None,
    requests: int = 2,
    keywords: int = 1,
    **options: Any,
) -> AsyncIterator[Paused]:
    async with made({1: [*range(10, 10 + keywords)], 2: [20]}, **options) as (service, client):
        pull = Paused(service, client, out, feed, ids)
        with pytest.raises(PullPausedError):
            await pull.pull(max_requests=requests)
        yield pull


@pytest.mark.parametrize("kind", FORGERIES)
async def test_what_no_pull_stores_is_damage(tmp_path: Path, kind: str) -> None:
    of_ids: dict[str, Any] = {"ids": [1, 2], "requests": 1} if "named" in kind else {}  # else none are named
    async with paused(tmp_path / "a.csv", **of_ids) as pull:
        FORGERIES[kind](pull.out)
        await pull.check_damage()


async def test_another_digest_of_a_key_is_another_key(tmp_path: Path) -> None:
    async with paused(tmp_path / "a.csv") as pull:
        forge_note(pull.out, "key", WRONG["text"])
        with pytest.raises(ConfigurationError, match="another API key"):
            await pull.pull()


@pytest.mark.parametrize("field", [*FIELDS, "campaigns"])
async def test_a_missing_parameter_is_damage(tmp_path: Path, field: str) -> None:
    async with paused(tmp_path / "a.csv") as pull:
        change_note(pull.out, "parameters", lambda found: {name: one for name, one in found.items() if name != field})
        await pull.check_damage()


async def test_fields_that_no_version_notes_are_left_out(tmp_path: Path) -> None:
    async with paused(tmp_path / "a.csv") as pull:
        changed("more", [1])(pull.out)
        assert (await pull.pull()).resumed == 1


@pytest.mark.parametrize("value", ["0001-01-01T00:00:00", "9999-12-31T23:59:59"])
async def test_the_first_and_the_last_time_are_read(tmp_path: Path, value: str) -> None:
    async with paused(tmp_path / "a.csv") as pull:
        change_note(pull.out, "parameters", lambda found: found | {"started_at": value})
        with contextlib.suppress(ExportError):
            await pull.pull()


async def test_a_dry_run_calls_a_forged_note_damage(tmp_path: Path) -> None:
    async with paused(tmp_path / "a.csv") as pull:
        forge_note(pull.out, "parameters", "[]")
        spec = PullSpec.of(pull.client, None, START, END, "campaign", {})
        with pytest.raises(ExportError, match=DAMAGED):
            await preview(pull.client, spec, target_of(pull.out, spec.feeds))


@pytest.mark.parametrize("column", ["start", "size"])
@pytest.mark.parametrize("value", [1 << 40, (1 << 63) - 1])
async def test_rows_beyond_their_file_are_fetched_again(tmp_path: Path, column: str, value: int) -> None:
    async with paused(tmp_path / "a.csv") as pull:
        forge_report(pull.out, column, value)
        pull.service.asked = []
        assert (await pull.pull()).ok
    assert (pull.service.asked, len(rows_in(pull.out))) == (["1", "2"], 2)


@pytest.mark.parametrize(
    "totals", ["", "{", "7", "[]", "[1]", json.dumps([*["x"] * 16, {}]), json.dumps([*[None] * 16, []]), "[" * 100_000]
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
async def test_totals_that_no_report_has_are_damage(tmp_path: Path, ending: str, totals: str) -> None:
    async with paused(tmp_path / f"a.{ending}", Feed.CAMPAIGN_BY_DATE, totals={1: 5}) as pull:
        forge_report(pull.out, "totals", totals)
        await pull.check_damage()


@pytest.mark.parametrize("id_", ["x", "9" * 5000, b"\xff"])
async def test_a_keyword_that_is_no_number_is_damage(tmp_path: Path, id_: Any) -> None:
    async with paused(tmp_path / "a.csv", Feed.KEYWORD_BY_DATE, requests=3) as pull:
        with opened(pull.out) as (database, checksum):
            database.execute("UPDATE keywords SET id = ? WHERE campaign_id = 1", (id_,))
            database.execute("UPDATE campaigns SET checksum = ? WHERE id = 1", (checksum(0, 1, [id_]),))
        await pull.check_damage()


@pytest.mark.parametrize("keywords", [1, 150])  # packed, and as a record batch
@pytest.mark.parametrize("ending", ["parquet", "duckdb"])
@pytest.mark.parametrize("shift", [0, 1])  # zeros, and as they were but later
async def test_rows_that_no_report_has_are_damage(tmp_path: Path, shift: int, ending: str, keywords: int) -> None:
    async with paused(tmp_path / f"a.{ending}", keywords=keywords) as pull:
        forge_rows(pull.out, lambda data: data[shift:] + bytes(shift) if shift else bytes(len(data)))
        await pull.check_damage()


async def test_a_forged_account_is_one_short_line(tmp_path: Path) -> None:
    async with paused(tmp_path / "a.csv") as pull:
        changed("account", "\n\x1b[31m" * 1000)(pull.out)
        with pytest.raises(ConfigurationError) as caught:
            await pull.pull()
        assert caught.value.message.isprintable()
        assert len(caught.value.message) < 600
