"""A string that no repr shows: a key, a password or a token on its way to the request."""

from __future__ import annotations

from seorep_async.plain_values import plain_string


class Secret(str):
    """A string with a masked repr, for frames that a traceback with locals may show."""

    __slots__ = ()

    @classmethod
    def of(cls, value: object) -> Secret:
        """Return a string as a secret, and any other value as an empty one.

        A wrong value is refused later; the refusal must not show it.
        """
        return cls(plain_string(value)) if isinstance(value, str) else cls()

    def __repr__(self) -> str:
        return "***"
