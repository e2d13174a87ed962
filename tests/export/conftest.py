"""What tests of nights of a dataset share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.export.cut_off import in_memory
from tests.export.door import Storage, storage_of


@pytest.fixture(params=["folder", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return storage_of(str(tmp_path / "rankings")) if request.param == "folder" else in_memory()
