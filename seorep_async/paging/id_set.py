"""A set of many ids in little memory."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable

MAX_ID = 2**31 - 1
_BITMAP_BYTES = 8192  # a bit for each id of a block
_MAX_SORTED = 4096  # in a block; from here on a bitmap is smaller


class IdSet:
    """A set of integers from 0 to `MAX_ID`, in at most two bytes each, and at most 256 MiB for all there can be.

    Each block of 65,536 ids is a sorted array while it holds few, then a bitmap, and nothing once it is full.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, array[int] | bytearray | None] = {}

    def __contains__(self, one: int) -> bool:
        block, low = self._blocks.get(one >> 16, b""), one & 0xFFFF
        if isinstance(block, bytearray):
            return bool(block[low >> 3] & 1 << (low & 7))
        if isinstance(block, array):
            at = bisect_left(block, low)
            return at < len(block) and block[at] == low
        return block is None

    def add(self, ids: Iterable[int]) -> bool:
        """Add ids up to the first that is in the set already, and return whether there was none."""
        blocks = self._blocks
        for one in ids:
            high, low = one >> 16, one & 0xFFFF
            block = blocks.get(high)
            if isinstance(block, bytearray):
                at, bit = low >> 3, 1 << (low & 7)
                if block[at] & bit:
                    return False
                block[at] |= bit
                if at in (0, _BITMAP_BYTES - 1) and block.count(0xFF) == _BITMAP_BYTES:
                    blocks[high] = None
            elif block is not None:
                at = bisect_left(block, low)
                if at < len(block) and block[at] == low:
                    return False
                block.insert(at, low)
                if len(block) == _MAX_SORTED:
                    blocks[high] = _bitmap(block)
            elif high in blocks:
                return False
            else:
                blocks[high] = array("H", (low,))
        return True


def _bitmap(ids: array[int]) -> bytearray:
    bits = bytearray(_BITMAP_BYTES)
    for one in ids:
        bits[one >> 3] |= 1 << (one & 7)
    return bits
