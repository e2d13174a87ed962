"""A dataset in a shared folder that somebody prepared: nothing outside is read, written, linked or deleted."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from seorep_async import SeoRepClient
from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export import pull_to
from tests.cli.running import serving
from tests.export.door import storage_of
from tests.export.forged import FOLDER, LINE, PART, RECEIPT, SECRET, change, private_files, state
from tests.export.reports import END, NIGHT, START, account
from tests.export.s3 import Bucket

Refused: TypeAlias = Callable[[Callable[[Path], object]], None]


async def pull(client: SeoRepClient, folder: Path, **changes: Any) -> None:
    options: dict[str, Any] = {"out": f"{folder}/rankings/", "account": "acme", "snapshot_date": NIGHT}
    await pull_to(client, None, START, END, **options | changes)


async def pull_from(base_url: str, folder: Path) -> None:
    async with SeoRepClient(base_url, "sandbox") as client:
        await pull(client, folder)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Serve an account of which a night is in a dataset."""
    folder = tmp_path_factory.mktemp("night")
    with serving(campaigns=1, keywords=1) as sandbox:
        asyncio.run(pull_from(sandbox.base_url, folder))
        yield sandbox.base_url, folder / "rankings"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return private_files(tmp_path)


@pytest.fixture
def refused(tmp_path: Path, night: tuple[str, Path], outside: Path) -> Iterator[Refused]:
    """Forge something in the night, pull it again, and check what happened."""
    base_url, pulled = night
    out, before = tmp_path / "rankings", state(outside)

    def pull_forged(forge: Callable[[Path], object]) -> None:
        shutil.copytree(pulled, out)
        forge(out)
        with pytest.raises((ConfigurationError, ExportError), match=LINE):
            asyncio.run(pull_from(base_url, tmp_path))

    yield pull_forged
    assert state(outside) == before
    inside = [path for path in out.rglob("*") if path.is_file() and out in path.resolve().parents]
    assert not [path for path in inside if path.stat().st_size == len(SECRET) and path.read_bytes() == SECRET]


def test_a_forged_log_of_another_version_changes_nothing(refused: Refused) -> None:
    def forge(out: Path) -> None:
        receipt = json.loads((out / RECEIPT).read_bytes()) | {"pull": "../../private/tree"}
        places = [["../private/secret.txt", PART], [PART, "../private/secret.txt"]]
        log = {"id": "0", "receipt": receipt, "replaces": receipt, "places": places}
        (out / f"_receipts/{FOLDER}.replacing.json").write_text(json.dumps(log))

    refused(forge)


NO_PULLS = ["../../private/tree", "/private", "a\0b", "0" * 11, "ABCDEF012345", "", 5]


@pytest.mark.parametrize(
    "changes",
    [
        *({"pull": pull} for pull in (*NO_PULLS, None)),
        *({"older": pull, "parts": [], "coming": []} for pull in NO_PULLS),
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
def test_a_receipt_is_one_of_its_night(refused: Refused, changes: dict[str, Any]) -> None:
    refused(change(RECEIPT, **changes))


@pytest.mark.parametrize(
    "part",
    [
        *({"table": name} for name in ("../../private", "/etc", "a\0b", "no_table", "_staging", None)),
        *({"number": number} for number in (True, -1, 0.5, "0/../../../../private/secret", 10**40)),
        {"rows": -1},
        *({"bytes": count} for count in ("1", 2**62)),
        *({"digest": digest} for digest in ("../" * 20, "A" * 64)),
    ],
    ids=str,
)
@pytest.mark.parametrize("field", ["parts", "coming"])
def test_a_part_is_one_that_a_pull_wrote(refused: Refused, field: str, part: dict[str, Any]) -> None:
    def forge(out: Path) -> None:
        change(RECEIPT, part=part)(out)
        if field == "coming":
            parts = json.loads((out / RECEIPT).read_bytes())["parts"]
            change(RECEIPT, parts=[], coming=parts)(out)

    refused(forge)


def name_a_part_twice(out: Path) -> None:
    parts = json.loads((out / RECEIPT).read_bytes())["parts"]
    change(RECEIPT, parts=[*parts, parts[0]])(out)


def put_a_pipe(out: Path) -> None:
    (out / RECEIPT).unlink()
    os.mkfifo(out / RECEIPT)


FORGED: dict[str, Callable[[Path], object]] = {
    "a part named twice": name_a_part_twice,
    "deep lists": lambda out: (out / RECEIPT).write_bytes(b"[" * 10**6),
    "deep parts": lambda out: (out / RECEIPT).write_bytes(b'{"parts":' * 10**5),
    "deep and whole": lambda out: (out / RECEIPT).write_bytes(b'{"x":' + b"[" * 10**5 + b"]" * 10**5 + b"}"),
    "huge": lambda out: os.truncate(out / RECEIPT, 1 << 40),
    "a pipe": put_a_pipe,
}


@pytest.mark.parametrize("kind", FORGED)
def test_what_is_no_receipt_is_one_clear_error(refused: Refused, kind: str) -> None:
    refused(FORGED[kind])


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
        await pull(client, tmp_path, snapshot_date="2023-04-03")
        assert (out / PART).read_bytes() == rows
        assert json.loads((out / RECEIPT).read_bytes())["parts"] == []
        await pull(client, tmp_path)
        assert (out / PART).read_bytes() == rows


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
def test_a_link_below_the_folder_is_refused(
    tmp_path: Path, refused: Refused, outside: Path, name: str, place: str
) -> None:
    def forge(out: Path) -> None:
        if (out / name).exists():
            (out / name).rename(tmp_path / "moved")
        (out / name).symlink_to(outside / place)

    refused(forge)


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
    out = request.getfixturevalue("tmp_path") / "rankings"
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
        await pull(client, tmp_path, feeds="campaign-by-date")
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
