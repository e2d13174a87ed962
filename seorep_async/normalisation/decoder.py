"""From the bytes of a response to a page of models or one model."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from seorep_async.errors import SeoRepError
from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking, Page, RankingTotals
from seorep_async.normalisation import envelope as envelopes
from seorep_async.normalisation.envelope import RawPage, Subject
from seorep_async.normalisation.rows import REFUSALS, RowReader
from seorep_async.settings import EngineNames

if TYPE_CHECKING:
    from seorep_async.normalisation.converter import ModelConverter

M = TypeVar("M")
_TOGETHER = 64
"""Parsed rows that are read together."""


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
        # Errors are left to the last reading, which finds the first one of the whole page.
        with suppress(*REFUSALS, SeoRepError):
            return self._odd_rows(body, row, number, subject)
        with suppress(*REFUSALS, SeoRepError, KeyError):
            rest, rows = envelopes.split_rows(body)
            raw_page = envelopes.read_page(rest, subject, is_feed=True)
            page = self.documented_page(rows, row, number)
            page = page or self._odd_rows(rows, row, number, subject)
            return self._completed(raw_page, number, page.items)
        raw_page = envelopes.read_page(body, subject, is_feed=True)
        models = self._models(raw_page.items, row, raw_page.items_path)
        return self._completed(raw_page, number, models)

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

    def _odd_rows(self, body: bytes, row: type[M], number: int, subject: Subject) -> Page[M]:
        reader: RowReader[M] = self._readers[row]
        page = reader.read_odd_page(body, number)
        envelopes.refuse_another_row(page.items, subject)
        return page

    def _completed(self, page: RawPage, number: int, models: Sequence[M]) -> Page[M]:
        totals = None
        if page.totals is not None:
            totals = self._converter.structure(page.totals, RankingTotals, page.totals_path)
        return page.completed(number, models, totals)

    def _models(self, objects: list[Any], row: type[M], path: str) -> list[M]:
        models: list[M] = []
        # The converter takes ten times as long, so it gets only the rows around an odd one.
        for first in range(0, len(objects), _TOGETHER):
            part = objects[first : first + _TOGETHER]
            page: Page[M] | None = None
            with suppress(OverflowError):
                page = self.documented_page(msgspec.json.encode({"data": part}), row, number=0)
            if page is None:
                for place, wire in enumerate(part, first):
                    models.append(self._converter.structure(wire, row, f"{path}[{place}]"))
            else:
                models += page.items
        return models


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
        return page or self.decoder.odd_page(body, self.row, self.number, self.subject)

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
