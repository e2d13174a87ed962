"""Ctrl-C, SIGTERM and SIGHUP: they cancel the running work, or end a process that has nothing left to do.

It is imported before all else, so it imports little.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

INTERRUPTED = 130
_SIGNALS = [signal.SIGINT, signal.SIGTERM]
if sys.platform != "win32":
    _SIGNALS.append(signal.SIGHUP)


class _State:
    """What a signal does now: `cancel` the running work; or end the process with a `code`, as all is reported."""

    cancel: Callable[[], object] | None = None
    code: int | None = None


def install() -> None:
    """Handle the signals, unless they are ignored: SIGHUP under nohup, SIGINT in a shell's background job."""
    for number in _SIGNALS:
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _received)


def ignore() -> None:
    """Ignore signals: none may change the exit code when the interpreter removes our handlers."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def cancel_with(cancel: Callable[[], object] | None) -> None:
    """Let signals cancel work; None: they interrupt the process again."""
    _State.cancel = cancel


def finished(code: int) -> None:
    """Let signals end the process at once, and with this code."""
    _State.code = code


def _received(number: int, frame: FrameType | None) -> None:
    if _State.code is not None:
        for stream in (sys.stdout, sys.stderr):
            try:  # noqa: SIM105  # contextlib takes long to import
                stream.flush()
            except (AttributeError, OSError, RuntimeError, ValueError):  # closed, or in use
                pass
        os._exit(_State.code)
    if _State.cancel is not None:
        _State.cancel()
        return
    while frame is not None:  # an import may swallow or wrap the exception
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt
