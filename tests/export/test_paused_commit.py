"""A writer that stands still in a step of committing a night while others replace it, and then goes on or dies."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from seorep_async.errors import ExportError
from tests.export.cut_off import CHANGES, Interposed, PowerFailure, cut, in_memory
from tests.export.door import Receipt, Storage, commit, digest_of, read_receipt, storage_of
from tests.export.made_nights import NIGHT, named, receipt

Contents = dict[tuple[str, int], bytes]

TABLES = ("keyword_rankings", "totals", "failures", "campaign_periods")
STEPS = (*CHANGES, "read", "names")
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
    for step in itertools.count():
        place.delete(place.names(""))
        before()
        paused = Pause(step, others, dies)
        try:
            first(Interposed(place, paused, STEPS))
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


@pytest.mark.parametrize(
    ("shapes", "where"),
    [
        ("few few few few", "folder"),
        ("all few all few", "memory"),
        ("other many few many", "memory"),
        ("all few many few", "memory"),
    ],
)
def test_no_receipt_names_parts_of_two_pulls(tmp_path: Path, shapes: str, where: str, dies: str) -> None:
    place = storage_of(str(tmp_path)) if where == "folder" else in_memory()
    older, own, *others = shapes.split()

    def before() -> None:
        pull(place, "older", older)

    seen = pause_everywhere(place, lambda place: pull(place, "first", own), before, others, dies)
    assert named("third") in seen


@pytest.mark.parametrize("steps", [4, 7, 9])
def test_nor_where_another_pull_finishes_the_night(steps: int, dies: str) -> None:
    place = in_memory()

    def before() -> None:
        pull(place, "older", "all")
        with pytest.raises(PowerFailure):
            pull(cut(place, steps), "first", "few")

    seen = pause_everywhere(place, lambda paused: read_receipt(paused, NIGHT), before, ["many", "few"], dies)
    assert named("third") in seen


def test_nor_where_a_night_is_pulled_for_the_first_time(dies: str) -> None:
    place = in_memory()
    first = pause_everywhere(place, lambda paused: pull(paused, "first", "all"), lambda: None, ["few", "few"], dies)
    assert named("third") in first


def test_a_finished_pull_of_the_same_plan_keeps_it(tmp_path: Path) -> None:
    place = storage_of(str(tmp_path))
    names = [NIGHT.plan(named("first")), NIGHT.shard_receipt(named("first"), 0)]
    for name in names:
        place.write(name, b"{}")
    pull(place, "first", "many")
    with pytest.raises(PowerFailure):
        pull(cut(place, 8), "first", "few")
    assert read_receipt(place, NIGHT) == receipt("first", contents_of("first", "few"))
    assert [place.read(name) for name in names] == [b"{}", b"{}"]
    pull(place, "second", "few")
    assert [place.read(name) for name in names] == [None, None]
