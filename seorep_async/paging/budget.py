"""How many pages several listings together may have in progress."""

from __future__ import annotations

from collections.abc import Callable


class PageBudget:
    """How many pages several listings together may have in progress; the most urgent listing has the first claim.

    A listing begins with a place for its page 1, and needs one for each page in flight. As no other begins while one
    in progress wants a place, many short listings run side by side, but only a few long ones.

    Args:
        limit: how many places there are.
        on_free: called when a place is free that no listing in progress wants.
    """

    def __init__(self, limit: int, on_free: Callable[[], None] = lambda: None) -> None:
        self._free = limit
        self._reserve = 3 * limit // 8  # for further pages, or the first listing would wait for others' first pages
        self._on_free = on_free
        self._wanting: dict[int, Callable[[], None]] = {}

    def enter(self) -> Slot | None:
        """Return a place for a listing that is to begin, or None if none is free or one in progress wants it."""
        if self._free <= self._reserve or self._wanting:
            return None
        self._free -= 1
        return Slot(self)

    def take(self, priority: int, wake: Callable[[], None]) -> bool:
        """Take the place of a further page, and tell whether it was had; if not, `wake` is called for another try.

        Args:
            priority: of the listing, its own; the lowest is the most urgent.
            wake: tells the listing to try again.
        """
        if self._free > 0 and priority <= min(self._wanting, default=priority):
            self._free -= 1
            self.leave(priority)
            return True
        self._wanting[priority] = wake
        return False

    def leave(self, priority: int) -> None:
        """Want no place any more."""
        self._wanting.pop(priority, None)
        self._wake()

    def release(self) -> None:
        """Give a place back."""
        self._free += 1
        self._wake()

    def _wake(self) -> None:
        if self._free > 0:
            if self._wanting:
                self._wanting[min(self._wanting)]()
            else:
                self._on_free()


class Slot:
    """A place in a window, given back once, whoever does it."""

    def __init__(self, window: PageBudget) -> None:
        self._window = window
        self._held = True

    def transfer(self) -> bool:
        """Leave the place to somebody else, who gives it back, and tell whether it was still held."""
        held, self._held = self._held, False
        return held

    def release(self) -> bool:
        """Give the place back if it is still held, and tell whether it was."""
        held = self.transfer()
        if held:
            self._window.release()
        return held
