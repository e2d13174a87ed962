"""What a dataset vouches for, cut off at every point."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from seorep_async.errors import ConfigurationError, ExportError
from seorep_async.export.night import Part, Partition, Receipt, digest_of, escape
from seorep_async.export.receipts import commit, last_receipt, read_receipt
from seorep_async.export.storage import Storage, storage_of

NIGHT = Partition("acme", dt.date(2026, 11, 21))
OLDER = {("keyword_rankings", 0): b"older", ("keyword_rankings", 1): b"older too", ("totals", 0): b"older totals"}
NEWER = {("keyword_rankings", 0): b"newer", ("totals", 0): b"newer totals", ("failures", 0): b"failed"}


class PowerFailure(BaseException):
    pass


@attrs.define
class Cut:
    """A storage that does so many steps, and then no more."""

    whole: Storage
    steps: int

    def __getattr__(self, name: str) -> Any:
        step = getattr(self.whole, name)
        if name not in ("put", "write", "exchange", "move", "delete"):
            return step

        def counted(*arguments: Any) -> Any:
            if name == "delete":
                for one in arguments[0]:
                    self._count()
                    step([one])
                return None
            self._count()
            return step(*arguments)

        return counted

    def _count(self) -> None:
        if not self.steps:
            raise PowerFailure
        self.steps -= 1


def named(pull: str) -> str:
    """Return the name of a pull that tests call by a word."""
    return digest_of(pull.encode())[:12]


def receipt(pull: str, contents: dict[tuple[str, int], bytes], **changes: Any) -> Receipt:
    parts = (Part(table, number, 1, len(data), digest_of(data)) for (table, number), data in contents.items())
    values: dict[str, Any] = {
        "account": "acme",
        "snapshot_date": NIGHT.snapshot_date,
        "service": "https://api.example.com",
        "key_digest": "digest",
        "pull": named(pull),
        "feeds": ("campaign",),
        "start_date": dt.date(2026, 11, 1),
        "end_date": dt.date(2026, 11, 20),
        "failures": 0,
        "version": "1",
        "parts": tuple(parts),
    }
    return Receipt(**values | changes)


def replace(storage: Any, pull: str, contents: dict[tuple[str, int], bytes]) -> None:
    """Stage and commit a night."""
    earlier, wanted = read_receipt(storage, NIGHT), receipt(pull, contents)
    for part in wanted.parts:
        storage.write(part.staged(NIGHT, wanted.pull), contents[part.table, part.number])
    commit(storage, wanted, wanted.parts, earlier)


def found(storage: Storage) -> dict[tuple[str, int], bytes]:
    """Return every part that readers see."""
    seen = {}
    for table in ("keyword_rankings", "totals", "failures"):
        for name in storage.names(table):
            number = int(name.rpartition("part-")[2].partition(".")[0])
            seen[table, number] = storage.read(name) or b""
    return seen


def vouched_for(storage: Storage) -> str | None:
    """Return whose receipt names parts, and check that exactly these are there."""
    data = storage.read(NIGHT.receipt)
    if data is None or not json.loads(data)["parts"]:
        return None
    pull, contents = ("older", OLDER) if Receipt.from_json(data).pull == named("older") else ("newer", NEWER)
    assert found(storage) == contents
    return pull


@pytest.fixture(params=["folder", "bucket"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "folder":
        return storage_of(str(tmp_path / "rankings"))
    bucket = request.getfixturevalue("bucket")
    return storage_of(bucket.url, bucket.server.options)


def points(storage: Storage, most: int) -> range:
    """Return every point in a folder, and every third in a bucket: its steps are the same, and requests take long."""
    return range(0, most, 3 if storage.address("").startswith("s3:") else 1)


def test_a_night_cut_off_at_any_point_is_whole_or_unvouched(storage: Storage) -> None:
    seen = set()
    for steps in points(storage, 40):
        replace(storage, "older", OLDER)
        try:
            replace(Cut(storage, steps), "newer", NEWER)
        except PowerFailure:
            seen.add(vouched_for(storage))
        else:
            break
        # whoever comes next finishes what was cut off, or finds the older night as it was
        again = read_receipt(storage, NIGHT)
        assert again is not None
        assert named(vouched_for(storage) or "") == again.pull
        replace(storage, "newer", NEWER)
        assert vouched_for(storage) == "newer"
        assert storage.names("_staging") == []
    else:
        pytest.fail("it never ended")
    assert seen == {"older", None}  # the receipt is the last step


def test_a_replacement_cut_off_twice_is_finished(storage: Storage) -> None:
    replace(storage, "older", OLDER)
    with pytest.raises(PowerFailure):
        replace(Cut(storage, 6), "newer", NEWER)
    for _ in range(3):
        with pytest.raises(PowerFailure):
            read_receipt(Cut(storage, 1), NIGHT)
        assert vouched_for(storage) is None
    assert read_receipt(storage, NIGHT) == receipt("newer", NEWER)
    assert vouched_for(storage) == "newer"


def test_other_nights_and_accounts_stay(storage: Storage) -> None:
    others = [Partition("acme", dt.date(2026, 11, 20)), Partition("acme2", NIGHT.snapshot_date)]
    for night in others:
        storage.write(Part("totals", 0, 1, 1, "0" * 64).name(night), b"other")
    replace(storage, "older", OLDER)
    replace(storage, "newer", NEWER)
    assert [storage.read(Part("totals", 0, 1, 1, "0" * 64).name(night)) for night in others] == [b"other"] * 2


def test_the_last_night_of_an_account_is_found(storage: Storage) -> None:
    assert last_receipt(storage, "acme") is None
    for day in (3, 11, 7):
        commit(storage, receipt("one", {}, snapshot_date=dt.date(2026, 11, day)), ())
    commit(storage, receipt("two", {}, account="acme2", snapshot_date=dt.date(2026, 11, 12)), ())
    last = last_receipt(storage, "acme")
    assert last is not None
    assert last.snapshot_date == dt.date(2026, 11, 11)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"{", b'{"parts": 5}', b"\xff"])
def test_a_damaged_receipt_is_one_line(tmp_path: Path, data: bytes) -> None:
    storage = storage_of(str(tmp_path))
    storage.write(NIGHT.receipt, data)
    with pytest.raises(ExportError, match=r"^can't read [^\n]*not a receipt of this version; move it away[^\n]*$"):
        read_receipt(storage, NIGHT)


def test_an_account_that_differs_in_case_only_is_named(tmp_path: Path) -> None:
    storage, night = storage_of(str(tmp_path)), Partition("Acme", NIGHT.snapshot_date)
    storage.write(night.receipt, receipt("older", OLDER).to_json())  # as a disk that ignores case finds it
    with pytest.raises(
        ExportError, match=r"it is the receipt of account 'acme', .* takes both names for one; name .*"
    ) as caught:
        read_receipt(storage, night)
    assert "move it away" not in str(caught.value)


@pytest.mark.parametrize(
    ("account", "name"),
    [
        ("acme", "acme"),
        ("a/b", "a%2Fb"),
        ("a=b", "a%3Db"),
        ("a b", "a b"),
        ("ü 日本", "ü 日本"),
        ("..a", "..a"),
        ("Condor", "Condor"),
        ("nul-a", "nul-a"),
        ("100%", "100%25"),
        ("a:b*c?", "a%3Ab%2Ac%3F"),
        ("a\tb", "a%09b"),
    ],
)
def test_an_account_is_escaped_as_hive_does(account: str, name: str) -> None:
    assert escape(account) == name


@pytest.mark.parametrize("account", ["", "x" * 201, "ü" * 101, "/" * 70, "\ud800", "__HIVE_DEFAULT_PARTITION__"])
def test_an_account_that_no_folder_can_be_named_after_is_refused(account: str) -> None:
    with pytest.raises(ConfigurationError, match="can't be the name of a folder"):
        escape(account)


@pytest.mark.parametrize(
    "account", ["CON", "nul", "Com1", "LPT\u00b9", "aux.de", "prn .x", "a.", "..", "a ", "a<b", "a>", "|"]
)
def test_an_account_that_no_windows_folder_can_have_is_refused(account: str) -> None:
    with pytest.raises(ConfigurationError, match="can't be the name of a folder on Windows; choose another"):
        escape(account)


def test_a_receipt_is_the_same_from_its_json() -> None:
    one = receipt("older", OLDER)
    assert Receipt.from_json(one.to_json()) == one
