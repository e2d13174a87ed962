"""Values that hold for a context: those of the blocks around it, and of the task that it was started in."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def added(variable: ContextVar[tuple[T, ...]], value: T) -> Generator[None]:
    """Add a value while a block runs."""
    token = variable.set((*variable.get(), value))
    try:
        yield
    finally:
        with suppress(ValueError):  # an asynchronous generator may be closed in another context, which hasn't got it
            variable.reset(token)
