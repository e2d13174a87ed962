"""One page of a listing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import attrs

from seorep_async.models.model import Model, extra_field
from seorep_async.models.rankings import RankingTotals

T = TypeVar("T")


@attrs.frozen(weakref_slot=False)
class Page(Model, Generic[T]):
    """One page of a listing or a feed, as the service sent it (the service's reference, sections 1 and 4.4).

    Attributes:
        items: the models on this page, in the service's order.
        number: the page's number, from 1.
        total_pages: pages that the service announced, or None if it sent no usable number.
        total_records: records that the service announced, or None if it sent no usable number.
        totals: a feed's totals, or None.
        version: a feed's `metadata.version`, or None.
        extra: unknown fields of the envelope, as the service sent them.
    """

    items: tuple[T, ...]
    number: int
    total_pages: int | None = None
    total_records: int | None = None
    totals: RankingTotals | None = None
    version: bool | None = None
    extra: Mapping[str, Any] = extra_field()
