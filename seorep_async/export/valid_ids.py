"""Ids as the service names them, which may be such as it can't be asked for."""

from __future__ import annotations

from collections.abc import Iterable

from seorep_async.errors import ConfigurationError, DecodeError
from seorep_async.resources.arguments import check_id


def split_valid_ids(noun: str, ids: Iterable[int]) -> tuple[list[int], dict[int, DecodeError]]:
    """Part ids into those that the service can be asked for, and the others with the error for each.

    Args:
        noun: what they are ids of, in one word.
        ids: the ids, as the service named them.
    """
    good: list[int] = []
    wrong: dict[int, DecodeError] = {}
    for id_ in ids:
        try:
            good.append(check_id(f"{noun}_id", id_))
        except ConfigurationError as error:
            wrong[id_] = DecodeError(f"the service named a {noun} that it can't be asked for: {error.message}")
    return good, wrong
