"""An account for the commands of resources: a sandbox that the environment names, and passwords on stdin."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from seorep_async.sandbox import Sandbox
from tests.cli.running import serving

KEY = "s3cret-k3y"


@contextmanager
def account(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Iterator[Sandbox]:
    """Run a sandbox that the environment names while the block runs."""
    with serving(**{"api_key": KEY, **options}) as sandbox:
        monkeypatch.setenv("SEOREP_BASE_URL", sandbox.base_url)
        monkeypatch.setenv("SEOREP_API_KEY", KEY)
        yield sandbox


def give_stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Let stdin be a pipe that holds this."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))
