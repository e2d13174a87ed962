"""Generated answers: bodies by their number, and any JSON."""

import random
from typing import Any, NamedTuple

import pytest
from hypothesis import settings, strategies as st

from seorep_async.models import RankingTotals
from seorep_async.settings import EngineNames
from tests.models.reference import REFERENCE
from tests.normalisation.wire import (
    BRANDS,
    FEED_ROWS,
    SWAPPED,
    Json,
    as_bytes,
    branded,
    envelope,
    wire_row,
)

SOME = 400
MANY = pytest.param(20_000, marks=pytest.mark.slow)
ODD_NAMES = ['"', "\\", "\x1f", " extra", " date_precision", "extra", "unknown_0"]
"""Names that raw rows have for themselves, or that a struct can't have."""
VALUES: list[Any] = [None, True, False, 0, 1, -1, 12, 2**31, 2**63, 2**64, 10**30]
VALUES += [0.0, 1.0, 1.9, -2.5, 1e300]
VALUES += ["", " ", "0", "1", "-1", "12", "1.0", "9" * 19]
VALUES += ["true", "FALSE", "True ", "null", "NULL", "n/a", "None", "NaN", "1e0"]
VALUES += ["2023-01", "2023-1", "2023-01-31", "2023-02-30", "2023-01-31 00:00:00"]
VALUES += ["2015-03-31 9:32:19", "0000-00-00", "0000-00-00 00:00:00", "٢٠٢٣-01-31"]
VALUES += ["é", "𐍈", "\x00", "a\nb", "https://example.com/?a=b&c=d", "x" * 300]
VALUES += [[], {}, [[]], [{}], [None], {"id": 1}, {"id": "1", "name": "x"}, {"id": None}]
VALUES += [[{"id": 1, "label": "x"}], [{"id": 1}], [{"id": True, "label": "x"}]]
VALUES += [[{"id": 1, "label": "x", "zz": [1]}], {"id": 5, "zone": {"a": "EU"}}]
VALUES += [
    {"value": 1},
    {"value": 1.5, "previous": 2},
    {"value": None},
    {"value": "x"},
    {"value": [1]},
]


PIECES = [b'"', b"{", b"}", b"[", b"]", b",", b"0", b"null", b"\xff", b"\\u"]
NAMINGS = (EngineNames(), BRANDS, SWAPPED)


class Body(NamedTuple):
    """A generated body, the row that it is read as, and the account's names for the engines."""

    body: bytes
    row: type
    names: EngineNames


def generated(number: int) -> Body:
    """Return body `number`: one or two rows, in which some values, fields or parts are odd.

    In some rows, all integers are strings.
    """
    chance = random.Random(number)
    row = chance.choice(FEED_ROWS)
    names = NAMINGS[number % len(NAMINGS)]
    rows = []
    for place in range(chance.randint(1, 2)):
        wire = wire_row(row, place, chance.choice(["current", "older"]))
        if chance.random() < 0.3:
            wire = {name: str(v) if type(v) is int else v for name, v in wire.items()}
        rows.append(wire)
    totals: Any = wire_row(RankingTotals, 1) if chance.random() < 0.5 else False
    fields = [field.name for field in REFERENCE[row]]
    for _ in range(chance.choice([0, 1, 1, 1, 2, 5])):
        target = chance.choice([*rows, totals or rows[0]])
        name = chance.choice([*fields, "unknown", *ODD_NAMES])
        if chance.random() < 0.2:
            target.pop(name, None)
        else:
            target[name] = chance.choice(VALUES)
    rows = [_branded(wire, names) for wire in rows]
    totals = totals and _branded(totals, names)
    answer: Any = envelope(rows, chance.choice(["nested", "flat"]), totals)
    if chance.random() < 0.1:
        part = chance.choice([answer, answer["metadata"], answer["data"]])
        if isinstance(part, list):
            part[0] = chance.choice(VALUES)
        else:
            part[chance.choice([*part, "status", "error"])] = chance.choice(VALUES)
    return Body(as_bytes(answer), row, names)


def mutated(number: int) -> Body:
    """Return body `number` with some bytes changed, removed, inserted or repeated."""
    whole = generated(number)
    chance = random.Random(-number)
    body = bytearray(whole.body)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(body))
        match chance.randrange(4):
            case 0:
                body[place] = chance.randrange(256)
            case 1:
                del body[place : place + chance.randint(1, 30)]
            case 2:
                body[place:place] = chance.choice(PIECES)
            case 3:
                body[place:place] = body[place : place + chance.randint(1, 60)]
    return whole._replace(body=bytes(body))


def _branded(wire: Json, names: EngineNames) -> Json:
    return {branded(name, names): value for name, value in wire.items()}


bounded = settings(max_examples=25, derandomize=True, database=None)

# All characters but surrogates, as without an alphabet. Without one, Hypothesis encodes a million
# characters in a fresh clone, which takes a second.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers() | floats | texts


def arrays_and_objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)


json_values = st.recursive(scalars, arrays_and_objects, max_leaves=6)
