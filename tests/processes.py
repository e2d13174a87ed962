"""Run Python in another process."""

import subprocess
import sys
from typing import Any


def run_python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python until it ends, and return its exit code and output. Any exit code is returned."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)
