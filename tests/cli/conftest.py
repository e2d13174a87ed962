from pathlib import Path

import pytest

from seorep_async.cli import sandbox
from tests.cli.running import Seorep


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int) -> int:
    """The port of the embedded sandbox. No other test uses it, so a pull resumes from there."""
    monkeypatch.setattr(sandbox, "_EMBEDDED_PORT", unused_tcp_port)
    return unused_tcp_port


@pytest.fixture
def seorep(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    port: int,
    tables_at_once: None,
) -> Seorep:
    """The command, in an empty folder and without an account."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEOREP_BASE_URL", raising=False)
    monkeypatch.delenv("SEOREP_API_KEY", raising=False)
    monkeypatch.delenv("SEOREP_PROFILE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    return Seorep(capsys, monkeypatch)
