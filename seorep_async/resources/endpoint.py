"""The operations that resources share, such as get and list, and `client.request`."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, ClassVar, Generic, TypeVar

from seorep_async.errors import ConfigurationError, short_repr
from seorep_async.models import Page
from seorep_async.normalisation import Decoder, ModelPage
from seorep_async.normalisation.envelope import parse, parse_any, refused
from seorep_async.paging import Listing, PageSize, Query, choose_page_size
from seorep_async.plain_values import plain, plain_string
from seorep_async.resources.arguments import (
    ExtraParams,
    Params,
    build_params,
    check_id,
    check_limit,
    mask_secrets,
    secrets_in,
)
from seorep_async.resources.encoding import ParamValue, encode_query, encode_write
from seorep_async.secret import Secret
from seorep_async.session import Decode, Request, Session
from seorep_async.settings import RequestEncoding
from seorep_async.tables.tabular import ModelList

M = TypeVar("M")
T = TypeVar("T")

_METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")
_METHODS_WITH_BODY = ("POST", "PUT", "PATCH")
_ID = re.compile("[0-9]{1,10}")
_PATH = re.compile(r"(/[^/?#\s\x00-\x1f\\\ud800-\udfff]+)+/?")


class Endpoint(Generic[M]):
    """The operations on the objects of one model.

    The list is at `_list_path`, or at `_path` if that is None. An object is at `_path` followed by
    its id.
    """

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
        decode = self._checking_decoder(self._model, id=id)
        return await self._session.send(self._object_request("GET", id, decode, extra_params))

    async def _create(self, values: Params, extra_params: ExtraParams | None) -> M:
        params = build_params(values, extra_params)
        # The service chooses the id, so only the campaign in the response can be checked.
        decode = self._checking_decoder(self._model, campaign_id=params.get("campaign_id"))
        request = self._request("POST", self._path, self._object_name, decode, params)
        return await self._session.send(request)

    async def _update(self, id: int, values: Params, extra_params: ExtraParams | None) -> M:
        decode = self._checking_decoder(self._model, id=id)
        request = self._object_request("PUT", id, decode, extra_params, values=values)
        return await self._session.send(request)

    def _list(
        self,
        values: Params,
        limit: int | None,
        extra_params: ExtraParams | None,
        name_in_errors: str | None = None,
    ) -> Listing[M, ModelList[M]]:
        """Check and encode the parameters of a list, and return its listing."""
        # `build_params` refuses every name listed here in `extra_params`, also if its value is
        # None. `page` is listed only for that.
        documented = {**values, "limit": check_limit(limit), "page": None}
        params = build_params(documented, extra_params)
        settings = self._session.settings
        # This may put a limit into `params`, so it comes before they are encoded.
        page_size = choose_page_size(params, settings, self._page_size)
        # A page about another campaign is refused.
        page_subject = None
        campaign_id = params.get("campaign_id")
        # On the command line (`--param`), the id is a string.
        if isinstance(campaign_id, str) and _ID.fullmatch(campaign_id):
            campaign_id = int(campaign_id)
        if type(campaign_id) is int:
            page_subject = ("campaign", campaign_id)
        query = Query(
            path=self._list_path or self._path,
            query=encode_query(params, settings.array_encoding),
            decode=partial(ModelPage, self._decoder, self._model, subject=page_subject),
            key=attrgetter("id"),
            subject=name_in_errors,
            secrets=secrets_in(params),
        )
        return Listing(self._session, query, self._complete_list, page_size)

    def _complete_list(self, pages: Sequence[Page[M]]) -> ModelList[M]:
        items = chain.from_iterable(page.items for page in pages)
        return ModelList(items, self._model)

    def _checking_decoder(self, model: type[T], **expected: object) -> Decode[T]:
        """Return the decoder of one object. It refuses any object other than the requested one.

        Args:
            model: the class of the object.
            expected: fields of the requested object. None allows any value.
        """
        # An id may be of a type that is not equal to the same `int`.
        plain_values = {name: plain(value) for name, value in expected.items()}

        def decode(body: bytes) -> T:
            """Return the object of a body. Refuse it if a field differs from `expected`."""
            record = self._decoder.single(body, model)
            for name, expected_value in plain_values.items():
                value = getattr(record, name, None)
                # A field that the response leaves out is not a contradiction.
                if value is None or expected_value is None or value == expected_value:
                    continue
                problem = f"the response is about {value}, but {expected_value} was requested"
                raise refused(f"data.{name}", problem)
            return record

        return decode

    def _object_request(
        self,
        method: str,
        id: int,
        decode: Decode[T],
        extra_params: ExtraParams | None,
        subpath: str = "",
        *,
        values: Params | None = None,
        **fields: Any,
    ) -> Request[T]:
        """Return a request about one object, with the `values` to change, if it changes any.

        `fields` are further `Request` fields.
        """
        id = check_id("id", id)
        path = f"{self._path}/{id}{subpath}"
        subject = f"{self._object_name} {id}"
        # The id is in the path, so it is not sent. It is listed as None, so that `extra_params`
        # can't set it.
        params = build_params({**(values or {}), "id": None}, extra_params)
        if values is not None and not params:
            problem = f"{subject}: there is nothing to change; give at least one value"
            raise ConfigurationError(problem)
        return self._request(method, path, subject, decode, params, **fields)

    def _request(
        self,
        method: str,
        path: str,
        subject: str,
        decode: Decode[T],
        params: Mapping[str, ParamValue],
        **fields: Any,
    ) -> Request[T]:
        """Return a request with encoded parameters. `fields` are further `Request` fields."""
        settings = self._session.settings
        encoding = RequestEncoding.QUERY
        if method in _METHODS_WITH_BODY:
            encoding = settings.request_encoding
        query, body, content_type = encode_write(params, encoding, settings.array_encoding)
        return Request(
            method,
            path,
            decode,
            query,
            body,
            content_type,
            subject,
            deadline=self._session.call_timeout.deadline(),
            secrets=secrets_in(params),
            **fields,
        )


class DeletableEndpoint(Endpoint[M]):
    """The operations on objects that can be deleted."""

    async def delete(self, id: int, *, extra_params: ExtraParams | None = None) -> None:
        """Delete one object.

        Args:
            id: 1 to 2**31 - 1.
            extra_params: further parameters, sent as they are.

        Raises:
            NotFoundError: there is no such object.
        """
        extra_params = mask_secrets(extra_params)
        # The reference documents no body, but there may be one with an error.
        await self._session.send(self._object_request("DELETE", id, parse_any, extra_params))


def any_request(
    session: Session, method: str, path: str, params: ExtraParams | None, body: ExtraParams | None
) -> Request[dict[str, Any]]:
    """Check and encode the arguments of any request; see `SeoRepClient.request`.

    Encoded parameters may contain secrets, and tracebacks with locals show every frame. Only the
    frame of this function contains them, and it has returned before the request is sent.
    """
    _check_method_and_path(method, path)
    method = plain_string(method).upper()
    path = plain_string(path)
    if body is not None and method not in _METHODS_WITH_BODY:
        raise ConfigurationError(f"a {method} request has no body; use params", argument="body")
    query_params = build_params({}, params, argument="params")
    body_params = build_params({}, body, argument="body")
    arrays = session.settings.array_encoding
    # Masked at once, because a traceback of a refused body shows it among the locals.
    query = Secret.of(encode_query(query_params, arrays))
    encoding = RequestEncoding.QUERY
    if body is not None:
        encoding = session.settings.request_encoding
    query_of_body, content, content_type = encode_write(body_params, encoding, arrays)
    is_grant = path.rstrip("/").endswith("/loginGrant")
    return Request(
        method=method,
        path=urllib.parse.quote(path, safe="/%:@!$&'()*+,;=~"),
        # An empty response is an error after a read, but not after a write.
        decode=parse if method == "GET" else parse_any,
        query="&".join(filter(None, (query, query_of_body))),
        body=content,
        content_type=content_type,
        deadline=session.call_timeout.deadline(),
        # Each request for a login may create a new grant.
        private=is_grant,
        secrets=secrets_in(query_params | body_params),
    )


def _check_method_and_path(method: object, path: object) -> None:
    """Refuse an unknown method, and a path that could lead away from the service's address."""
    if not isinstance(method, str) or method.upper() not in _METHODS:
        expected = f"one of {', '.join(_METHODS)}"
        problem = f"method must be {expected}, got {short_repr(method)}"
        raise ConfigurationError(problem, argument="method")
    is_path = isinstance(path, str) and _PATH.fullmatch(path) is not None
    # a path with `..` would leave the service's address
    if not is_path or ".." in urllib.parse.unquote(str(path)).split("/"):
        problem = 'path must be a path such as /v3/campaigns/42, without a query or ".."'
        raise ConfigurationError(problem, argument="path")
