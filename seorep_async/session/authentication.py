"""The API key: put on every request, shown nowhere."""

from __future__ import annotations

import base64
import hashlib
from typing import NoReturn

from seorep_async.session.scrubbing import Scrubber


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
    try:
        api_key.encode()
    except UnicodeEncodeError:
        return "api_key is not valid Unicode text"
    return None


_FINGERPRINTS: dict[bytes, str] = {}


class Authentication:
    """HTTP Basic with no user name and a key without `key_problem` as password (the service's reference, section 5)."""

    __slots__ = ("_header", "_scrubber")

    def __init__(self, api_key: str) -> None:
        encoded = base64.b64encode(b":" + api_key.encode()).decode()
        alone = base64.b64encode(api_key.encode()).decode()
        self._header = f"Basic {encoded}"
        forms = {encoded, alone, encoded.rstrip("="), alone.rstrip("=")}
        self._scrubber = Scrubber({api_key, *(form for form in forms if len(form) > 3)})

    def header(self) -> str:
        """Return the value of the `Authorization` header."""
        return self._header

    def scrub(self, string: str, *, cut: bool = False) -> str:
        """Replace every form of the key in a string; see `Scrubber.scrub`."""
        return self._scrubber.scrub(string, cut=cut)

    def fingerprint(self, salt: bytes) -> str:
        """Return a hash that identifies the key without revealing it; takes 50 ms, once in a process."""
        known = hashlib.sha256(salt + self._header.encode()).digest()
        if known not in _FINGERPRINTS:
            _FINGERPRINTS[known] = hashlib.scrypt(self._header.encode(), salt=salt, n=2**14, r=8, p=1).hex()
        return _FINGERPRINTS[known]

    def __repr__(self) -> str:
        return "Authentication(***)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key is not pickled; create the client where it is needed")
