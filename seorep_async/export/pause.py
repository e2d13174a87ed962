"""The note of a pause in a checkpoint: the reports that had failed by then, and their errors."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from seorep_async import errors
from seorep_async.errors import SeoRepError
from seorep_async.export.checkpoint import Checkpoint
from seorep_async.export.formats import DamagedError
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


_OF_ERRORS = _Failed.__struct_fields__[3:]


def note_pause(checkpoint: Checkpoint, failed: Errors, key_digest: str) -> None:
    """Note a pause, and whose key it is, so that the pull is resumed even if nothing is stored yet."""
    found = [
        _Failed(*asked, type(error).__name__, **{name: getattr(error, name) for name in _OF_ERRORS})
        for asked, error in failed.items()
    ]
    checkpoint.note(paused=msgspec.to_builtins(found), key=key_digest)


def is_paused(checkpoint: Checkpoint) -> bool:
    """Return whether the pull was paused, and has not ended since."""
    return checkpoint.read("paused") is not None


def errors_before_pause(checkpoint: Checkpoint) -> Errors:
    """Return the errors before the last pause; a note that no pause wrote raises DamagedError."""
    try:
        found = msgspec.convert(checkpoint.read("paused") or [], list[_Failed])
        return {(one.feed, one.id): _error_of(one) for one in found}
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise DamagedError(str(error)) from error


def _error_of(one: _Failed) -> SeoRepError:
    kind: Any = getattr(errors, one.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, SeoRepError)):
        raise DamagedError("it names no error")
    fields: Any = {name: getattr(one, name) for name in _OF_ERRORS}
    "".join(one for one in fields.values() if isinstance(one, str)).encode()  # no target takes half a surrogate pair
    return kind(**fields)
