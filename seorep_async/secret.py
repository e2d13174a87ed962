"""Strings that must not appear in a repr: keys, passwords and tokens."""

from __future__ import annotations

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
