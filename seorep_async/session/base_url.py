"""The address of the service, checked once before anything is sent."""

from __future__ import annotations

import ipaddress
import re
import urllib.parse

from yarl import URL

_HOST = re.compile(
    r"(?=.{1,253}$)([a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?|.*:.*", re.ASCII | re.IGNORECASE
)
"""A DNS name, an IPv4 address, or an IPv6 address, already parsed."""

_ENDPOINT = re.compile(r"/v3/*(/(backlinks|campaigns|keywords|resources|users)(/.*)?)?$")
"""The path of the service, or of one of its endpoints, at the end of an address."""


class BaseURL:
    """The service's origin and the prefix of every path, taken from a checked address."""

    def __init__(self, base_url: str) -> None:
        self.string: str = str(URL(base_url)).rstrip("/")
        url = URL(self.string)
        self._scheme = url.scheme
        self._authority = url.raw_authority
        self._prefix = url.raw_path.rstrip("/")
        self.origin: tuple[str, str | None, int | None] = origin_of(url)

    def address(self, path: str, query: str) -> URL:
        """Return the address of a request.

        Args:
            path: the encoded path, starting with `/v3`.
            query: the encoded query, without `?`.
        """
        # built from parts, because parsing takes twice as long
        return URL.build(
            scheme=self._scheme,
            authority=self._authority,
            path=self._prefix + path,
            query_string=query,
            encoded=True,
        )


def origin_of(url: URL) -> tuple[str, str | None, int | None]:
    """Return the scheme, the host and the port of an address. No other origin gets the key."""
    return url.scheme, url.raw_host, url.port


def base_url_problem(  # noqa: C901, PLR0912, a list of checks
    base_url: object, *, allow_insecure_http: bool
) -> tuple[str, str] | None:
    """Return the problem with an address, and advice or "". Return None if the address is valid.

    An address is `https://host[:port][/prefix]`. `http://` is accepted only for this machine,
    unless `allow_insecure_http` is set. The address is not shown: it may contain a password.
    """
    if not isinstance(base_url, str) or not base_url.strip():
        return 'base_url must be a string such as "https://api.example.com"', ""
    if any(ord(character) <= 32 or ord(character) == 127 for character in base_url):
        return "base_url must not contain spaces or control characters", ""
    try:
        parts = urllib.parse.urlsplit(base_url)
        host = parts.hostname
        _port = parts.port  # raises a ValueError if it is invalid
        # Credentials are refused below, even if they make the rest unreadable for yarl.
        url = URL() if "@" in parts.netloc else URL(base_url)
    except ValueError:
        return "base_url is not a valid address: write it as https://host[:port]", ""
    if "@" in parts.netloc:
        return "base_url must not contain credentials", "pass the key as api_key=… instead"
    if parts.scheme not in ("http", "https") or not host:
        return "base_url needs a scheme and a host: write it as https://host[:port]", ""
    if not _HOST.fullmatch(url.raw_host or ""):
        return "base_url is not a valid address: its host is neither a name nor an IP address", ""
    if parts.query or parts.fragment or base_url.endswith(("?", "#")):
        return "base_url must not contain a query or a fragment", ""
    if _ENDPOINT.search(url.path):
        return "base_url must not include /v3, because every path starts with it", ""
    if parts.scheme == "http" and not allow_insecure_http and not _is_this_machine(host):
        problem = "base_url must begin with https:// (http:// would send the key unencrypted)"
        return problem, "for a test network, Settings(allow_insecure_http=True) allows it"
    return None


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
