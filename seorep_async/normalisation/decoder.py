"""From the bytes of a response to a page of models or one model."""

from __future__ import annotations

from codecs import BOM_UTF8
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from seorep_async.errors import DecodeError
from seorep_async.models import (
    CampaignPeriod,
    KeywordPeriod,
    KeywordRanking,
    Page,
    RankingTotals,
)
from seorep_async.models.decoding import PageDecoder
from seorep_async.normalisation import envelope as envelopes
from seorep_async.normalisation.envelope import PageSubject
from seorep_async.normalisation.rows import REFUSALS, RowReader
from seorep_async.settings import EngineNames

if TYPE_CHECKING:
    from seorep_async.normalisation.converter import ModelConverter

M = TypeVar("M")

SLICE = 32
"""The number of rows that are read together on a page with odd rows."""


class Decoder:
    """Decodes responses with an account's names for the search engines.

    This class and the page decoders below raise a ProtocolError for incomplete JSON, and a
    StatusError for an error with a success status. A DecodeError names the path of an undocumented
    value.

    Attributes:
        readers: the reader of each feed's rows, by the rows' model.
    """

    def __init__(self, engine_names: EngineNames) -> None:
        self._engine_names = engine_names
        self.readers: dict[type, RowReader[Any]] = {
            row: RowReader(row, engine_names)
            for row in (KeywordRanking, CampaignPeriod, KeywordPeriod)
        }

    @cached_property
    def converter(self) -> ModelConverter:
        """The reference converter, which reads everything that the fast paths refuse."""
        from seorep_async.normalisation.converter import ModelConverter  # importing cattrs is slow

        return ModelConverter(self._engine_names)

    def single(self, body: bytes, model: type[M]) -> M:
        """Decode the single object in `data` (the service's reference, section 1)."""
        return self.converter.structure(envelopes.parse(body)["data"], model, "data")


decoder_for = lru_cache(16)(Decoder)
"""Return the decoder for an account's engine names. It is shared, because making one
takes milliseconds.
"""


class FeedPage(msgspec.Struct, PageDecoder[Page[M]], eq=False):
    """Decodes page `number` of a ranking feed (the service's reference, section 4.4)."""

    decoder: Decoder
    row_type: type[M]
    number: int
    subject: PageSubject = None

    def __call__(self, body: bytes) -> Page[M]:
        return self.documented(body) or self.odd(body)

    def documented(self, body: bytes) -> Page[M] | None:
        """Decode a page on the fast path, if its rows are alike. Otherwise return None."""
        # Nearly every page is read here. `contextlib.suppress` would take longer than a row does.
        try:
            return self.decoder.readers[self.row_type].read_page(
                body.removeprefix(BOM_UTF8), self.number, self.subject
            )
        except REFUSALS:
            return None

    def odd(self, body: bytes) -> Page[M]:
        """Decode a page whose rows are not alike, after `documented` has returned None.

        This takes longer.
        """
        page, json_rows = envelopes.split_page(body, self.subject)
        models = self._models(json_rows, page.items_path)
        totals = None
        if page.totals is not None:
            totals = self.decoder.converter.structure(page.totals, RankingTotals, page.totals_path)
        return page.completed(self.number, models, totals)

    def _models(self, json_rows: list[msgspec.Raw], path: str) -> list[M]:
        """Turn rows into models, a slice at a time."""
        rows = []
        try:
            for first in range(0, len(json_rows), SLICE):
                rows += self._slice(json_rows[first : first + SLICE], first, path)
        except DecodeError:
            # If a later row can't be parsed, or is about another campaign, report that instead,
            # because it explains more than a bad field. So the remaining rows are parsed and
            # checked, but not converted.
            for json in json_rows[len(rows) :]:
                rows.append(envelopes.parse_json(json, f"{path}[{len(rows)}]"))
            envelopes.refuse_another_subject(rows, path, self.subject)
            raise
        envelopes.refuse_another_subject(rows, path, self.subject)
        return rows

    def _slice(self, json_rows: list[msgspec.Raw], first: int, path: str) -> list[M]:
        """Read a slice of rows, so that a refused row slows only its slice."""
        try:
            return self.decoder.readers[self.row_type].read_rows(json_rows)
        except REFUSALS:
            pass
        # The reference converter reads each row, or names its bad field.
        models = []
        for index, json in enumerate(json_rows, first):
            row_path = f"{path}[{index}]"
            row = envelopes.parse_json(json, row_path)
            models.append(self.decoder.converter.structure(row, self.row_type, row_path))
        return models


class ModelPage(msgspec.Struct, Generic[M], eq=False):
    """Decodes page `number` of a list of records (the service's reference, section 1).

    Its `data` is an array.
    """

    decoder: Decoder
    model: type[M]
    number: int
    subject: PageSubject = None

    def __call__(self, body: bytes) -> Page[M]:
        page = envelopes.read_page(body, self.subject, is_feed=False)
        items = [
            self.decoder.converter.structure(item, self.model, f"{page.items_path}[{index}]")
            for index, item in enumerate(page.items)
        ]
        return page.completed(self.number, items, totals=None)
