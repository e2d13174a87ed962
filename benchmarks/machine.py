"""The machine, Python and packages of a benchmark."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

_PACKAGES = ("aiohttp", "attrs", "cattrs", "msgspec", "yarl", "orjson", "pydantic", "requests")
_CPU = Path("/proc/cpuinfo")


def describe() -> list[tuple[str, str]]:
    """Return the names and values of facts that influence the figures."""
    return [
        (
            "machine",
            f"{_processor()}, {os.cpu_count()} processors, {platform.system()} {platform.release()}",
        ),
        ("Python", f"{platform.python_implementation()} {platform.python_version()}"),
        ("packages", ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)),
        ("commit", _commit()),
    ]


def load() -> str:
    """Return the load of the machine over the last 1, 5 and 15 minutes."""
    return (
        " ".join(f"{average:.2f}" for average in os.getloadavg())
        if hasattr(os, "getloadavg")
        else "not known"
    )


def _processor() -> str:
    if _CPU.exists():
        for line in _CPU.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def _commit() -> str:
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=Path(__file__).parent,
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "not known"
