"""A writer that stands still in a step of committing a night while others replace it, and then goes on or dies."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from seorep_async.errors import ExportError
from seorep_async.export.night import Receipt, digest_of
from seorep_async.export.receipts import commit, read_receipt
from seorep_async.export.storage import Storage, storage_of
from tests.export.s3 import Bucket
from tests.export.test_receipts import NIGHT, Cut, PowerFailure, named, receipt

Contents = dict[tuple[str, int], bytes]

TABLES = ("keyword_rankings", "totals", "failures", "campaign_periods")
STEPS = ("put", "write", "exchange", "read", "names", "move", "delete")
NUMBERS = {"few": (1, 1, 1), "many": (3, 1, 2), "other": (2, 2, 0), "all": (3, 1, 1, 1)}
"""How many parts of its first tables a pull has."""


def contents_of(pull: str, shape: str) -> Contents:
    counts = zip(TABLES, NUMBERS[shape], strict=False)
    return {(table, number): f"{pull} {table} {number}".encode() for table, count in counts for number in range(count)}


def pull(place: Any, word: str, shape: str) -> None:
    """Commit a night as a pull does, and carry the last table over from the earlier pull."""
    earlier, contents = read_receipt(place, NIGHT), contents_of(word, shape)
    wanted = receipt(word, contents)
    for part in wanted.parts:
        place.write(part.staged(NIGHT, wanted.pull), contents[part.table, part.number])
    own = {part.table for part in wanted.parts}
    kept = () if earlier is None else [one for one in earlier.named if one.table == TABLES[-1] and one.table not in own]
    commit(place, attrs.evolve(wanted, parts=(*wanted.parts, *kept)), wanted.parts, earlier)


@attrs.define
class Paused:
    """A storage in which others are at work before a step, counted from 0, which is carried out late, or never."""

    whole: Storage
    step: int
    others: Callable[[], None]
    dies: str = ""
    done: bool = False
    lock: Any = attrs.field(factory=threading.RLock)

    def __getattr__(self, name: str) -> Any:
        step = getattr(self.whole, name)
        if name not in STEPS:
            return step

        def counted(*arguments: Any) -> Any:
            if name != "delete":
                return self._run(lambda: step(*arguments))
            for one in arguments[0]:
                self._run(partial(step, [one]))
            return None

        return counted

    def _run(self, step: Callable[[], Any]) -> Any:
        with self.lock:
            self.step -= 1
            if self.step < -1 and self.dies:
                raise PowerFailure
            if self.step != -1:
                return step()
            self.done = True
            self.others()
            if self.dies == "before the step":
                raise PowerFailure
            return step()


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


def check(place: Storage, *, may_lack: bool = False) -> Receipt | None:
    """Check that every part that the receipt names is there, and that no parts but one pull's are."""
    data = place.read(NIGHT.receipt)
    if data is None:
        return None
    there = Receipt.from_json(data)
    for part in there.parts:
        found = place.read(part.name(NIGHT))
        if found is None and may_lack:
            continue
        assert found is not None, f"{part} is missing"
        assert digest_of(found) == part.digest, f"{part} is {found!r}"
        if part.table != TABLES[-1]:
            assert named(found.decode().split()[0]) == there.pull
    if there.parts:
        listed = {name for table in TABLES for name in place.names(table)}
        assert listed - {part.name(NIGHT) for part in there.parts} == set()
    return there


def pause_everywhere(
    place: Storage, first: Callable[[Any], object], before: Callable[[], None], shapes: Sequence[str], dies: str
) -> set[str | None]:
    """Pause a writer at each of its steps, and return the pulls that are vouched for afterwards."""

    def others() -> None:
        pull(place, "second", shapes[0])
        pull(place, "third", shapes[1])

    seen = set()
    for step in itertools.count(0, 7 if place.address().startswith("s3:") else 1):
        place.delete(place.names(""))
        before()
        paused = Paused(place, step, others, dies)
        try:
            first(paused)
        except (PowerFailure, ExportError):
            pass
        else:
            if not paused.done:
                break
        # of a writer that dies before it can look again, a DELETE that was carried out late can't be taken back
        found = check(place, may_lack=dies == "after the step")
        seen.add(None if found is None or not found.parts else found.pull)
        pull(place, "last", "few")
        there = check(place)
        assert there is not None
        assert there.pull == named("last")
    assert step > 10
    return seen


@pytest.fixture(params=["", "before the step", "after the step"])
def dies(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("shapes", ["few few few few", "all few all few", "other many few many"])
def test_no_receipt_names_parts_of_two_pulls(tmp_path: Path, shapes: str, dies: str) -> None:
    place = storage_of(str(tmp_path))
    older, own, *others = shapes.split()

    def before() -> None:
        pull(place, "older", older)

    seen = pause_everywhere(place, lambda place: pull(place, "first", own), before, others, dies)
    assert named("third") in seen


def test_nor_does_it_in_a_bucket(bucket: Bucket, dies: str) -> None:
    place = storage_of(f"{bucket.url}/rankings/", bucket.server.options)
    seen = pause_everywhere(
        place, lambda paused: pull(paused, "first", "few"), lambda: pull(place, "older", "all"), ["many", "few"], dies
    )
    assert named("third") in seen


@pytest.mark.parametrize("cut", [4, 7, 9])
def test_nor_where_another_pull_finishes_the_night(tmp_path: Path, cut: int, dies: str) -> None:
    place = storage_of(str(tmp_path))

    def before() -> None:
        pull(place, "older", "all")
        with pytest.raises(PowerFailure):
            pull(Cut(place, cut), "first", "few")

    seen = pause_everywhere(place, lambda paused: read_receipt(paused, NIGHT), before, ["many", "few"], dies)
    assert named("third") in seen


def test_nor_where_a_night_is_pulled_for_the_first_time(tmp_path: Path, dies: str) -> None:
    place = storage_of(str(tmp_path))
    first = pause_everywhere(place, lambda paused: pull(paused, "first", "all"), lambda: None, ["few", "few"], dies)
    assert named("third") in first


def test_a_finished_pull_of_the_same_plan_keeps_it(tmp_path: Path) -> None:
    place = storage_of(str(tmp_path))
    names = [NIGHT.plan(named("first")), NIGHT.shard_receipt(named("first"), 0)]
    for name in names:
        place.write(name, b"{}")
    pull(place, "first", "many")
    with pytest.raises(PowerFailure):
        pull(Cut(place, 8), "first", "few")
    assert read_receipt(place, NIGHT) == receipt("first", contents_of("first", "few"))
    assert [place.read(name) for name in names] == [b"{}", b"{}"]
    pull(place, "second", "few")
    assert [place.read(name) for name in names] == [None, None]
