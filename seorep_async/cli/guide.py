"""`seorep guide`: the pages of the guide."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.markdown import Markdown

from seorep_async import guides
from seorep_async.cli.exit_codes import ExitCode, UsageError, near
from seorep_async.cli.output import stdout_width, write


def guide(name: str | None = None, /) -> int:
    """Show a page of the guide, or the list of its pages."""
    pages = guides.pages()
    if name is None:
        width = max(map(len, pages), default=0)
        lines = (f"  {one:<{width}}  {text.partition(chr(10))[0].lstrip('# ')}" for one, text in pages.items())
        write("\n".join(["seorep guide NAME shows one of:", *lines, ""]))
    elif name not in pages:
        raise UsageError(f"there is no page {name!r}; there are: {', '.join(pages)}.{near(name, pages)}")
    elif sys.stdout is not None and sys.stdout.isatty():
        Console(width=min(stdout_width(), 120)).print(Markdown(pages[name]))
    else:
        write(pages[name])
    return ExitCode.OK
