"""Rows as live services word them: each variation that normalisation accepts, applied to the sandbox's rows."""

import random
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Variation = Callable[[Row, random.Random], Row]


def times_of_day(row: Row, chance: random.Random) -> Row:
    """Last-ranking dates with times of day, all different."""
    return row | {name: f"{row[name][:10]} {_time(chance)}" for name in _dates(row)}


def one_time_of_day(row: Row, chance: random.Random) -> Row:
    """Last-ranking dates with times of day, always the same one."""
    return row | {name: f"{row[name][:10]} 09:30:00" for name in _dates(row)}


def integers_as_strings(row: Row, chance: random.Random) -> Row:
    """All integers as strings."""
    return {name: str(value) if type(value) is int else value for name, value in row.items()}


def other_primary_keyword(row: Row, chance: random.Random) -> Row:
    """`primaryKeyword` with another string."""
    return row | {"primaryKeyword": "yes"}


def real_booleans(row: Row, chance: random.Random) -> Row:
    """`primaryKeyword` as a boolean."""
    return row | {"primaryKeyword": chance.random() < 0.5}


def unknown_field(row: Row, chance: random.Random) -> Row:
    """An unknown field in the row."""
    return row | {"type": "real"}


def unknown_in_tags(row: Row, chance: random.Random) -> Row:
    """An unknown field in each tag."""
    return row | {"tags": [{"id": 1, "label": "seasonal", "color": chance.choice(_COLOURS)}]}


def unknown_in_location(row: Row, chance: random.Random) -> Row:
    """An unknown field in the location."""
    return row | {"searchLocation": row["searchLocation"] | {"parent": chance.randrange(9)}}


def unknown_in_language(row: Row, chance: random.Random) -> Row:
    """An unknown field in the language."""
    return row | {"searchLanguage": row["searchLanguage"] | {"code": "en"}}


def empty_arrays(row: Row, chance: random.Random) -> Row:
    """Empty arrays where objects belong."""
    return row | {"searchLocation": [], "searchLanguage": []}


def no_dates(row: Row, chance: random.Random) -> Row:
    """Zero dates and empty ones."""
    return row | {name: chance.choice(("0000-00-00", "0000-00-00 00:00:00", "")) for name in _dates(row)}


def nulls(row: Row, chance: random.Random) -> Row:
    """Null in every nullable field."""
    return {name: value if name in _NEVER_NULL else None for name, value in row.items()}


def all_at_once(row: Row, chance: random.Random) -> Row:
    """Times of day, integers as strings, and unknown fields at every level."""
    if "tags" in row:
        for change in (times_of_day, other_primary_keyword, unknown_in_tags, unknown_in_location):
            row = change(row, chance)
    return integers_as_strings(unknown_field(row, chance), chance)


def distinct_objects(row: Row, chance: random.Random) -> Row:
    """Places and tags that no other row has, with long names."""
    number = chance.getrandbits(40)
    place = {"id": number, "canonical_name": f"Town {number} " * 5, "country_code": "US", "target_type": "City"}
    return row | {"searchLocation": place, "tags": [{"id": number, "label": f"label {number} " * 5}]}


def non_ascii(row: Row, chance: random.Random) -> Row:
    """Strings that are not ASCII."""
    return {name: f"{value} größe" if _is_phrase(name) else value for name, value in row.items()}


OF_EVERY_FEED: tuple[Variation, ...] = (integers_as_strings, unknown_field, nulls, all_at_once)
OF_KEYWORDS: tuple[Variation, ...] = (
    times_of_day,
    one_time_of_day,
    other_primary_keyword,
    real_booleans,
    unknown_in_tags,
    unknown_in_location,
    unknown_in_language,
    empty_arrays,
    no_dates,
    distinct_objects,
    non_ascii,
)

_NEVER_NULL = ("keywordId", "keywordPhrase", "date")
_COLOURS = ("red", "green", "blue")


def _dates(row: Row) -> list[str]:
    return [name for name, value in row.items() if name.startswith("last") and value]


def _time(chance: random.Random) -> str:
    return f"{chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}"


def _is_phrase(name: str) -> bool:
    return name == "keywordPhrase" or name.endswith("Url")
