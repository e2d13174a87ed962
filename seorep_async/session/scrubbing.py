"""Secrets replaced in strings of other origin, in every form in which they may come back."""

from __future__ import annotations

import html
import itertools
import json
import re
import urllib.parse
from collections.abc import Callable, Iterable

_HEAD_LENGTH = 8


class Scrubber:
    """Knows secrets in every form that a service or a library may give them; those of one character stay."""

    __slots__ = ("_forms", "_heads")

    def __init__(self, secrets: Iterable[str]) -> None:
        plain = {secret for secret in secrets if len(secret) > 1}
        quoted = {quote(string) for string in plain for quote in _QUOTES}
        quoted |= {quote(string) for string in quoted for quote in _QUOTES}  # such as JSON as a string in JSON
        # unchanged by any unforeseen escaping
        runs = {run for string in plain for run in re.findall(r"[A-Za-z0-9_-]{8,}", string)}
        self._forms = plain | quoted | runs
        heads = sorted({_head(form) for form in self._forms}, key=len, reverse=True)
        self._heads = re.compile("|".join(re.escape(head) for head in heads), re.IGNORECASE)

    def scrub(self, string: str, *, cut: bool = False) -> str:
        """Replace every form of the secrets in a string, also where it holds only the beginning of one.

        If the string was `cut` off, its last characters go too: they may begin a secret and be too few to tell.
        """
        if not self._forms:
            return string
        parts = []
        end = 0
        while found := self._heads.search(string, end):
            start = found.start()
            parts += [string[end:start], "***"]
            end = max(found.end(), *(start + _equal_characters(string, start, form) for form in self._forms))
        parts.append(string[end:])
        scrubbed = "".join(parts)
        return scrubbed[:-_HEAD_LENGTH] if cut else scrubbed

    def __repr__(self) -> str:
        return "Scrubber(***)"


def _head(form: str) -> str:
    """Return enough of a secret's beginning to recognise it."""
    return form[: min(_HEAD_LENGTH, max(4, len(form) // 2))]


def _equal_characters(string: str, start: int, form: str) -> int:
    pairs = zip(string[start : start + len(form)].lower(), form.lower(), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _percent_encoded(string: str) -> str:
    return urllib.parse.quote(string, safe="")


def _json_escaped(string: str) -> str:
    return json.dumps(string)[1:-1]


def _json_quoted(string: str) -> str:
    return json.dumps(string, ensure_ascii=False)[1:-1]


def _slashes_escaped(string: str) -> str:
    return string.replace("/", "\\/")


_QUOTES: tuple[Callable[[str], str], ...] = (
    _percent_encoded,
    urllib.parse.quote_plus,
    urllib.parse.quote,
    _json_escaped,
    lambda string: _slashes_escaped(_json_escaped(string)),
    _json_quoted,
    lambda string: _slashes_escaped(_json_quoted(string)),
    _slashes_escaped,
    html.escape,
)
