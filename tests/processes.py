"""Runs of Python in a process of its own."""

import subprocess
import sys
from typing import Any


def run_python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python until it ends, and return its exit code and output. Nothing is raised."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)
