"""The effect of Ctrl-C, SIGTERM, SIGHUP and Ctrl-Break.

This module is imported first, so it imports little.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

INTERRUPTED = 130
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
"""Windows has SIGBREAK (Ctrl-Break, a closed console), and no SIGHUP."""
_installed: list[signal.Signals] = []


def install() -> None:
    """Let signals interrupt the process, except those that are ignored.

    `nohup` starts a process that ignores SIGHUP, and a shell starts background jobs that
    ignore SIGINT.
    """
    for name in _NAMES:
        if hasattr(signal, name):
            number = getattr(signal, name)
            if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
                _installed.append(number)
    handle(interrupt)


def handle(action: Callable[..., object] | signal.Handlers) -> None:
    """Make the installed signals call an action."""
    for number in _installed:
        signal.signal(number, action)


def ignore() -> None:
    """Ignore signals from now on, because the exit code is known and must not change."""
    handle(signal.SIG_IGN)
    _installed.clear()


def interrupt(_: int, frame: FrameType | None) -> None:
    """Interrupt the process."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            # an import may swallow or wrap an exception
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt
