"""What tests of several files here share."""

import zlib
from pathlib import Path

import pytest

from seorep_async.session.secrets import Authentication
from tests.export.door import Storage, storage_of
from tests.export.made_nights import in_memory


@pytest.fixture
def cheap_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare a twentieth of a second for each account and pull."""
    cheap = lambda self, salt: str(zlib.crc32(self.header().encode() + salt))  # noqa: E731
    monkeypatch.setattr(Authentication, "fingerprint", cheap)


@pytest.fixture(params=["folder", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return storage_of(str(tmp_path / "rankings")) if request.param == "folder" else in_memory()
