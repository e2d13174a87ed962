"""One request, built once and passed on unchanged."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, TypeAlias, TypeVar

import msgspec

from seorep_async.session.flow_control import Taker

T = TypeVar("T")
Decode: TypeAlias = Callable[[bytes], T | Generator[bool, None, T]]
"""From the body of a successful response to its result, or to a generator that yields to give others a turn, or True
to go on in a thread; raises a SeoRepError if the body is not as documented."""


# objects of every request are msgspec structs: an attrs object takes ten times as long to make
class Request(msgspec.Struct, Generic[T], eq=False):
    """A request, how to read its response, and how it may be sent.

    Attributes:
        path: from `/v3` on.
        query: encoded, without `?`; may hold private text, so it is in no repr.
        body: of a write, encoded.
        subject: its name in errors, such as `campaign 42`.
        priority: the lowest gets its permit first.
        deadline: monotonic end of the call, or None for `Settings.call_timeout` from the first send.
        idempotent: whether to resend a request that may have been executed.
        refusals: of the key, before the pull or listing began that it belongs to; None: before the request itself.
        taker: the pull or listing that it belongs to, which takes turns with others; None if it is one by itself.
        secrets: strings of the request that must not appear in an error, such as a password.
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
    refusals: int | None = None
    taker: Taker | None = None
    private: bool = False
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Request({self.method} {self.path})"  # tracebacks show locals; the rest may be private
