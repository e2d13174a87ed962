"""The `seorep` command, which needs the extra `cli`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command with this process's arguments, and exit with its code."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ModuleNotFoundError:
        print("seorep needs more than the library: pip install 'seorep-async[cli]'", file=sys.stderr)
        sys.exit(2)
    from seorep_async.cli.application import run

    sys.exit(run(sys.argv[1:]))
