"""From the bytes of a response to a page of models or one model."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from seorep_async.errors import SeoRepError
from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking, Page, RankingTotals
from seorep_async.normalisation import envelope as envelopes
from seorep_async.normalisation import values
from seorep_async.normalisation.compiled_rows import REFUSALS, CompiledRows
from seorep_async.normalisation.row_text import MARKER, Body, cut_few_rows, find_rows
from seorep_async.settings import EngineNames

if TYPE_CHECKING:
    from seorep_async.normalisation.converter import ModelConverter

M = TypeVar("M")

_ROWS: tuple[type, ...] = (KeywordRanking, CampaignPeriod, KeywordPeriod)
_FRAMES = 256  # cached frames: pages of one campaign often share one, as do those of small campaigns
_LARGEST_FRAME = 1024  # bytes


@lru_cache(maxsize=16)
def decoder_for(engine_names: EngineNames) -> Decoder:
    """Return the decoder for an account's names; clients share it, as building one takes many milliseconds."""
    return Decoder(engine_names)


class _Frame(msgspec.Struct, frozen=True, eq=False):
    """A feed's page without its rows and its number."""

    total_pages: int | None
    total_records: int | None
    totals: RankingTotals | None
    version: bool | None
    extra: Mapping[str, Any]

    @property
    def can_be_shared(self) -> bool:
        """Whether a user can change nothing in it."""
        return not self.extra and (self.totals is None or not self.totals.extra)

    def page(self, rows: Sequence[M], number: int) -> Page[M]:
        items = tuple(rows)
        return Page(items, number, self.total_pages, self.total_records, self.totals, self.version, self.extra)


class Decoder:
    """Decodes responses under one account's names for the engines, pages in steps of less than a millisecond.

    Every method raises ProtocolError for incomplete JSON, StatusError for an error under a success status, and
    DecodeError, with its path, for an undocumented shape.
    """

    def __init__(self, engine_names: EngineNames) -> None:
        self._engine_names = engine_names
        self._compiled = {row: CompiledRows[Any](row, engine_names) for row in _ROWS}
        self._frames: dict[bytes, _Frame] = {}

    @cached_property
    def _converter(self) -> ModelConverter:
        from seorep_async.normalisation.converter import ModelConverter  # importing cattrs is slow

        return ModelConverter(self._engine_names)

    def feed_page(self, body: Body, row: type[M], number: int) -> Page[M] | Generator[None, None, Page[M]]:
        """Decode a page of a ranking feed, in either of its shapes (the service's reference, section 4.4).

        A small one in the frame of another is decoded at once.
        """
        few = cut_few_rows(body)
        if few is not None and (frame := self._frames.get(few[0])) is not None:
            try:
                return frame.page(self._compiled[row].read_current(few[1]), number)
            except REFUSALS:
                pass
        return self._feed_page_in_steps(body, row, number)

    def _feed_page_in_steps(self, body: Body, row: type[M], number: int) -> Generator[None, None, Page[M]]:
        compiled: CompiledRows[M] = self._compiled[row]
        if (row_text := find_rows(body)) is not None:
            try:
                frame = self._frames.get(row_text.frame) or self._parsed_frame(row_text.frame)
                rows = yield from compiled.read_in_steps(row_text)
                return frame.page(rows, number)
            except (SeoRepError, *REFUSALS):
                pass
        return (yield from self._feed_page_by_reference(body, row, number))

    def _parsed_frame(self, text: bytes) -> _Frame:
        feed = envelopes.normalise_feed(envelopes.parse(text))
        if feed.rows != [MARKER]:
            raise ValueError("the marker is not where the rows are")
        frame = self._frame(feed)
        if frame.can_be_shared and len(text) <= _LARGEST_FRAME:
            if len(self._frames) >= _FRAMES:
                self._frames.clear()
            self._frames[text] = frame
        return frame

    def _frame(self, feed: envelopes.FeedPayload) -> _Frame:
        metadata, totals = feed.metadata, self._totals(feed.totals, feed.totals_path)
        return _Frame(metadata.total_pages, metadata.total_records, totals, metadata.version, feed.extra)

    def _feed_page_by_reference(self, body: Body, row: type[M], number: int) -> Generator[None, None, Page[M]]:
        feed = envelopes.normalise_feed(envelopes.parse(body))
        rows = yield from self._rows(feed, row)
        return self._frame(feed).page(rows, number)

    def _rows(self, feed: envelopes.FeedPayload, row: type[M]) -> Generator[None, None, Sequence[M]]:
        compiled: CompiledRows[M] = self._compiled[row]
        try:
            row_text = find_rows(msgspec.json.encode({"data": feed.rows}))
            if row_text is not None:
                return (yield from compiled.read_in_steps(row_text))
        except (*REFUSALS, OverflowError):
            pass
        return (yield from self._converter.structure_all(feed.rows, row, feed.rows_path))

    def model_page(self, body: Body, model: type[M], number: int) -> Generator[None, None, Page[M]]:
        """Decode a page of a list response: `data` is an array (the service's reference, section 1)."""
        envelope = envelopes.parse(body)
        metadata = envelopes.metadata(envelope)
        data = envelope["data"]
        if not isinstance(data, list):
            raise envelopes.refused("data", str(values.refusal("an array", data)))
        return Page(
            items=(yield from self._converter.structure_all(data, model, "data")),
            number=number,
            total_pages=metadata.total_pages,
            total_records=metadata.total_records,
            version=metadata.version,
            extra=envelopes.unknown_fields(envelope, metadata),
        )

    def single(self, body: Body, model: type[M]) -> M:
        """Decode a single-object response: `data` is an object (the service's reference, section 1)."""
        return self._converter.structure(envelopes.parse(body)["data"], model, "data")

    def envelope(self, body: Body) -> dict[str, Any]:
        """Parse any response; no body (204) is an empty envelope."""
        return envelopes.parse(body, needs_data=False) if body else {}

    def _totals(self, totals: Any, path: str) -> RankingTotals | None:
        if totals is None or totals is False or totals == [] or totals == {}:
            return None
        return self._converter.structure(totals, RankingTotals, path)
