"""The set of ids: a set, in a fraction of its memory."""

from __future__ import annotations

import random
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from seorep_async.paging.id_set import MAX_ID, IdSet

ids = st.integers(0, MAX_ID) | st.integers(0, 300) | st.integers(65_500, 65_600)


@given(st.lists(ids))
def test_it_tells_new_ids_from_known_ones_as_a_set_does(given_ids: list[int]) -> None:
    ours, known = IdSet(), set[int]()
    for one in given_ids:
        assert (one in ours) == (one in known)
        assert ours.add([one]) == (one not in known)
        known.add(one)


def test_it_does_so_in_every_state_of_a_block() -> None:
    block = list(range(65_536, 2 * 65_536))
    random.Random(1).shuffle(block)
    ours = IdSet()
    for at in range(0, len(block), 512):  # sorted up to 4,096 ids, then a bitmap, then full
        assert ours.add(block[at : at + 512])
        assert all(one in ours for one in block[: at + 512 : 101])
        assert not any(one in ours for one in block[at + 512 :: 101])
        assert not ours.add([block[at]])
    assert 65_535 not in ours
    assert 2 * 65_536 not in ours


def test_ids_in_a_row_take_no_memory_to_speak_of() -> None:
    tracemalloc.start()
    try:
        ours = IdSet()
        before = tracemalloc.get_traced_memory()[0]
        for start in range(0, 2**18, 1024):  # four blocks
            ours.add(range(start, start + 1024))
        assert tracemalloc.get_traced_memory()[0] - before < 5_000
    finally:
        tracemalloc.stop()
