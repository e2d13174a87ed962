"""Answers of the service built from the reference's fields, fact by fact, and how the tests decode them."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Generator
from typing import Any, Literal

from seorep_async.models import Campaign, CampaignPeriod, KeywordPeriod, KeywordRanking, Page
from seorep_async.normalisation import Decoder
from seorep_async.settings import EngineNames
from tests.models.reference import example_of

Shape = Literal["nested", "flat"]
Rows = Literal["current", "older"]
Json = dict[str, Any]

FEED_ROWS: tuple[type, ...] = (KeywordRanking, CampaignPeriod, KeywordPeriod)

BRANDS = EngineNames(engine_a="google", engine_b="bing", webmaster_tools="gwt")


def branded(wire: str) -> str:
    """Return a wire name as an account with real brand names has it."""
    for token, brand in (("engineA", "google"), ("engineB", "bing"), ("wmt", "gwt")):
        wire = re.sub(f"^{token}", brand, wire)
        wire = wire.replace(token[0].upper() + token[1:], brand.capitalize())
    return wire


def wire_row(model: type, number: int, rows: Rows = "current") -> Json:
    """Return row `number` as the wire carries it; no two fields and no two rows hold the same value."""
    return _row(model, number, rows)[0]


def model_row(model: type, number: int, rows: Rows = "current") -> Any:
    """Return the model that row `number` must become."""
    return _row(model, number, rows)[1]


def _row(model: type, number: int, rows: Rows) -> tuple[Json, Any]:
    return example_of(model, rows if model in FEED_ROWS else None, 1000 * number)


def envelope(rows: object, shape: Shape, totals: object = False, **metadata: object) -> Json:
    """Return rows and totals in one of the two shapes of a feed."""
    metadata = {"total_pages": 1, "total_records": 3} | metadata
    if shape == "nested":
        return {"metadata": metadata, "data": {"totals": totals, "rows": rows}}
    return {"metadata": metadata | {"version": False}, "data": rows, "totals": totals}


def as_bytes(answer: object) -> bytes:
    """Write an answer as the service does."""
    return json.dumps(answer).encode()


@functools.cache
def decoder(names: EngineNames = EngineNames()) -> Decoder:  # noqa: B008
    """Return the decoder for these names, which takes a while to build."""
    return Decoder(names)


def finished(steps: Any) -> Any:
    """Return what a reading, at once or in steps, ends in."""
    while isinstance(steps, Generator):
        try:
            next(steps)
        except StopIteration as end:
            steps = end.value
    return steps


def decode(answer: object, row: type = KeywordRanking, names: EngineNames = EngineNames()) -> Any:  # noqa: B008
    """Decode a feed's answer, given parsed or as bytes, as its first page."""
    return finished(decoder(names).feed_page(answer if isinstance(answer, bytes) else as_bytes(answer), row, 1))


def decode_row(row: object, model: type = KeywordRanking, names: EngineNames = EngineNames()) -> Any:  # noqa: B008
    """Decode an answer that holds this one row."""
    return decode(envelope([row], "flat"), model, names).items[0]


def decode_campaign(campaign: object) -> Campaign:
    """Decode a campaign list that holds this one campaign."""
    page: Page[Campaign] = finished(decoder().model_page(as_bytes({"metadata": {}, "data": [campaign]}), Campaign, 1))
    (only,) = page.items
    return only
