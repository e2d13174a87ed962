"""Single attempts on the wire. Only this module uses aiohttp's client."""

from __future__ import annotations

import asyncio
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
    SeoRepError,
)
from seorep_async.session.aiohttp_workarounds import (
    READ_SIZE,
    OwnResponse,
    Progress,
    WireError,
    WriteResponse,
    abort,
    check_before_sending,
    own_request,
    reuse_freed_memory,
    watch_progress,
)
from seorep_async.session.base_url import BaseURL, origin_of
from seorep_async.session.failures import Cause, Failure, Sent, parse_retry_after
from seorep_async.session.proxy import Proxy
from seorep_async.session.request import Request, Response
from seorep_async.session.secrets import Authentication
from seorep_async.session.timeouts import TimeLimit, TimeLimits
from seorep_async.session.wire_failures import failure_of, is_lack_of_threads
from seorep_async.settings import Settings


class Transport:
    """Sends single attempts through aiohttp, without its resends, redirects and cookies.

    Only the origin of `base_url` ever receives the key. A `borrowed` session serves all requests
    and is never closed. Otherwise there are two sessions of our own. The session for writes and
    login grants opens a new connection for each request: if a reused connection breaks, the write
    may have been executed. After a failed connection, a read is also sent on a new connection,
    because a failover kills all idle ones.

    Attributes:
        attempts: the number of requests sent.
        bytes_received: bytes of all decompressed bodies.
    """

    def __init__(
        self,
        base_url: BaseURL,
        authentication: Authentication,
        settings: Settings,
        borrowed: aiohttp.ClientSession | None,
        time_limits: TimeLimits,
        wall_clock: Callable[[], float],
    ) -> None:
        self._base_url = base_url
        self._settings = settings
        self._borrowed = borrowed
        self._time_limits = time_limits
        self._wall_clock = wall_clock
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_timeout)
        self._headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
            "User-Agent": settings.user_agent,
        }
        self._secret_headers: dict[str, str] = {hdrs.AUTHORIZATION: authentication.header}
        self._proxy = None if settings.proxy is None else Proxy(settings.proxy)
        self._options: dict[str, Any] = {}
        if self._proxy is not None and self._proxy.authorization is not None:
            self._authenticate_to_proxy(self._proxy.authorization)
        if borrowed is not None:
            self._options |= self._options_of_borrowed()
        # `open` adds the sessions `_session_for_reads` and `_session_for_writes`.
        self._closing = AsyncExitStack()
        self.attempts: int = 0
        self.bytes_received: int = 0

    def _authenticate_to_proxy(self, authorization: str) -> None:
        """Send the proxy its password. For https, only the request for a tunnel has it."""
        if self._base_url.origin[0] == "https":
            self._options["proxy_headers"] = {hdrs.PROXY_AUTHORIZATION: authorization}
        else:
            self._secret_headers[hdrs.PROXY_AUTHORIZATION] = authorization

    def _options_of_borrowed(self) -> dict[str, Any]:
        """Return the options for requests in a borrowed session. Our own sessions have them as
        defaults.
        """
        return {
            "headers": self._headers,
            "skip_auto_headers": (hdrs.CONTENT_TYPE,),
            "raise_for_status": False,
            "auto_decompress": True,
            "timeout": self._timeout,
            "middlewares": (self._send_on_the_wire,),
            "proxy": None if self._proxy is None else self._proxy.url,
        }

    def open(self) -> None:
        """Open the sessions in the running loop.

        Raises:
            ConfigurationError: the borrowed session can't be used.
        """
        reuse_freed_memory()
        if self._borrowed is None:
            self._session_for_reads = self._own_session(for_writes=False)
            self._session_for_writes = self._own_session(for_writes=True)
            return
        problem = self._problem_of(self._borrowed)
        if problem:
            raise ConfigurationError(f"the session that was passed in {problem}")
        self._session_for_reads = self._borrowed
        self._session_for_writes = self._borrowed

    def _problem_of(self, session: aiohttp.ClientSession) -> str:
        """Return the problem with a session, or an empty string."""
        if session.closed:
            return "is closed"
        with warnings.catch_warnings(action="ignore"):
            loop = session.loop  # deprecated, but there is no replacement
        if loop is not asyncio.get_running_loop():
            return "belongs to another event loop; create it in this one"
        if session.trust_env:
            advice = "which could send the API key elsewhere: create it with trust_env=False"
            return f"takes proxies and passwords from the environment, {advice}"
        return ""

    async def close(self) -> None:
        """Close our own sessions."""
        # the stack closes the second session even if closing the first is cancelled
        await self._closing.aclose()

    async def attempt(  # noqa: C901, PLR0912, each kind of error
        self, request: Request[Any], remaining: float, may_reuse: bool
    ) -> Response | Failure:
        """Send a request once, within `Settings.attempt_timeout` from connecting to the last byte.

        Args:
            request: the request.
            remaining: seconds until the call ends, possibly infinite.
            may_reuse: whether a read may use an idle connection.

        Returns:
            A response with any status, or the failure.

        Raises:
            ConfigurationError: the borrowed session was closed, or would send the key to another
                origin. A retry would fail again.
        """
        limit = TimeLimit(self._time_limits, self._settings.attempt_timeout, remaining)
        progress = None
        if request.is_read and may_reuse:
            session = self._session_for_reads
        else:
            session = self._session_for_writes
            progress = watch_progress()  # records whether the request got a connection
        try:
            with limit:
                if self._borrowed is not None:
                    # A session that answers from memory would hold the loop for a whole pull.
                    await asyncio.sleep(0)
                return await self._receive(await self._send(request, session))
        except BodyTooLargeError as error:
            return Failure(Sent.MAYBE, Cause.PERMANENT, error)
        except SeoRepError:
            raise  # a ConfigurationError, with which a retry would fail again
        except WireError as error:
            return failure_of(error.args[0], request)
        except asyncio.CancelledError as error:
            # a traceback with locals would show the key, which is in frames of aiohttp
            raise error.with_traceback(None) from None
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            if type(error) is TimeoutError:  # from `limit`; aiohttp raises subclasses of it
                return self._timeout_failure(limit, remaining, progress)
            failure = failure_of(error, request)
            if isinstance(error, aiohttp.ConnectionTimeoutError):
                # If the loop was blocked for long, the connection may have been opened in time, so
                # the failure says nothing about the service.
                is_very_late = limit.is_very_late(self._settings.connect_timeout)
                return attrs.evolve(failure, inconclusive=is_very_late)
            return failure
        except Exception as error:
            if is_lack_of_threads(error):
                return failure_of(error, request)
            # only a bug of ours, or of a borrowed session, leads here
            frames = traceback.format_tb(error.__traceback__)  # without locals
            error.add_note("".join(frames))
            raise error.with_traceback(None) from None

    def _timeout_failure(
        self, limit: TimeLimit, remaining: float, progress: Progress | None
    ) -> Failure:
        """Return the failure of an attempt cut off by our time limit or by closing the client."""
        # Without `progress` (a read that may reuse a connection), the request may have been sent.
        # Before our limit is over, only a mock of aiohttp raises a TimeoutError, so anything may
        # have been sent.
        may_be_sent = progress is None or progress.is_sent or not limit.is_over
        sent = Sent.MAYBE if may_be_sent else Sent.NO
        if self._time_limits.is_closed:
            closed = ConnectionFailedError("the client was closed before the response was received")
            return Failure(sent, Cause.PERMANENT, closed, inconclusive=True)
        problem = "the service did not answer" if may_be_sent else "no connection could be opened"
        if remaining < self._settings.attempt_timeout:
            problem += f" within the {remaining:.3g} s that the call had left"
        else:
            problem += f" within {self._settings.attempt_timeout:.3g} s"
        late = AttemptTimeoutError(problem)
        return Failure(sent, Cause.OVERLOAD, late, inconclusive=limit.inconclusive)

    def _send(
        self, request: Request[Any], session: aiohttp.ClientSession
    ) -> Awaitable[aiohttp.ClientResponse]:
        """Send a request, and receive the head of the response, perhaps with some of its body."""
        options = self._options
        # Middlewares of a borrowed session may send again, so `_send_on_the_wire` counts instead.
        if self._borrowed is None:
            self.attempts += 1
        elif session.closed:
            problem = "the session that was passed in was closed while the client was in use"
            raise ConfigurationError(problem)
        if request.content_type is not None:
            headers = self._headers | {"Content-Type": request.content_type}
            options = options | {"headers": headers}
        address = self._base_url.address(request.path, request.query)
        # `OwnRequest.send` adds the key, or `_send_on_the_wire` in a borrowed session.
        return session.request(
            request.method, address, data=request.body, allow_redirects=False, **options
        )

    async def _send_on_the_wire(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Authenticate and count an attempt in a borrowed session, without aiohttp's resend."""
        if origin_of(request.url) != self._base_url.origin:
            problem = "refused to send the API key to an origin other than"
            raise ConfigurationError(f"{problem} {self._base_url.string}")
        request.headers.update(self._secret_headers)
        request.headers.popall(hdrs.COOKIE, None)
        self.attempts += 1
        transports = check_before_sending(request)
        try:
            return await send(request)
        except (Exception, asyncio.CancelledError) as error:
            for transport in transports:
                abort(transport)
            if isinstance(error, WireError.RESENT_AFTER):
                raise WireError(error) from None
            raise

    async def _receive(self, response: aiohttp.ClientResponse) -> Response:
        """Receive the rest of a response. Most responses have already arrived completely."""
        content = response.content
        headers = response.headers
        try:
            if content.is_eof():
                chunks = [self._counted(content.read_nowait())]
            else:
                chunks = await self._read(response)
        except BaseException as error:  # nobody will read the rest of the body
            if response.connection is not None and not isinstance(error, GeneratorExit):
                abort(response.connection.transport)
            response.close()
            raise
        retry_after = None
        if hdrs.RETRY_AFTER in headers:
            retry_after = parse_retry_after(
                headers[hdrs.RETRY_AFTER], headers.get(hdrs.DATE), self._wall_clock()
            )
        return Response(response.status, chunks, retry_after, headers)

    async def _read(self, response: aiohttp.ClientResponse) -> list[bytes]:
        """Read the chunks of a body that has not arrived completely."""
        self._check_size(response.content_length or 0)
        chunks = []
        size = 0
        while chunk := await _read_any(response.content):
            chunks.append(self._counted(chunk, size))
            size += len(chunk)
        return chunks

    def _counted(self, chunk: bytes, size_before: int = 0) -> bytes:
        """Count the bytes of a chunk and return it. Raise if the body is too large."""
        self.bytes_received += len(chunk)
        self._check_size(size_before + len(chunk))
        return chunk

    def _check_size(self, size: int) -> None:
        longest = self._settings.max_body_bytes
        if size > longest:
            problem = f"the response has {size} bytes or more, and the limit is {longest}"
            advice = "raise Settings.max_body_bytes, or pass a smaller limit=…"
            raise BodyTooLargeError(f"{problem}; {advice}")

    def _own_session(self, *, for_writes: bool) -> aiohttp.ClientSession:
        """Open a session for reads, or one for writes, which uses each connection only once."""
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=for_writes),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            skip_auto_headers=(hdrs.CONTENT_TYPE,) if for_writes else None,
            timeout=self._timeout,
            trust_env=False,
            proxy=None if self._proxy is None else self._proxy.url,
            read_bufsize=READ_SIZE,
            request_class=own_request(self._secret_headers, is_watched=for_writes),
            response_class=WriteResponse if for_writes else OwnResponse,
        )
        self._closing.push_async_callback(session.close)
        return session


async def _read_any(content: aiohttp.StreamReader) -> bytes:
    try:
        return await content.read(READ_SIZE)
    except RuntimeError as error:  # aiohttp 3.14 raises it if the connection has been closed
        raise aiohttp.ClientConnectionError(str(error)) from None
