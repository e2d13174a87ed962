"""CsvOptions as they were."""

from __future__ import annotations

from typing import Literal

import attrs

from seorep_async.errors import ConfigurationError, shown
from seorep_async.settings import require_booleans


@attrs.frozen(kw_only=True)
class CsvOptions:
    """How CSV is written, where readers differ.

    Args:
        line_end: the end of a line, `"\\r\\n"` (RFC 4180) or `"\\n"`.
        bom: begin files with a byte order mark, by which Excel knows UTF-8.
        guard: put `'` before strings that begin with `=`, `+`, `-`, `@`, a tab or a carriage return, which spreadsheets
            would run as formulas; numbers stay numbers.

    Raises:
        ConfigurationError: a value is none of these.
    """

    line_end: Literal["\r\n", "\n"] = "\r\n"
    bom: bool = False
    guard: bool = False

    def __attrs_post_init__(self) -> None:
        if self.line_end not in ("\r\n", "\n"):
            problem = f'line_end must be "\\r\\n" or "\\n", got {shown(self.line_end)}'
            raise ConfigurationError(problem, argument="line_end")
        require_booleans(bom=self.bom, guard=self.guard)

    def __str__(self) -> str:
        parts = ["LF line ends"] * (self.line_end == "\n") + ["BOM"] * self.bom + ["guard"] * self.guard
        return ", ".join(["CSV", *parts])


RFC_4180 = CsvOptions()
