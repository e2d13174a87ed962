"""`extra`: the field of every model for fields that the reference does not name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import attrs


class _NoExtra(dict[str, Any]):
    """An immutable empty mapping, shared by all models without extra fields."""

    __slots__ = ()

    def _stays_empty(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the extra fields of a model cannot be changed")

    __setitem__ = __ior__ = setdefault = update = _stays_empty

    def __reduce__(self) -> str:
        return "NO_EXTRA"


NO_EXTRA: Mapping[str, Any] = _NoExtra()


def extra_field(*, repr: bool = True) -> Mapping[str, Any]:
    """Declare `extra`: unknown fields of the response, as the service sent them."""
    declared: Mapping[str, Any] = attrs.field(default=NO_EXTRA, hash=False, repr=repr)
    return declared
