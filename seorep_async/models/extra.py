"""The field that every model has for what the service sends and the reference does not name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs


def extra_field() -> Mapping[str, Any]:
    """Declare `extra`: wire fields that the model does not know, kept as they came (empty when there are none)."""
    return attrs.field(factory=dict, hash=False)
