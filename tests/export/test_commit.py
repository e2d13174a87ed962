"""The commit of a night, cut off, held up or overtaken at every step: readers see one pull's parts, or are told so."""

import datetime as dt
import itertools
import os
import random
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import attrs
import obstore
import pytest

from seorep_async import Feed, SeoRepClient
from seorep_async.errors import ExportError
from tests.export.door import Part, Partition, Storage, commit, last_receipt, read_receipt, storage_of
from tests.export.made_nights import (
    CHANGES,
    NEWER,
    NIGHT,
    OLDER,
    TABLES,
    Interposed,
    PowerFailure,
    Steps,
    contents,
    cut,
    cut_at_each_step,
    found,
    in_memory,
    keep_buckets_in_memory,
    named,
    receipt,
    replace,
    replace_by,
    vouched_for,
)
from tests.export.made_service import made
from tests.export.reports import NIGHT as PULLED_NIGHT
from tests.export.reports import pull_into

pytestmark = pytest.mark.heavy

FEW, MANY, OTHER, ALL = (1, 1, 1), (3, 1, 2), (2, 2, 0), (3, 1, 1, 1)
STEPS = {"one": 27}
"""Requests that change a bucket, in a pull that replaces a night; at least so many."""


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


def begin(storage: Storage, steps: int) -> None:
    """Pull a night, and begin to replace it."""
    replace_by(storage, "older", *OLDER)
    with pytest.raises(PowerFailure):
        replace_by(cut(storage, steps), "newer", *NEWER)


# --- Cut off


def test_a_night_cut_off_at_any_point_is_whole_or_unvouched(storage: Storage) -> None:
    seen = set()

    def before() -> None:
        replace_by(storage, "older", *OLDER)

    for _ in cut_at_each_step(storage, before, lambda place: replace_by(place, "newer", *NEWER)):
        seen.add(vouched_for(storage))
        # whoever comes next finishes what was cut off, or finds the older night as it was
        again = read_receipt(storage, NIGHT)
        assert again is not None
        assert vouched_for(storage) == again.pull
        replace_by(storage, "newer", *NEWER)
        assert vouched_for(storage) == named("newer")
        assert storage.names("_staging") == []
    assert seen == {named("older"), None}  # the receipt is the last step


def test_a_replacement_cut_off_twice_is_finished(storage: Storage) -> None:
    begin(storage, 6)
    for _ in range(3):
        with pytest.raises(PowerFailure):
            read_receipt(cut(storage, 1), NIGHT)
        assert vouched_for(storage) is None
    assert read_receipt(storage, NIGHT) == receipt("newer", contents("newer", *NEWER))
    assert vouched_for(storage) == named("newer")


def test_a_night_whose_staged_parts_were_lost_is_pulled_again(storage: Storage) -> None:
    begin(storage, 5)
    storage.delete(storage.names("_staging"))
    there = read_receipt(storage, NIGHT)
    assert there is not None
    assert (there.parts, there.coming) == ((), receipt("newer", contents("newer", *NEWER)).parts)
    replace_by(storage, "newer", *NEWER)
    assert vouched_for(storage) == named("newer")


@pytest.mark.parametrize("last", [2, 3])
def test_no_reader_sees_a_row_twice(storage: Storage, last: int) -> None:
    table = "keyword_rankings"
    older = {(table, 0): b"1 2", (table, 1): b"3", (table, 2): b"4"}
    newer = {(table, 0): b"4", (table, 1): b"2", (table, last): b"1 3"}
    step = lambda place: replace(place, "newer", newer)  # noqa: E731
    for changes in cut_at_each_step(storage, lambda: replace(storage, "older", older), step):
        seen = list(chain.from_iterable(data.split() for data in found(storage).values()))
        assert len(seen) == len(set(seen)), changes
    assert sorted(found(storage).values()) == [b"1 3", b"2", b"4"]


