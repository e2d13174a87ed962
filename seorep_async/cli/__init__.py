"""The `seorep` command, which needs the extra `cli`."""

from __future__ import annotations

import atexit
import os
import signal
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command with this process's arguments, and exit with its code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell's background job ignores it
        signal.signal(signal.SIGINT, _exit_at_once)
    try:
        import click  # noqa: F401
        import platformdirs  # noqa: F401
        import rich  # noqa: F401
    except ModuleNotFoundError:
        print("seorep needs more than the library: pip install 'seorep-async[cli]'", file=sys.stderr)
        sys.exit(2)
    from seorep_async.cli.application import run
    from seorep_async.cli.signals import exit_on_signal

    try:
        code = run(sys.argv[1:], before_command=_raise_on_interrupt)
    except KeyboardInterrupt:  # while an error was reported
        code = _INTERRUPTED
    exit_on_signal(code)
    atexit.register(_ignore_signals)
    sys.exit(code)


def _exit_at_once(*_: object) -> None:
    """End without a traceback while modules are imported: some of them would swallow or wrap a KeyboardInterrupt."""
    os._exit(_INTERRUPTED)


def _raise_on_interrupt() -> None:
    """Let Ctrl-C raise KeyboardInterrupt from now on."""
    if signal.getsignal(signal.SIGINT) is _exit_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _ignore_signals() -> None:
    """Let no signal change the exit code when the interpreter takes our handlers away."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
