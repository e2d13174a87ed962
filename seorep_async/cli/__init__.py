"""The `seorep` command, which needs the extra `cli`."""

from __future__ import annotations

import atexit
import os
import signal
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command with this process's arguments, and exit with its code."""
    _end_at_once_on_interrupt()
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ModuleNotFoundError:
        print("seorep needs more than the library: pip install 'seorep-async[cli]'", file=sys.stderr)
        sys.exit(2)
    from seorep_async.cli.application import run
    from seorep_async.cli.interruption import end_with

    if signal.getsignal(signal.SIGINT) is _end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # as an error was told
        code = _INTERRUPTED
    end_with(code)
    atexit.register(_ignore_signals)
    sys.exit(code)


def _ignore_signals() -> None:
    """Let no signal change the exit code when the interpreter takes our handlers away."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _end_at_once_on_interrupt() -> None:
    """Let Ctrl-C end the process without a traceback, while there is nothing to put away."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it may be ignored, as in a shell's background
        signal.signal(signal.SIGINT, _end_at_once)


def _end_at_once(*_: object) -> None:
    os._exit(_INTERRUPTED)
