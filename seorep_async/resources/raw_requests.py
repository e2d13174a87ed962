"""Any request, answered by its envelope: `client.request`."""

from __future__ import annotations

import re
import urllib.parse
from typing import Any

from seorep_async.errors import ConfigurationError
from seorep_async.normalisation import Decoder
from seorep_async.normalisation.envelope import parse
from seorep_async.resources.arguments import ExtraParams, build_params, secrets_in
from seorep_async.session import Request, Session, encode_query, encode_write
from seorep_async.settings import RequestEncoding

_METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")
_PATH = re.compile(r"(/[^/?#\s\x00-\x1f\\\ud800-\udfff]+)+/?")


async def raw_request(
    session: Session, decoder: Decoder, method: str, path: str, params: ExtraParams | None, body: ExtraParams | None
) -> dict[str, Any]:
    """Send any request; see `SeoRepClient.request`."""
    settings = session.settings
    if not isinstance(method, str) or method.upper() not in _METHODS:
        raise ConfigurationError(f"method must be one of {', '.join(_METHODS)}, got {method!r}", argument="method")
    if not isinstance(path, str) or not _PATH.fullmatch(path) or ".." in urllib.parse.unquote(path).split("/"):
        problem = f"path must be a path such as /v3/campaigns/42, without a query; got {path!r}"
        raise ConfigurationError(problem, argument="path")
    method = method.upper()
    is_grant = path.rstrip("/").endswith("/loginGrant")
    if body is not None and method in ("GET", "DELETE"):
        raise ConfigurationError(f"a {method} request has no body; use params", argument="body")
    asked, values = build_params({}, params, argument="params"), build_params({}, body, argument="body")
    encoding, arrays = RequestEncoding.QUERY if body is None else settings.request_encoding, settings.array_encoding
    # in one go, and deleted: they may hold secrets, and tracebacks may show locals
    chosen, written, content, content_type = encode_query(asked, arrays), *encode_write(values, encoding, arrays)
    request = Request(
        method=method,
        path=urllib.parse.quote(path, safe="/%:@!$&'()*+,;=~"),
        decode=parse if method == "GET" else decoder.envelope,  # an empty body: a read's response was lost
        query="&".join(filter(None, (chosen, written))),
        body=content,
        content_type=content_type,
        deadline=session.call_timeout.deadline(),
        idempotent=method in ("GET", "PUT", "DELETE") and not is_grant,
        private=is_grant,
        secrets=secrets_in(asked | values),
    )
    del chosen, written, content
    return await session.send(request)
