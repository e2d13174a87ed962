"""The `seorep` command, which needs the extra `cli`."""

from __future__ import annotations

import atexit
import os
import signal
import sys

from seorep_async.cli.stop_signals import STOP_SIGNALS

TYPE_CHECKING = False  # `typing` would take long to import
if TYPE_CHECKING:
    from types import FrameType

_INTERRUPTED = 130


def main() -> None:
    """Run the command with this process's arguments, and exit with its code."""
    for number in STOP_SIGNALS:
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _interrupt)
    try:
        code = _run()
    except KeyboardInterrupt:  # between imports, or while an error was reported
        code = _INTERRUPTED
    atexit.register(_ignore_signals)
    sys.exit(code)


def _run() -> int:
    try:
        import click  # noqa: F401
        import platformdirs  # noqa: F401
        import rich  # noqa: F401
    except ModuleNotFoundError:
        advice = "pip install 'seorep-async[cli]', or in a clone: pip install '.[cli]'"
        print(f"seorep needs more than the library: {advice}", file=sys.stderr)
        return 2
    from seorep_async.cli.application import run
    from seorep_async.cli.signals import exit_on_signal

    code = run(sys.argv[1:])
    exit_on_signal(code)
    return code


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but end at once during an import, which may swallow or wrap it."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(_INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    """Ignore signals: none may change the exit code when the interpreter removes our handlers."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
