"""A dataset in a shared folder that somebody prepared: nothing outside is read, written, linked or deleted."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from seorep_async import SeoRepClient
from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export import pull_to
from seorep_async.export.storage import storage_of
from tests.export.reports import END, NIGHT, START, account
from tests.export.s3 import Bucket

FOLDER = f"account=acme/snapshot_date={NIGHT}"
RECEIPT = f"_receipts/{FOLDER}.json"
PART = f"keyword_rankings/{FOLDER}/part-00000.parquet"
SECRET = b"a private file"
LINE = r"^[^\n]*$"
OTHER_PULL = "0123456789ab"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a folder with private files, beside which the dataset stands."""
    folder = tmp_path / "private"
    for name in ("secret.txt", "tree/a/b.txt", "tree/c.txt", f"{FOLDER}/part-00000.parquet", f"{FOLDER}.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(SECRET)
    return folder


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the contents of every file, and how many names it has."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_nlink) for path in files}


async def pull(client: SeoRepClient, folder: Path) -> None:
    options: dict[str, Any] = {"out": f"{folder}/rankings/", "account": "acme", "snapshot_date": NIGHT}
    await pull_to(client, None, START, END, **options)


async def refused(folder: Path, outside: Path, forge: Callable[[Path], None], *, may_pass: bool = False) -> None:
    """Pull a night, forge something, pull again, and check what happened."""
    before, out = state(outside), folder / "rankings"
    passed: AbstractContextManager[object] = contextlib.nullcontext()
    if not may_pass:
        passed = pytest.raises((ConfigurationError, ExportError), match=LINE)
    async with account(campaigns=1, keywords=1) as (_, client):
        await pull(client, folder)
        forge(out)
        with passed:
            await pull(client, folder)
    assert state(outside) == before
    inside = [path for path in out.rglob("*") if path.is_file() and out in path.resolve().parents]
    assert not [path for path in inside if path.stat().st_size == len(SECRET) and path.read_bytes() == SECRET]


def change(name: str, **changes: Any) -> Callable[[Path], None]:
    """Return a function that changes fields of a JSON file; `part` changes those of the first part."""

    def forge(out: Path) -> None:
        found = json.loads((out / name).read_bytes())
        for part in found["parts"][:1]:
            part |= changes.pop("part", {})
        (out / name).write_text(json.dumps(found | changes))

    return forge


async def test_a_forged_log_of_another_version_changes_nothing(tmp_path: Path, outside: Path) -> None:
    def forge(out: Path) -> None:
        receipt = json.loads((out / RECEIPT).read_bytes())
        log = {
            "id": "0",
            "receipt": receipt | {"pull": "../../private/tree"},
            "replaces": receipt | {"pull": "../../private/tree"},
            "places": [["../private/secret.txt", PART], [PART, "../private/secret.txt"]],
        }
        (out / f"_receipts/{FOLDER}.replacing.json").write_text(json.dumps(log))

    await refused(tmp_path, outside, forge)


@pytest.mark.parametrize("pull", ["../../private/tree", "/private", "a\0b", "0" * 11, "ABCDEF012345", "", 5, None])
@pytest.mark.parametrize("field", ["pull", "older"])
async def test_a_pull_has_a_name_of_12_digits(tmp_path: Path, outside: Path, field: str, pull: object) -> None:
    changes: dict[str, Any] = {field: pull}
    if field == "older":
        changes |= {"parts": [], "coming": [], "older": pull}
    await refused(tmp_path, outside, change(RECEIPT, **changes), may_pass=changes.get("older", 0) is None)


@pytest.mark.parametrize(
    "part",
    [
        {"table": "../../private"},
        {"table": "/etc"},
        {"table": "a\0b"},
        {"table": "no_table"},
        {"table": "_staging"},
        {"table": None},
        {"number": True},
        {"number": -1},
        {"number": 0.5},
        {"number": "0/../../../../private/secret"},
        {"number": 10**40},
        {"rows": -1},
        {"bytes": "1"},
        {"bytes": 2**62},
        {"digest": "../" * 20},
        {"digest": "A" * 64},
    ],
    ids=str,
)
@pytest.mark.parametrize("field", ["parts", "coming"])
async def test_a_part_is_one_that_a_pull_wrote(tmp_path: Path, outside: Path, field: str, part: dict[str, Any]) -> None:
    def forge(out: Path) -> None:
        change(RECEIPT, part=part)(out)
        if field == "coming":
            parts = json.loads((out / RECEIPT).read_bytes())["parts"]
            change(RECEIPT, parts=[], coming=parts)(out)

    await refused(tmp_path, outside, forge)


@pytest.mark.parametrize(
    "changes",
    [
        {"account": "other"},
        {"account": "../../private"},
        {"snapshot_date": "2023-04-03"},
        {"snapshot_date": "yesterday"},
        {"start_date": "2023-02-30"},
        {"end_date": 5},
        {"feeds": ["../private"]},
        {"feeds": "campaign"},
        {"failures": True},
        {"failures": -1},
        {"service": None},
        {"parts": {}},
        {"parts": None},
        {"receipt": 2},
    ],
    ids=str,
)
async def test_a_receipt_is_one_of_its_night(tmp_path: Path, outside: Path, changes: dict[str, Any]) -> None:
    await refused(tmp_path, outside, change(RECEIPT, **changes))


async def test_a_staged_part_that_was_changed_is_never_put_in_place(tmp_path: Path) -> None:
    out = tmp_path / "rankings"
    async with account(campaigns=1, keywords=1) as (_, client):
        await pull(client, tmp_path)
        found, rows = json.loads((out / RECEIPT).read_bytes()), (out / PART).read_bytes()
        part = next(part for part in found["parts"] if part["table"] == "keyword_rankings")
        change(RECEIPT, parts=[], coming=found["parts"])(out)
        staged = out / f"_staging/{FOLDER}/{found['pull']}/keyword_rankings-00000-{part['digest'][:16]}.parquet"
        staged.parent.mkdir(parents=True, exist_ok=True)
        staged.write_bytes(SECRET)
        await pull_to(client, None, START, END, out=f"{out}/", account="acme", snapshot_date="2023-04-03")
        assert (out / PART).read_bytes() == rows
        assert json.loads((out / RECEIPT).read_bytes())["parts"] == []
        await pull(client, tmp_path)
        assert (out / PART).read_bytes() == rows


async def test_no_part_is_named_twice(tmp_path: Path, outside: Path) -> None:
    def forge(out: Path) -> None:
        parts = json.loads((out / RECEIPT).read_bytes())["parts"]
        change(RECEIPT, parts=[*parts, parts[0]])(out)

    await refused(tmp_path, outside, forge)


@pytest.mark.parametrize("data", [b"[" * 10**6, b'{"parts":' * 10**5, b'{"x":' + b"[" * 10**5 + b"]" * 10**5 + b"}"])
async def test_deep_json_is_one_clear_error(tmp_path: Path, outside: Path, data: bytes) -> None:
    await refused(tmp_path, outside, lambda out: void((out / RECEIPT).write_bytes(data)))


async def test_huge_json_is_one_clear_error(tmp_path: Path, outside: Path) -> None:
    await refused(tmp_path, outside, lambda out: os.truncate(out / RECEIPT, 1 << 40))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
async def test_a_pipe_in_place_of_a_receipt_is_refused(tmp_path: Path, outside: Path) -> None:
    def forge(out: Path) -> None:
        (out / RECEIPT).unlink()
        os.mkfifo(out / RECEIPT)

    await refused(tmp_path, outside, forge)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("_receipts", "."),
        ("_receipts/account=acme", "account=acme"),
        (RECEIPT, f"{FOLDER}.json"),
        ("_staging", "tree"),
        ("_staging", "missing"),
        ("keyword_rankings", "."),
        ("totals/account=acme", "account=acme"),
        (f"totals/{FOLDER}", FOLDER),
        (PART, "secret.txt"),
        (PART, "missing"),
    ],
)
async def test_a_link_below_the_folder_is_refused(tmp_path: Path, outside: Path, name: str, place: str) -> None:
    def forge(out: Path) -> None:
        if (out / name).exists():
            (out / name).rename(tmp_path / "moved")
        (out / name).symlink_to(outside / place)

    await refused(tmp_path, outside, forge)


async def test_a_folder_that_is_itself_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "rankings").symlink_to(tmp_path / "elsewhere")
    async with account(campaigns=1, keywords=1) as (_, client):
        await pull(client, tmp_path)
    assert (tmp_path / "elsewhere" / RECEIPT).is_file()


@pytest.mark.parametrize(
    "name", [f"{NIGHT}.replacing.json", f"{NIGHT}~.json", "20230402.json", "2023-4-2.json", "x.json"]
)
async def test_a_foreign_name_among_the_receipts_is_an_error(tmp_path: Path, name: str) -> None:
    async with account(campaigns=1, keywords=1) as (sandbox, client):
        await pull(client, tmp_path)
        foreign = tmp_path / f"rankings/_receipts/account=acme/snapshot_date={name}"
        foreign.write_bytes(b"{}")
        before = sandbox.stats.requests
        with pytest.raises(ExportError, match="not a receipt of this version; move it away") as caught:
            await pull(client, tmp_path)
        assert str(foreign) in str(caught.value)
        assert sandbox.stats.requests == before


@pytest.mark.parametrize("name", ["../private/secret.txt", "/etc/passwd", "a/../../x", "a\0b", "a//b", "./a", ".."])
@pytest.mark.parametrize("where", ["folder", "bucket"])
def test_a_name_never_leads_out_of_a_folder(request: pytest.FixtureRequest, where: str, name: str) -> None:
    out = request.getfixturevalue("outside").parent / "rankings"
    storage = storage_of(str(out))
    if where == "bucket":
        bucket: Bucket = request.getfixturevalue("bucket")
        storage = storage_of(f"{bucket.url}/rankings/", bucket.server.options)
    storage.write("a/first", b"rows")
    file = out.parent / "finished"
    file.write_bytes(b"rows")
    for step in (
        lambda: storage.put(file, name),
        lambda: storage.write(name, b""),
        lambda: storage.exchange(name, None, b""),
        lambda: storage.read(name),
        lambda: storage.move("a/first", name),
        lambda: storage.move(name, "a/second"),
        lambda: storage.delete([name]),
        lambda: storage.names(f"{name}/x"),
    ):
        with pytest.raises(ExportError, match=LINE):
            step()
    assert storage.names("") == ["a/first"]


