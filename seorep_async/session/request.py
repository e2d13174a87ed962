"""One request, built once and passed on unchanged."""

from __future__ import annotations

from collections.abc import Generator
from typing import Generic, Protocol, TypeVar

import msgspec

from seorep_async.session.key_refusal import CancelScope

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Decode(Protocol[T_co]):
    """Turns the body of a successful response into its result, or into steps that end in it."""

    def __call__(self, body: bytes | memoryview, /) -> T_co | Generator[None, None, T_co]:
        """Return the result, or what yields where others may have a turn; either may raise a SeoRepError."""
        ...


class Lendable(Protocol):
    """Something held by a request, such as a slot for a page in progress, that others may have while it waits."""

    def lend(self) -> None:
        """Let another have it for a while."""

    async def take_back(self) -> None:
        """Wait until it is free again."""


# what is made for every request is a msgspec struct: an attrs class takes ten times as long to make
class Request(msgspec.Struct, Generic[T], eq=False):
    """What to ask, how to read the response, and how it may be sent.

    Attributes:
        method: HTTP method.
        path: path from `/v3` on.
        decode: reads the body of a successful response.
        query: the query, encoded, without `?`; may hold private text, so it is in no repr.
        body: the body of a write, encoded.
        content_type: the body's media type.
        subject: what an error should call it, such as `campaign 42`.
        priority: among requests that wait for a permit the lowest goes first.
        deadline: monotonic time at which the call must have ended, or None for `Settings.call_timeout` from the first
            send.
        idempotent: whether a request that may have been executed may be sent again.
        cancel_scope: cancels the request before it is sent once the key was refused to another of the same scope.
        slot: lent to others while the request waits to be sent again, or None.
        secrets: strings of the request that must not come back in an error, such as a password.
        private: the response holds secrets, so no part of its body goes into an error.
    """

    method: str
    path: str
    decode: Decode[T]
    query: str = ""
    body: bytes | None = None
    content_type: str | None = None
    subject: str | None = None
    priority: int = 0
    deadline: float | None = None
    idempotent: bool = True
    cancel_scope: CancelScope | None = None
    slot: Lendable | None = None
    private: bool = False
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Request({self.method} {self.path})"  # tracebacks show locals, and the rest may be private
