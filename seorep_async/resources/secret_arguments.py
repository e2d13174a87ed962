"""Mask arguments that may contain secrets. Messages name only their types."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from seorep_async.errors import ConfigurationError, short_repr
from seorep_async.plain_values import plain
from seorep_async.resources.encoding import ParamValue
from seorep_async.secret import Secret

Params: TypeAlias = Mapping[str, ParamValue | Iterable[str] | None]
"""Parameters by name. Those that are None are not sent."""
ExtraParams: TypeAlias = Params
"""Parameters that have no argument of their own."""

_MASK = "***"
_SECRET_NAME = re.compile(
    "(?i)password|passwd|passphrase|pwd|token|secret|api[_-]?key|(?<![a-z])pass(?![a-z])"
)


class SecretInteger(int):
    """An integer with a masked repr, such as a numeric password."""

    __slots__ = ()

    def __repr__(self) -> str:
        return _MASK


class _Hidden:
    """Replaces a value that can't be sent and may contain a secret. Only its type is kept."""

    def __init__(self, value: object) -> None:
        self.type_name = type(value).__name__

    def __repr__(self) -> str:
        return _MASK


def described(value: object) -> str:
    """Describe a refused value. None, numbers and dates are shown; of others, only the type."""
    if value is None or isinstance(value, int | float | dt.date):
        return short_repr(value)
    # `mask_secrets` has replaced the value
    if isinstance(value, _Hidden):
        return f"a value of type {value.type_name}"
    return f"a value of type {type(value).__name__}"


def mask_secrets(values: Any, *, argument: str = "extra_params") -> Any:
    """Mask the values of additional parameters whose names suggest secrets.

    Nested values can't be sent, so they are hidden whatever their names. If `values` is not a
    mapping, it is hidden completely, and refused later.

    Raises:
        ConfigurationError: a name is given twice.
    """
    if values is None:
        return None
    if not isinstance(values, Mapping):
        return _hide(values)
    names = [name for name, _value in values.items()]
    # A MultiDict may have a name twice, and a dictionary made from it would lose a value.
    if len(set(names)) < len(names):
        repeated_name = next(name for name in names if names.count(name) > 1)
        problem = (
            f"{short_repr(repeated_name)} is given more than once; pass its values as one list"
        )
        raise ConfigurationError(f"{argument}: {problem}", argument=argument)
    return {
        name: _masked(value) if _is_secret(name) else _hide_if_nested(value)
        for name, value in values.items()
    }


def _masked(value: Any) -> Any:
    """Mask the value of a parameter whose name suggests a secret, so that it can still be sent."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return Secret.of(value)
    # NumPy's integers are not instances of `int`.
    number = plain(value)
    if type(number) is int:
        return SecretInteger(number)
    if isinstance(value, Iterable) and not isinstance(value, Mapping | bytes | bytearray):
        return tuple(map(_masked, value))
    # other types can't be sent: hidden now, refused later
    return _hide(value)


def _hide_if_nested(value: Any) -> Any:
    """Hide a nested value, which can't be sent, and which an error would show."""
    if not isinstance(value, Mapping | list | tuple):
        return value
    # an array of strings can be sent
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return value
    return _hide(value)


def _hide(value: object) -> _Hidden:
    return value if isinstance(value, _Hidden) else _Hidden(value)


def secrets_in(values: Mapping[str, ParamValue]) -> tuple[str, ...]:
    """Return the values of parameters whose names suggest secrets. Integers become strings.

    Errors must not quote these values. Floats and other numbers don't occur here: they can't be
    sent under such a name.
    """
    secrets: list[str] = []
    for name, value in values.items():
        # true and false are no secrets
        if not _is_secret(name) or isinstance(value, bool):
            continue
        if isinstance(value, tuple):
            secrets.extend(value)
        elif isinstance(value, str):
            secrets.append(value)
        elif isinstance(value, int):
            # the repr of a SecretInteger is its mask
            secrets.append(int.__repr__(value))
    return tuple(secrets)


def _is_secret(name: object) -> bool:
    return isinstance(name, str) and _SECRET_NAME.search(name) is not None
