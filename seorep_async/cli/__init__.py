"""The `seorep` command (extra `cli`); `seorep --help` and `seorep guide command` explain it."""

from __future__ import annotations

import io
import sys

from seorep_async.cli import signals

TYPE_CHECKING = False  # importing `typing` is slow
if TYPE_CHECKING:
    from typing import Any

_INSTALL = "pip install 'seorep-async[cli]', or in a clone: pip install '.[cli]'"


class _LossyStderr(io.FileIO):
    """Stderr that drops what can't be written to a full disk or a closed pipe.

    A pull must not end because its messages can't be written.
    """

    def write(self, data: Any) -> int:
        try:
            # None means that a non-blocking pipe is full
            return super().write(data) or len(data)
        except OSError:
            return len(data)


def main() -> None:
    """Run the command with this process's arguments, and exit with its code."""
    if sys.stderr is not None and not sys.stderr.isatty():
        messages = io.BufferedWriter(_LossyStderr(sys.stderr.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(
            messages, sys.stderr.encoding, sys.stderr.errors, line_buffering=True
        )
    if isinstance(sys.stdout, io.TextIOWrapper):
        # a locale such as en_US is Latin-1, which lacks characters of help and of the guide
        sys.stdout.reconfigure(errors="replace")
    signals.install()
    try:
        import rich  # noqa: F401  # to find out whether it is installed

        from seorep_async.cli.app import run

        code = run(sys.argv[1:])
        signals.ignore()
    except KeyboardInterrupt:  # Ctrl-C during the imports, or while an error is reported
        signals.ignore()
        code = signals.INTERRUPTED
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        print(f"seorep needs more than the library: {_INSTALL}", file=sys.stderr)
        code = 2
    sys.exit(code)
