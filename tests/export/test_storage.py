"""Where finished files go: a local folder, or a bucket of a real S3 server."""

import itertools
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from seorep_async.errors import ConfigurationError, ExportError
from tests.export.door import LocalFolder, Storage, each, local_folder, storage_of
from tests.export.made_nights import PowerFailure, Steps
from tests.export.s3 import SECRET, Bucket

NAMES = [
    "totals/account=a%2Fb/part-00000.parquet",
    "totals/account=ü ß 日本/part-00000.parquet",
    "totals/account=../part-00000.parquet",
    "totals/account=a+b&c~d/part-00000.parquet",
]


@pytest.fixture(params=["folder", "folder of Windows", "bucket"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    if request.param != "bucket":
        if request.param != "folder":
            monkeypatch.setattr(local_folder, "_HAS_DESCRIPTORS", False)
        return storage_of(str(tmp_path / "rankings"))
    bucket: Bucket = request.getfixturevalue("bucket")
    return storage_of(f"{bucket.url}/some where/", bucket.server.options)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "finished"
    file.write_bytes(b"rows")
    return file


@pytest.fixture(params=[True, False], ids=["descriptors", "paths"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reach files by descriptors of their folders, or by paths, as on Windows."""
    monkeypatch.setattr(local_folder, "_HAS_DESCRIPTORS", request.param)


Step: TypeAlias = Callable[[], object]


def steps_on(storage: Storage, file: Path, name: str) -> list[tuple[str, Step]]:
    """Return every step that names a file, each with what it can't do."""
    return [
        ("write", lambda: storage.put(file, name)),
        ("write", lambda: storage.write(name, b"")),
        ("read", lambda: storage.exchange(name, b"rows", b"")),
        ("read", lambda: storage.read(name)),
        ("write", lambda: storage.move("first", name)),
        ("write", lambda: storage.move(name, "second")),
        ("write", lambda: storage.delete([name])),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_found_under_its_name(storage: Storage, file: Path, name: str) -> None:
    storage.put(file, name)
    assert storage.read(name) == b"rows"
    assert storage.names("totals") == [name]


def test_what_is_not_there_is_none_and_not_an_error(storage: Storage) -> None:
    assert storage.read("totals/a") is None
    assert storage.names("totals") == []
    storage.delete(["totals/a"])


def test_a_file_replaces_an_older_one(storage: Storage, file: Path) -> None:
    storage.write("a/b", b"older")
    storage.put(file, "a/b")
    assert storage.read("a/b") == b"rows"


def test_a_file_is_created_once(storage: Storage) -> None:
    assert [storage.exchange("a/b", None, data) for data in (b"first", b"second")] == [True, False]
    assert storage.read("a/b") == b"first"
    assert storage.names("") == ["a/b"]


def test_a_file_is_exchanged_only_for_what_it_was(storage: Storage) -> None:
    assert not storage.exchange("a/b", b"first", b"second")
    storage.write("a/b", b"first")
    assert [storage.exchange("a/b", b"first", data) for data in (b"second", b"third")] == [True, False]
    assert storage.read("a/b") == b"second"
    assert storage.names("") == ["a/b"]


def test_a_file_is_read_up_to_a_size(storage: Storage) -> None:
    storage.write("a/b", b"some rows")
    assert [storage.read("a/b", most) for most in (4, 9, 1 << 60)] == [b"some", b"some rows", b"some rows"]


@pytest.mark.parametrize("name", NAMES)
def test_a_moved_file_has_one_name(storage: Storage, name: str) -> None:
    storage.write(f"_staging/{name}", b"rows")
    storage.move(f"_staging/{name}", name)
    assert storage.names("") == [name]
    assert storage.read(name) == b"rows"


def test_a_folder_does_not_list_others_of_a_longer_name(storage: Storage) -> None:
    storage.write("total/a", b"")
    storage.write("totals/a", b"")
    assert storage.names("total") == ["total/a"]


def test_many_files_are_put_some_at_a_time(storage: Storage) -> None:
    each(storage.write, [(f"a/{number:02}", b"") for number in range(30)])
    assert len(storage.names("a")) == 30


def test_a_missing_source_is_one_line(storage: Storage) -> None:
    with pytest.raises(ExportError, match=r"^can't write [^\n]*$"):
        storage.move("a/first", "b/second")


def test_a_folder_is_left_clean(tmp_path: Path, file: Path) -> None:
    folder = storage_of(str(tmp_path / "rankings"))
    folder.put(file, "a/b")
    folder.write("a/c", b"")
    folder.move("a/c", "a/d")
    folder.delete(["a/d"])
    assert sorted(path.name for path in (tmp_path / "rankings/a").iterdir()) == ["b"]
    folder.delete(["a/b"])
    assert folder.names("") == []
    assert not (tmp_path / "rankings/a").exists()


def test_a_file_of_another_disk_appears_in_one_step(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = storage_of(str(tmp_path / "rankings"))
    elsewhere = Path("/dev/shm")  # noqa: S108
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one disk only")
    far = elsewhere / f"seorep-{os.getpid()}"
    far.write_bytes(b"rows")
    seen: list[list[str]] = []
    replace = os.replace

    def watched(*names: str, **folders: Any) -> None:
        seen.append([path.name for path in (tmp_path / "rankings/a").iterdir()])
        replace(*names, **folders)

    monkeypatch.setattr(os, "replace", watched)
    folder.put(far, "a/b")
    assert seen == [[], []]  # the first try crosses the disks
    assert folder.read("a/b") == b"rows"
    assert not far.exists()


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("old", [None, b"older"])
def test_killed_at_any_step_an_exchange_is_done_or_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: bytes | None
) -> None:
    monkeypatch.setattr(os, "link", refuse)
    seen = set()
    for steps in itertools.count():
        folder = LocalFolder(tmp_path / f"{steps}")
        if old is not None:
            folder.write("a/b", old)
        with monkeypatch.context() as patched:
            killed_after(patched, steps)
            try:
                assert folder.exchange("a/b", old, b"first")
                break
            except PowerFailure:
                pass
        is_ours = folder.exchange("a/b", old, b"second")
        assert folder.read("a/b") == (b"second" if is_ours else b"first"), steps
        assert folder.exchange("a/b", b"second" if is_ours else b"first", b"third")
        seen.add(is_ours)
    assert seen == {True, False}
    assert folder.names("") == ["a/b"]


def killed_after(patched: pytest.MonkeyPatch, steps: int) -> None:
    """Let all calls of the system fail after so many."""
    left = Steps(steps)
    patched.setattr(local_folder, "open", left.counted(open), raising=False)
    for name in ("mkdir", "open", "fsync", "link", "rename", "replace", "unlink", "rmdir"):
        patched.setattr(os, name, left.counted(getattr(os, name)))


def refuse(*_: object, **__: object) -> None:
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("moment", ["mkdir", "replace"])
@pytest.mark.parametrize("step", ["put", "write", "exchange", "move"])
def test_a_folder_that_another_writer_deletes_is_made_again(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, step: str, moment: str
) -> None:
    folder, path = LocalFolder(tmp_path / "rankings"), tmp_path / "rankings/a/b"
    deleted: list[Path] = []
    folder.write("first", b"rows")
    call = getattr(os, moment)

    def overtaken(*arguments: Any, **options: Any) -> None:
        if moment == "mkdir":
            call(*arguments, **options)
        if path.is_dir() and not deleted:
            for one in (path, path.parent):
                one.rmdir()
                deleted.append(one)
        if moment != "mkdir":
            call(*arguments, **options)

    monkeypatch.setattr(os, moment, overtaken)
    steps: dict[str, Callable[[], object]] = {
        "put": lambda: folder.put(file, "a/b/c"),
        "write": lambda: folder.write("a/b/c", b"rows"),
        "exchange": lambda: folder.exchange("a/b/c", None, b"rows"),
        "move": lambda: folder.move("first", "a/b/c"),
    }
    assert steps[step]() in (None, True)
    assert (deleted, folder.read("a/b/c")) == ([path, path.parent], b"rows")


def planted(place: Path, kind: str) -> None:
    """Put something that no pull writes where a file, or the folder of a successor, should be."""
    if kind == "file":
        place.write_bytes(b"planted")
    else:
        (place / kind).mkdir(parents=True)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("kind", ["file", "folder", "next"])
def test_what_stands_in_the_way_of_a_successor_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder, rename = LocalFolder(tmp_path), os.rename
    seen: list[str] = []

    def watched(source: str, name: str, **folders: Any) -> None:
        seen.append(Path(name).name)
        rename(source, name, **folders)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", watched)
        folder.exchange("a", None, b"first")
    folder.delete(["a"])
    place = tmp_path / "_staging" / seen[0]
    planted(place, kind)
    with pytest.raises(ExportError, match=rf"^can't write {place}[^\n]*; delete it$"):
        folder.exchange("a", None, b"first")
    place.unlink() if kind == "file" else shutil.rmtree(place)
    assert folder.exchange("a", None, b"first")


@pytest.mark.usefixtures("either_way")
def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, place = LocalFolder(tmp_path / "rankings"), tmp_path / "rankings/a"
    folder.write("first", b"rows")
    planted(place, "folder")
    for verb, step in steps_on(folder, file, "a"):
        with pytest.raises(ExportError, match=rf"^can't {verb} {place}: it is not a regular file; delete it$"):
            step()


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("name", ["linked", "linked/a", "linked/b/c"])
def test_no_step_follows_a_link(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "outside/b").mkdir(parents=True)
    for one in ("outside/a", "outside/b/c"):
        (tmp_path / one).write_bytes(b"private")
    folder = storage_of(str(tmp_path / "rankings"))
    folder.write("first", b"rows")
    (tmp_path / "rankings/linked").symlink_to(tmp_path / ("outside/a" if name == "linked" else "outside"))
    listings: list[tuple[str, Step]] = [("read", lambda: folder.names(name)), ("read", lambda: folder.names(""))]
    for verb, step in steps_on(folder, file, name) + listings:
        with pytest.raises(ExportError, match=rf"^can't {verb} [^\n]*linked: it is a link[^\n]*$"):
            step()
    assert (tmp_path / "rankings/linked").is_symlink()
    assert [path.read_bytes() for path in (tmp_path / "outside").rglob("?") if path.is_file()] == [b"private"] * 2


@pytest.mark.parametrize(
    ("out", "options", "words"),
    [
        ("ftp://host/rankings/", {}, "begins with s3://, gs://, az://"),
        ("s3://key:secret@bucket/", {}, "must hold no credentials"),
        ("s3://bucket/?sig=secret", {}, "must hold no credentials"),
        ("s3://", {}, "not an address such as s3://bucket/rankings/"),
        ("s3://bucket/a//b", {}, "not an address"),
        ("s3://bucket/../b", {}, "not an address"),
        ("s3://bucket", {"nonsense": "secret"}, "'nonsense' is not valid"),
        ("s3://bucket", {"region": 5}, "a mapping of option names to strings"),
        ("s3://bucket", {"no name": "secret"}, "a mapping of option names to strings"),
        ("s3://bucket", "secret", "a mapping of option names to strings"),
        ("rankings", {"region": "secret"}, "the target is a local path"),
        ("s3://bucket/", {"timeout": SECRET}, "^can't use"),
        ("s3://bucket/", {"allow_http": SECRET}, "^can't use"),
        ("s3://bucket/", {"proxy_url": f"http://user:{SECRET}@[no-host"}, "^can't use"),
        ("s3://bucket/", {"accesskey": SECRET}, "^can't use"),
        ("az://bucket/", {"account_name": "a", "account_key": f"{SECRET}!!"}, "^can't use"),
        ("gs://bucket/", {"service_account_key": f'{{"private_key": "{SECRET}"}}'}, "^can't use"),
    ],
)
def test_a_wrong_address_or_option_is_refused(out: str, options: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        storage_of(out, options)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_options_are_found_in_the_environment(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in bucket.server.environment.items():
        monkeypatch.setenv(name, value)
    storage_of(bucket.url).write("a", b"rows")
    assert bucket.objects() == {"a": b"rows"}


def test_a_missing_bucket_is_one_line_for_every_step(bucket: Bucket, file: Path) -> None:
    storage = storage_of(bucket.url, bucket.server.options)
    bucket.remove()
    for _, step in [*steps_on(storage, file, "a"), ("read", lambda: storage.names("a"))]:
        with pytest.raises(ExportError, match=r"^can't (write|read) s3://[^\n]*NoSuchBucket[^\n]*$") as caught:
            step()
        assert caught.value.__cause__ is caught.value.__context__ is None


def test_a_store_that_is_down_is_one_line_without_secrets() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        options = {"endpoint": f"http://127.0.0.1:{unused.getsockname()[1]}", "allow_http": "true"}
        options |= {"access_key_id": "x", "secret_access_key": SECRET, "region": "us-east-1", "timeout": "2s"}
        storage = storage_of("s3://bucket/rankings/", options)
        with pytest.raises(ExportError, match=r"^can't write s3://bucket/rankings/a: [^\n]*can't be reached") as caught:
            storage.write("a", b"")
    assert SECRET not in repr(caught.value)
    assert caught.value.__context__ is None


def test_a_large_file_is_sent_in_pieces_and_appears_once(
    bucket: Bucket, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seorep_async.export.storage._ONE_PUT", 6 << 20)
    monkeypatch.setattr("seorep_async.export.storage._CHUNK", 5 << 20)
    file.write_bytes(os.urandom(1 << 20) * 12)
    storage_of(bucket.url, bucket.server.options).put(file, "a")
    assert bucket.objects() == {"a": file.read_bytes()}


def test_a_store_that_fails_in_mid_file_shows_no_address(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def read(self, _: int) -> bytes:
            raise OSError("https://account.example/a.csv?sig=a-signature: connection reset")

    monkeypatch.setattr("obstore.open_reader", lambda *_: Broken())
    with pytest.raises(ExportError, match=r"^can't read s3://\S+/a\.csv: ") as caught:
        storage_of(f"{bucket.url}/", bucket.server.options).inspect("a.csv", lambda opened: opened.read(1))
    assert "a-signature" not in str(caught.value)