def test_a_single_part_is_replaced_in_one_step(storage: Storage) -> None:
    step = lambda place: replace_by(place, "newer", 0, 1)  # noqa: E731
    for _ in cut_at_each_step(storage, lambda: replace_by(storage, "older", 0, 1), step):
        assert list(found(storage).values()) in ([b"older totals 0"], [b"newer totals 0"])


def test_other_nights_and_accounts_stay(storage: Storage) -> None:
    part = Part("totals", 0, 1, 1, "0" * 64)
    others = [Partition("acme", dt.date(2026, 11, 20)), Partition("acme2", NIGHT.snapshot_date)]
    for night in others:
        storage.write(part.name(night), b"other")
    replace_by(storage, "older", *OLDER)
    replace_by(storage, "newer", *NEWER)
    assert [storage.read(part.name(night)) for night in others] == [b"other"] * 2


def test_the_last_night_of_an_account_is_found(storage: Storage) -> None:
    assert last_receipt(storage, "acme") is None
    for day in (3, 11, 7):
        commit(storage, receipt("one", {}, snapshot_date=dt.date(2026, 11, day)), ())
    commit(storage, receipt("two", {}, account="acme2", snapshot_date=dt.date(2026, 11, 12)), ())
    last = last_receipt(storage, "acme")
    assert last is not None
    assert last.snapshot_date == dt.date(2026, 11, 11)


# --- Overtaken


def test_a_second_writer_of_a_night_has_to_run_again(storage: Storage) -> None:
    replace_by(storage, "older", *OLDER)
    before = read_receipt(storage, NIGHT)
    with pytest.raises(PowerFailure):
        replace_by(cut(storage, 5), "newer", *NEWER)
    with pytest.raises(ExportError, match=r"another pull is committing .*; run this again"):
        commit(storage, receipt("older", contents("older", *OLDER)), (), before)
    replace_by(storage, "newer", *NEWER)  # run again, it finishes first what the other one had begun
    assert vouched_for(storage) == named("newer")


@pytest.mark.parametrize("step", ["names", "move", "delete"])
def test_two_that_finish_one_log_agree(storage: Storage, step: str) -> None:
    others = iter([step])

    def overtake(name: str) -> None:
        """Let somebody else finish the night before the first step of a kind."""
        if name == step and next(others, None):
            read_receipt(storage, NIGHT)

    begin(storage, 5)
    overtaken = Interposed(storage, overtake, ("names", "move", "delete"))
    assert read_receipt(overtaken, NIGHT) == receipt("newer", contents("newer", *NEWER))
    assert vouched_for(storage) == named("newer")


# --- Held up


@attrs.define
class Pause:
    """Lets others work before a step, counted from 0, which is carried out late, or never."""

    step: int
    others: Callable[[], None]
    dies: str = ""
    done: bool = False

    def __call__(self, _: str) -> None:
        self.step -= 1
        if self.step < -1 and self.dies:
            raise PowerFailure
        if self.step == -1:
            self.done = True
            self.others()
            if self.dies == "before the step":
                raise PowerFailure


def assert_of_one_pull(place: Storage) -> None:
    """Check that what was not carried over is of one pull."""
    assert len({data.split()[0] for name, data in found(place).items() if not name.startswith(TABLES[-1])}) == 1


def pause_everywhere(
    place: Storage, first: Callable[[Any], object], before: Callable[[], None], parts: Sequence[Any], dies: str
) -> None:
    """Hold a writer up at each of its steps while two others replace the night."""

    def others() -> None:
        replace_by(place, "second", *parts[0])
        replace_by(place, "third", *parts[1])

    seen = set()
    for step in itertools.count():
        place.delete(place.names(""))
        before()
        paused = Pause(step, others, dies)
        try:
            first(Interposed(place, paused, (*CHANGES, "read", "names")))
        except (PowerFailure, ExportError):
            pass
        else:
            if not paused.done:
                break
        # of a writer that dies before it can look again, a DELETE that was carried out late can't be taken back
        vouched = vouched_for(place, may_lack=dies == "after the step")
        seen.add(vouched)
        if vouched is not None:
            assert_of_one_pull(place)
        replace_by(place, "last", *FEW)
        assert vouched_for(place) == named("last")
        assert_of_one_pull(place)
    assert step > 10
    assert named("third") in seen


