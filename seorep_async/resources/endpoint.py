"""The operations of all models: get, create, update, delete, list."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, Generic, TypeVar

from seorep_async.errors import ConfigurationError
from seorep_async.normalisation import Decoder
from seorep_async.normalisation.envelope import refused
from seorep_async.paging import Listing, ModelListing, Query
from seorep_async.resources.arguments import ExtraParams, Params, build_params, check_id, mask_secrets, secrets_in
from seorep_async.session import Decode, ParamValue, Request, Session, encode_query, encode_write
from seorep_async.settings import RequestEncoding
from seorep_async.tables.tabular import ModelList

M = TypeVar("M")
T = TypeVar("T")


class Endpoint(Generic[M]):
    """The operations of one model; its list is at `_path`, an object at `_path` and its id."""

    _model: type[M]
    _path: ClassVar[str]
    _object_name: ClassVar[str]

    def __init__(self, session: Session, decoder: Decoder) -> None:
        self._session = session
        self._decoder = decoder

    async def get(self, id: int, *, extra_params: ExtraParams | None = None) -> M:
        """Get one object.

        Args:
            id: 1 to 2**31 - 1.
            extra_params: further parameters, sent as they are.

        Raises:
            NotFoundError: there is no such object.
        """
        extra_params = mask_secrets(extra_params)
        return await self._session.send(self._of_one("GET", id, self._single(self._model, id=id), extra_params))

    async def _create(self, values: Params, extra_params: ExtraParams | None) -> M:
        sent = build_params(values, extra_params)
        decode = self._single(self._model, campaign_id=sent.get("campaign_id"))
        request = self._request("POST", self._path, self._object_name, decode, sent, idempotent=False)
        return await self._session.send(request)

    async def _update(self, one: int, values: Params, extra_params: ExtraParams | None) -> M:
        path, subject = f"{self._path}/{check_id('id', one)}", f"{self._object_name} {one}"
        sent = build_params({**values, "id": None}, extra_params)
        if not sent:
            raise ConfigurationError(f"{subject}: there is nothing to change; give at least one value")
        return await self._session.send(self._request("PUT", path, subject, self._single(self._model, id=one), sent))

    def _list(
        self, values: Params, extra_params: ExtraParams | None, *, path: str | None = None, subject: str | None = None
    ) -> ModelListing[M]:
        sent = build_params({**values, "page": None}, extra_params)
        campaign = sent.get("campaign_id")
        asked = ("campaign", campaign) if type(campaign) is int else None
        query = Query(
            path=path or self._path,
            query=encode_query(sent, self._session.settings.array_encoding),
            decode=lambda number: partial(self._decoder.model_page, model=self._model, number=number, asked=asked),
            key=attrgetter("id"),
            subject=subject,
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
                if value is not None and (got := getattr(found, name, None)) is not None and got != value:
                    problem = f"the response is about {got}, not about {value}, which was asked for"
                    raise refused(f"data.{name}", problem)
            return found

        return decode

    def _of_one(
        self, method: str, one: int, decode: Decode[T], extra_params: ExtraParams | None, subpath: str = "", **how: Any
    ) -> Request[T]:
        sent = build_params({"id": None}, extra_params)
        path = f"{self._path}/{check_id('id', one)}{subpath}"
        return self._request(method, path, f"{self._object_name} {one}", decode, sent, **how)

    def _request(
        self, method: str, path: str, subject: str, decode: Decode[T], sent: Mapping[str, ParamValue], **how: Any
    ) -> Request[T]:
        settings = self._session.settings
        encoding = settings.request_encoding if method in ("POST", "PUT") else RequestEncoding.QUERY
        query, body, content_type = encode_write(sent, encoding, settings.array_encoding)
        deadline, secrets = self._session.call_timeout.deadline(), secrets_in(sent)
        return Request(
            method, path, decode, query, body, content_type, subject, deadline=deadline, secrets=secrets, **how
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
        await self._session.send(self._of_one("DELETE", id, self._decode_nothing, extra_params))

    def _decode_nothing(self, body: bytes) -> None:
        self._decoder.envelope(body)  # no body is documented, but it may be an error
