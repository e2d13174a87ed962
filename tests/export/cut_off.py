"""Steps that are cut off, held up or overtaken: of a storage, of the system, of an object store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import attrs
import obstore.store
import pytest

from tests.export.door import Storage, storage_of

CHANGES = ("put", "write", "exchange", "move", "delete")
"""The steps of a storage that change it."""


class PowerFailure(BaseException):
    """What no code handles: nothing more is done."""


@attrs.define
class Steps:
    """So many steps are done, and then none, not even those that would clean up."""

    left: int

    def take(self, _: object = None) -> None:
        if not self.left:
            raise PowerFailure
        self.left -= 1

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            self.take()
            return call(*arguments, **options)

        return run


@attrs.define
class Interposed:
    """A storage that calls `before` with the name of each step of some kinds; one step is done at a time."""

    whole: Storage
    before: Callable[[str], None]
    kinds: tuple[str, ...] = CHANGES
    lock: Any = attrs.field(factory=threading.RLock)

    def __getattr__(self, name: str) -> Any:
        step = getattr(self.whole, name)
        if name not in self.kinds:
            return step

        def run(*arguments: Any) -> Any:
            with self.lock:
                self.before(name)
                return step(*arguments)

        def delete(names: list[str]) -> None:
            for one in names:
                run([one])

        return delete if name == "delete" else run


def in_memory() -> Storage:
    """Return an object store without a server."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(obstore.store, "from_url", lambda *_, **__: obstore.store.MemoryStore())
        return storage_of("s3://memory/rankings/")


def cut(storage: Storage, steps: int) -> Any:
    """Return a storage that changes so often, and then no more."""
    return Interposed(storage, Steps(steps).take)