@pytest.fixture(params=["", "before the step", "after the step"])
def dies(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    ("older", "own", "others", "where"),
    [
        (FEW, FEW, (FEW, FEW), "folder"),
        (ALL, FEW, (ALL, FEW), "memory"),
        (OTHER, MANY, (FEW, MANY), "memory"),
        (ALL, FEW, (MANY, FEW), "memory"),
        (None, ALL, (FEW, FEW), "memory"),  # pulled for the first time
    ],
)
def test_no_receipt_names_parts_of_two_pulls(
    tmp_path: Path, older: Any, own: Any, others: Any, where: str, dies: str
) -> None:
    place = storage_of(str(tmp_path)) if where == "folder" else in_memory()

    def before() -> None:
        if older is not None:
            replace_by(place, "older", *older)

    pause_everywhere(place, lambda paused: replace_by(paused, "first", *own), before, others, dies)


@pytest.mark.parametrize("steps", [4, 7, 9])
def test_nor_where_another_pull_finishes_the_night(steps: int, dies: str) -> None:
    place = in_memory()

    def before() -> None:
        replace_by(place, "older", *ALL)
        with pytest.raises(PowerFailure):
            replace_by(cut(place, steps), "first", *FEW)

    pause_everywhere(place, lambda paused: read_receipt(paused, NIGHT), before, [MANY, FEW], dies)


def test_a_finished_pull_of_the_same_plan_keeps_it(tmp_path: Path) -> None:
    place = storage_of(str(tmp_path))
    names = [NIGHT.plan(named("first")), NIGHT.shard_receipt(named("first"), 0)]
    for name in names:
        place.write(name, b"{}")
    replace_by(place, "first", *MANY)
    with pytest.raises(PowerFailure):
        replace_by(cut(place, 8), "first", *FEW)
    assert read_receipt(place, NIGHT) == receipt("first", contents("first", *FEW))
    assert [place.read(name) for name in names] == [b"{}", b"{}"]
    replace_by(place, "second", *FEW)
    assert [place.read(name) for name in names] == [None, None]


# --- Pulls that are killed between two requests to an object store


async def pull_night(client: SeoRepClient, out: str, folder: Path) -> None:
    options: dict[str, Any] = {"account": "acme", "snapshot_date": PULLED_NIGHT, "work_dir": folder}
    await pull_into(client, out, feeds=list(Feed), **options)


def rows_in(place: Storage) -> dict[str, bytes]:
    """Return the parts, without those that say when each pull began."""
    return {name: data for name, data in found(place).items() if not name.startswith("pulls/")}


@pytest.mark.parametrize(
    "steps",
    [
        12,
        *(
            pytest.param(steps, marks=pytest.mark.slow)
            for way, most in STEPS.items()
            for steps in random.Random(way).sample(range(most), 10)
        ),
    ],
)
async def test_killed_between_puts_a_night_is_whole_or_unvouched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    keep_buckets_in_memory(monkeypatch)
    monkeypatch.setenv("SEOREP_API_KEY", "canary-7")
    out, fresh, night = "s3://some/rankings/", "s3://fresh/rankings/", Partition("acme", PULLED_NIGHT)
    place, left = storage_of(out), Steps(steps)
    async with made({one: [one * 10, one * 10 + 1] for one in range(1, 7)}) as (service, client):
        await pull_night(client, out, tmp_path)
        older = rows_in(place)
        service.competitors = dict.fromkeys(range(100), 5)
        with monkeypatch.context() as patched:
            for name in ("put", "copy", "delete"):
                patched.setattr(obstore, name, left.counted(getattr(obstore, name)))
            with pytest.raises(PowerFailure):
                await pull_night(client, out, tmp_path)
        vouched_for(place, night)
        for one in (out, fresh):
            await pull_night(client, one, tmp_path)
            assert vouched_for(storage_of(one), night)
    assert rows_in(place) == rows_in(storage_of(fresh)) != older
