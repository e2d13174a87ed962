"""What the resources share: get, create, update, delete and list of a model, and any other request."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Generic, TypeVar

from seorep_async.errors import ConfigurationError, short_repr
from seorep_async.normalisation import Decoder, ModelPage
from seorep_async.normalisation.envelope import parse, parse_any, refused
from seorep_async.paging import Listing, ModelListing, PageSize, Query, choose_page_size
from seorep_async.plain_values import plain_string
from seorep_async.resources.arguments import (
    ExtraParams,
    Params,
    build_params,
    check_id,
    check_limit,
    mask_secrets,
    secrets_in,
)
from seorep_async.session import Decode, ParamValue, Request, Session, encode_query, encode_write
from seorep_async.settings import RequestEncoding
from seorep_async.tables.tabular import ModelList

M = TypeVar("M")
T = TypeVar("T")

_METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")
_PATH = re.compile(r"(/[^/?#\s\x00-\x1f\\\ud800-\udfff]+)+/?")


class Endpoint(Generic[M]):
    """The operations of one model; its list is at `_path` or `_list_path`, an object at `_path` and its id."""

    _model: type[M]
    _path: ClassVar[str]
    _list_path: ClassVar[str | None] = None
    _object_name: ClassVar[str]

    def __init__(self, session: Session, decoder: Decoder) -> None:
        self._session = session
        self._decoder = decoder
        self._page_size = PageSize(session, self._list_path or self._path)

    async def get(self, id: int, *, extra_params: ExtraParams | None = None) -> M:
        """Get one object.

        Args:
            id: 1 to 2**31 - 1.
            extra_params: further parameters, sent as they are.

        Raises:
            NotFoundError: there is no such object.
        """
        extra_params = mask_secrets(extra_params)
        return await self._session.send(
            self._of_one("GET", id, self._single(self._model, id=id), extra_params)
        )

    async def _create(self, values: Params, extra_params: ExtraParams | None) -> M:
        sent = build_params(values, extra_params)
        decode = self._single(self._model, campaign_id=sent.get("campaign_id"))
        request = self._request(
            "POST", self._path, self._object_name, decode, sent, idempotent=False
        )
        return await self._session.send(request)

    async def _update(self, one: int, values: Params, extra_params: ExtraParams | None) -> M:
        path, subject = f"{self._path}/{check_id('id', one)}", f"{self._object_name} {one}"
        sent = build_params({**values, "id": None}, extra_params)
        if not sent:
            raise ConfigurationError(
                f"{subject}: there is nothing to change; give at least one value"
            )
        return await self._session.send(
            self._request("PUT", path, subject, self._single(self._model, id=one), sent)
        )

    def _list(
        self,
        values: Params,
        limit: int | None,
        extra_params: ExtraParams | None,
        subject: str | None = None,
    ) -> ModelListing[M]:
        sent = build_params({**values, "limit": check_limit(limit), "page": None}, extra_params)
        page_size = choose_page_size(sent, self._session.settings, self._page_size)
        campaign_id = sent.get("campaign_id")
        campaign = ("campaign", campaign_id) if type(campaign_id) is int else None
        query = Query(
            path=self._list_path or self._path,
            query=encode_query(sent, self._session.settings.array_encoding),
            decode=partial(ModelPage, self._decoder, self._model, subject=campaign),
            key=attrgetter("id"),
            subject=subject,
            page_size=page_size,
            secrets=secrets_in(sent),
        )
        return Listing(
            self._session,
            query,
            lambda pages: ModelList([one for page in pages for one in page.items], self._model),
        )

    def _single(self, model: type[T], **asked: object) -> Decode[T]:
        """Return the decoder of one object, which refuses another than the one that was asked for."""

        def decode(body: bytes) -> T:
            found = self._decoder.single(body, model)
            for name, value in asked.items():
                if (
                    value is not None
                    and (got := getattr(found, name, None)) is not None
                    and got != value
                ):
                    problem = f"the response is about {got}, not about {value}, which was asked for"
                    raise refused(f"data.{name}", problem)
            return found

        return decode

    def _of_one(
        self,
        method: str,
        one: int,
        decode: Decode[T],
        extra_params: ExtraParams | None,
        subpath: str = "",
        **how: Any,
    ) -> Request[T]:
        sent = build_params({"id": None}, extra_params)
        path = f"{self._path}/{check_id('id', one)}{subpath}"
        return self._request(method, path, f"{self._object_name} {one}", decode, sent, **how)

    def _request(
        self,
        method: str,
        path: str,
        subject: str,
        decode: Decode[T],
        sent: Mapping[str, ParamValue],
        **how: Any,
    ) -> Request[T]:
        settings = self._session.settings
        encoding = settings.request_encoding if method in ("POST", "PUT") else RequestEncoding.QUERY
        query, body, content_type = encode_write(sent, encoding, settings.array_encoding)
        deadline, secrets = self._session.call_timeout.deadline(), secrets_in(sent)
        return Request(
            method,
            path,
            decode,
            query,
            body,
            content_type,
            subject,
            deadline=deadline,
            secrets=secrets,
            **how,
        )


class DeletableEndpoint(Endpoint[M]):
    """The operations of a model whose objects can be deleted."""

    async def delete(self, id: int, *, extra_params: ExtraParams | None = None) -> None:
        """Delete one object.

        Args:
            id: 1 to 2**31 - 1.
            extra_params: further parameters, sent as they are.

        Raises:
            NotFoundError: there is no such object.
        """
        extra_params = mask_secrets(extra_params)
        # no body is documented, but it may be an error
        await self._session.send(self._of_one("DELETE", id, parse_any, extra_params))


async def raw_request(
    session: Session, method: str, path: str, params: ExtraParams | None, body: ExtraParams | None
) -> dict[str, Any]:
    """Send any request; see `SeoRepClient.request`."""
    settings = session.settings
    if not isinstance(method, str) or method.upper() not in _METHODS:
        raise ConfigurationError(
            f"method must be one of {', '.join(_METHODS)}, got {short_repr(method)}",
            argument="method",
        )
    if (
        not isinstance(path, str)
        or not _PATH.fullmatch(path)
        or ".." in urllib.parse.unquote(path).split("/")
    ):
        problem = "path must be a path such as /v3/campaigns/42, without a query"
        raise ConfigurationError(problem, argument="path")
    method = plain_string(method).upper()
    path = plain_string(path)
    is_grant = path.rstrip("/").endswith("/loginGrant")
    if body is not None and method in ("GET", "DELETE"):
        raise ConfigurationError(f"a {method} request has no body; use params", argument="body")
    asked, values = (
        build_params({}, params, argument="params"),
        build_params({}, body, argument="body"),
    )
    encoding, arrays = (
        RequestEncoding.QUERY if body is None else settings.request_encoding,
        settings.array_encoding,
    )
    # in one go, and deleted: they may hold secrets, and tracebacks may show locals
    chosen, written, content, content_type = (
        encode_query(asked, arrays),
        *encode_write(values, encoding, arrays),
    )
    request = Request(
        method=method,
        path=urllib.parse.quote(path, safe="/%:@!$&'()*+,;=~"),
        decode=parse if method == "GET" else parse_any,  # an empty body: a read's response was lost
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
