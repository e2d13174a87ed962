"""Run Python in another process."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def run_python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python until it ends, and return its exit code and output. Any exit code is returned."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@contextmanager
def opening_a_database(path: Path, *, read_only: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """Let another process have a database open until its stdin is closed."""
    program = f"""
import duckdb, sys
database = duckdb.connect(sys.argv[1], read_only={read_only})
print(flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        yield other


@contextmanager
def full_disk(most_bytes: int) -> Iterator[None]:
    """Let no file grow any further, which fails like a full disk after a part of the data."""
    resource = pytest.importorskip("resource")
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
