"""The note of a pause in a checkpoint: the reports that had failed by then, and their errors."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from seorep_async import errors
from seorep_async.errors import SeoRepError
from seorep_async.export.checkpoint import Checkpoint
from seorep_async.export.formats import DamagedError, decoding
from seorep_async.models import Feed

Errors: TypeAlias = dict[tuple[Feed, int], SeoRepError]
"""The error of each report that failed, by its feed and the id that was asked for, of a campaign or keyword."""


class _Failed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    feed: Feed
    id: int
    kind: str
    message: str
    subject: str | None = None
    method: str | None = None
    path: str | None = None
    status: Annotated[int, msgspec.Meta(ge=0, le=999)] | None = None
    attempts: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)] = 0
    body_excerpt: str | None = None
    location: str | None = None
    retry_after: Annotated[float, msgspec.Meta(ge=0)] | None = None
    field_path: str | None = None
    expected_records: int | None = None
    received_records: int | None = None
    page: int | None = None


_OF_ERRORS = _Failed.__struct_fields__[3:]


def note_pause(checkpoint: Checkpoint, failed: Errors, key_digest: str) -> None:
    """Note a pause, and whose key it is, so that the pull is resumed even if nothing is stored yet."""
    found = [
        _Failed(*asked, type(error).__name__, **{name: one for name, one in vars(error).items() if name in _OF_ERRORS})
        for asked, error in failed.items()
    ]
    checkpoint.note(paused=msgspec.to_builtins(found), key=key_digest)


def errors_before_pause(checkpoint: Checkpoint) -> Errors | None:
    """Return the errors before the last pause, or None if there was none or the pull has ended since.

    A note that no pause wrote raises DamagedError.
    """
    with decoding():
        found = checkpoint.read("paused", list[_Failed] | None)
        return None if found is None else {(one.feed, one.id): _error_of(one) for one in found}


def _error_of(one: _Failed) -> SeoRepError:
    kind: Any = getattr(errors, one.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, SeoRepError)):
        raise DamagedError("it names no error")
    fields: Any = {name: value for name in _OF_ERRORS if (value := getattr(one, name)) is not None}
    "".join(one for one in fields.values() if isinstance(one, str)).encode()  # no target takes half a surrogate pair
    return kind(**fields)
