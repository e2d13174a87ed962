"""One request, built once and passed on unchanged."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic, TypeVar

import attrs

from seorep_async.errors import AuthenticationError

T = TypeVar("T")


@attrs.define(eq=False)
class CancelScope:
    """Shared by requests that have no chance any more once the key was refused to one of them.

    Attributes:
        error: the refusal, once there was one.
    """

    error: AuthenticationError | None = None


# not frozen, nor is what else is made for every request: that would take 5 microseconds a request
@attrs.define
class Request(Generic[T]):
    """What to ask, how to read the answer, and how it may be sent.

    Attributes:
        method: HTTP method.
        path: path from `/v3` on.
        decode: turns the body of a successful answer into its result.
        decode_in_steps: does the same for a huge body in small steps, or None if it can't be done; the result of the
            steps is None where only `decode` can tell.
        query: the query, encoded, without `?`; may hold private text, so it is in no repr.
        body: the body of a write, encoded.
        content_type: the body's media type.
        subject: what an error should call it, such as `campaign 42`.
        priority: among requests that wait for a permit the lowest goes first.
        deadline: monotonic time at which the call must have ended, or None for `Settings.call_timeout` from the first
            send.
        idempotent: whether a request that may have been executed may be sent again.
        cancel_scope: cancels the request before it is sent once the key was refused to another of the same scope.
        secrets: texts of the request that must not come back in an error, such as a password.
        private: the answer holds secrets, so no part of its body goes into an error.
    """

    method: str
    path: str
    decode: Callable[[bytes | memoryview], T] = attrs.field(repr=False)
    decode_in_steps: Callable[[bytes | memoryview], Generator[None, None, T | None]] | None = attrs.field(
        default=None, repr=False
    )
    query: str = attrs.field(default="", repr=False)
    body: bytes | None = attrs.field(default=None, repr=False)
    content_type: str | None = None
    subject: str | None = None
    priority: int = 0
    deadline: float | None = None
    idempotent: bool = True
    cancel_scope: CancelScope | None = None
    private: bool = False
    secrets: tuple[str, ...] = attrs.field(default=(), repr=False)
