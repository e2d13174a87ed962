"""Can the service be reached, and do its clock and ours agree? One request, without the key."""

from __future__ import annotations

import datetime as dt
import http.client
import socket
import ssl
import time
import urllib.parse
from email.utils import parsedate_to_datetime

from seorep_async.cli.findings import Finding, Verdict

_SECONDS = 10.0
_CLOCK_SECONDS = 60.0


def probe(address: str) -> list[Finding]:
    """Ask the service for nothing, without the key, and tell how it answered; blocks for up to ten seconds.

    Args:
        address: the service's base URL.
    """
    url = urllib.parse.urlsplit(address)
    host = url.hostname or ""
    connection = (
        http.client.HTTPSConnection(host, url.port, timeout=_SECONDS, context=ssl.create_default_context())
        if url.scheme == "https"
        else http.client.HTTPConnection(host, url.port, timeout=_SECONDS)
    )
    started = time.monotonic()
    try:
        connection.request("HEAD", f"{url.path.rstrip('/')}/v3/campaigns", headers={"User-Agent": "seorep-async"})
        answer = connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        return [Finding(Verdict.BAD, "reachability", f"{host}: {_reason(error)}")]
    finally:
        connection.close()
    milliseconds = (time.monotonic() - started) * 1000
    secured = " over TLS" if url.scheme == "https" else ", not encrypted"
    return [
        Finding(Verdict.GOOD, "reachability", f"{host} answered after {milliseconds:.0f} ms{secured}"),
        _clock(answer.getheader("Date"), dt.datetime.now(dt.UTC)),
    ]


def _clock(date: str | None, now: dt.datetime) -> Finding:
    try:
        theirs = parsedate_to_datetime(date or "")
    except ValueError:
        return Finding(Verdict.NOTE, "clock", "the service does not tell its time")
    if theirs.tzinfo is None:
        theirs = theirs.replace(tzinfo=dt.UTC)
    apart = (now - theirs).total_seconds()
    if abs(apart) <= _CLOCK_SECONDS:
        return Finding(Verdict.GOOD, "clock", "agrees with the service's")
    order = "ahead of" if apart > 0 else "behind"
    words = f"this machine's is {abs(apart):,.0f} s {order} the service's; dates chosen by default may be off"
    return Finding(Verdict.NOTE, "clock", words)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return f"no answer within {_SECONDS:.0f} s"
    if isinstance(error, socket.gaierror):
        return f"the name is not known ({error.strerror})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"it does not speak HTTP ({type(error).__name__})"
