"""From the bytes of a response to a page of models or one model."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Generator, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import attrs
import msgspec

from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking, Page, RankingTotals
from seorep_async.normalisation import envelope as envelopes
from seorep_async.normalisation.compiled_rows import REFUSALS, CompiledRows
from seorep_async.settings import EngineNames

if TYPE_CHECKING:
    from seorep_async.normalisation.converter import ModelConverter

M = TypeVar("M")
Asked: TypeAlias = tuple[str, int] | None
"""`campaign` or `keyword`, and its id, if a page is to be about one."""

_LARGE, _HUGE = 1024 * 1024, 4 * 1024 * 1024
"""Bytes from which on an odd page is read in a thread; and there by Python's own code, not to hold others up."""


class Decoder:
    """Decodes responses under one account's names for the engines, a page of current rows at once.

    Every method raises ProtocolError for incomplete JSON, StatusError for an error under a success status, and
    DecodeError, with its path, for an undocumented shape.
    """

    def __init__(self, engine_names: EngineNames) -> None:
        self._engine_names = engine_names
        rows: tuple[type, ...] = (KeywordRanking, CampaignPeriod, KeywordPeriod)
        self._compiled = {row: CompiledRows[Any](row, engine_names) for row in rows}

    @cached_property
    def _converter(self) -> ModelConverter:
        from seorep_async.normalisation.converter import ModelConverter  # importing cattrs is slow

        return ModelConverter(self._engine_names)

    def feed_page(
        self, body: bytes, row: type[M], number: int, asked: Asked = None
    ) -> Page[M] | Generator[bool, None, Page[M]]:
        """Decode a page of a ranking feed, in either of its shapes (the service's reference, section 4.4).

        A page of current rows is returned; any other is read in the steps of a generator, which yields whether to take
        them in a thread.
        """
        body = body.removeprefix(BOM_UTF8)
        try:
            return self._compiled[row].read_page(body, number)
        except REFUSALS as error:
            return self._odd_page(body, row, number, asked, error)

    def _odd_page(
        self, body: bytes, row: type[M], number: int, asked: Asked, refusal: Exception
    ) -> Generator[bool, None, Page[M]]:
        yield len(body) > _LARGE
        if type(refusal) is not msgspec.DecodeError and "unknown field" not in str(refusal):
            with suppress(*REFUSALS):
                return self._compiled[row].read_page(body, number, refusal)
        return (yield from self.model_page(body, row, number, asked))

    def model_page(
        self, body: bytes, model: type[M], number: int, asked: Asked = None
    ) -> Generator[bool, None, Page[M]]:
        """Decode a page of a list response, whose `data` is an array (section 1), or an odd page of a feed."""
        compiled, is_huge = self._compiled.get(model), len(body) > _HUGE
        yield len(body) > _LARGE
        envelope = envelopes.parse(body, slowly=is_huge)
        page, rows_path, totals_path = envelopes.raw_page(
            envelope, number, is_feed=compiled is not None
        )
        items: Sequence[M] | None = None
        unknown = None
        if compiled and not is_huge:
            yield False
            with suppress(*REFUSALS):
                items, unknown = compiled.read_objects(body, page.items)
        if asked:
            envelopes.refuse_another(envelope, unknown, *asked)
        if items is None:
            items = yield from self._converter.structure_all(page.items, model, rows_path)
        totals: Any = page.totals
        totals = (
            None
            if totals is None
            else self._converter.structure(totals, RankingTotals, totals_path)
        )
        return attrs.evolve(page, items=tuple(items), totals=totals)

    def single(self, body: bytes, model: type[M]) -> M:
        """Decode a single-object response: `data` is an object (the service's reference, section 1)."""
        return self._converter.structure(envelopes.parse(body)["data"], model, "data")


decoder_for = lru_cache(maxsize=16)(Decoder)
"""Return the decoder for an account's names; clients share it, as building one takes many milliseconds."""
