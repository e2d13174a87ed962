"""Campaigns: website addresses tracked for ranking statistics."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import attrs

from seorep_async.models.extra import extra_field


@attrs.frozen(weakref_slot=False)
class Campaign:
    """A website address plus a company name (`service-api-v3.md` §2.1); what a response leaves out is None.

    `engine_a_ignore_places` is a bool on the model, text on the wire. The types of `engine_a_*`, `timezone` and
    `date_deleted` are not documented: they are kept as they came.
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
