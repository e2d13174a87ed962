"""From the bytes of a response to a page of models or one model."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec

from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking, Page, RankingTotals
from seorep_async.normalisation import envelope as envelopes
from seorep_async.normalisation.rows import REFUSALS, RowReader
from seorep_async.settings import EngineNames

if TYPE_CHECKING:
    from seorep_async.normalisation.converter import ModelConverter

M = TypeVar("M")
Subject: TypeAlias = tuple[str, int] | None
"""`campaign` or `keyword`, and its id, if a page must be about one."""


class Decoder:
    """Decodes responses under one account's names for the engines.

    Every method raises ProtocolError for incomplete JSON, StatusError for an error under a success
    status, and DecodeError, with its path, for an undocumented shape.
    """

    def __init__(self, engine_names: EngineNames) -> None:
        self._engine_names = engine_names
        rows: tuple[type, ...] = (KeywordRanking, CampaignPeriod, KeywordPeriod)
        self._readers = {row: RowReader[Any](row, engine_names) for row in rows}

    @cached_property
    def _converter(self) -> ModelConverter:
        from seorep_async.normalisation.converter import ModelConverter  # importing cattrs is slow

        return ModelConverter(self._engine_names)

    def documented_page(self, body: bytes, row: type[M], number: int) -> Page[M] | None:
        """Decode a page of a feed if it is one of documented rows, current or older ones."""
        try:
            return self._readers[row].read_page(body.removeprefix(BOM_UTF8), number)
        except REFUSALS:
            return None

    def odd_page(self, body: bytes, row: type[M], number: int, subject: Subject) -> Page[M]:
        """Decode any page of a feed (the service's reference, section 4.4)."""
        envelope = envelopes.parse(body)
        page = envelopes.raw_page(envelope, is_feed=True)
        reader = self._readers[row]
        rows: Sequence[M] | None = None
        unknown_fields = None
        with suppress(*REFUSALS):
            rows, unknown_fields = reader.read_objects(page.items)
        # Asked before the converter names a bad field: of another campaign it would mislead.
        if subject is not None:
            envelopes.refuse_another(envelope, page, unknown_fields, *subject)
        if rows is None:
            rows = [
                self._odd_row(wire, reader, row, f"{page.items_path}[{place}]")
                for place, wire in enumerate(page.items)
            ]
        totals = None
        if page.totals is not None:
            totals = self._converter.structure(page.totals, RankingTotals, page.totals_path)
        return page.completed(number, rows, totals)

    def model_page(self, body: bytes, model: type[M], number: int, subject: Subject) -> Page[M]:
        """Decode a page of a list, whose `data` is an array (the service's reference, section 1)."""
        envelope = envelopes.parse(body)
        page = envelopes.raw_page(envelope, is_feed=False)
        if subject is not None:
            envelopes.refuse_another(envelope, page, None, *subject)
        items = [
            self._converter.structure(wire, model, f"{page.items_path}[{place}]")
            for place, wire in enumerate(page.items)
        ]
        return page.completed(number, items, None)

    def single(self, body: bytes, model: type[M]) -> M:
        """Decode a single object, which is `data` (the service's reference, section 1)."""
        return self._converter.structure(envelopes.parse(body)["data"], model, "data")

    def _odd_row(self, wire: object, reader: RowReader[M], row: type[M], path: str) -> M:
        # The converter takes ten times as long, so it gets only the rows that are refused.
        with suppress(*REFUSALS):
            return reader.read_objects([wire])[0][0]
        return self._converter.structure(wire, row, path)


decoder_for = lru_cache(maxsize=16)(Decoder)
"""Return the decoder for an account's names. Clients share it: to build one takes milliseconds."""


class FeedPage(msgspec.Struct, Generic[M], eq=False):
    """Decodes page `number` of a ranking feed into models of its rows."""

    decoder: Decoder
    row: type[M]
    number: int
    subject: Subject = None

    def __call__(self, body: bytes) -> Page[M]:
        page = self.documented(body)
        if page is None:
            page = self.decoder.odd_page(body, self.row, self.number, self.subject)
        return page

    def documented(self, body: bytes) -> Page[M] | None:
        """Decode a page of documented rows fast, or return None."""
        return self.decoder.documented_page(body, self.row, self.number)


class ModelPage(msgspec.Struct, Generic[M], eq=False):
    """Decodes page `number` of a list of records."""

    decoder: Decoder
    model: type[M]
    number: int
    subject: Subject = None

    def __call__(self, body: bytes) -> Page[M]:
        return self.decoder.model_page(body, self.model, self.number, self.subject)
