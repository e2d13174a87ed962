"""The proxy of `Settings.proxy`, with its password separate from its address."""

from __future__ import annotations

import base64
from urllib.parse import unquote, urlsplit

from yarl import URL

from seorep_async.secret import Secret


class Proxy:
    """A proxy. The password is not in the address, because aiohttp shows addresses in warnings.

    Attributes:
        url: the address without user and password.
        authorization: the value of the header `Proxy-Authorization`, or None without a user.
        secrets: the plain and the encoded password, to be removed from messages.
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.url: URL = URL(address).with_user(None)
        self.authorization: Secret | None = None
        self.secrets: tuple[str, ...] = ()
        if parts.username is not None:
            password = unquote(parts.password or "")
            credentials = f"{unquote(parts.username)}:{password}".encode()
            encoded = base64.b64encode(credentials).decode()
            self.authorization = Secret(f"Basic {encoded}")
            self.secrets = (password, encoded, encoded.rstrip("="))

    def __repr__(self) -> str:
        return f"<Proxy {self.url}>"
