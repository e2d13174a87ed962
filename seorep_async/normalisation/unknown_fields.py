"""Move the unknown fields in the JSON of rows into one field, which msgspec reads as a dictionary.

`{"id": 1, "a": 2, "b": 3, "name": "x"}` becomes `{"id": 1, MARK: {"a": 2, "b": 3}, "name": "x"}`.
Rows may therefore have different unknown names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence

MARK = os.urandom(16).hex()
"""The name of the field with a row's unknown fields. No service can send it, because it is
random.
"""

_STRING = r'"(?:[^"\\]++|\\.)*+"'
_FLAT = rf'(?:[^][{{}}"\\]++|{_STRING})*+'
_NESTED = rf'(?:[^][{{}}"\\]++|{_STRING}|[\[{{]{_FLAT}[\]}}])*+'
_VALUE = rf'(?:{_STRING}|[\[{{]{_NESTED}[\]}}]|[^][{{}}",\s\\]++)'
"""A value in JSON. Objects and arrays in it may contain no further ones.

JSON has no backslash outside strings. In other text, it could hide the beginning of a string, and
the same text would be searched from each place that looks like a field.
"""


def move_unknown_fields(
    page: bytes, first_row: Sequence[str], known_names: Collection[str]
) -> tuple[bytes, int]:
    """Move the unknown fields of all rows that have them in the same place as the first row.

    If rows differ from the first one, known fields, or fields of an object in a row, may be moved
    by mistake. The caller detects this.

    Args:
        page: the JSON of the rows.
        first_row: the names of the fields of the first row. At least one is unknown.
        known_names: all known names.

    Returns:
        The new JSON, and the number of moves.
    """
    places = [place for place, name in enumerate(first_row) if name not in known_names]
    first = places[0]
    end = places[-1] + 1
    if end - first > len(places):
        # Known fields stand between unknown ones.
        return page, 0
    # The text before and after the unknown fields: an end of the row, or a known name.
    # A brace after a colon opens an object within a row.
    before = r"\{(?<!:\{)(?<!: \{)\s*+"
    name = r"\{"
    if first_row[:first]:
        name = f'"{first_row[first - 1]}"'
        before = rf"{name}\s*+:\s*+{_VALUE}\s*+,\s*+"
    # If this name recurred, each of its fields would be searched from the ones before it.
    field = rf'(?!{name})"[^"\\]*+"\s*+:\s*+{_VALUE}\s*+'
    after = r"\}"
    if first_row[end:]:
        after = f'"{first_row[end]}"'
    # More than eight unknown fields are rare, and hostile JSON would take three times as long.
    fields = rf"{field}(?:,\s*+{field}){{0,7}}?"
    pattern = rf"({before})(?!{after})({fields})(?=,?\s*+{after})"
    # Three texts recur: other text, the text before unknown fields, and these fields.
    texts = re.split(pattern.encode(), page)
    opening = f'"{MARK}":{{'.encode()
    texts[2::3] = [opening + unknown_fields + b"}" for unknown_fields in texts[2::3]]
    return b"".join(texts), len(texts) // 3
