"""Interrupt a pull at a step.

A step is a call of a function of the export, or by one, in the thread that stores and writes.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import seorep_async.export

_FOLDER = str(Path(seorep_async.export.__file__).parent)
_UNCUT = ("__init__", "_lock", "close")
"""Open and close a file: the system closes those of a process that died."""


class PowerFailure(BaseException):
    """An error that no code handles."""


@contextmanager
def at_each_step(do: Callable[[], Any]) -> Iterator[None]:
    """Call a function before each step of the thread of a pull that begins meanwhile."""

    def look(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        # A generator expression may be closed at any time, where no error gets out.
        if (
            event in ("call", "c_call")
            and code.co_filename.startswith(_FOLDER)
            and not code.co_name.startswith(("<", *_UNCUT))
        ):
            do()

    def begin(frame: FrameType, event: str, argument: object) -> None:
        if threading.current_thread().name.startswith("seorep-pull"):
            sys.setprofile(look)

    threading.setprofile(begin)
    try:
        yield
    finally:
        threading.setprofile(None)


@contextmanager
def cut_off(after: int) -> Iterator[None]:
    """Let a pull run for a number of steps, and then fail."""
    left = after

    def take() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise PowerFailure

    with at_each_step(take):
        yield
