"""Turn an exception of aiohttp into the failure of an attempt."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from typing import Any

import aiohttp

from seorep_async.errors import (
    AttemptTimeoutError,
    ConnectionFailedError,
    ProtocolError,
    SeoRepError,
)
from seorep_async.session.aiohttp_workarounds import UnaskedResponse
from seorep_async.session.failures import (
    PROXY_ADVICE,
    UNREQUESTED_ENCODING,
    Cause,
    Failure,
    Sent,
)
from seorep_async.session.request import Request

_CERTIFICATE_ADVICE = (
    "; if your company's own authority issued the certificate, "
    "set SSL_CERT_FILE to the file that contains that authority's certificate"
)
_NO_TLS = (
    "; if the server does not use TLS, write http:// in place of https://, or check the address"
)
_UNKNOWN_ISSUER = (18, 19, 20, 21)
"""OpenSSL's codes for a certificate that is self-signed or has an unknown issuer."""


def is_lack_of_threads(error: Exception) -> bool:
    """Return whether no thread could be started to look up a name. Containers may allow few."""
    return isinstance(error, RuntimeError) and "new thread" in str(error)


def failure_of(  # noqa: C901, PLR0912, a table of cases
    error: Exception, request: Request[Any]
) -> Failure:
    """Return the failure of an attempt that ended with an exception of aiohttp.

    Pass a RuntimeError only if `is_lack_of_threads` is true for it.
    """
    reason = _reason(error, request)

    def failure(
        problem: str,
        sent: Sent = Sent.MAYBE,
        cause: Cause = Cause.TRANSIENT,
        error_type: type[SeoRepError] = ConnectionFailedError,
        *,
        out_of_resources: bool = False,
        advice: str = "",
    ) -> Failure:
        """Return a failure whose message is the problem and aiohttp's reason."""
        message = f"{problem} ({reason}){advice}"
        return Failure(sent, cause, error_type(message), out_of_resources=out_of_resources)

    # the classes of aiohttp overlap, so a narrower one comes before a wider one
    match error:
        case (
            aiohttp.ClientConnectorCertificateError()
            | aiohttp.ClientSSLError()
            | aiohttp.ServerFingerprintMismatch()
        ):
            return failure(
                "no TLS connection could be established",
                sent=Sent.NO,
                cause=Cause.PERMANENT,
                advice=_advice_on_tls(error, reason),
            )
        case aiohttp.ConnectionTimeoutError():
            return failure(
                "the connection could not be opened within Settings.connect_timeout",
                sent=Sent.NO,
                cause=Cause.OVERLOAD,
                error_type=AttemptTimeoutError,
            )
        case UnaskedResponse():
            return failure("the request was not sent", sent=Sent.NO)
        case aiohttp.ClientConnectorError():
            is_out_of_files = error.os_error.errno in (errno.EMFILE, errno.ENFILE)
            return failure(
                "the connection could not be opened", sent=Sent.NO, out_of_resources=is_out_of_files
            )
        case RuntimeError():
            return failure("no thread could be started", sent=Sent.NO, out_of_resources=True)
        case TimeoutError():
            return failure(
                "the service did not answer in time",
                cause=Cause.OVERLOAD,
                error_type=AttemptTimeoutError,
            )
        case aiohttp.ClientConnectionError() | OSError():
            return failure("the connection broke")
        case aiohttp.ClientHttpProxyError():
            is_lasting = error.status < 500
            return failure(
                "the proxy refused to connect",
                sent=Sent.NO,
                cause=Cause.PERMANENT if is_lasting else Cause.TRANSIENT,
                advice=PROXY_ADVICE if error.status == 407 else "",
            )
        case aiohttp.ClientResponseError() if error.message.startswith("Got more than"):
            return failure(
                "the response has a header longer than 8190 bytes, the most that aiohttp reads",
                cause=Cause.PERMANENT,
                error_type=ProtocolError,
            )
        case aiohttp.ClientResponseError() if "Please install" in error.message:
            return failure(
                UNREQUESTED_ENCODING,
                cause=Cause.PERMANENT,
                error_type=ProtocolError,
            )
        case aiohttp.ClientPayloadError():
            return failure("the response broke off")
    return failure("the response is not valid HTTP", error_type=ProtocolError)


def _advice_on_tls(error: Exception, reason: str) -> str:
    if _is_untrusted(error):
        return _CERTIFICATE_ADVICE
    # OpenSSL reads the first bytes of an answer without TLS as a version number
    return _NO_TLS if "WRONG_VERSION_NUMBER" in reason else ""


def _is_untrusted(error: Exception) -> bool:
    """Return whether a certificate was refused because its issuer is unknown."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    return getattr(cause, "verify_code", None) in _UNKNOWN_ISSUER


def _reason(error: Exception, request: Request[Any]) -> str:
    """Return the library's message without an address, which may contain a secret."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{error.host}:{error.port}: {_system_words(error.os_error)}"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"status {error.status}"
    if request.private or isinstance(error, aiohttp.ConnectionTimeoutError):
        return type(error).__name__  # the message may quote the response or contain the query
    # the str of a ClientResponseError contains the URL, and its repr the Authorization header
    message = error.message if isinstance(error, aiohttp.ClientResponseError) else error
    words = f"{type(error).__name__}: {message}"
    if isinstance(error, aiohttp.ClientPayloadError):
        # the repr of its cause has a number that looks like a status
        words = words.partition(": <")[0]
    # the message about a body that could not be written ends with the address
    return words.partition(" for http")[0]


def _system_words(error: OSError) -> str:
    """Return the system's own message. The message of asyncio's error names only the address."""
    if error.errno is None or isinstance(error, ssl.SSLError | socket.gaierror):
        # A server that closes in the TLS handshake leaves an error without a message.
        return error.strerror or str(error) or type(error).__name__
    return os.strerror(error.errno)
