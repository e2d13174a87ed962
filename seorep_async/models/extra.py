"""`extra`: the field of every model that holds what the reference does not name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import attrs


class _NoExtra(dict[str, Any]):
    """An empty mapping that stays empty, so that all models without extra fields can share it."""

    __slots__ = ()

    def _stays_empty(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the extra fields of a model cannot be changed")

    __setitem__ = __ior__ = setdefault = update = _stays_empty

    def __reduce__(self) -> str:
        return "NO_EXTRA"


NO_EXTRA: Mapping[str, Any] = _NoExtra()


def extra_field(*, repr: bool = True) -> Mapping[str, Any]:
    """Declare `extra`: fields of the response that the model does not know, as the service sent them."""
    declared: Mapping[str, Any] = attrs.field(default=NO_EXTRA, hash=False, repr=repr)
    return declared
