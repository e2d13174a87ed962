"""The notes of a checkpoint: which pull it is of, and how far that has come."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, TypeAlias

import msgspec

from seorep_async import errors
from seorep_async.errors import SeoRepError
from seorep_async.models import Feed
from seorep_async.old_export.formats import DamagedError
from seorep_async.old_export.spec import Parameters

Errors: TypeAlias = dict[tuple[Feed, int], SeoRepError]
"""The error of each report that failed, by its feed and the id that was asked for, of a campaign or keyword."""


class FailedReport(msgspec.Struct, dict=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A report that had failed by a pause, with the fields of its error; a forged one raises DamagedError."""

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

    def __post_init__(self) -> None:
        _ = self.error  # checked with the other notes, before the pull goes on

    @cached_property
    def error(self) -> SeoRepError:
        kind: Any = getattr(errors, self.kind, None)
        if not (isinstance(kind, type) and issubclass(kind, SeoRepError)):
            raise DamagedError("it names no error")
        fields: Any = {name: value for name in _OF_ERRORS if (value := getattr(self, name)) is not None}
        "".join(
            one for one in fields.values() if isinstance(one, str)
        ).encode()  # no target takes half a surrogate pair
        return kind(**fields)


_OF_ERRORS = FailedReport.__struct_fields__[3:]


class Notes(msgspec.Struct, frozen=True):
    """The notes of a checkpoint.

    Attributes:
        salt: of the checksums of its records.
        parameters: of its pull; None if nothing is to be resumed from it.
        planned: the number of campaigns, once they are listed.
        key: a digest of the API key.
        paused: the reports that had failed by the last pause; None if there was none, or the pull has ended since.
        named: whether the names of campaigns that the caller chose are stored.
        ended: whether the pull has ended, with failures.
    """

    salt: str | None = None
    parameters: Parameters | None = None
    planned: int | None = None
    key: str | None = None
    paused: list[FailedReport] | None = None
    named: bool = False
    ended: bool = False


def failed_reports(failed: Errors) -> list[FailedReport]:
    return [
        FailedReport(
            *asked, type(error).__name__, **{name: one for name, one in vars(error).items() if name in _OF_ERRORS}
        )
        for asked, error in failed.items()
    ]
