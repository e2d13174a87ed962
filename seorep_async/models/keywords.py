"""Keywords, tracked for a campaign."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import attrs

from seorep_async.models.model import Model, extra_field


@attrs.frozen(repr=False, weakref_slot=False)
class Keyword(Model):
    """A phrase that a campaign tracks (the service's reference, section 2.4)."""

    id: int
    keyword_phrase: str
    date_created: datetime | None = None
    date_modified: datetime | None = None
    primary_keyword: bool | None = None
    campaign_id: int | None = None
    extra: Mapping[str, Any] = extra_field()
