"""The repr of a model, for a REPL and a debugger: one line of a screen."""

from __future__ import annotations

from typing import TypeVar

import attrs

M = TypeVar("M", bound=attrs.AttrsInstance)

_WIDTH = 100
_LONGEST_STRING = 40


def one_line_repr(model: type[M]) -> type[M]:
    """Give a model a repr of its first fields, as many as fit into one line."""
    names = [field.name for field in attrs.fields(model) if field.repr]

    def __repr__(self: M) -> str:
        shown = ""
        for name in names:
            field = f"{', ' * bool(shown)}{name}={_cut(getattr(self, name))!r}"
            if len(model.__name__) + len(shown) + len(field) > _WIDTH:
                shown += f"{', ' * bool(shown)}…"
                break
            shown += field
        return f"{model.__name__}({shown})"

    model.__repr__ = __repr__  # type: ignore[assignment]
    return model


def _cut(value: object) -> object:
    if isinstance(value, str) and len(value) > _LONGEST_STRING:
        return f"{value[: _LONGEST_STRING - 1]}…"
    return value
