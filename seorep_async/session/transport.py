"""One attempt on the wire, and the only file that touches aiohttp's client."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import traceback
import warnings
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import attrs
from aiohttp import hdrs

from seorep_async.errors import (
    AttemptTimeoutError,
    BodyTooLargeError,
    ConfigurationError,
    ConnectionFailedError,
    ProtocolError,
    SeoRepError,
)
from seorep_async.session.aiohttp_workarounds import (
    READ_SIZE,
    OwnResponse,
    UnaskedResponse,
    UsedConnections,
    WireError,
    WriteResponse,
    own_request,
    reuse_freed_memory,
)
from seorep_async.session.base_url import BaseURL, origin_of
from seorep_async.session.request import Request
from seorep_async.session.response import Response
from seorep_async.session.retry_policy import Cause, Failure, Sent, parse_retry_after
from seorep_async.session.secrets import Authentication
from seorep_async.session.timeouts import AttemptTimeouts, TimeLimit
from seorep_async.settings import Settings


@attrs.define(slots=False, eq=False, repr=False)
class Transport:
    """Sends single attempts through aiohttp, without its resends, redirects, cookies and environment.

    Only the origin of `base_url` ever sees the key. A `borrowed` session serves all requests and is never closed. Else
    there are two: the one for writes and grants never reuses a connection, so what fails before it was sent was not
    executed. Reads whose connection failed use it too, as a failover kills all idle connections.
    """

    _base_url: BaseURL
    _authentication: Authentication
    _settings: Settings
    _borrowed: aiohttp.ClientSession | None
    _wall_clock: Callable[[], float]

    def __attrs_post_init__(self) -> None:
        self._closing = AsyncExitStack()
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._settings.connect_timeout
        )
        self._headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
            "User-Agent": self._settings.user_agent,
        }
        self._for_borrowed: dict[str, Any] = {  # our own sessions are created so
            "skip_auto_headers": (hdrs.CONTENT_TYPE,),
            "raise_for_status": False,
            "auto_decompress": True,
            "timeout": self._timeout,
            "middlewares": (self._send_on_the_wire,),
            "proxy": self._settings.proxy,
        }
        self._used = UsedConnections()
        self.attempts: int = 0
        self.bytes_received: int = 0

    def open(self) -> None:
        self._timeouts = AttemptTimeouts(asyncio.get_running_loop())
        reuse_freed_memory()
        if (borrowed := self._borrowed) is None:
            self._reads, self._writes = self._own(force_close=False), self._own(force_close=True)
            return
        if borrowed.closed:
            raise ConfigurationError("the session that was passed in is closed")
        with warnings.catch_warnings(action="ignore"):
            loop = borrowed.loop  # its name is deprecated, and there is no other
        if loop is not self._timeouts.loop:
            raise ConfigurationError(
                "the session that was passed in is of another event loop: create it in this one"
            )
        if borrowed.trust_env:
            problem = (
                "the session that was passed in takes proxies and passwords from the environment"
            )
            advice = "which could send the API key elsewhere: create it with trust_env=False"
            raise ConfigurationError(f"{problem}, {advice}")
        self._reads = self._writes = borrowed

    async def close(self) -> None:
        """End running attempts, and close our own sessions."""
        self._timeouts.close()
        await (
            self._closing.aclose()
        )  # closes the second session even if we are cancelled in closing the first

    async def attempt(
        self, request: Request[Any], remaining: float, may_reuse: bool
    ) -> Response | Failure:
        """Send a request once, within `Settings.attempt_timeout` from opening the connection to the last byte.

        The call ends in `remaining` seconds, possibly infinite; a read uses an idle connection only if it `may_reuse`.
        """
        limit = TimeLimit(self._timeouts, self._settings.attempt_timeout, remaining)
        try:
            with limit:
                return await self._receive(await self._send(request, may_reuse))
        except BodyTooLargeError as error:
            return Failure(Sent.MAYBE, Cause.PERMANENT, error)
        except SeoRepError:
            raise
        except WireError as error:
            return _classify(error.args[0], request)
        except asyncio.CancelledError as error:
            # the locals of aiohttp's frames hold the key, which a traceback with locals would show
            raise error.with_traceback(None) from None
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            if type(error) is TimeoutError and self._timeouts.is_closed:
                closed = ConnectionFailedError(
                    "the client was closed before the response was received"
                )
                return Failure(Sent.MAYBE, Cause.PERMANENT, closed, inconclusive=True)
            if type(error) is TimeoutError:
                seconds = min(self._settings.attempt_timeout, remaining)
                late = AttemptTimeoutError(f"the service did not answer within {seconds:.3g} s")
                return Failure(Sent.MAYBE, Cause.OVERLOAD, late, inconclusive=limit.inconclusive)
            failure = _classify(error, request)
            if isinstance(error, aiohttp.ConnectionTimeoutError):
                return attrs.evolve(
                    failure, inconclusive=limit.is_very_late(self._settings.connect_timeout)
                )
            return failure
        except Exception as error:  # a bug, ours or of a session that was passed in
            error.add_note(
                "".join(traceback.format_tb(error.__traceback__))
            )  # which shows no locals
            raise error.with_traceback(None) from None

    def _send(self, request: Request[Any], may_reuse: bool) -> Awaitable[aiohttp.ClientResponse]:
        """Send a request, and receive the head of the response and what came with it."""
        session = (
            self._reads
            if request.method == "GET" and request.idempotent and may_reuse
            else self._writes
        )
        options = {}
        if self._borrowed is not None:
            if session.closed:
                raise ConfigurationError(
                    "the session that was passed in was closed while the client was in use"
                )
            options = self._for_borrowed | {"headers": self._headers}
        else:
            self.attempts += 1
        if request.content_type is not None:
            options["headers"] = self._headers | {"Content-Type": request.content_type}
        address = self._base_url.address(request.path, request.query)
        return session.request(
            request.method, address, data=request.body, allow_redirects=False, **options
        )

    async def _send_on_the_wire(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Authenticate one wire attempt of a borrowed session, count it, and stop aiohttp from resending it."""
        if origin_of(request.url) != self._base_url.origin:
            raise ConfigurationError(
                f"refused to send the API key to an origin other than {self._base_url.string}"
            )
        request.headers[hdrs.AUTHORIZATION] = self._authentication.header
        request.headers.popall(hdrs.COOKIE, None)
        self.attempts += 1
        self._used.watch(request)
        try:
            return await send(request)
        except WireError.RESENT_AFTER as error:
            raise WireError(error) from None

    async def _receive(self, response: aiohttp.ClientResponse) -> Response:
        """Receive the rest of a response; most are whole already."""
        content, headers = response.content, response.headers
        try:
            body = (
                self._counted(content.read_nowait())
                if content.is_eof()
                else await self._read(response)
            )
        except BaseException:  # the rest of the body would come, and nobody reads it
            response.close()
            raise
        retry_after = None
        if hdrs.RETRY_AFTER in headers:
            retry_after = parse_retry_after(
                headers[hdrs.RETRY_AFTER], headers.get(hdrs.DATE), self._wall_clock()
            )
        return Response(response.status, body, retry_after, headers)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        self._check_size(response.content_length or 0)
        chunks: list[bytes] = []
        size = 0
        while chunk := await _read_any(response.content):
            chunks.append(self._counted(chunk, size))
            size += len(chunk)
        return b"".join(chunks)

    def _counted(self, chunk: bytes, before: int = 0) -> bytes:
        """Count the bytes of a chunk, and raise if there are too many with those before it."""
        self.bytes_received += len(chunk)
        self._check_size(before + len(chunk))
        return chunk

    def _check_size(self, size: int) -> None:
        if size > self._settings.max_body_bytes:
            problem = f"the response has {size} bytes or more, and the limit is {self._settings.max_body_bytes}"
            raise BodyTooLargeError(
                f"{problem}; raise Settings.max_body_bytes, or pass a smaller limit=…"
            )

    def _own(self, *, force_close: bool) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=force_close),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            skip_auto_headers=(hdrs.CONTENT_TYPE,) if force_close else None,
            timeout=self._timeout,
            trust_env=False,
            proxy=self._settings.proxy,
            read_bufsize=READ_SIZE,
            request_class=own_request(self._authentication, self._used),
            response_class=WriteResponse if force_close else OwnResponse,
        )
        self._closing.push_async_callback(session.close)
        return session


