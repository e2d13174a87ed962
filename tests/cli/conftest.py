from pathlib import Path

import pytest

from tests.cli.running import Seorep


@pytest.fixture
def seorep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Seorep:
    """The command, in an empty folder and without an account."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEOREP_BASE_URL", raising=False)
    monkeypatch.delenv("SEOREP_API_KEY", raising=False)
    monkeypatch.delenv("SEOREP_PROFILE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    return Seorep(capsys, monkeypatch)
