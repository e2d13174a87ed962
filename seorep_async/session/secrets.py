"""The API key: put on every request, shown nowhere; secrets replaced in strings of other origin."""

from __future__ import annotations

import base64
import html
import json
import re
import urllib.parse
from collections.abc import Callable, Iterable
from typing import NoReturn

_HEAD_LENGTH = 8  # characters by which the beginning of a secret is recognised
_SHORTEST = 4  # shorter secrets would be found in ordinary words
# Printable by Unicode, and nothing to be seen: joiners, fillers, variation selectors.
_BLANKS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def key_problem(api_key: object) -> str | None:
    """Return why a value can't be an API key, without showing it, or None if it can."""
    if api_key is None:
        return "no API key: pass api_key, or set SEOREP_API_KEY"
    if not isinstance(api_key, str):
        return f"api_key must be a string, not {type(api_key).__name__}"
    if not api_key.strip():
        return "api_key is empty: pass api_key, or set SEOREP_API_KEY"
    if any(ord(character) < 32 or ord(character) == 127 for character in api_key):
        return "api_key holds a line break or another control character: strip it after reading it from a file"
    if api_key != api_key.strip():
        return "api_key begins or ends with a space: strip it"
    if len(api_key) > 1 and api_key[0] == api_key[-1] and api_key[0] in "'\"":
        return "api_key begins and ends with a quotation mark: leave them out"
    try:
        api_key.encode()
    except UnicodeEncodeError:
        return "api_key is not valid Unicode text"
    invisible = _invisible_character(api_key)
    if invisible is not None:
        return f"api_key holds an invisible character, U+{ord(invisible):04X}: copy the key again"
    return None


def _invisible_character(text: str) -> str | None:
    """Return the first character that a reader can't see, such as a byte order mark, or None."""
    for character in text:
        if not character.isprintable() or _BLANKS.match(character):
            return character
    return None


class Authentication:
    """HTTP Basic with no user name and a key without `key_problem` as password (the service's reference, section 5).

    `header` is the value of the `Authorization` header. `scrub`, a `Scrubber`'s, also knows `others`, further secrets.
    """

    __slots__ = ("header", "scrub")

    def __init__(self, api_key: str, *others: str) -> None:
        encoded, alone = (
            base64.b64encode(secret.encode()).decode() for secret in (f":{api_key}", api_key)
        )
        self.header: str = f"Basic {encoded}"
        forms = {api_key, *others, encoded, alone, encoded.rstrip("="), alone.rstrip("=")}
        self.scrub: Callable[..., str] = Scrubber(forms).scrub

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key is not pickled; create the client where it is needed")


class Scrubber:
    """Knows secrets in every form that a service or a library may give them; those under 4 characters stay."""

    __slots__ = ("_forms", "_heads")

    def __init__(self, secrets: Iterable[str]) -> None:
        plain = {secret for secret in secrets if len(secret) >= _SHORTEST}
        # unchanged by any unforeseen escaping
        runs = {run for string in plain for run in re.findall(r"[A-Za-z0-9_-]{8,}", string)}
        for _ in range(3):  # such as JSON as a string in JSON, with slashes escaped
            plain |= {quote(string) for string in plain for quote in _QUOTES}
        self._forms = plain | runs
        heads = sorted({form[:_HEAD_LENGTH] for form in self._forms}, key=len, reverse=True)
        self._heads = re.compile("|".join(map(_pattern, heads)), re.IGNORECASE)

    def scrub(self, string: str, *, cut: bool = False) -> str:
        """Replace every form of the secrets in a string, also the beginning of one, from 8 characters on.

        If the string was `cut` off, its last characters go too: they may begin a secret and be too few to tell.
        """
        if not self._forms:
            return string
        parts = []
        end = 0
        while found := self._heads.search(string, end):
            start = found.start()
            parts += [string[end:start], "***"]
            end = max(
                found.end(),
                *(start + _equal_characters(string[start:], form) for form in self._forms),
            )
        parts.append(string[end:])
        scrubbed = "".join(parts)
        return scrubbed[:-_HEAD_LENGTH] if cut else scrubbed


def _pattern(head: str) -> str:
    """Return the pattern of a head; a short secret counts only if no letters, but those of an escape, are around it."""
    before = r"(?:(?<![a-z])|(?<=\\.)|(?<=%..)|(?<=\\u....))"
    return (
        re.escape(head) if len(head) == _HEAD_LENGTH else f"{before}(?:{re.escape(head)})+(?![a-z])"
    )


def _equal_characters(string: str, form: str) -> int:
    pairs = zip(string[: len(form)].lower(), form.lower(), strict=False)
    return next(
        (place for place, (one, other) in enumerate(pairs) if one != other),
        min(len(string), len(form)),
    )


_QUOTES: tuple[Callable[[str], str], ...] = (
    lambda string: urllib.parse.quote(string, safe=""),
    urllib.parse.quote_plus,
    urllib.parse.quote,
    lambda string: json.dumps(string)[1:-1],
    lambda string: json.dumps(string, ensure_ascii=False)[1:-1],
    lambda string: string.replace("/", "\\/"),
    html.escape,
)
