"""From the bytes of an answer to a page of models, or to one model."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking, Page, RankingTotals
from seorep_async.models.extra import NO_EXTRA
from seorep_async.normalisation import envelope as envelopes
from seorep_async.normalisation import values
from seorep_async.normalisation.compiled import CompiledRows, ExactPage
from seorep_async.settings import EngineNames

if TYPE_CHECKING:
    from seorep_async.normalisation.converter import ModelConverter

M = TypeVar("M")

_ROWS: tuple[type, ...] = (KeywordRanking, CampaignPeriod, KeywordPeriod)


@lru_cache(maxsize=16)
def decoder_for(engine_names: EngineNames) -> Decoder:
    """Return the decoder for an account's names, which clients share: building one takes many milliseconds."""
    return Decoder(engine_names)


class Decoder:
    """Decodes answers under one account's names for the engines.

    Every method raises ProtocolError for a body that is no whole JSON, StatusError for an error under a success
    status, and DecodeError, with its path, for anything that is not of a documented shape.
    """

    def __init__(self, engine_names: EngineNames) -> None:
        self._engine_names = engine_names
        self._compiled = {row: CompiledRows[Any](row, engine_names) for row in _ROWS}

    @cached_property
    def _converter(self) -> ModelConverter:
        from seorep_async.normalisation.converter import ModelConverter  # importing cattrs takes a while

        return ModelConverter(self._engine_names)

    def feed_page(self, body: bytes | memoryview, row: type[M], number: int) -> Page[M]:
        """Decode a page of a ranking feed, in either of its shapes (the service's reference, section 4.4)."""
        compiled: CompiledRows[M] = self._compiled[row]
        exact = compiled.page(body)
        if exact is not None:
            return self._exact_page(exact, number)
        envelope = envelopes.parse(body)
        metadata = envelopes.metadata(envelope)
        feed = envelopes.fold_feed(envelope)

        def by_reference(place: int) -> M:
            return self._converter.structure(feed.rows[place], row, f"{feed.rows_path}[{place}]")

        rows = compiled.rows(feed.rows, by_reference)
        return self._feed_page(rows, number, metadata, feed.totals, feed.totals_path, feed.extra)

    def feed_page_in_steps(
        self, body: bytes | memoryview, row: type[M], number: int
    ) -> Generator[None, None, Page[M] | None]:
        """Decode a huge page of a ranking feed in small steps; the result is None where only `feed_page` can."""
        compiled: CompiledRows[M] = self._compiled[row]
        exact = yield from compiled.page_in_steps(body)
        return None if exact is None else self._exact_page(exact, number)

    def _exact_page(self, exact: ExactPage[M], number: int) -> Page[M]:
        metadata = envelopes.metadata({"metadata": exact.metadata})
        return self._feed_page(exact.rows, number, metadata, exact.totals, exact.totals_path, NO_EXTRA)

    def _feed_page(
        self,
        rows: tuple[M, ...],
        number: int,
        metadata: envelopes.Metadata,
        totals: object,
        totals_path: str,
        extra: Mapping[str, Any],
    ) -> Page[M]:
        return Page(
            items=rows,
            number=number,
            total_pages=metadata.total_pages,
            total_records=metadata.total_records,
            totals=self._totals(totals, totals_path),
            version=metadata.version,
            extra=_with_metadata(extra, metadata),
        )

    def model_page(self, body: bytes | memoryview, model: type[M], number: int) -> Page[M]:
        """Decode a page of a list response: `data` is an array (the service's reference, section 1)."""
        envelope = envelopes.parse(body)
        metadata = envelopes.metadata(envelope)
        data = envelope["data"]
        if not isinstance(data, list):
            raise envelopes.refused("data", str(values.refusal("an array", data)))
        return Page(
            items=self._converter.structure_all(data, model, "data"),
            number=number,
            total_pages=metadata.total_pages,
            total_records=metadata.total_records,
            version=metadata.version,
            extra=_with_metadata({k: envelope[k] for k in envelope.keys() - {"metadata", "data"}}, metadata),
        )

    def single(self, body: bytes | memoryview, model: type[M]) -> M:
        """Decode a single-object response: `data` is an object (the service's reference, section 1)."""
        return self._converter.structure(envelopes.parse(body)["data"], model, "data")

    def envelope(self, body: bytes | memoryview) -> dict[str, Any]:
        """Parse any answer, without a look at what it holds; nothing (204) is an empty envelope."""
        return envelopes.parse(body, needs_data=False) if body else {}

    def _totals(self, totals: object, path: str) -> RankingTotals | None:
        if totals is None or totals is False or totals == [] or totals == {}:
            return None
        return self._converter.structure(totals, RankingTotals, path)


class FeedPageDecode(Generic[M]):
    """Reads one page of a ranking feed: at once, or a huge one in steps."""

    __slots__ = ("_decoder", "_number", "_row")

    def __init__(self, decoder: Decoder, row: type[M], number: int) -> None:
        self._decoder = decoder
        self._row = row
        self._number = number

    def __call__(self, body: bytes | memoryview, /) -> Page[M]:
        """See `Decoder.feed_page`."""
        return self._decoder.feed_page(body, self._row, self._number)

    def in_steps(self, body: bytes | memoryview, /) -> Generator[None, None, Page[M] | None]:
        """See `Decoder.feed_page_in_steps`."""
        return self._decoder.feed_page_in_steps(body, self._row, self._number)


def _with_metadata(extra: Mapping[str, Any], metadata: envelopes.Metadata) -> Mapping[str, Any]:
    return {**extra, "metadata": metadata.extra} if metadata.extra else extra