@pytest.mark.parametrize("lost", ["file", "folder"])
async def test_a_night_whose_receipt_was_lost_is_pulled_again(tmp_path: Path, lost: str) -> None:
    out = tmp_path / "rankings"
    async with account(campaigns=2, keywords=2) as (_, client):
        await pull(client, tmp_path)
        whole = (out / PART).read_bytes()
        (out / RECEIPT).unlink()
        if lost == "folder":
            (out / "_receipts/account=acme").rmdir()
            (out / "_receipts").rmdir()
        await pull(client, tmp_path)
    assert (out / PART).read_bytes() == whole
    assert json.loads((out / RECEIPT).read_bytes())["parts"]


async def test_rows_that_a_lost_receipt_named_are_not_lost_silently(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with account(campaigns=2, keywords=2) as (_, client):
        await pull(client, tmp_path)
        await pull_to(
            client,
            None,
            START,
            END,
            out=f"{tmp_path}/rankings/",
            account="acme",
            snapshot_date=NIGHT,
            feeds=["campaign-by-date"],
        )
        assert not caplog.messages
        (tmp_path / "rankings" / RECEIPT).unlink()
        await pull(client, tmp_path)
    lost = tmp_path / f"rankings/campaign_periods/{FOLDER}/part-00000.parquet"
    assert f"{lost} was of no receipt; its rows are lost, except those pulled now" in caplog.messages


@pytest.mark.parametrize("name", [PART, "totals/precious.parquet", f"totals/{FOLDER}/precious.parquet"])
async def test_without_receipts_foreign_files_are_refused(tmp_path: Path, name: str) -> None:
    out = tmp_path / "rankings"
    async with account(campaigns=1, keywords=1) as (_, client):
        await pull(client, tmp_path)
        (out / RECEIPT).unlink()
        (out / name).write_bytes(b"precious")
        with pytest.raises(ConfigurationError, match="no pull wrote"):
            await pull(client, tmp_path)
    assert (out / name).read_bytes() == b"precious"


def void(_: object) -> None:
    """Drop a result."""
