"""What tests of nights of a dataset share."""

from __future__ import annotations

from pathlib import Path

import pytest

from seorep_async.export.storage import Storage, storage_of
from tests.export.cut_off import in_memory


@pytest.fixture(params=["folder", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return storage_of(str(tmp_path / "rankings")) if request.param == "folder" else in_memory()
