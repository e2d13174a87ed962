"""What a dataset vouches for, cut off at every point."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from seorep_async.errors import ConfigurationError, ExportError
from tests.export.cut_off import PowerFailure, cut
from tests.export.door import Part, Partition, Receipt, Storage, commit, escape, last_receipt, read_receipt, storage_of
from tests.export.made_nights import NEWER, NIGHT, OLDER, named, receipt, replace, vouched_for


def test_a_night_cut_off_at_any_point_is_whole_or_unvouched(storage: Storage) -> None:
    seen = set()
    for steps in range(40):
        replace(storage, "older", OLDER)
        try:
            replace(cut(storage, steps), "newer", NEWER)
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
        replace(cut(storage, 6), "newer", NEWER)
    for _ in range(3):
        with pytest.raises(PowerFailure):
            read_receipt(cut(storage, 1), NIGHT)
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
