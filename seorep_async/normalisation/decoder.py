"""From the bytes of a response to a page of models or one model."""

from __future__ import annotations

from codecs import BOM_UTF8
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from seorep_async.errors import SeoRepError
from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking, Page, RankingTotals
from seorep_async.normalisation import envelope as envelopes
from seorep_async.normalisation.envelope import Subject
from seorep_async.normalisation.rows import REFUSALS, RowReader
from seorep_async.settings import EngineNames

if TYPE_CHECKING:
    from seorep_async.normalisation.converter import ModelConverter

M = TypeVar("M")


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
        # Nearly every page comes this way, and `suppress` would cost more than its first row.
        try:
            return self._readers[row].read_page(body.removeprefix(BOM_UTF8), number)
        except REFUSALS:
            return None

    def odd_page(self, body: bytes, row: type[M], number: int, subject: Subject) -> Page[M]:
        """Decode any page of a feed (the service's reference, section 4.4)."""
        body = body.removeprefix(BOM_UTF8)
        reader: RowReader[M] = self._readers[row]
        with suppress(*REFUSALS, SeoRepError):
            page = reader.read_uniform_page(body, number)
            envelopes.refuse_another_row(page.items, "", subject)
            return page
        raw_page, json_rows = envelopes.split_page(body, subject)
        try:
            rows = reader.read_rows(json_rows)
        except REFUSALS:
            # Finds the row, and another error that precedes it.
            envelopes.parse(body)
            raise
        # Checked before the converter names a bad field: of another campaign it would mislead.
        envelopes.refuse_another_row(rows, raw_page.items_path, subject)
        models = [
            item
            if type(item) is row
            else self._converter.structure(item, row, f"{raw_page.items_path}[{place}]")
            for place, item in enumerate(rows)
        ]
        totals = None
        if raw_page.totals is not None:
            totals = self._converter.structure(raw_page.totals, RankingTotals, raw_page.totals_path)
        return raw_page.completed(number, models, totals)

    def model_page(self, body: bytes, model: type[M], number: int, subject: Subject) -> Page[M]:
        """Decode a page of a list: its `data` is an array (the service's reference, section 1)."""
        page = envelopes.read_page(body, subject, is_feed=False)
        items = [
            self._converter.structure(wire, model, f"{page.items_path}[{place}]")
            for place, wire in enumerate(page.items)
        ]
        return page.completed(number, items, None)

    def single(self, body: bytes, model: type[M]) -> M:
        """Decode a single object, which is `data` (the service's reference, section 1)."""
        return self._converter.structure(envelopes.parse(body)["data"], model, "data")


decoder_for = lru_cache(maxsize=16)(Decoder)
"""Return the decoder for an account's names. Clients share it: to build one takes milliseconds."""


class FeedPage(msgspec.Struct, Generic[M], eq=False):
    """Decodes page `number` of a ranking feed into models of its rows."""

    decoder: Decoder
    row: type[M]
    number: int
    subject: Subject = None

    def __call__(self, body: bytes) -> Page[M]:
        return self.documented(body) or self.odd(body)

    def documented(self, body: bytes) -> Page[M] | None:
        """Decode a page of documented rows fast, or return None."""
        return self.decoder.documented_page(body, self.row, self.number)

    def odd(self, body: bytes) -> Page[M]:
        """Decode a page that `documented` has refused."""
        return self.decoder.odd_page(body, self.row, self.number, self.subject)


class ModelPage(msgspec.Struct, Generic[M], eq=False):
    """Decodes page `number` of a list of records."""

    decoder: Decoder
    model: type[M]
    number: int
    subject: Subject = None

    def __call__(self, body: bytes) -> Page[M]:
        return self.decoder.model_page(body, self.model, self.number, self.subject)