_OWN_AUTHORITY = (
    "; if the certificate is of your company's own authority, "
    "set SSL_CERT_FILE to the file that holds that authority's certificate"
)


def _is_untrusted(error: Exception) -> bool:
    """Return whether a certificate is refused because its issuer is not known here."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    unknown_issuer = (18, 19, 20, 21)  # OpenSSL's codes: self-signed, or an issuer without its own
    return getattr(cause, "verify_code", None) in unknown_issuer


async def _read_any(content: aiohttp.StreamReader) -> bytes:
    try:
        return await content.read(READ_SIZE)
    except RuntimeError as error:  # aiohttp's, if the connection was closed in the meantime (3.14)
        raise aiohttp.ClientConnectionError(str(error)) from None


def _classify(error: Exception, request: Request[Any]) -> Failure:
    sent, cause, no_room = Sent.MAYBE, Cause.TRANSIENT, False
    kind: type[SeoRepError] = ConnectionFailedError
    advice = ""
    match error:
        case (
            aiohttp.ClientConnectorCertificateError()
            | aiohttp.ClientSSLError()
            | aiohttp.ServerFingerprintMismatch()
        ):
            sent, cause = Sent.NO, Cause.PERMANENT
            said = "no TLS connection could be established"
            advice = _OWN_AUTHORITY if _is_untrusted(error) else ""
        case aiohttp.ConnectionTimeoutError():
            sent, cause, kind = Sent.NO, Cause.OVERLOAD, AttemptTimeoutError
            said = "the connection could not be opened within Settings.connect_timeout"
        case UnaskedResponse():
            sent, said = Sent.NO, "the connection was not used"
        case aiohttp.ClientConnectorError():
            sent, said = Sent.NO, "the connection could not be opened"
            no_room = error.os_error.errno in (errno.EMFILE, errno.ENFILE)
        case TimeoutError():
            cause, kind, said = (
                Cause.OVERLOAD,
                AttemptTimeoutError,
                "the service did not answer in time",
            )
        case aiohttp.ClientConnectionError() | OSError():
            said = "the connection broke"
        case aiohttp.ClientHttpProxyError():
            sent, said = Sent.NO, "the proxy refused to connect"
            cause = Cause.PERMANENT if error.status < 500 else Cause.TRANSIENT
        case aiohttp.ClientResponseError() if error.message.startswith("Got more than"):
            cause, kind = Cause.PERMANENT, ProtocolError
            said = "the response has a header longer than 8190 bytes, the most that aiohttp reads"
        case aiohttp.ClientPayloadError():
            said = "the response broke off"
        case _:
            kind, said = ProtocolError, "the response is not valid HTTP"
    return Failure(
        sent, cause, kind(f"{said} ({_reason(error, request)}){advice}"), no_room=no_room
    )


def _reason(error: Exception, request: Request[Any]) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{error.host}:{error.port}: {_words(error.os_error)}"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"status {error.status}"
    if request.private or isinstance(error, aiohttp.ConnectionTimeoutError):
        return type(error).__name__  # the message may quote the response, or holds the query
    # str() of a ClientResponseError holds the request's URL, its repr even the Authorization header
    message = error.message if isinstance(error, aiohttp.ClientResponseError) else error
    return f"{type(error).__name__}: {message}"


def _words(error: OSError) -> str:
    """Return the system's words, which asyncio replaces by the address that it tried."""
    if error.errno is None or isinstance(error, ssl.SSLError | socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno)
