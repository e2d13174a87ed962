"""Put the API key on every request, and remove secrets from strings that others wrote."""

from __future__ import annotations

import base64
import html
import json
import re
import urllib.parse
from collections.abc import Callable, Iterable
from typing import NoReturn

_HEAD_LENGTH = 8
"""The number of a secret's first characters that are enough to recognise it."""
_SHORTEST = 4
"""The minimum length of a secret to look for. Shorter strings occur in ordinary words."""
_LONG_RUN = re.compile(r"[A-Za-z0-9_-]{8,}")
"""Consecutive characters that no kind of escaping changes."""


def key_problem(api_key: str) -> str | None:
    """Return the problem with an API key, without showing it, or None if it is valid."""
    if not api_key.strip():
        return "api_key is empty"
    if api_key != api_key.strip():
        return "api_key begins or ends with a space or a line break: strip it"
    if len(api_key) > 1 and api_key[0] == api_key[-1] and api_key[0] in "'\"":
        return "api_key begins and ends with a quotation mark: leave them out"
    for character in api_key:
        # The user can't see such a character, for example a byte order mark.
        if not character.isprintable():
            code = f"U+{ord(character):04X}"
            return f"api_key contains an invisible character, {code}: copy the key again"
    return None


class Authentication:
    """HTTP Basic authentication, with the key as the password (the reference, section 5).

    Attributes:
        header: the value of the header `Authorization`.
        scrub: removes the key, and `others`, from a string (`Scrubber.scrub`).
    """

    __slots__ = ("header", "scrub")

    def __init__(self, api_key: str, *others: str) -> None:
        encoded = _base64(f":{api_key}")
        encoded_alone = _base64(api_key)
        self.header: str = f"Basic {encoded}"
        forms = {api_key, *others, encoded, encoded_alone}
        forms |= {encoded.rstrip("="), encoded_alone.rstrip("=")}
        self.scrub: Callable[..., str] = Scrubber(forms).scrub

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key is not pickled; create the client where it is needed")


def _base64(string: str) -> str:
    return base64.b64encode(string.encode()).decode()


class Scrubber:
    """Finds secrets in every form in which a service or a library may write them.

    Secrets of fewer than 4 characters are ignored.
    """

    __slots__ = ("_forms", "_heads")

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {secret for secret in secrets if len(secret) >= _SHORTEST}
        # No kind of escaping changes these parts of a secret, so unknown kinds don't hide them.
        runs = {run for form in forms for run in _LONG_RUN.findall(form)}
        latest = forms
        for _round in range(3):  # for example JSON as a string in JSON, with slashes escaped
            latest = {escape(form) for form in latest for escape in _ESCAPES} - forms
            forms = forms | latest
        self._forms = forms | runs
        # The longest comes first, because a pattern takes the first alternative that matches.
        heads = sorted({form[:_HEAD_LENGTH] for form in self._forms}, key=len, reverse=True)
        self._heads = re.compile("|".join(map(_pattern, heads)), re.IGNORECASE)

    def scrub(self, string: str, *, cut: bool = False) -> str:
        """Replace every form of the secrets in a string, and every beginning of a secret.

        Args:
            string: the string.
            cut: whether the string was cut off. Then its last characters are removed, because they
                may be a part of a secret that is too short to recognise.
        """
        if not self._forms:
            return string
        parts = []
        end = 0
        while match := self._heads.search(string, end):
            start = match.start()
            parts += [string[end:start], "***"]
            # More of the secret may follow its head, and is replaced as well.
            rest = string[start:]
            longest = max(_common_length(rest, form) for form in self._forms)
            end = max(match.end(), start + longest)
        parts.append(string[end:])
        scrubbed = "".join(parts)
        return scrubbed[:-_HEAD_LENGTH] if cut else scrubbed


def _pattern(head: str) -> str:
    """Return the pattern for a head, which is the beginning of a secret.

    The pattern finds a short secret only if no letter stands directly before or after it. A
    letter that ends an escape, as in `\\n` or `%2F`, does not count.
    """
    escaped = re.escape(head)
    # A head of full length does not occur in a string by chance.
    if len(head) == _HEAD_LENGTH:
        return escaped
    before = r"(?:(?<![a-z])|(?<=\\.)|(?<=%..)|(?<=\\u....))"
    return f"{before}(?:{escaped})+(?![a-z])"


def _common_length(string: str, form: str) -> int:
    """Return the length of the common beginning, ignoring case."""
    length = 0
    for character, form_character in zip(string.lower(), form.lower(), strict=False):
        if character != form_character:
            break
        length += 1
    return length


_ESCAPES = (
    lambda string: urllib.parse.quote(string, safe=""),
    urllib.parse.quote_plus,
    urllib.parse.quote,
    lambda string: json.dumps(string)[1:-1],
    lambda string: json.dumps(string, ensure_ascii=False)[1:-1],
    lambda string: string.replace("/", "\\/"),
    html.escape,
)
"""How services and libraries escape strings."""
