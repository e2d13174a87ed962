"""Ctrl-C, SIGTERM and SIGHUP: what they do now; imported before all else, so it imports little."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

INTERRUPTED = 130
_HANDLED: list[signal.Signals] = []


def install() -> None:
    """Let signals interrupt the process, unless they are ignored: SIGHUP under nohup, SIGINT in a background job."""
    known = [
        signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
    ]
    _HANDLED.extend(
        one
        for one in known
        if signal.getsignal(one) in (signal.default_int_handler, signal.SIG_DFL)
    )
    handle(interrupt)


def handle(action: Callable[..., object] | signal.Handlers) -> None:
    """Let signals call an action, if they were installed."""
    for one in _HANDLED:
        signal.signal(one, action)


def ignore() -> None:
    """Ignore signals from now on: the exit code is known, and none may change it."""
    handle(signal.SIG_IGN)
    _HANDLED.clear()


def interrupt(_: int, frame: FrameType | None) -> None:
    """Interrupt the process."""
    while frame is not None:  # an import may swallow or wrap the exception
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt
