"""The field that every model has for what the service sends and the reference does not name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import attrs


class _NoExtra(dict[str, Any]):
    """An empty mapping that stays empty, so that all models without extra fields can share it."""

    __slots__ = ()

    def _stays_empty(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the extra fields of a model can't be changed")

    __setitem__ = __ior__ = setdefault = update = _stays_empty

    def __reduce__(self) -> str:
        return "NO_EXTRA"


NO_EXTRA: Mapping[str, Any] = _NoExtra()


def extra_field(*, repr: bool = True) -> Mapping[str, Any]:
    """Declare `extra`: wire fields that the model does not know, kept as they came (empty when there are none)."""
    declared: Mapping[str, Any] = attrs.field(default=NO_EXTRA, hash=False, repr=repr)
    return declared
