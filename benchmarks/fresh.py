"""Call a function in a new process, so that nothing that ran before influences it."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def here(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in this process. Its figures mean little."""
    return function(*args, **kwargs)


def call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a new process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()
