"""From the bytes of a response to a page of models or one model."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking, Page, RankingTotals
from seorep_async.normalisation import envelope as envelopes, values
from seorep_async.normalisation.compiled_rows import REFUSALS, CompiledRows
from seorep_async.settings import EngineNames

if TYPE_CHECKING:
    from seorep_async.normalisation.converter import ModelConverter

M = TypeVar("M")
Asked: TypeAlias = tuple[str, int] | None
"""`campaign` or `keyword`, and its id, if a page is to be about one."""

_ROWS: tuple[type, ...] = (KeywordRanking, CampaignPeriod, KeywordPeriod)
_HUGE = 1024 * 1024  # bytes


@lru_cache(maxsize=16)
def decoder_for(engine_names: EngineNames) -> Decoder:
    """Return the decoder for an account's names; clients share it, as building one takes many milliseconds."""
    return Decoder(engine_names)


class Decoder:
    """Decodes responses under one account's names for the engines, a page of current rows at once.

    Every method raises ProtocolError for incomplete JSON, StatusError for an error under a success status, and
    DecodeError, with its path, for an undocumented shape.
    """

    def __init__(self, engine_names: EngineNames) -> None:
        self._engine_names = engine_names
        self._compiled = {row: CompiledRows[Any](row, engine_names) for row in _ROWS}

    @cached_property
    def _converter(self) -> ModelConverter:
        from seorep_async.normalisation.converter import ModelConverter  # importing cattrs is slow

        return ModelConverter(self._engine_names)

    def feed_page(
        self, body: bytes, row: type[M], number: int, asked: Asked = None
    ) -> Page[M] | Generator[bool, None, Page[M]]:
        """Decode a page of a ranking feed, in either of its shapes (the service's reference, section 4.4).

        A page of current rows is returned; any other is read in the steps of a generator, which yields whether to take
        them in a thread: there, C code would hold others up for as long as it reads a huge page.
        """
        try:
            return self._compiled[row].read_current(body, number)
        except REFUSALS as error:
            return self._odd_page(body, row, number, asked, error)

    def _odd_page(
        self, body: bytes, row: type[M], number: int, asked: Asked, refusal: Exception
    ) -> Generator[bool, None, Page[M]]:
        compiled, is_huge = self._compiled[row], len(body) > _HUGE
        yield is_huge
        body = envelopes.without_mark(body)
        is_of_values = type(refusal) is not msgspec.DecodeError and "unknown field" not in str(refusal)
        if is_of_values:
            try:
                return compiled.read_after(refusal, body, number)
            except REFUSALS:
                yield is_huge
        envelope = envelopes.parse(body, slowly=is_huge)
        feed = envelopes.payload(envelope, is_feed=True)
        yield is_huge
        rows: Sequence[M] | None = None
        unknown: set[str] | None = None
        if not is_huge:
            with suppress(*REFUSALS):
                rows, unknown = compiled.read_objects(body, feed.rows)
        if asked:
            envelopes.refuse_another(envelope, unknown, *asked)
        if rows is None:
            rows = yield from self._converter.structure_all(feed.rows, row, feed.rows_path)
        return self._built(feed, rows, number)

    def model_page(
        self, body: bytes, model: type[M], number: int, asked: Asked = None
    ) -> Generator[bool, None, Page[M]]:
        """Decode a page of a list response: `data` is an array (the service's reference, section 1)."""
        yield len(body) > _HUGE
        envelope = envelopes.parse(body, slowly=len(body) > _HUGE)
        listed = envelopes.payload(envelope, is_feed=False)
        if asked:
            envelopes.refuse_another(envelope, None, *asked)
        items = yield from self._converter.structure_all(listed.rows, model, listed.rows_path)
        return self._built(listed, items, number)

    def _built(self, found: envelopes.Payload, items: Sequence[M], number: int) -> Page[M]:
        totals, none = found.totals, found.totals is False or values.is_no_object(found.totals)
        totals = None if none else self._converter.structure(totals, RankingTotals, found.totals_path)
        counts = found.total_pages, found.total_records
        return Page(tuple(items), number, *counts, totals, found.version, found.extra)

    def single(self, body: bytes, model: type[M]) -> M:
        """Decode a single-object response: `data` is an object (the service's reference, section 1)."""
        return self._converter.structure(envelopes.parse(body)["data"], model, "data")

    def envelope(self, body: bytes) -> dict[str, Any]:
        """Parse any response; no body (204) is an empty envelope."""
        return envelopes.parse(body, needs_data=False) if body else {}
