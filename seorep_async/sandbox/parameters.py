"""What a caller sent, read strictly: anything that is not what the reference says is refused with status 400.

An empty value counts as not given. Bad ids in a path are a 404: no such resource exists.
"""

import re
from collections.abc import Collection, Mapping
from datetime import date

from .refusals import Refusal

_DIGITS = re.compile("[0-9]{1,10}")
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LAST_INT32 = 2**31 - 1
_YES_NO = {"true": True, "1": True, "false": False, "0": False}


class Parameters:
    """The parameters of one request.

    Args:
        query: the query parameters by name; of a repeated one the first value counts.
        path_id: the path's `:id`, as it came.
    """

    def __init__(self, query: Mapping[str, str], path_id: str = "") -> None:
        self._query = query
        self._path_id = path_id

    def path_id(self) -> int:
        """Return the path's id."""
        id_ = _int32(self._path_id)
        if id_ is None:
            raise Refusal(404, "the id in the path is not a positive 32-bit integer")
        return id_

    def text(self, name: str) -> str:
        """Return a text, empty if it was not given."""
        return self._query.get(name, "")

    def choice(self, name: str, allowed: Collection[str], default: str) -> str:
        """Return one of the allowed texts, the default if none was given."""
        text = self.text(name)
        if text and text not in allowed:
            raise Refusal(400, f"{name} must be one of {', '.join(sorted(allowed))}")
        return text or default

    def direction(self, name: str) -> bool:
        """Return whether a sort direction, asc or desc in any case, is descending."""
        text = self.text(name).lower()
        if text not in ("", "asc", "desc"):
            raise Refusal(400, f"{name} must be asc or desc")
        return text == "desc"

    def flag(self, name: str) -> bool:
        """Return a yes or no: true, false, 1 or 0 in any case; no if it was not given."""
        text = self.text(name).lower()
        if text and text not in _YES_NO:
            raise Refusal(400, f"{name} must be true or false")
        return _YES_NO.get(text, False)

    def positive(self, name: str) -> int | None:
        """Return an integer in 1..2**31-1, None if it was not given."""
        text = self.text(name)
        if not text:
            return None
        number = _int32(text)
        if number is None:
            raise Refusal(400, f"{name} must be a positive 32-bit integer")
        return number

    def required_positive(self, name: str) -> int:
        """Return an integer in 1..2**31-1 that must be given."""
        number = self.positive(name)
        if number is None:
            raise Refusal(400, f"{name} is required")
        return number

    def required_date(self, name: str) -> date:
        """Return a date, written YYYY-MM-DD, that must be given."""
        text = self.text(name)
        if not text:
            raise Refusal(400, f"{name} is required")
        if _DAY.fullmatch(text):
            try:
                return date.fromisoformat(text)
            except ValueError:
                pass
        raise Refusal(400, f"{name} must be a date, written YYYY-MM-DD")


def _int32(text: str) -> int | None:
    number = int(text) if _DIGITS.fullmatch(text) else 0
    return number if 1 <= number <= _LAST_INT32 else None
