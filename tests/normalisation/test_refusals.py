"""Every refusal has the path of the refused value, with the names on the wire.

`refusals.txt` is a page as `tests.golden` describes it.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

from seorep_async.errors import DecodeError, SeoRepError
from seorep_async.models import CampaignPeriod, KeywordRanking
from tests.golden import Page, error_of
from tests.normalisation.test_envelope import READINGS
from tests.normalisation.wire import (
    FEED_ROWS,
    Shape,
    as_bytes,
    decode,
    envelope,
    wire_row,
)

PERIOD = 'a period "YYYY-MM" or "YYYY-MM-DD"'
WRONG: dict[str, tuple[str, ...]] = {
    "id": ("an integer", "null", '""', "1.0"),
    "integer": ("an integer", '"n/a"', "1.9", "true"),
    "phrase": ("a string", "null", "7"),
    "text": ("a string", "7", "false", "[]"),
    "flag": ("true or false", "1", "{}"),
    "moment": ('a date-time "YYYY-MM-DD HH:MM:SS"', '"2015-03-31"', '"yesterday"', "0", "[]"),
    "day": ('a date "YYYY-MM-DD"', '"2015-03"', '"yesterday"', "0", "[]"),
    "last": ('a date "YYYY-MM-DD"', '"x"', "20230131"),
    "month": (PERIOD, '"x"'),
    "period": (PERIOD, '"x"', "null"),
    "tags": ("an array", '"x"', '"null"', "{}"),
    "location": ("an object", '"x"', "[7]"),
    "language": ("an object", '"x"', "0"),
}
"""The expectation of each kind of field, and wrong values in JSON."""


def test_a_refusal_has_only_causes_of_this_package() -> None:
    wrong = wire_row(KeywordRanking, 1) | {"engineARanking": "n/a"}
    with pytest.raises(DecodeError) as refused:
        decode(envelope([wrong], "nested"))
    assert refused.value.__suppress_context__
    assert (refused.value.__cause__, refused.value.__context__) == (None, None)


# --- The page


def refused(*readings: Callable[[], object]) -> None:
    """Raise the error of the first reading.

    The others must end in the same error, whatever their paths begin with.
    """
    errors: list[Any] = []
    for read in readings:
        with pytest.raises(SeoRepError) as raised:
            read()
        errors.append(raised.value)
    texts = set()
    for error in errors:
        text = f"{type(error)} {getattr(error, 'field_path', None)} {error}"
        texts.add(text.replace("data.rows[", "data[").replace("data.totals", "totals"))
    assert len(texts) == 1, texts
    raise errors[0]


def row(
    model: type = KeywordRanking, *, without: str = "", whole: object = ..., **fields: object
) -> None:
    """Read a feed whose fourth row has these fields, or is something else."""
    rows: list[object] = [wire_row(model, number, "older") for number in range(3)]
    wrong = wire_row(model, 3, "older") | fields
    wrong.pop(without, None)
    rows.append(wrong if whole is ... else whole)
    refused(*(partial(decode, envelope(rows, shape), model) for shape in get_args(Shape)))


def totals(wrong: object) -> None:
    refused(
        *(partial(decode, envelope([], shape, wrong), CampaignPeriod) for shape in get_args(Shape))
    )


def each(answer: object) -> None:
    refused(*(partial(read, as_bytes(answer)) for read in READINGS.values()))


READ: dict[str, Any] = {
    name: lambda answer, read=read: read(as_bytes(answer)) for name, read in READINGS.items()
}
HELPERS: list[Any] = [*FEED_ROWS, row, totals, each]
NAMES = READ | {helper.__name__: helper for helper in HELPERS}


async def test_an_answer_is_refused_as_it_was_read() -> None:
    page = Page(Path(__file__).with_name("refusals.txt"))
    for reading in page.questions():
        refusal = await error_of(reading, NAMES)
        assert not refusal.startswith(("AssertionError", "taken"))
        page.lines.append(refusal)
    page.compare()
