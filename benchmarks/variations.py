"""Variations of rows that live services send and normalisation accepts, applied to the sandbox's rows."""

import random
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Variation = Callable[[Row, random.Random], Row]


def times_of_day(row: Row, chance: random.Random) -> Row:
    """Last-ranking dates with times of day, all different."""
    return row | {name: f"{row[name][:10]} {_time(chance)}" for name in _dates(row)}


def integers_as_strings(row: Row, chance: random.Random) -> Row:
    """All integers as strings."""
    return {name: str(value) if type(value) is int else value for name, value in row.items()}


def other_primary_keyword(row: Row, chance: random.Random) -> Row:
    """`primaryKeyword` with another string."""
    return row | {"primaryKeyword": "yes"}


def unknown_field(row: Row, chance: random.Random) -> Row:
    """An unknown field in the row."""
    return row | {"type": "real"}


def unknown_name(row: Row, chance: random.Random) -> Row:
    """An unknown field with a name that no other row has."""
    return row | {f"serp{chance.randrange(10**9)}": 3}


def unknown_name_first(row: Row, chance: random.Random) -> Row:
    """An unknown field in front, with a name that no other row has."""
    return {f"serp{chance.randrange(10**9)}": 3} | row


def unknown_object(row: Row, chance: random.Random) -> Row:
    """An unknown object in the row."""
    return row | {"serp": {"features": ["map", "video"], "ads": {"top": 3}}}


def missing_field(row: Row, chance: random.Random) -> Row:
    """A nullable field is missing."""
    return {name: value for name, value in row.items() if name != "competitors"}


def unknown_in_tags(row: Row, chance: random.Random) -> Row:
    """An unknown field in each tag."""
    return row | {"tags": [{"id": 1, "label": "seasonal", "color": chance.choice(_COLOURS)}]}


def no_dates(row: Row, chance: random.Random) -> Row:
    """Zero dates and empty dates."""
    return row | {
        name: chance.choice(("0000-00-00", "0000-00-00 00:00:00", "")) for name in _dates(row)
    }


def nulls(row: Row, chance: random.Random) -> Row:
    """Null in every nullable field."""
    return {name: value if name in _NEVER_NULL else None for name, value in row.items()}


OF_EVERY_FEED: tuple[Variation, ...] = (integers_as_strings, unknown_field, nulls)
OF_KEYWORDS: tuple[Variation, ...] = (
    times_of_day,
    other_primary_keyword,
    unknown_in_tags,
    no_dates,
)

OF_LARGE_PAGES: tuple[Variation, ...] = (
    unknown_field,
    unknown_object,
    unknown_name,
    unknown_name_first,
    times_of_day,
    integers_as_strings,
    missing_field,
)

_NEVER_NULL = ("keywordId", "keywordPhrase", "date")
_COLOURS = ("red", "green", "blue")


def _dates(row: Row) -> list[str]:
    return [name for name, value in row.items() if name.startswith("last") and value]


def _time(chance: random.Random) -> str:
    return f"{chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}"
