"""Backlinks: links to a campaign's address from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

import attrs

from seorep_async.models.model import Model, extra_field


@attrs.frozen(repr=False, weakref_slot=False)
class Backlink(Model):
    """A link to a campaign's address (the service's reference, section 2.5).

    A field that the response leaves out is None: `campaign_id` in all but the response to `create`, `target_anchor` and
    `target_url` in lists. `status` is `published` or `unpublished`.
    """

    id: int
    title: str
    status: str | None = None
    date_created: date | None = None
    date_published: date | None = None
    url: str | None = None
    link_type: str | None = None
    target_anchor: str | None = None
    target_url: str | None = None
    notes: str | None = None
    campaign_id: int | None = None
    domain_authority: int | None = None
    page_authority: int | None = None
    extra: Mapping[str, Any] = extra_field()
