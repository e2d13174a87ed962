"""Strings and fields that must not appear in a repr: keys, passwords and tokens."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from seorep_async.plain_values import plain_string


class Secret(str):
    """A string with a masked repr, for tracebacks that show local variables."""

    __slots__ = ()

    @classmethod
    def of(cls, value: object) -> Secret:
        """Convert a string to a secret, and any other value to an empty secret.

        An invalid value is refused later, and that error must not show it.
        """
        return cls(plain_string(value)) if isinstance(value, str) else cls()

    def __repr__(self) -> str:
        return "***"

    def __getitem__(self, index: Any) -> str:
        # rich shows a long string as the repr of a slice
        return Secret(super().__getitem__(index))


class PrivateStruct(msgspec.Struct, eq=False):
    """A struct whose fields may be secret, so its subclasses define a `__repr__`.

    Rich and structlog also show locals in tracebacks. Without `__rich_repr__`, they would show the
    fields of a struct.
    """

    __rich_repr__: ClassVar[Any] = None
