"""What pulls left behind, and a copy of it to change."""

import shutil
from pathlib import Path

import pytest

from tests.history.left_behind import pulled


@pytest.fixture(scope="session")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pulled(tmp_path_factory.mktemp("history"))


@pytest.fixture
def source(left_behind: Path, tmp_path: Path) -> Path:
    """A folder with a copy of both."""
    shutil.copytree(left_behind, tmp_path / "copy")
    return tmp_path / "copy"
