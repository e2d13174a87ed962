"""What changed between two nights of several windows; `tests.export.test_any_nights` asks of any nights."""

import zlib
from pathlib import Path

import pytest

from seorep_async.history import changes
from seorep_async.session.secrets import Authentication
from tests.history.left_behind import pulled_windows


@pytest.mark.parametrize("target", ["nights.duckdb", "nights/"])
@pytest.mark.parametrize("latest_first", [False, True])
async def test_of_several_windows_the_longest_that_ends_last_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, latest_first: bool
) -> None:
    monkeypatch.setattr(
        Authentication, "fingerprint", lambda self, salt: str(zlib.crc32(self.header().encode(), salt[0]))
    )
    source = await pulled_windows(f"{tmp_path}/{target}", latest_first=latest_first)
    assert [(one.kind, one.before, one.after) for one in changes(source, moved=3)] == [
        ("rose", 15, 8),
        ("entered_top_10", 15, 8),
    ]
