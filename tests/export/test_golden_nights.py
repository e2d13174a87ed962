"""Nights are stored as ever: cell by cell and in order. `RENEW_GOLDEN=1` writes what is found as golden."""

import json
import os
from pathlib import Path

import pytest

from tests.export.golden_nights import FORMATS, NIGHTS, read, store, stored


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("night", NIGHTS)
async def test_a_night_is_stored_as_ever(night: str, format_: str, tmp_path: Path) -> None:
    out = tmp_path / f"a.{format_}"
    await NIGHTS[night](out)
    found = read(out)
    if os.environ.get("RENEW_GOLDEN"):
        store(night, format_, found)
    golden, found = stored(night, format_), json.loads(json.dumps(found))
    assert found.keys() == golden.keys()
    for table, (columns, rows) in golden.items():
        assert found[table][0] == columns
        for number, (now, before) in enumerate(zip(found[table][1], rows, strict=True)):
            assert dict(zip(columns, now, strict=True)) == dict(
                zip(columns, before, strict=True)
            ), (table, number)
