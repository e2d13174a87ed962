"""Campaigns: website addresses tracked for ranking statistics."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import attrs

from seorep_async.models.descriptions import with_meanings
from seorep_async.models.model import Model, extra_field


@with_meanings
@attrs.frozen(repr=False, weakref_slot=False)
class Campaign(Model):
    """A website address plus a company name (the service's reference, section 2.1).

    A field that the response leaves out is None. The types of `timezone`, `date_deleted` and `engine_a_*` (except
    `engine_a_ignore_places`) are not documented: their values are stored unchanged.
    """

    id: int
    url: str
    company: str
    date_created: datetime | None = None
    date_modified: datetime | None = None
    date_deleted: Any = attrs.field(default=None, hash=False)
    status: str | None = None
    scope: str | None = None
    engine_a_ignore_places: bool | None = None
    engine_a_places_id: Any = attrs.field(default=None, hash=False)
    engine_a_cid: Any = attrs.field(default=None, hash=False)
    engine_a_business_id: Any = attrs.field(default=None, hash=False)
    engine_a_business_name: Any = attrs.field(default=None, hash=False)
    group_title: str | None = None
    timezone: Any = attrs.field(default=None, hash=False)
    account_id: int | None = None
    extra: Mapping[str, Any] = extra_field()
